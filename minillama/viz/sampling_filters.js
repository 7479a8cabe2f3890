// The twin of _Distributions.marks in chapter13.py: the same operations in the same order.
const data = DATA;
const ROWS = 12;
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
const known = {};
function weighed(context, temperature) {
  const key = `${context} ${temperature}`;
  if (!known[key]) {
    let below = 0, total = 0;
    const weights = data[context].steps.map((step) => {
      below += step;
      const weight = Math.floor(Math.exp(-below / 100 / temperature) * 1e9 + 0.5);
      total += weight;
      return weight;
    });
    known[key] = [weights, total];
  }
  return known[key];
}
function filtered({ context, temperature, k, p }) {
  const [weights, total] = weighed(context, temperature);
  let among = 0, kept = 0, mass = 0, entropy = 0;
  for (let i = 0; i < Math.min(k, weights.length); i += 1) among += weights[i];
  while (kept < k && kept < weights.length && (kept === 0 || mass < (p - 1e-6) * among || p === 1)) {
    mass += weights[kept];
    kept += 1;
  }
  for (let i = 0; i < kept; i += 1) {
    if (weights[i] > 0) entropy -= weights[i] / mass * Math.log(weights[i] / mass);
  }
  const [plain, plainTotal] = weighed(context, 1);
  const first = Array.from({ length: ROWS }, (_, i) => i);
  return {
    plain: first.map((i) => plain[i] / plainTotal),
    share: first.map((i) => (i < kept ? weights[i] / mass : 0)),
    kept, mass: mass / total, entropy,
  };
}
function marks(values, { fixed, rect, text, title }) {
  const r = filtered(values);
  const { tokens, steps } = data[values.context];
  const end = { "text-anchor": "end", "font-size": 12 };
  const shapes = [
    text(0, 14, "next token", "ink", { "font-weight": "bold" }),
    text(318, 14, "model", "muted", end),
    text(380, 14, "drawn", "ink", { ...end, "font-weight": "bold" }),
  ];
  const told = [];
  const longest = Math.max(r.plain[0], r.share[0]);
  tokens.forEach((token, i) => {
    const y = 34 + 19 * i, plain = r.plain[i], share = r.share[i];
    const gone = i >= r.kept;
    shapes.push(
      text(0, y, token, gone ? "muted" : "ink"),
      rect(110, y - 12, 160 * share / longest, 8, "blue"),
      rect(110, y - 4, 160 * plain / longest, 4, "muted"),
      text(318, y, `${fixed(100 * plain, 1)} %`, "muted", end),
      text(380, y, gone ? "–" : `${fixed(100 * share, 1)} %`, gone ? "muted" : "ink",
        { ...end, "font-weight": gone ? "normal" : "bold" }),
    );
    if (i < 3) told.push(`${token} ${gone ? "struck out" : `${fixed(100 * share, 1)} %`}`);
  });
  const bottom = 34 + 19 * ROWS;
  const kept = `${grouped(r.kept)} of ${grouped(steps.length)} tokens kept`;
  const rule = `top-k leaves ${grouped(values.k)}, top-p asks for ${fixed(values.p, 2)} of their mass`;
  const mass = `${fixed(100 * r.mass, 1)} % of the mass at this temperature`;
  const spread = `entropy ${fixed(r.entropy, 2)} nats, as of ${fixed(Math.exp(r.entropy), 1)} equal tokens`;
  shapes.push(
    text(0, bottom + 6, kept, "ink", { "font-weight": "bold" }),
    text(0, bottom + 25, rule),
    text(0, bottom + 44, mass),
    text(0, bottom + 63, spread),
  );
  const described = `After “${values.context}”: ${told.join(", ")}. ${kept}: ${rule}. ${mass}; ${spread}.`;
  return [title(described), ...shapes];
}
