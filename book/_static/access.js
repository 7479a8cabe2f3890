// Around the text: the two drawers and the color button, for the keyboard and for those who hear the page.
(() => {
  const root = document.documentElement;
  const modes = { auto: "as the system", light: "light", dark: "dark" };
  const nameColors = () => {
    for (const button of document.querySelectorAll(".theme-switch-button")) {
      button.ariaLabel = button.title = `Colors: ${modes[root.dataset.mode]}`;
    }
  };
  new MutationObserver(nameColors).observe(root, { attributeFilter: ["data-mode"] });
  nameColors();
  // New colors restyle all of a chapter: what is out of sight waits, part by part, until the answer is painted.
  // Above the reader only parts wait that keep their height to the pixel when they do.
  const SAME_HEIGHT = "p, ul, h2, h3, .cell, body:not(.front-page) .bd-article > section > section";
  const letWait = () => {
    const boxes = [];
    const collect = (part) => {
      if (part.matches(".waiting")) return;
      const box = part.getBoundingClientRect();
      const below = box.top >= innerHeight;
      if (below || (box.bottom <= 0 && part.matches(SAME_HEIGHT))) boxes.push([part, box]);
      else if (part.matches("section")) [...part.children].forEach(collect);
    };
    document.querySelectorAll(".bd-article > section > section").forEach(collect);
    for (const [part, { height }] of boxes) {
      part.style.containIntrinsicBlockSize = `${height}px`;
      part.classList.add("waiting");
    }
    const release = () => {
      const next = boxes.shift();
      if (!next) return;
      next[0].classList.remove("waiting");
      setTimeout(release);
    };
    requestAnimationFrame(() => setTimeout(release));
  };
  for (const button of document.querySelectorAll(".theme-switch-button")) {
    button.addEventListener("click", letWait, true);
  }
  for (const icon of document.querySelectorAll("[class*='fa-']")) icon.ariaHidden = "true";
  document.getElementById("pst-search-dialog").ariaLabel = "Search";
  for (const field of document.querySelectorAll(".search-button-field")) field.ariaLabel = null;  // its text names it
  const results = document.getElementById("search-results");
  if (results) {  // how many were found is said as well as shown
    new MutationObserver(() => {
      const summary = results.querySelector(".search-summary");
      if (summary) summary.role = "status";
    }).observe(results, { childList: true });
  }

  // The theme's script opens a drawer, moves the side's content into it, and takes the focus back when it closes.
  const drawer = (side, button, name) => {
    const box = document.getElementById(`pst-${side}-sidebar`);
    const dialog = document.getElementById(`pst-${side}-sidebar-modal`);
    if (!box || !dialog || !button) return null;
    dialog.ariaLabel = button.ariaLabel = button.title = name;
    const close = document.createElement("button");
    Object.assign(close, { type: "button", className: "drawer-close", textContent: "Close" });
    close.addEventListener("click", () => dialog.close());
    box.prepend(close);
    dialog.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");  // the place it leads to lies behind the drawer
      if (!link) return;
      event.preventDefault();
      dialog.addEventListener("close", () => { location.hash = link.hash; }, { once: true });
      dialog.close();
    });
    return box;
  };
  const toggle = document.querySelector(".primary-toggle");
  const contents = drawer("primary", toggle, "Contents of the book");
  drawer("secondary", document.querySelector(".secondary-toggle"), "On this page");

  // On a wide screen the contents stand beside the text, and their button hides them.
  if (contents) {
    const wide = matchMedia("(min-width: 992px)");
    const tell = () => {
      if (wide.matches) toggle.ariaExpanded = String(!contents.classList.contains("pst-sidebar-hidden"));
      else toggle.ariaExpanded = null;
    };
    toggle.addEventListener("click", (event) => {
      if (!wide.matches) return;
      event.stopImmediatePropagation();
      contents.classList.toggle("pst-sidebar-hidden");
      tell();
    }, true);
    wide.addEventListener("change", tell);
    tell();
  }

  const top = document.querySelector(".sbt-scroll-pixel-helper");
  new IntersectionObserver(([seen]) => {
    document.body.classList.toggle("scrolled", seen.boundingClientRect.y < 0);
  }).observe(top);
})();
