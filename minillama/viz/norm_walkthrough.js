// The twin of _norm_marks in chapter01.py: the same operations in the same order.
function norms({ x1, x2, x3, x4, offset, alpha }) {
  const eps = 1e-6;
  const x = [alpha * (x1 + offset), alpha * (x2 + offset), alpha * (x3 + offset), alpha * (x4 + offset)];
  const mean = (x[0] + x[1] + x[2] + x[3]) / 4;
  const square = (x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]) / 4;
  const c = x.map((value) => value - mean);
  const variance = (c[0] * c[0] + c[1] * c[1] + c[2] * c[2] + c[3] * c[3]) / 4;
  const rmsNorm = x.map((value) => value / Math.sqrt(square + eps));
  const layerNorm = c.map((value) => value / Math.sqrt(variance + eps));
  return { x, mean, rms: Math.sqrt(square), rmsNorm, layerNorm };
}
const squeeze = (value) => 56 * Math.asinh(value) / Math.asinh(80);
function marks(values, { fixed, line, rect, text, title }) {
  const short = (value) => fixed(value, Math.abs(value) < 9.9995 ? 3 : 1);
  const bold = { "font-weight": "bold" };
  const end = { "text-anchor": "end" };
  const middle = { "text-anchor": "middle" };
  const bars = (left, width, zero, height, numbers, color, valueRow) => {
    const step = width / 4;
    const shapes = numbers.flatMap((value, i) => {
      const tall = height(value), center = left + step * (i + 0.5);
      return [
        rect(center - step * 0.3, zero - Math.max(tall, 0), step * 0.6, Math.abs(tall), color),
        text(center, valueRow, short(value), "ink", { ...middle, "font-size": 11 }),
      ];
    });
    return [...shapes, line(left, zero, left + width, zero, "muted")];
  };
  const n = norms(values);
  const gap = Math.max(...n.rmsNorm.map((value, i) => Math.abs(value - n.layerNorm[i])));
  const verdict = n.rms === 0 ? "All four are 0: ε keeps both outputs at 0."
    : n.x.every((value) => value === n.x[0])
      ? `All equal: LayerNorm gives 0, RMSNorm ${fixed(n.rmsNorm[0], 3)}.`
    : gap < 0.0005 ? `Mean ${fixed(n.mean, 3)}: both norms give the same.`
    : `Mean ${fixed(n.mean, 3)}: the norms differ by up to ${fixed(gap, 3)}.`;

  const shapes = [
    text(34, 14, "Input α(x + offset)", "ink", bold),
    text(200, 14, "(squeezed axis)", "muted"),
  ];
  for (const tick of [-80, -4, 4, 80]) {
    const y = 86 - squeeze(tick);
    shapes.push(line(34, y, 230, y, "grid"), text(29, y + 4, fixed(tick, 0), "muted", { ...end, "font-size": 11 }));
  }
  shapes.push(...bars(34, 196, 86, squeeze, n.x, "sky", 164));
  for (const [row, word, value, color, dash] of [
    [70, "RMS", n.rms, "purple", "7 3"],
    [96, "mean", n.mean, "vermillion", "2 3"],
  ]) {
    const y = 86 - squeeze(value);
    const dashed = { "stroke-width": 2, "stroke-dasharray": dash };
    shapes.push(
      line(34, y, 240, y, color, dashed),
      line(248, row - 4, 268, row - 4, color, dashed),
      text(273, row, word),
      text(380, row, short(value), "ink", { ...end, ...bold }),
    );
  }

  for (const [left, name, rule, numbers, color] of [
    [0, "RMSNorm", "input / RMS", n.rmsNorm, "blue"],
    [202, "LayerNorm", "(input − mean) / deviation", n.layerNorm, "green"],
  ]) {
    shapes.push(text(left, 194, name, "ink", bold), text(left, 210, rule, "muted", { "font-size": 12 }));
    for (const level of [-1, 1]) {
      shapes.push(line(left, 280 - 28 * level, left + 178, 280 - 28 * level, "grid"));
    }
    shapes.push(...bars(left, 178, 280, (value) => 28 * value, numbers, color, 354));
  }
  for (const level of [-1, 1]) {
    shapes.push(text(190, 284 - 28 * level, fixed(level, 0), "muted", { ...middle, "font-size": 11 }));
  }
  shapes.push(text(0, 380, verdict, "ink", bold));

  const list = (numbers) => numbers.map((value) => fixed(value, 3)).join(", ");
  const described = `Input α(x + offset): ${list(n.x)}; mean ${fixed(n.mean, 3)}, RMS ${fixed(n.rms, 3)}. `
    + `RMSNorm gives ${list(n.rmsNorm)}; LayerNorm gives ${list(n.layerNorm)}. ${verdict}`;
  return [title(described), ...shapes];
}
