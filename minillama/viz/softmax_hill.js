// The twin of _hill_marks in chapter04.py: the same operations in the same order.
const snap = (value) => Math.floor(value * 1e9 + 0.5) / 1e9;
function rowOfThree({ s1, s2, s3, factor }) {
  const scores = [s1 * factor, s2 * factor, s3 * factor];
  const top = Math.max(...scores);
  const e = scores.map((s) => snap(Math.exp(s - top)));
  const total = e[0] + e[1] + e[2];
  const p = e.map((value) => value / total);
  const jacobian = p.map((pi, i) => p.map((pj, j) => pi * ((i === j ? 1 : 0) - pj)));
  const a = p[0] * p[0] + p[1] * p[1] + p[2] * p[2];
  let square = 0;
  for (const row of jacobian) for (const value of row) square += value * value;
  return { scores, p, jacobian, a, size: Math.sqrt(square) };
}
const hill = Array.from({ length: 41 }, (_, i) =>
  [200 + 170 * i / 40, 150 - 240 * Math.sqrt(i / 40 * (1 - i / 40))]);
function marks(values, { fixed, line, polyline, circle, rect, text, title }) {
  const r = rowOfThree(values);
  const bold = { "font-weight": "bold" };
  const end = { "text-anchor": "end" };
  const middle = { "text-anchor": "middle", "font-size": 12 };
  const small = { "font-size": 12 };
  const shapes = [text(0, 14, "Weights", "ink", bold), text(196, 14, "Size of the Jacobian", "ink", bold)];
  r.p.forEach((p, i) => {
    const center = 28 + 56 * i;
    shapes.push(
      rect(center - 18, 150 - 104 * p, 36, 104 * p, "blue"),
      text(center, 42, fixed(p, 3), "ink", middle),
      text(center, 168, fixed(r.scores[i], 2), "muted", middle),
    );
  });
  shapes.push(
    line(4, 150, 164, 150, "muted"),
    text(0, 186, "scores × factor", "muted", small),
    line(200, 150, 370, 150, "muted"),
    line(200, 30, 370, 30, "grid"),
    text(196, 34, "½", "muted", { ...end, ...small }),
    text(196, 154, "0", "muted", { ...end, ...small }),
    text(285, 168, "½", "muted", middle),
    text(370, 168, "1", "muted", middle),
    text(285, 186, "Σ p² (1: all on one key)", "muted", middle),
    polyline(hill, "muted", { "stroke-dasharray": "4 3" }),
    circle(200 + 170 * r.a, 150 - 240 * r.size, 6, "vermillion"),
    text(0, 216, "Jacobian diag(p) − ppᵀ", "ink", bold),
  );
  r.jacobian.forEach((row, i) => row.forEach((value, j) => {
    shapes.push(text(60 + 62 * j, 238 + 20 * i, fixed(value, 3), "ink", { ...end, ...small }));
  }));
  for (const [y, name, value] of [[238, "Σ p²", r.a], [258, "1 / Σ p²", 1 / r.a], [278, "size ‖J‖", r.size]]) {
    shapes.push(text(230, y, name), text(370, y, fixed(value, 3), "ink", { ...end, ...bold }));
  }
  const list = (numbers, digits) => numbers.map((value) => fixed(value, digits)).join(", ");
  const described = `Scores ${list(r.scores, 2)} give weights ${list(r.p, 3)}. The sum of their squares is `
    + `${fixed(r.a, 3)}, as if ${fixed(1 / r.a, 3)} keys were heard; the Jacobian has size ${fixed(r.size, 3)} `
    + "under a hill that peaks at one half.";
  return [title(described), ...shapes];
}
