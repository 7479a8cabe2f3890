// The twin of _memory_marks in chapter05.py: the same operations in the same order.
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
function amount(n, fixed) {
  if (n < 1024) return `${n} bytes`;
  let power = 0, value = n;
  while (value >= 1024 && power < 4) { value /= 1024; power += 1; }
  return `${fixed(value, power > 2 && value < 100 ? 2 : 1)} ${["KiB", "MiB", "GiB", "TiB"][power - 1]}`;
}
function marks({ context, heads, precision }, { fixed, circle, line, text, title }) {
  const LOWEST = 20, HIGHEST = 40, FROM = 118, TO = 284;
  const size = { "float32": 4, "bfloat16": 2, "8 bits": 1 }[precision];
  const which = { "as published": "kv_heads", "one for each query head": "heads", "one for all": "one" }[heads];
  const at = (n) => FROM + (TO - FROM) * (Math.log2(n) - LOWEST) / (HIGHEST - LOWEST);
  const shapes = [
    circle(8, 10, 5, "blue"),
    text(18, 14, "cache of one text"),
    line(150, 3, 150, 17, "vermillion", { "stroke-width": 3 }),
    text(158, 14, "the model's weights"),
  ];
  for (const [power, words] of [[20, "1 MiB"], [30, "1 GiB"], [40, "1 TiB"]]) {
    const x = FROM + (TO - FROM) * (power - LOWEST) / (HIGHEST - LOWEST);
    shapes.push(
      line(x, 40, x, 282, "grid"),
      text(x, 36, words, "muted", { "text-anchor": "middle", "font-size": 11 }),
    );
  }
  let heavier = 0, longer = 0;
  const told = [];
  ROWS.forEach((row, i) => {
    const y = 56 + 24 * i;
    const kept = row.window > 0 ? Math.min(context, row.window) : context;
    const cache = row.per_head * row[which] * kept * size;
    const weights = row.weights * size;
    const beyond = context > row.limit;
    if (cache > weights) heavier += 1;
    if (beyond) longer += 1;
    const value = amount(cache, fixed) + (beyond ? "*" : "");
    shapes.push(
      text(4, y, row.name),
      line(FROM, y - 4, at(cache), y - 4, "blue", { "stroke-width": 1 }),
      circle(at(cache), y - 4, 5, beyond ? "sky" : "blue"),
      line(at(weights), y - 11, at(weights), y + 3, "vermillion", { "stroke-width": 3 }),
      text(376, y, value, beyond ? "muted" : "ink",
        { "text-anchor": "end", "font-weight": cache > weights ? "bold" : "normal" }),
    );
    told.push(`${row.name} ${amount(cache, fixed)}${beyond ? " beyond its context" : ""}`);
  });
  const few = heavier === 1 ? "1 of 10 caches outweighs its model" : `${heavier} of 10 caches outweigh their model`;
  shapes.push(text(4, 304, `${few} (bold).`, "ink", { "font-weight": "bold" }));
  const note = longer > 0 ? "* longer than the model was published for" : "All within the published contexts.";
  shapes.push(text(4, 322, note, "muted", { "font-size": 12 }));
  const described = `Cache of one text of ${grouped(context)} tokens, ${precision}: ${told.join(", ")}. ${few}.`;
  return [title(described), ...shapes];
}
