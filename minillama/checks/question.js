// A message appears as soon as an option is chosen; it waits in the option's data until then.
(() => {
  for (const root of document.querySelectorAll('.ml-choice[data-name="NAME"]')) {
    if (root.dataset.ready) continue;
    root.dataset.ready = "yes";
    root.addEventListener("change", ({ target }) => {
      root.querySelector(".ml-feedback").textContent = target.dataset.feedback;
    });
  }
})();
