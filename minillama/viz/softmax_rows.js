// The twin of _Grid.marks in chapter04.py.
const data = DATA;
function marks({ head_dim: headDim, keys, scores }, { fixed, line, rect, text, title }) {
  const bare = scores === "as they are";
  const [pMax, mean, median, low, pRows, jRows] = data[`${keys} ${headDim} ${bare ? "bare" : "divided"}`];
  const other = data[`${keys} ${headDim} ${bare ? "divided" : "bare"}`][1];
  const color = bare ? "vermillion" : "blue";
  const bold = { "font-weight": "bold" };
  const shapes = [];
  for (const [top, name, number, rows, high] of [
    [0, "Largest weight of a row", `mean ${fixed(pMax, 2)}`, pRows, 1],
    [150, "Size of a row's Jacobian", `mean ${fixed(mean, 3)}`, jRows, 0.5],
  ]) {
    const tallest = Math.max(...rows);
    const base = top + 116;
    shapes.push(
      text(0, top + 14, name, "ink", bold),
      text(380, top + 14, number, "ink", { "text-anchor": "end", ...bold }),
      line(10, base, 370, base, "muted"),
    );
    rows.forEach((count, i) => {
      const tall = 78 * count / tallest;
      shapes.push(rect(11 + 18 * i, base - tall, 16, tall, color));
    });
    for (const [share, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      shapes.push(text(10 + 360 * share, base + 16, fixed(share * high, 2), "muted",
        { "text-anchor": anchor, "font-size": 12 }));
    }
    const at = 10 + 360 * (top === 0 ? pMax : mean) / high;
    shapes.push(line(at, base - 84, at, base, "ink", { "stroke-width": 2, "stroke-dasharray": "5 3" }));
  }
  const ratio = mean / other;
  const compared = bare ? "With" : "Without";
  const verdict = `${compared} the division: mean ${fixed(other, 3)}. Ratio ${fixed(ratio, 2)}.`;
  const rest = `Median ${fixed(median, 3)}; ${fixed(100 * low, 1)} % of rows below 0.01.`;
  shapes.push(text(0, 304, rest), text(0, 324, verdict));
  const described = `${keys} keys, head size ${headDim}, scores ${scores}: the largest weight of a row is `
    + `${fixed(pMax, 2)} on average, the size of its Jacobian ${fixed(mean, 3)}. ${rest} ${verdict}`;
  return [title(described), ...shapes];
}
