// The twin of _letters_marks in chapter09.py: the same operations in the same order.
const SIZES = { t: 2, o: 4, i: 3 };
const LEFTS = [22, 140, 258], TOP = 42, WIDE = 28, HIGH = 24;
const number = (n) => String(n).replace("-", "−");
function marks({ equation, t, o, i }, { rect, text, title }) {
  const right = [...equation.split("->")[1]];
  const hand = { t, o, i };
  const bold = { "font-weight": "bold" }, middle = { "text-anchor": "middle" };
  const shapes = [];
  function grid(left, name, letters, values, chosen, touched) {
    const rows = values.length, columns = values[0].length;
    shapes.push(text(left, 14, `${name}[${letters.join(", ")}]`, "ink", bold));
    const [down, across] = letters.length === 2 ? letters : ["", letters.join("")];
    if (across) shapes.push(text(left + WIDE * columns / 2, 34, `${across} →`, "muted", middle));
    if (down) {
      const center = TOP + HIGH * rows / 2;
      shapes.push(
        text(left - 12, center - 2, down, "muted", middle),
        text(left - 12, center + 14, "↓", "muted", middle),
      );
    }
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const here = r === chosen[0] && c === chosen[1];
        const shade = here ? "blue" : touched(r, c) ? "sky" : "grid";
        const x = left + WIDE * c, y = TOP + HIGH * r;
        shapes.push(rect(x + 1, y + 1, WIDE - 2, HIGH - 2, shade));
        if (here) {
          shapes.push(rect(x + 1, y + 1, WIDE - 2, HIGH - 2, "none", { stroke: "ink", "stroke-width": 2.5 }));
        }
        shapes.push(text(x + WIDE / 2, y + 17, number(values[r][c]), here ? "paper" : "ink", middle));
      }
    }
  }
  const same = (place) =>
    Object.entries(place).every(([letter, value]) => !right.includes(letter) || value === hand[letter]);

  const sums = {};
  for (let a = 0; a < 2; a += 1) {
    for (let b = 0; b < 4; b += 1) {
      for (let c = 0; c < 3; c += 1) {
        const at = { t: a, o: b, i: c };
        const key = right.map((letter) => at[letter]).join();
        sums[key] = (sums[key] || 0) + X[a][c] * W[b][c];
      }
    }
  }
  const count = (n) => [...Array(n).keys()];
  let result, chosen;
  if (right.length === 2) {
    result = count(SIZES[right[0]]).map((r) => count(SIZES[right[1]]).map((c) => sums[[r, c].join()]));
    chosen = [hand[right[0]], hand[right[1]]];
  } else if (right.length === 1) {
    result = [count(SIZES[right[0]]).map((c) => sums[String(c)])];
    chosen = [0, hand[right[0]]];
  } else {
    result = [[sums[""]]];
    chosen = [0, 0];
  }
  grid(LEFTS[0], "x", ["t", "i"], X, [t, i], (r, c) => same({ t: r, i: c }));
  grid(LEFTS[1], "w", ["o", "i"], W, [o, i], (r, c) => same({ o: r, i: c }));
  grid(LEFTS[2], "y", right, result, chosen, () => false);

  const first = X[t][i], second = W[o][i];
  const shown = second < 0 ? `(${number(second)})` : number(second);
  const worth = first * second || 0; // no −0
  const product = `x[${t}, ${i}] · w[${o}, ${i}] = ${number(first)} · ${shown} = ${number(worth)}`;
  const cell = `y[${right.map((letter) => hand[letter]).join(", ")}]`;
  const total = sums[right.map((letter) => hand[letter]).join()];
  let many = 24;
  for (const letter of right) many /= SIZES[letter];
  const gone = ["t", "o", "i"].filter((letter) => !right.includes(letter)).join(", ");
  const goal = `goes into ${cell}, the sum of ${many} such products: ${number(total || 0)}`;
  const rule = `Not on the right, hence summed: ${gone}`;
  shapes.push(text(4, 168, product, "ink", bold), text(4, 190, goal), text(4, 212, rule, "muted"));
  return [title(`${equation}. ${product}; it ${goal}. ${rule}.`), ...shapes];
}
