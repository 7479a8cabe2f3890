// The twin of _unit_marks in chapter03.py: the same operations in the same order.
const coarse = (value) => Math.floor(value * 1e6 + 0.5) / 1e6;
function unit(x, gate, up, valve) {
  const a = gate * x, b = up * x;
  const share = valve === "none, always open" ? 1
    : valve === "ReLU's, a step" ? (a > 0 ? 1 : 0)
    : coarse(1 / (1 + Math.exp(-a)));
  return { a, b, share, passed: a * share, product: a * share * b };
}
function marks({ x, gate, up, valve }, { circle, fixed, line, polyline, text, title }) {
  const bold = { "font-weight": "bold" }, end = { "text-anchor": "end" }, small = { "font-size": 11 };
  const now = unit(x, gate, up, valve);
  const shapes = [];
  [
    ["input x", "ink", fixed(x, 2)],
    ["gate a = w_gate · x", "ink", fixed(now.a, 3)],
    ["valve, share let through", "ink", fixed(now.share, 3)],
    ["a · valve", "vermillion", fixed(now.passed, 3)],
    ["content b = w_up · x", "green", fixed(now.b, 3)],
    ["product a · valve · b", "blue", fixed(now.product, 3)],
  ].forEach(([words, color, number], i) => {
    const y = 16 + 20 * i;
    const style = i === 5 ? bold : {};
    shapes.push(text(34, y, words, "ink", style), text(290, y, number, "ink", { ...end, ...style }));
    if (i > 2) {
      const dash = { 3: "7 3", 4: "2 3", 5: "none" }[i];
      shapes.push(line(2, y - 4, 26, y - 4, color, { "stroke-width": 2.5, "stroke-dasharray": dash }));
    }
  });
  const across = (value) => 205 + 56 * value, down = (value) => 246 - 14 * value;
  for (const tick of [-8, -4, 4, 8]) {
    shapes.push(
      line(37, down(tick), 373, down(tick), "grid"),
      text(30, down(tick) + 4, fixed(tick, 0), "muted", { ...end, ...small }),
    );
  }
  shapes.push(line(37, down(0), 373, down(0), "muted"), line(across(0), down(-8), across(0), down(8), "muted"));
  for (const tick of [-3, -2, -1, 1, 2, 3]) {
    shapes.push(text(across(tick), down(-8) + 15, fixed(tick, 0), "muted", { "text-anchor": "middle", ...small }));
  }
  shapes.push(text(205, down(-8) + 31, "input x", "muted", { "text-anchor": "middle" }));
  for (const [name, color, dash] of [
    ["passed", "vermillion", "7 3"],
    ["b", "green", "2 3"],
    ["product", "blue", "none"],
  ]) {
    const points = [];
    for (let i = -60; i <= 60; i++) {
      const y = unit(i / 20, gate, up, valve)[name];
      if (Math.abs(y) <= 8) points.push([across(i / 20), down(y)]);
    }
    shapes.push(polyline(points, color, { "stroke-width": 2.5, "stroke-dasharray": dash }));
    if (Math.abs(now[name]) <= 8) shapes.push(circle(across(x), down(now[name]), 4.5, color));
  }
  const described = `A gated unit with weights ${fixed(gate, 2)} and ${fixed(up, 2)}, valve: ${valve}. `
    + `Input ${fixed(x, 2)}, gate ${fixed(now.a, 3)}, valve ${fixed(now.share, 3)}, `
    + `let through ${fixed(now.passed, 3)}, content ${fixed(now.b, 3)}, product ${fixed(now.product, 3)}.`;
  return [title(described), ...shapes];
}
