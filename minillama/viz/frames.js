// Frames: every state was drawn beforehand. A frame is a list of [first, count] runs in a table of lines.
function frames(root, spec) {
  const { lines, runs } = JSON.parse(root.querySelector(".ml-frames").textContent);
  return (at) => {
    const state = at.reduce((sum, index, i) => sum * spec.controls[i].values.length + index, 0);
    const inside = [];
    for (let i = 0; i < runs[state].length; i += 2) {
      inside.push(...lines.slice(runs[state][i], runs[state][i] + runs[state][i + 1]));
    }
    return [inside.join("\n"), spec.alts[state]];
  };
}
