// The twin of _Heads.marks in chapter04.py.
const data = DATA;
const CELL = 32;
function marks({ layer, head }, { fixed, rect, text, title }) {
  const percent = data.percent[layer - 1][head - 1], count = data.tokens.length;
  const shapes = [];
  let at = 0, first = 0, before = 0, itself = 0;
  for (let i = 0; i < count; i += 1) {
    const row = percent.slice(at, at + i + 1);
    at += i + 1;
    row.forEach((value, j) => {
      const x = CELL * j, y = CELL * i;
      shapes.push(rect(x, y, CELL - 2, CELL - 2, "grid", { "fill-opacity": 0.5 }));
      if (value >= 1) shapes.push(rect(x, y, CELL - 2, CELL - 2, "blue", { "fill-opacity": value / 100 }));
      if (value >= 10) {
        const ink = value >= 55 ? "paper" : "ink";
        shapes.push(text(x + 15, y + 19, fixed(value, 0), ink, { "text-anchor": "middle", "font-size": 11 }));
      }
    });
    shapes.push(text(CELL * (i + 1) + 3, CELL * i + 19, data.tokens[i], "ink", { "font-weight": "bold" }));
    if (i > 0) [first, before, itself] = [first + row[0], before + row[i - 1], itself + row[i]];
  }
  const shares = [first, before, itself].map((value) => fixed(value / (count - 1), 0));
  const words = `first token ${shares[0]} %, one before ${shares[1]} %, itself ${shares[2]} %.`;
  shapes.push(text(0, CELL * count + 18, "On average over all tokens but the first:"));
  shapes.push(text(0, CELL * count + 38, words));
  const described = `Layer ${layer}, head ${head}: a triangle of attention weights in percent, one row for each of the `
    + `${count} tokens of the line. On average over all tokens but the first: ${words}`;
  return [title(described), ...shapes];
}
