// The twin of _sharing_marks in chapter05.py: the same operations in the same order.
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
function amount(n, fixed) {
  if (n < 1024) return `${n} bytes`;
  let power = 0, value = n;
  while (value >= 1024 && power < 4) { value /= 1024; power += 1; }
  return `${fixed(value, power > 2 && value < 100 ? 2 : 1)} ${["KiB", "MiB", "GiB", "TiB"][power - 1]}`;
}
function marks({ kv_heads, context, precision, batch }, { fixed, line, rect, text, title }) {
  const LEFT = 4, STEP = 47, BOX = 40, heads = 8, layers = 12, dim = 64;
  const bold = { "font-weight": "bold" }, middle = { "text-anchor": "middle" };
  const size = { "float32": 4, "bfloat16": 2, "8 bits": 1 }[precision];
  const group = heads / kv_heads;
  const token = 2 * layers * kv_heads * dim * size;
  const kept = token * context * batch;
  const own = token * context * batch * group;
  const weights = PARAMETERS * size;
  const shapes = [text(LEFT, 14, "8 query heads", "ink", bold)];
  for (let h = 0; h < heads; h += 1) {
    const left = LEFT + STEP * h, center = LEFT + STEP * h + BOX / 2;
    const first = LEFT + STEP * Math.floor(h / group) * group;
    const wide = STEP * (group - 1) + BOX;
    shapes.push(
      line(center, 50, first + wide / 2, 78, "muted", { "stroke-width": 1.5 }),
      rect(left, 24, BOX, 26, "sky"),
      text(center, 42, `Q${h + 1}`, "ink", middle),
    );
  }
  for (let g = 0; g < kv_heads; g += 1) {
    const left = LEFT + STEP * g * group, wide = STEP * (group - 1) + BOX;
    shapes.push(
      rect(left, 78, wide, 26, "blue"),
      text(left + wide / 2, 96, `K${g + 1} V${g + 1}`, "paper", middle),
    );
  }
  const name = kv_heads === heads ? "MHA: to each query head its own key/value head"
    : kv_heads === 1 ? "MQA: one key/value head for all eight"
    : `GQA: ${kv_heads} key/value heads, ${group} query heads to each`;
  shapes.push(text(LEFT, 126, name, "ink", bold));

  const rule = `2 · ${layers} layers · ${kv_heads} · ${dim} · ${size} bytes`;
  const one = context === 1 ? `${grouped(context)} token` : `${grouped(context)} tokens`;
  const many = batch === 1 ? `${batch} text of ${one}` : `${batch} texts of ${one}`;
  for (const [y, words, value] of [
    [152, `a token: ${rule}`, amount(token, fixed)],
    [172, many, amount(kept, fixed)],
    [192, "the model's weights", amount(weights, fixed)],
  ]) {
    shapes.push(text(LEFT, y, words), text(376, y, value, "ink", { "text-anchor": "end", ...bold }));
  }

  const ratio = (value) => fixed(value, value >= 10 ? 1 : value < 0.01 ? 5 : 3);
  const share = `${fixed(100 * kv_heads / heads, 1)} % of what 8 key/value heads would keep`;
  const scale = 372 / Math.max(own, weights);
  const small = { "font-size": 12 };
  shapes.push(
    text(LEFT, 222, share, "ink", small),
    rect(LEFT, 228, own * scale, 14, "grid"),
    rect(LEFT, 228, kept * scale, 14, "blue"),
    text(LEFT, 262, `the weights, to the same scale (cache / weights = ${ratio(kept / weights)})`, "ink", small),
    rect(LEFT, 268, weights * scale, 14, "orange"),
  );
  const described = `${name}. Cache of a token: ${amount(token, fixed)}; of ${many}: ${amount(kept, fixed)} in `
    + `${precision}, ${share}. The model's weights: ${amount(weights, fixed)}.`;
  return [title(described), ...shapes];
}
