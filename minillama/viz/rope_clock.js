// The twin of _clock_marks in chapter02.py: the same operations in the same order.
const FACE = [104, 118, 96], FARTHEST = 20;
const radians = (degrees) => degrees * Math.PI / 180;
const onGrid = (value) => Math.floor(value * 1e6 + 0.5) / 1e6;
const tip = (angle, radius) =>
  [FACE[0] + radius * Math.sin(radians(angle)), FACE[1] - radius * Math.cos(radians(angle))];
function marks({ m, n, shift, theta, words }, { fixed, line, polyline, circle, text, title }) {
  const degrees = (tenths) => fixed(tenths / 10, tenths % 10 ? 1 : 0) + "°";
  const step = Math.round(theta * 10), own = Math.round(words * 10);
  const query = m + shift, key = n + shift;
  const turned = [query * step, key * step], distance = query - key;
  const apart = distance * step + own;
  const result = fixed(onGrid(Math.cos(radians(distance * theta + words))), 3);
  const small = { "font-size": 11 }, end = { "text-anchor": "end" }, middle = { "text-anchor": "middle" };
  const bold = { "font-weight": "bold" };

  const [x, y, radius] = FACE;
  const shapes = [circle(x, y, radius, "none", { stroke: "muted", "stroke-width": 1.5 })];
  for (let hour = 1; hour <= 12; hour++) {
    const at = tip(30 * hour, radius - 13);
    shapes.push(text(at[0], at[1] + 4, String(hour), "muted", { ...middle, ...small }));
  }
  const start = turned[1] / 10, around = ((apart % 3600) + 3600) % 3600;
  const sweep = (around > 1800 ? around - 3600 : around) / 10;
  const arc = [...Array(25).keys()].map((i) => tip(start + sweep * i / 24, 26));
  shapes.push(polyline(arc, "purple", { "stroke-width": 3 }));
  for (const [angle, reach, color, dash] of [
    [(turned[0] + own) / 10, 66, "blue", "none"],
    [turned[1] / 10, 52, "vermillion", "6 3"],
  ]) {
    const at = tip(angle, reach);
    shapes.push(
      line(x, y, at[0], at[1], color, { "stroke-width": 3, "stroke-dasharray": dash }),
      circle(at[0], at[1], 5, color),
    );
  }
  shapes.push(circle(x, y, 3, "ink"));

  for (const [row, word, value, color, dash] of [
    [22, "query, position", String(query), "blue", "none"],
    [42, "turned by", degrees(turned[0])],
    [72, "key, position", String(key), "vermillion", "6 3"],
    [92, "turned by", degrees(turned[1])],
    [122, "distance m − n", fixed(distance, 0)],
    [142, "angle apart", degrees(apart), "purple", "none"],
  ]) {
    if (color) shapes.push(line(214, row - 4, 230, row - 4, color, { "stroke-width": 3, "stroke-dasharray": dash }));
    shapes.push(text(236, row, word), text(380, row, value, "ink", { ...end, ...bold }));
  }
  shapes.push(
    text(236, 184, "score"),
    text(380, 184, result, "ink", { ...end, ...bold, "font-size": 18 }),
    text(236, 204, "cosine of that angle", "muted", { "font-size": 12 }),
  );

  const across = (d) => 34 + 336 * (d + FARTHEST) / (2 * FARTHEST);
  const height = (d) => 284 - 34 * Math.cos(radians(d * theta + words));
  shapes.push(text(34, 238, "Score at every distance", "ink", bold));
  for (const [level, word] of [[-1, "−1"], [0, "0"], [1, "1"]]) {
    const at = 284 - 34 * level;
    shapes.push(line(34, at, 370, at, "grid"), text(28, at + 4, word, "muted", { ...end, ...small }));
  }
  const wave = [];
  for (let i = -4 * FARTHEST; i <= 4 * FARTHEST; i++) wave.push([across(i / 4), height(i / 4)]);
  shapes.push(polyline(wave, "sky", { "stroke-width": 1.5 }));
  for (let d = -FARTHEST; d <= FARTHEST; d++) shapes.push(circle(across(d), height(d), 2, "ink"));
  shapes.push(
    line(across(distance), 250, across(distance), 318, "purple", { "stroke-width": 1.5 }),
    circle(across(distance), height(distance), 5, "purple"),
  );
  for (const d of [-FARTHEST, 0, FARTHEST]) {
    shapes.push(text(across(d), 334, fixed(d, 0), "muted", { ...middle, ...small }));
  }
  shapes.push(text(118, 334, "m − n", "muted", { ...middle, "font-size": 12 }));

  const described = `Query at position ${query}, turned by ${degrees(turned[0])}; key at position ${key}, turned by `
    + `${degrees(turned[1])}; ${degrees(step)} per token. Distance ${fixed(distance, 0)}, `
    + `angle apart ${degrees(apart)}, score ${result}.`;
  return [title(described), ...shapes];
}
