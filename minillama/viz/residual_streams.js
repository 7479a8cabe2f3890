// The twin of _stream_marks in chapter06.py; `data` stands in front of it.
function marks({ quantity, depth, weights }, { line, polyline, circle, text, title }) {
  const left = 48, right = 372;
  const muted = { "font-size": 12 };
  const end = { "text-anchor": "end" };
  const middle = { "text-anchor": "middle" };
  const axis = data.axes[quantity];
  const shapes = [
    text(0, 14, axis.title, "ink", { "font-weight": "bold" }),
    text(right, 32, "bottom → top", "muted", { ...end, ...muted }),
  ];
  for (const [y, word] of axis.ticks) {
    shapes.push(line(left, y, right, y, "grid"), text(left - 6, y + 4, word, "muted", { ...end, ...muted }));
  }
  for (let i = 0; i < 4; i++) {
    const x = left + (right - left) * i / 3;
    shapes.push(text(x, 310, String(depth * i / 3), "muted", { ...(i === 3 ? end : middle), ...muted }));
  }
  shapes.push(text((left + right) / 2, 328, "after layer", "muted", { ...middle, ...muted }));
  const told = [];
  for (const [i, [arrangement, name, color, dash, radius]] of [
    ["pre", "pre-norm", "blue", "none", 0],
    ["post", "post-norm", "green", "7 3", 0],
    ["none", "no residual", "vermillion", "none", 3.5],
  ].entries()) {
    const [ys, first, last] = data.curves[`${quantity} ${depth} ${weights} ${arrangement}`];
    const row = 48 + 16 * i, style = { "stroke-width": 2, "stroke-dasharray": dash };
    const points = ys.map((y, k) => [left + (right - left) * k / 6, y]);
    shapes.push(
      line(0, row - 4, 34, row - 4, color, style),
      text(42, row, name),
      text(right, row, `${first} → ${last}`, "ink", { ...end, "font-weight": "bold" }),
      polyline(points, color, style),
    );
    if (radius) shapes.push(...[[17, row - 4], ...points].map(([x, y]) => circle(x, y, radius, color)));
    told.push(`${name} from ${first} to ${last}`);
  }
  const described = `${axis.title}, ${depth} layers, weights ${weights}, from bottom to top: ${told.join("; ")}.`;
  return [title(described), ...shapes];
}
