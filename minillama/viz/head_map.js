// The twin of _Map.marks in chapter14.py.
const data = DATA;
const LEFT = 18, TOP = 24, PITCH = 12, CELL = 24, BELOW = 234;
const SHADES = [[10, 30, 0.2], [30, 50, 0.5], [50, 100, 1]], SHOWN = 15;
function marks({ look, layer, head }, { fixed, line, polyline, rect, text, title }) {
  const table = data.shares[data.looks[look]], count = data.tokens.length;
  const shapes = [text(0, 13, `Weight on ${look}, 270 heads`, "ink", { "font-weight": "bold" })];
  let over = 0;
  shapes.push(rect(LEFT, TOP, 30 * PITCH - 1, 9 * PITCH - 1, "grid", { "fill-opacity": 0.5 }));
  for (let j = 0; j < 9; j += 1) {
    const row = table.map((column) => column[j]), y = TOP + PITCH * j + 5.5;
    over += row.filter((share) => share > 50).length;
    for (const [low, high, opacity] of SHADES) {
      const cells = row.map((share) => low < share && share <= high);
      if (!cells.includes(true)) continue;
      shapes.push(line(LEFT, y, LEFT + 30 * PITCH, y, "blue", { "stroke-width": 11, "stroke-opacity": opacity,
        "stroke-dasharray": cells.map((there) => there ? "11 1" : "0 12").join(" ") }));
    }
  }
  shapes.push(rect(LEFT + PITCH * (layer - 1) - 1, TOP + PITCH * (head - 1) - 1, 13, 13, "ink",
    { "fill-opacity": 0, stroke: "vermillion", "stroke-width": 2.5 }));
  const small = (anchor) => ({ "text-anchor": anchor, "font-size": 11 });
  for (const number of [1, 10, 20, 30]) {
    shapes.push(text(LEFT + PITCH * (number - 1) + 5.5, 146, fixed(number, 0), "muted", small("middle")));
  }
  shapes.push(
    text(320, 160, "layer", "muted", small("middle")),
    text(13, 34, "1", "muted", small("end")),
    text(13, 130, "9", "muted", small("end")),
    text(LEFT, 160, "head: top to bottom", "muted", { "font-size": 11 }));
  const own = fixed(table[layer - 1][head - 1], 1);
  const summary = `${over} of 270 heads put more than half there.`;
  shapes.push(
    text(0, 180, summary),
    text(0, 198, `Layer ${layer}, head ${head}: ${own} %.`),
    text(0, 222, `The same head on words read twice, from ${SHOWN} % up:`, "ink", { "font-weight": "bold" }));
  const values = data.percent[layer - 1][head - 1];
  let at = 0;
  const stairs = [[0, BELOW]];
  for (let k = 1; k <= 2 * count; k += 1) {
    stairs.push([CELL * Math.floor((k + 1) / 2), BELOW + CELL * Math.floor(k / 2)]);
  }
  stairs.push([0, BELOW + CELL * count], [0, BELOW]);
  shapes.push(polyline(stairs, "muted", { "stroke-width": 0.5 }));
  for (let i = 0; i < count; i += 1) {
    const y = BELOW + CELL * i;
    for (let j = 0; j <= i; j += 1) {
      const value = values[at];
      at += 1;
      if (value < SHOWN) continue;
      const x = CELL * j + 1, ink = value >= 55 ? "paper" : "ink";
      shapes.push(
        rect(x, y + 1, CELL - 2, CELL - 2, "blue", { "fill-opacity": value / 100 }),
        text(x + 11, y + 16, fixed(value, 0), ink, { "text-anchor": "middle", "font-size": 10 }));
    }
    shapes.push(text(CELL * (i + 1) + 4, y + 16, data.tokens[i], "ink", { "font-weight": "bold" }));
  }
  const described = `Weight on ${look}: a map of 30 layers by 9 heads. ${summary} `
    + `Layer ${layer}, head ${head} puts ${own} % there; below, its weights on a text of ${count} tokens `
    + "in which the second half repeats the first.";
  return [title(described), ...shapes];
}
