// The twin of _valley_marks in chapter10.py: the same operations in the same order.
const STEEP = 50, START = [-3.6, 0.9], STEPS = 60, BETA1 = 0.9, BETA2 = 0.999, EPS = 1e-8;
const TURNS = { 0: [1, 0], 15: [0.965926, 0.258819], 30: [0.866025, 0.5], 45: [0.707107, 0.707107] };
const FACTORS = { "÷ 1,024": 1 / 1024, "× 1": 1, "× 1,024": 1024 };
const UNIT = 40, WIDE = 190, HIGH = 130;
const CIRCLE = [
  [1, 0], [0.965926, 0.258819], [0.866025, 0.5], [0.707107, 0.707107],
  [0.5, 0.866025], [0.258819, 0.965926], [0, 1], [-0.258819, 0.965926],
  [-0.5, 0.866025], [-0.707107, 0.707107], [-0.866025, 0.5], [-0.965926, 0.258819],
];
function descend(method, rate, turn, factor) {
  const [c, s] = TURNS[turn];
  let x = c * START[0] - s * START[1], y = s * START[0] + c * START[1];
  const m = [0, 0], v = [0, 0];
  let power1 = 1, power2 = 1;
  const points = [[x, y]], losses = [], gradients = [];
  for (let k = 0; k <= STEPS; k += 1) {
    const along = c * x + s * y, across = c * y - s * x;
    losses.push(along * along + STEEP * across * across);
    if (points.length > STEPS || Math.abs(x) + Math.abs(y) > 1000) break;
    const g = [factor * (c * along - s * STEEP * across), factor * (s * along + c * STEEP * across)];
    gradients.push(g);
    let step = g;
    if (method === "AdamW") {
      power1 = power1 * BETA1;
      power2 = power2 * BETA2;
      step = [0, 0];
      for (let i = 0; i < 2; i += 1) {
        m[i] = BETA1 * m[i] + (1 - BETA1) * g[i];
        v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i];
        step[i] = m[i] / (1 - power1) / (Math.sqrt(v[i] / (1 - power2)) + EPS);
      }
    }
    x = x - rate * step[0];
    y = y - rate * step[1];
    points.push([x, y]);
  }
  return { points, gradient: gradients[0], left: points.length <= STEPS, share: losses[losses.length - 1] / losses[0] };
}
function edge(a, b, room) {
  if (b > room) return (room - a) / (b - a);
  if (b < -room) return (-room - a) / (b - a);
  return 1;
}
function marks({ method, rate, factor, turn }, { fixed, line, polyline, circle, text, title }) {
  const short = (value) => {
    const size = Math.abs(value);
    return fixed(value, size < 1 ? 4 : size < 100 ? 2 : 0);
  };
  const { points, gradient, left, share } = descend(method, rate, turn, FACTORS[factor]);
  const [c, s] = TURNS[turn];
  const shapes = [];
  for (const size of [1, 2, 3.6]) {
    const outline = [];
    for (const sign of [1, -1]) {
      for (const [p, q] of CIRCLE) {
        const along = sign * size * p, across = sign * size * q / Math.sqrt(STEEP);
        const at = [c * along - s * across, s * along + c * across];
        outline.push([WIDE + UNIT * at[0], HIGH - UNIT * at[1]]);
      }
    }
    shapes.push(polyline([...outline, outline[0]], "grid", { "stroke-width": 1.5 }));
  }
  shapes.push(
    line(WIDE - 6, HIGH, WIDE + 6, HIGH, "muted"),
    line(WIDE, HIGH - 6, WIDE, HIGH + 6, "muted"),
    text(366, HIGH + 4, "x", "muted"),
    text(WIDE - 4, 14, "y", "muted"),
  );
  const wide = (WIDE - 4) / UNIT, high = (HIGH - 4) / UNIT;
  const color = method === "AdamW" ? "blue" : "vermillion";
  const drawn = [points[0]];
  let seen = 1;
  for (let i = 0; i + 1 < points.length; i += 1) {
    const before = points[i], after = points[i + 1];
    const part = Math.min(edge(before[0], after[0], wide), edge(before[1], after[1], high));
    if (part < 1) {
      drawn.push([before[0] + part * (after[0] - before[0]), before[1] + part * (after[1] - before[1])]);
      break;
    }
    drawn.push(after);
    seen += 1;
  }
  shapes.push(polyline(drawn.map(([x, y]) => [WIDE + UNIT * x, HIGH - UNIT * y]), color, { "stroke-width": 1.5 }));
  drawn.slice(0, seen).forEach(([x, y], i) => {
    shapes.push(circle(WIDE + UNIT * x, HIGH - UNIT * y, i === 0 ? 4 : 2, i === 0 ? "ink" : color));
  });
  const moved = [points[1][0] - points[0][0], points[1][1] - points[0][1]];
  const first = `first step: ${short(moved[0])} to the right, ${short(moved[1])} up`;
  const last = left ? `thrown far out of the picture by step ${points.length - 1}`
    : share < 0.0001 ? `after ${STEPS} steps: loss below 0.0001 of the first`
    : `after ${STEPS} steps: loss ${short(share)} of the first`;
  const slope = `gradient at the start: ${short(gradient[0])} and ${short(gradient[1])}`;
  shapes.push(text(4, 274, slope), text(4, 293, first), text(4, 312, last, "ink", { "font-weight": "bold" }));
  const described = `${method}, rate ${fixed(rate, 3)}, loss ${factor}, valley turned by ${turn}°: `
    + `${slope}; ${first}; ${last}.`;
  return [title(described), ...shapes];
}
