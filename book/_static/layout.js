// What scrolls sideways can be reached by keyboard, and what is far from the window costs nothing.
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

  // A chapter has twenty screens and more: without this, each move of a slider would cost a walk through all of
  // them. A section that is set aside keeps its measured height, so that nothing jumps when it comes into view.
  const article = document.querySelector(".bd-article");
  const sections = [...document.querySelectorAll("body:not(.front-page) .bd-article > section > section")];
  const keepHeight = (section, height) => { section.style.containIntrinsicBlockSize = `${height}px`; };
  const setAside = () => {
    const heights = sections.map((section) => section.getBoundingClientRect().height);
    sections.forEach((section, place) => {
      keepHeight(section, heights[place]);
      section.classList.add("set-aside");
    });
  };
  const heights = new ResizeObserver((changes) => {
    for (const { target, contentRect } of changes) keepHeight(target, contentRect.height);
  });
  let width = 0;
  let timer;
  const arrange = () => {
    for (const section of sections) section.classList.remove("set-aside");
    width = article.clientWidth;
    wrapWide();
    markScrolling(document);
    if (document.readyState === "complete") setAside();  // all pictures have come, and have their heights
  };
  if (article) {
    document.fonts.ready.then(arrange);
    addEventListener("load", async () => {
      await document.fonts.ready;
      arrange();
      for (const section of sections) heights.observe(section);
      new ResizeObserver(() => {
        if (article.clientWidth === width) return;
        clearTimeout(timer);
        timer = setTimeout(arrange, 200);
      }).observe(article);
    });
  }
  document.addEventListener("toggle", ({ target }) => markScrolling(target), true);
})();
