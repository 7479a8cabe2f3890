// The twin of _Map.marks in chapter14.py.
const data = DATA;
const LEFT = 22, TOP = 24, PITCH = 11.8, CELL = 24, BELOW = 234;
function marks({ look, layer, head }, { fixed, rect, text, title }) {
  const table = data.shares[data.looks[look]], count = data.tokens.length;
  const shapes = [text(0, 13, `Weight on ${look}, 270 heads`, "ink", { "font-weight": "bold" })];
  let over = 0;
  table.forEach((column, i) => column.forEach((share, j) => {
    const x = LEFT + PITCH * i, y = TOP + PITCH * j;
    shapes.push(rect(x, y, 10.8, 10.8, "grid", { "fill-opacity": 0.5 }));
    if (share >= 2) shapes.push(rect(x, y, 10.8, 10.8, "blue", { "fill-opacity": share / 100 }));
    if (share > 50) over += 1;
  }));
  shapes.push(rect(LEFT + PITCH * (layer - 1) - 1, TOP + PITCH * (head - 1) - 1, 12.8, 12.8, "ink",
    { "fill-opacity": 0, stroke: "vermillion", "stroke-width": 2.5 }));
  const small = (anchor) => ({ "text-anchor": anchor, "font-size": 11 });
  for (const number of [1, 10, 20, 30]) {
    shapes.push(text(LEFT + PITCH * (number - 1) + 5.4, 144, fixed(number, 0), "muted", small("middle")));
  }
  shapes.push(
    text(320, 158, "layer", "muted", small("middle")),
    text(16, 34, "1", "muted", small("end")),
    text(16, 128, "9", "muted", small("end")),
    text(LEFT, 158, "head: top to bottom", "muted", { "font-size": 11 }));
  const own = fixed(table[layer - 1][head - 1], 1);
  const summary = `${over} of 270 heads put more than half there.`;
  shapes.push(
    text(0, 180, summary),
    text(0, 198, `Layer ${layer}, head ${head}: ${own} %.`),
    text(0, 222, "The same head on words read twice, in percent:", "ink", { "font-weight": "bold" }));
  const values = data.percent[layer - 1][head - 1];
  let at = 0;
  for (let i = 0; i < count; i += 1) {
    for (let j = 0; j <= i; j += 1) {
      const value = values[at], x = CELL * j, y = BELOW + CELL * i;
      at += 1;
      shapes.push(rect(x, y, CELL - 2, CELL - 2, "grid", { "fill-opacity": 0.5 }));
      if (value >= 1) shapes.push(rect(x, y, CELL - 2, CELL - 2, "blue", { "fill-opacity": value / 100 }));
      if (value >= 10) {
        const ink = value >= 55 ? "paper" : "ink";
        shapes.push(text(x + 11, y + 15, fixed(value, 0), ink, { "text-anchor": "middle", "font-size": 10 }));
      }
    }
    shapes.push(text(CELL * (i + 1) + 3, BELOW + CELL * i + 15, data.tokens[i], "ink", { "font-weight": "bold" }));
  }
  const described = `Weight on ${look}: a map of 30 layers by 9 heads. ${summary} `
    + `Layer ${layer}, head ${head} puts ${own} % there; below, its weights on a text of ${count} tokens `
    + "in which the second half repeats the first.";
  return [title(described), ...shapes];
}
