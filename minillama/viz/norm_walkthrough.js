// The twin of _norm_marks in chapter01.py: the same operations in the same order.
function norms({ x1, x2, x3, x4, alpha }) {
  const eps = 1e-6;
  const x = [alpha * x1, alpha * x2, alpha * x3, alpha * x4];
  const mean = (x[0] + x[1] + x[2] + x[3]) / 4;
  const square = (x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]) / 4;
  const c = x.map((value) => value - mean);
  const variance = (c[0] * c[0] + c[1] * c[1] + c[2] * c[2] + c[3] * c[3]) / 4;
  const rmsNorm = x.map((value) => value / Math.sqrt(square + eps));
  const layerNorm = c.map((value) => value / Math.sqrt(variance + eps));
  return { x, mean, rms: Math.sqrt(square), rmsNorm, layerNorm };
}
const squeeze = (value) => 56 * Math.asinh(value) / Math.asinh(40);
function marks(values, { fixed, line, rect, text, title }) {
  const bold = { "font-weight": "bold" };
  const end = { "text-anchor": "end" };
  const panel = (left, width, zero, height, numbers, [labelRow, label], color, valueRow) => {
    const step = width / 4;
    const bars = numbers.flatMap((value, i) => {
      const tall = height(value);
      const center = left + step * (i + 0.5);
      return [
        rect(center - step * 0.3, zero - Math.max(tall, 0), step * 0.6, Math.abs(tall), color),
        text(center, valueRow, fixed(value, 3), "ink", { "text-anchor": "middle" }),
      ];
    });
    return [text(left, labelRow, label, "ink", bold), ...bars, line(left, zero, left + width, zero, "muted")];
  };
  const n = norms(values);
  const gap = Math.max(...n.rmsNorm.map((value, i) => Math.abs(value - n.layerNorm[i])));
  const verdict = n.rms === 0 ? "All four are 0: ε keeps both outputs at 0."
    : gap < 0.0005 ? "Mean 0: both norms give the same."
    : `Mean ${fixed(n.mean, 3)}: the norms differ by up to ${fixed(gap, 3)}.`;
  const shapes = [];
  for (const tick of [-40, -4, 4, 40]) {
    const y = 92 - squeeze(tick);
    shapes.push(line(34, y, 266, y, "grid"), text(28, y + 4, fixed(tick, 0), "muted", { ...end, "font-size": 11 }));
  }
  shapes.push(...panel(34, 232, 92, squeeze, n.x, [16, "Input αx"], "sky", 174));
  for (const [level, color, dash] of [[n.mean, "vermillion", "2 3"], [n.rms, "purple", "7 3"]]) {
    const y = 92 - squeeze(level);
    shapes.push(line(34, y, 282, y, color, { "stroke-width": 2, "stroke-dasharray": dash }));
  }
  shapes.push(
    line(292, 66, 316, 66, "purple", { "stroke-width": 2, "stroke-dasharray": "7 3" }),
    text(322, 70, "RMS"),
    text(420, 70, fixed(n.rms, 3), "ink", { ...end, ...bold }),
    line(292, 96, 316, 96, "vermillion", { "stroke-width": 2, "stroke-dasharray": "2 3" }),
    text(322, 100, "mean"),
    text(420, 100, fixed(n.mean, 3), "ink", { ...end, ...bold }),
  );
  for (const [left, numbers, words, color] of [
    [0, n.rmsNorm, "RMSNorm: αx ÷ RMS", "blue"],
    [222, n.layerNorm, "LayerNorm: mean off first", "green"],
  ]) {
    for (const level of [-1, 1]) {
      shapes.push(line(left, 266 - 28 * level, left + 198, 266 - 28 * level, "grid"));
    }
    shapes.push(...panel(left, 198, 266, (value) => 28 * value, numbers, [202, words], color, 340));
  }
  const list = (numbers) => numbers.map((value) => fixed(value, 3)).join(", ");
  return [
    title(`Input αx: ${list(n.x)}; mean ${fixed(n.mean, 3)}, RMS ${fixed(n.rms, 3)}. `
      + `RMSNorm gives ${list(n.rmsNorm)}; LayerNorm gives ${list(n.layerNorm)}. ${verdict}`),
    ...shapes,
    text(0, 366, verdict, "ink", bold),
  ];
}
