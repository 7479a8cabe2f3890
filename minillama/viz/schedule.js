// The twin of _schedule_marks in chapter10.py: the same operations in the same order.
function marks({ warmup, end, floor, step, asks }, { fixed, line, polyline, circle, text, title }) {
  const RUN = 1000, LEFT = 40, RIGHT = 360, BOTTOM = 196, TALL = 160;
  const last = Math.max(warmup, end), low = floor / 100, extra = { "step + 1": 1, "step": 0 }[asks];
  const grid = (value) => Math.floor(value * 1e6 + 0.5) / 1e6;
  const percent = (share) => `${fixed(grid(100 * share), 1)} %`;
  const rate = (it) => {
    if (it < warmup) return it / warmup;
    if (it > last) return low;
    const progress = (it - warmup) / Math.max(1, last - warmup);
    return low + (1 - low) * (1 + Math.cos(Math.PI * progress)) / 2;
  };
  const at = (it, share) => [LEFT + (RIGHT - LEFT) * it / RUN, BOTTOM - TALL * share];
  const shapes = [];
  for (const [share, words] of [[0, "0"], [0.5, "50 %"], [1, "peak"]]) {
    const y = BOTTOM - TALL * share;
    shapes.push(
      line(LEFT, y, RIGHT, y, "grid"),
      text(LEFT - 6, y + 4, words, "muted", { "text-anchor": "end", "font-size": 11 }),
    );
  }
  for (const it of [0, 250, 500, 750, 1000]) {
    shapes.push(text(at(it, 0)[0], BOTTOM + 16, fixed(it, 0), "muted", { "text-anchor": "middle", "font-size": 11 }));
  }
  const its = Array.from({ length: RUN / 10 + 1 }, (_, i) => 10 * i);
  shapes.push(polyline(its.map((it) => at(it, grid(rate(it)))), "blue", { "stroke-width": 2.5 }));
  const it = step + extra, here = rate(it);
  const [x, y] = at(it, grid(here));
  shapes.push(
    line(x, BOTTOM, x, y, "vermillion", { "stroke-width": 1.5, "stroke-dasharray": "4 3" }),
    circle(x, y, 5, "vermillion"),
  );
  const phase = it < warmup ? "warmup" : it <= last ? "cosine" : "floor";
  let total = 0;
  for (let k = 0; k < RUN; k += 1) total += rate(k + extra);
  const start = rate(extra);
  const one = `step ${step}, it = ${it}: ${percent(here)} of the peak (${phase})`;
  const two = `the first step: ${percent(start)}${start === 0 ? ", it moves nothing" : ""}`;
  const three = `mean over 1,000 steps: ${percent(total / RUN)}`;
  shapes.push(text(4, 240, one, "ink", { "font-weight": "bold" }), text(4, 260, two), text(4, 280, three));
  const described = `Learning rate over 1,000 steps: warmup ${warmup}, cosine to ${last}, `
    + `floor ${floor} % of the peak. ${one}; ${two}; ${three}.`;
  return [title(described), ...shapes];
}
