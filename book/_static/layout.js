// What scrolls sideways can be reached by keyboard; what would be cut off scrolls.
(() => {
  const kinds = {
    ".formula, .wide": "Formula", ".pst-scrollable-table-container": "Table", pre: "Code", ".output": "Output",
  };
  // A formula within a line cannot be broken; one that is wider than its paragraph gets a box that scrolls.
  const wrapWide = () => {
    const inline = [...document.querySelectorAll(".bd-article :is(p, li) math:not(.formula *, .wide *, table *)")];
    const room = (math) => math.closest("p, li").clientWidth;
    for (const math of inline.filter((each) => each.getBoundingClientRect().width > room(each))) {
      const tied = math.closest(".tied") ?? math;
      const box = document.createElement("span");
      box.className = "wide";
      tied.replaceWith(box);
      box.append(tied);
    }
  };
  const markScrolling = (within) => {
    const boxes = Object.entries(kinds).flatMap(([selector, kind]) =>
      [...within.querySelectorAll(`.bd-article :is(${selector})`)].map(
        (box) => [box, kind, box.scrollWidth > box.clientWidth + 1]));
    for (const [box, kind, scrolls] of boxes) {
      if (scrolls) {
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", `${kind}, scrolls sideways`);
      } else {
        for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
      }
    }
  };

  const article = document.querySelector(".bd-article");
  let width = 0;
  let timer;
  const arrange = () => {
    width = article.clientWidth;
    wrapWide();
    markScrolling(document);
  };
  if (article) {
    document.fonts.ready.then(arrange);
    addEventListener("load", () => document.fonts.ready.then(arrange));
    new ResizeObserver(() => {  // its height changes with every fold
      if (article.clientWidth === width) return;
      clearTimeout(timer);
      timer = setTimeout(arrange, 200);
    }).observe(article);
    document.addEventListener("toggle", ({ target }) => markScrolling(target), true);
  }
})();
