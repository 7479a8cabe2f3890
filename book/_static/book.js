// A formula that scrolls sideways must be reachable by keyboard; pages are printed light, with all folds open.
(() => {
  const markScrolling = () => {
    for (const box of document.querySelectorAll(".formula")) {
      if (box.scrollWidth > box.clientWidth + 1) {
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", "Formula, scrolls sideways");
      } else {
        box.removeAttribute("tabindex");
        box.removeAttribute("role");
        box.removeAttribute("aria-label");
      }
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
