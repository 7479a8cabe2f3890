// The twin of _bill_marks in chapter07.py: the same operations in the same order.
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
function amount(n, fixed) {
  if (n < 1024) return `${n} bytes`;
  let power = 0, value = n;
  while (value >= 1024 && power < 4) { value /= 1024; power += 1; }
  return `${fixed(value, power > 2 && value < 100 ? 2 : 1)} ${["KiB", "MiB", "GiB", "TiB"][power - 1]}`;
}
function countText(n, fixed) {
  for (const [power, unit] of [[12, "T"], [9, "G"], [6, "M"]]) {
    if (n >= 10 ** power) return `${fixed(n / 10 ** power, n < 10 ** (power + 1) ? 2 : 1)} ${unit}`;
  }
  return `${fixed(n / 1000, 1)} K`;
}
function marks(values, { fixed, rect, text, title }) {
  const own = values.preset === "as set above";
  const [layers, c, wideFfn, h, g, d, v, tied] = own
    ? [values.layers, values.width, Math.floor(values.ratio * values.width), values.heads,
      values.heads / values.group, values.dim, values.vocab, values.head === "the embedding"]
    : PRESETS[values.preset];
  const tokens = values.tokens, size = { "float32": 4, "bfloat16": 2, "8 bits": 1 }[values.precision];
  const attention = layers * 2 * c * d * (h + g), ffn = layers * 3 * c * wideFfn;
  const norms = (2 * layers + 1) * c, words = v * c * (tied ? 1 : 2);
  const total = words + attention + ffn + norms;
  const scores = 2 * layers * h * d * (tokens + 1);
  const flops = 2 * (attention + ffn + v * c) + scores;
  const kinds = [
    [tied ? "embedding = head" : "embedding, head", words, "orange"],
    ["attention", attention, "blue"],
    ["feed-forward", ffn, "sky"],
  ];
  const work = [
    ["head", 2 * v * c, "orange"],
    ["projections", 2 * attention, "blue"],
    ["feed-forward", 2 * ffn, "sky"],
    ["scores", scores, "vermillion"],
  ];
  const even = Math.floor(3 * c * wideFfn / (h * d)) - 1;
  const weights = total * size, cache = 2 * layers * g * tokens * d * size, training = total * 16;
  const bold = { "font-weight": "bold" }, end = { "text-anchor": "end" };
  const sizes = `${layers} layer${layers === 1 ? "" : "s"}, C ${grouped(c)}, heads ${h} : ${g} of ${d}`;
  const more = `d_ffn ${grouped(wideFfn)}, V ${grouped(v)}`;
  const shapes = [text(4, 14, sizes, "ink", bold), text(4, 31, more, "ink", bold)];
  const bar = (y, name, sum, rows, whole) => {
    shapes.push(text(4, y, name), text(376, y, sum, "ink", { ...end, ...bold }));
    let left = 4;
    return rows.map(([what, value, color]) => {
      const wide = 372 * value / whole;
      shapes.push(rect(left, y + 7, wide, 16, color, { stroke: "paper", "stroke-width": 0.5 }));
      left += wide;
      return `${what} ${fixed(100 * value / whole, 1)} %`;
    });
  };
  const legend = (top, notes, rows) => notes.forEach((note, i) => {
    const y = top + 17 * Math.floor(i / 2), x = 200 * (i % 2);
    shapes.push(rect(4 + x, y - 10, 11, 11, rows[i][2]), text(20 + x, y, note));
  });
  const kept = bar(58, "Parameters", grouped(total), kinds, total);
  legend(99, kept, kinds);
  shapes.push(text(220, 116, `norms ${fixed(100 * norms / total, 3)} %`, "muted"));
  const spent = bar(148, `FLOPs a token, text of ${grouped(tokens)}`, countText(flops, fixed), work, flops);
  legend(189, spent, work);
  const beyond = even < 1 ? "Scores outgrow feed-forward from the start."
    : `Scores outgrow feed-forward beyond ${grouped(even)} tokens.`;
  shapes.push(text(4, 228, beyond));
  const widest = Math.max(weights, cache, training);
  [
    ["Weights", weights, "blue"],
    [`Cache of one text of ${grouped(tokens)}`, cache, "vermillion"],
    ["Training with AdamW, float32", training, "green"],
  ].forEach(([name, value, color], i) => {
    const y = 256 + 34 * i;
    shapes.push(
      text(4, y, name),
      text(376, y, amount(value, fixed), "ink", { ...end, ...bold }),
      rect(4, y + 6, 372 * value / widest, 8, color),
    );
  });
  const described = `${sizes}, ${more}. ${grouped(total)} parameters: ${kept.join(", ")}. `
    + `${countText(flops, fixed)} FLOPs a token in a text of ${grouped(tokens)}: ${spent.join(", ")}. ${beyond} `
    + `Weights ${amount(weights, fixed)}, cache ${amount(cache, fixed)}, training ${amount(training, fixed)}.`;
  return [title(described), ...shapes];
}
