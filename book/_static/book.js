// Pages are printed light, with all folds open.
(() => {
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
