// The twin of _run_marks in chapter12.py; all numbers are rounded and all words made there.
function marks({ step }, { circle, line, polyline, text, title }) {
  const LEFT = 26, RIGHT = 278, BOTTOM = 176, TEXT_TOP = 246, LINE_HEIGHT = 16;
  const state = VIEW.states[step];
  const small = { "font-size": 12 };
  const shapes = [];
  for (const { name, y, shift } of VIEW.lines) {
    shapes.push(
      line(LEFT, y, RIGHT, y, "muted", { "stroke-width": 1, "stroke-dasharray": "4 3" }),
      text(RIGHT + 10, y + 4 + shift, name, "muted", small),
    );
  }
  for (const tick of VIEW.ticks) {
    shapes.push(text(tick.x, BOTTOM + 16, tick.text, "muted", { "text-anchor": "middle", ...small }));
  }
  for (const nats of [4, 6, 8]) {
    shapes.push(text(LEFT - 8, BOTTOM - 36 * (nats - 4) + 4, String(nats), "muted",
      { "text-anchor": "end", ...small }));
  }
  const when = step > 0 ? `after step ${String(step).replace(/\B(?=(\d{3})+$)/g, ",")}` : "before training";
  shapes.push(
    polyline(VIEW.curve, "blue", { "stroke-width": 2 }),
    circle(state.x, state.y, 6, "vermillion"),
    text(4, 222, `${when}: ${state.told}`, "ink", { "font-weight": "bold" }),
  );
  state.rows.forEach((row, i) => {
    shapes.push(text(4, TEXT_TOP + LINE_HEIGHT * i, row, i < 1 ? "muted" : "ink", small));
  });
  const written = state.rows.filter((row) => row).join(" / ");
  const described = `${when[0].toUpperCase()}${when.slice(1)}: ${state.told}. It writes: ${written}`;
  return [title(described), ...shapes];
}
