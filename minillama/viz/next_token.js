// The twin of _next_token_marks in chapter08.py: the same operations in the same order.
const words = ["love", "life", "gold", "war"];
const snap = (value) => Math.floor(value * 1e9 + 0.5) / 1e9;
function nextWord(scores, came) {
  const top = Math.max(...scores);
  const e = scores.map((s) => snap(Math.exp(s - top)));
  const total = e[0] + e[1] + e[2] + e[3];
  const p = e.map((value) => value / total);
  const loss = snap(Math.log(total)) + top - scores[came];
  const gradient = p.map((value, i) => value - (i === came ? 1 : 0));
  let square = 0;
  for (const value of gradient) square += value * value;
  return { p, loss, gradient, length: Math.sqrt(square) };
}
function marks({ s1, s2, s3, s4, came }, { fixed, line, rect, text, title }) {
  const scores = [s1, s2, s3, s4];
  const right = words.indexOf(came);
  const r = nextWord(scores, right);
  const small = { "font-size": 12 };
  const bold = { "font-weight": "bold" };
  const end = { "text-anchor": "end", ...small };
  const shapes = [
    text(0, 14, "Score z", "ink", bold),
    text(84, 14, "Probability p", "ink", bold),
    text(205, 14, "Gradient p − y", "ink", bold),
    line(285, 26, 285, 146, "muted"),
  ];
  words.forEach((word, i) => {
    const y = 32 + 30 * i;
    const p = r.p[i], g = r.gradient[i];
    const color = i === right ? "blue" : "vermillion";
    shapes.push(
      text(0, y + 15, word, "ink", i === right ? bold : {}),
      text(77, y + 15, fixed(scores[i], 1), "muted", end),
      rect(84, y, 52 * p, 20, color),
      text(176, y + 15, fixed(p, 3), "ink", end),
      rect(285 + 48 * Math.min(g, 0), y, 48 * Math.abs(g), 20, color),
      text(380, y + 15, fixed(g, 3), "ink", end),
    );
  });
  const guess = 1.386294361;
  const verdict = Math.abs(r.loss - guess) < 0.0005 ? "as good as guessing"
    : `${r.loss < guess ? "better" : "worse"} than guessing`;
  shapes.push(
    text(0, 172, `ln Σ eᶻ = ${fixed(r.loss + scores[right], 3)}`, "muted", small),
    text(140, 172, `z of “${came}” = ${fixed(scores[right], 1)}`, "muted", small),
    text(0, 196, `Loss ${fixed(r.loss, 3)}`, "ink", bold),
    text(140, 196, `${verdict} (ln 4 = ${fixed(guess, 3)})`, "ink", small),
    text(0, 220, `‖p − y‖ = ${fixed(r.length, 3)}`, "ink", bold),
    text(140, 220, `the gradient's length, below √2 = ${fixed(Math.sqrt(2), 3)}`, "ink", small),
  );
  const list = (numbers, digits) => numbers.map((value) => fixed(value, digits)).join(", ");
  const shares = words.map((word, i) => `${word} ${fixed(r.p[i], 3)}`).join(", ");
  const described = `Scores ${list(scores, 1)} give the probabilities ${shares}. The next word was ${came}: `
    + `loss ${fixed(r.loss, 3)}, ${verdict}. Gradient ${list(r.gradient, 3)}, of length ${fixed(r.length, 3)}.`;
  return [title(described), ...shapes];
}
