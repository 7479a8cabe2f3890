// The twin of _growth_marks in chapter11.py: the same operations in the same order.
const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
function marks({ words, learned }, { fixed, rect, text, title }) {
  const CELL = 9, PAD = 6, GAP = 3, WIDTH = 380, ROW = 30, TOP = 30, HEIGHT = 24, BAR = 372 / 40;
  const bold = { "font-weight": "bold" };
  const states = TEXTS[words];
  let state = states[0];
  for (const each of states) if (each.merge <= learned) state = each;
  const boxes = state.boxes, bytes = states[0].boxes.length;
  const head = `${grouped(learned)} merges learned: ${grouped(learned + 257)} ids`;
  const shapes = [text(4, 16, head, "ink", bold)];
  let x = 4, y = TOP;
  for (const [label, cells, fresh] of boxes) {
    const wide = cells * CELL + PAD;
    if (x + wide > WIDTH - 2) { x = 4; y += ROW; }
    const stroke = fresh ? { "stroke": "ink", "stroke-width": 2.5 } : { "stroke": "muted", "stroke-width": 1 };
    shapes.push(
      rect(x, y, wide, HEIGHT, fresh ? "orange" : "paper", stroke),
      text(x + wide / 2, y + 17, label, "ink", {
        "text-anchor": "middle", "font-family": "monospace", "font-size": 14,
        "textLength": cells * CELL, "lengthAdjust": "spacingAndGlyphs",
      }),
    );
    x += wide + GAP;
  }
  const count = boxes.length;
  const ratio = fixed(bytes / count, 2);
  const latest = state.merge === 0 ? "No merge has acted on this text yet."
    : `latest that acted: no. ${grouped(state.merge)}, ${state.made}`;
  shapes.push(
    text(4, 114, latest),
    rect(4, 126, bytes * BAR, 14, "grid"),
    rect(4, 126, count * BAR, 14, "blue"),
    text(4, 158, `${bytes} bytes in ${count} tokens: ${ratio} bytes a token`, "ink", bold),
  );
  const told = boxes.map(([label]) => label).join(" | ");
  return [title(`${head}. ${bytes} bytes in ${count} tokens: ${told}. ${latest}`), ...shapes];
}
