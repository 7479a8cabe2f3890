// The engine of both kinds of explorer. `show(indices, values)` gives [inside of the svg, text alternative].
function start(name, prepare) {
  for (const root of document.querySelectorAll(`.ml-explorer[data-name="${name}"]`)) {
    if (root.dataset.ready) continue;
    root.dataset.ready = "yes";
    const spec = JSON.parse(root.querySelector(".ml-spec").textContent);
    const show = prepare(root, spec);
    const svg = root.querySelector(".ml-picture svg");
    const live = root.querySelector(".ml-live");
    const inputs = [...root.querySelectorAll(".ml-control input, .ml-control select")];
    let timer;
    const update = () => {
      const at = inputs.map((input) => Number(input.value));
      inputs.forEach((input, i) => {
        const text = spec.controls[i].texts[at[i]];
        if (input.type !== "range") return;
        input.setAttribute("aria-valuetext", text);
        input.nextElementSibling.textContent = text;
      });
      const [inside, alt] = show(at, spec.controls.map((control, i) => control.values[at[i]]));
      svg.innerHTML = inside;
      svg.setAttribute("aria-label", alt);
      return alt;
    };
    const moved = () => {
      const alt = update();
      clearTimeout(timer);  // a screen reader hears the picture once the hand rests, not at every step
      timer = setTimeout(() => { live.textContent = alt; }, 800);
    };
    const reset = () => inputs.forEach((input, i) => { input.value = spec.controls[i].start; });
    inputs.forEach((input) => input.addEventListener("input", moved));
    root.querySelector(".ml-reset").addEventListener("click", () => { reset(); moved(); });
    reset();
    root.querySelector(".ml-controls").hidden = false;
  }
}
