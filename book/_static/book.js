// What scrolls sideways must be reachable by keyboard; pages are printed light, with all folds open.
(() => {
  const kinds = {
    ".formula, .wide": "Formula", ".pst-scrollable-table-container": "Table", pre: "Code", ".output": "Output",
  };
  const markScrolling = () => {
    wrapWide();
    const boxes = Object.entries(kinds).flatMap(([selector, kind]) =>
      [...document.querySelectorAll(`.bd-article :is(${selector})`)].map(
        (box) => [box, kind, box.scrollWidth > box.clientWidth + 1]));
    for (const [box, kind, scrolls] of boxes) {
      if (scrolls) {
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", `${kind}, scrolls sideways`);
      } else {
        box.removeAttribute("tabindex");
        box.removeAttribute("role");
        box.removeAttribute("aria-label");
      }
    }
  };
  // A formula within a line cannot be broken; one that is wider than its paragraph gets a box that scrolls.
  const wrapWide = () => {
    const inline = [...document.querySelectorAll(".bd-article :is(p, li, dd, td) math:not(.formula *, .wide *)")];
    const room = (math) => math.closest("p, li, dd, td").clientWidth;
    for (const math of inline.filter((each) => each.getBoundingClientRect().width > room(each))) {
      const tied = math.closest(".tied") ?? math;
      const box = document.createElement("span");
      box.className = "wide";
      tied.replaceWith(box);
      box.append(tied);
    }
  };
  new ResizeObserver(markScrolling).observe(document.body);
  document.fonts.ready.then(markScrolling);
  document.addEventListener("toggle", markScrolling, true);

  // Paper cannot scroll: print.css sets a formula smaller that is wider than the page, by its width in ems.
  const measureFormulas = () => {
    const formulas = [...document.querySelectorAll(".formula > math")];
    const widths = formulas.map((math) => {
      const number = math.nextElementSibling ? 4 : 0;
      return math.getBoundingClientRect().width / parseFloat(getComputedStyle(math).fontSize) + number;
    });
    formulas.forEach((math, i) => math.parentElement.style.setProperty("--ems", widths[i]));
  };

  let opened = [];
  let theme = null;
  const root = document.documentElement;
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const fold of opened) fold.open = true;
    measureFormulas();
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
    if (theme) root.dataset.theme = theme;
  });
})();
