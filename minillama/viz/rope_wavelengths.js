// The twin of _wavelength_marks in chapter02.py: the same operations in the same order.
const LONGEST = 8;
const onGrid = (value) => Math.floor(value * 1e6 + 0.5) / 1e6;
const grouped = (value) => String(Math.floor(value + 0.5)).replace(/\B(?=(\d{3})+$)/g, ",");
function marks({ base, context, head_dim }, { fixed, line, circle, rect, text, title }) {
  const planes = head_dim / 2;
  const waves = [...Array(planes).keys()].map((i) => 2 * Math.PI * base ** (2 * i / head_dim));
  const slowest = waves[planes - 1];
  const never = waves.filter((wave) => wave > context).length;
  const turn = onGrid(360 * context / slowest);
  const share = turn < 360 ? `${fixed(turn, 1)}°` : `${fixed(onGrid(turn / 360), 1)} turns`;
  const across = (i) => 56 + 310 * (i + 0.5) / planes;
  const up = (wave) => 262 - 224 * Math.log10(wave) / LONGEST;
  const small = { "font-size": 11 }, end = { "text-anchor": "end" }, middle = { "text-anchor": "middle" };
  const outlined = { stroke: "vermillion", "stroke-width": 1.6 };

  const shapes = [text(0, 14, "Tokens per turn", "ink", { "font-weight": "bold" })];
  for (const [decade, word] of [[0, "1"], [2, "100"], [4, "10,000"], [6, "1 million"], [8, "100 mill."]]) {
    const at = 262 - 224 * decade / LONGEST;
    shapes.push(line(56, at, 366, at, "grid"), text(52, at + 4, word, "muted", { ...end, ...small }));
  }
  const size = planes <= 32 ? 3.5 : 2.2;
  waves.forEach((wave, i) => {
    const x = across(i), y = up(wave);
    shapes.push(wave > context
      ? rect(x - size, y - size, 2 * size, 2 * size, "paper", outlined)
      : circle(x, y, size, "blue"));
  });
  const at = up(context);
  shapes.push(
    line(56, at, 366, at, "ink", { "stroke-width": 1.5, "stroke-dasharray": "5 3" }),
    text(60, at - 6, `context: ${grouped(context)} tokens`, "ink", { "font-size": 12 }),
  );
  for (const plane of [1, Math.floor(planes / 2), planes]) {
    shapes.push(text(across(plane - 1), 280, String(plane), "muted", { ...middle, ...small }));
  }
  shapes.push(
    text(211 - 310 / 4, 280, "plane", "muted", { ...middle, "font-size": 12 }),
    circle(6, 300, 4, "blue"),
    text(18, 304, `${planes - never} of ${planes} planes complete a turn`),
    rect(2.5, 317.5, 7, 7, "paper", outlined),
    text(18, 325, `${never} never do`),
    text(0, 349, `The slowest needs ${grouped(slowest)} tokens`),
    text(0, 367, `and makes ${share} within the context.`),
  );
  const described = `Wavelengths of the ${planes} planes for base ${grouped(base)}, on a logarithmic axis: `
    + `a rising line from ${grouped(waves[0])} to ${grouped(slowest)} tokens. Within ${grouped(context)} tokens `
    + `${planes - never} planes complete a turn and ${never} do not; the slowest makes ${share}.`;
  return [title(described), ...shapes];
}
