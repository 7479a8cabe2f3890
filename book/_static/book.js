// Pages are printed light, with all folds open.
(() => {
  let opened = [];
  let theme = null;
  const root = document.documentElement;
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const fold of opened) fold.open = true;
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
    if (theme) root.dataset.theme = theme;
  });
})();
