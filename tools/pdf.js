// Run in the empty page that becomes the book: takes the articles out of the built pages, in order.
// Each id gets its page's name in front, so that all are different in one document, and links follow.
async (contents) => {
  const nameOf = (address) => new URL(address, location).pathname.split("/").pop().replace(/\.html$/, "");
  const names = new Set(contents.flatMap((part) => part.pages.map(nameOf)));
  const root = new URL(".", location).href;
  const seenStyles = new Set();
  const anchor = (name, id) => (id ? `${name}--${id}` : name);
  const REFERENCES = ["for", "aria-labelledby", "aria-describedby", "aria-controls", "headers"];

  // A page has only the style sheets it needs: the book gets those of all pages, in their common order.
  const sheets = [];
  const addStyles = (page) => {
    let place = 0;
    for (const link of page.querySelectorAll('link[rel="stylesheet"]')) {
      link.setAttribute("href", link.href);
      const known = sheets.findIndex((sheet) => sheet.href === link.href);
      if (known < 0) sheets.splice(place++, 0, document.adoptNode(link));
      else place = known + 1;
    }
  };

  const article = async (address) => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const base = page.createElement("base");
    base.href = new URL(address, location);
    page.head.prepend(base);
    addStyles(page);
    const found = page.querySelector("article.bd-article");
    if (!found || !found.querySelector("h1")) throw new Error(`${address} has no article with a title`);
    const name = nameOf(address);

    found.querySelectorAll("script, noscript, template, button, a.headerlink").forEach((element) => element.remove());
    for (const style of found.querySelectorAll("style")) {
      if (seenStyles.has(style.textContent)) style.remove();
      seenStyles.add(style.textContent);
    }
    for (const fold of found.querySelectorAll("details")) fold.open = true;
    for (const image of found.querySelectorAll("img")) {
      image.src = image.src;  // written out while the page's own address is known
      image.loading = "eager";
    }

    for (const link of found.querySelectorAll("a > img")) link.parentElement.replaceWith(link);  // to the picture itself
    for (const link of found.querySelectorAll("a[href]")) {
      const target = new URL(link.getAttribute("href"), base.href);
      if (!target.href.startsWith(root)) continue;
      if (!target.pathname.endsWith(".html")) {  // a file beside the pages, which paper does not have
        link.replaceWith(...link.childNodes);
        continue;
      }
      const page = nameOf(target.href);
      if (!names.has(page)) throw new Error(`${address} links to ${target.pathname}, which is not in the book`);
      link.setAttribute("href", `#${anchor(page, decodeURIComponent(target.hash.slice(1)))}`);
    }
    for (const element of found.querySelectorAll("*")) {
      if (element.id) element.id = anchor(name, element.id);
      for (const { name: attribute, value } of [...element.attributes]) {
        if (REFERENCES.includes(attribute)) {
          element.setAttribute(attribute, value.split(/\s+/).map((id) => anchor(name, id)).join(" "));
        } else if (value.includes("url(#")) {
          element.setAttribute(attribute, value.replace(/url\(#([^)]+)\)/g, (_, id) => `url(#${anchor(name, id)})`));
        } else if (/(^|:)href$/.test(attribute) && value.startsWith("#") && element.localName !== "a") {
          element.setAttribute(attribute, `#${anchor(name, value.slice(1))}`);
        }
      }
    }
    // The page of a heading is what counts: a section may begin at the foot of the page before.
    for (const heading of found.querySelectorAll("section[id] > :is(h2, h3, h4):first-child")) {
      heading.id = heading.parentElement.id;
      heading.parentElement.removeAttribute("id");
    }
    found.id = name;
    found.style.page = `page-${name}`;
    return document.adoptNode(found);
  };

  const entry = (heading, target, level) => {
    const line = document.createElement("li");
    line.className = level;
    const link = document.createElement("a");
    link.href = `#${target}`;
    const words = document.createElement("span");
    words.append(...heading.cloneNode(true).childNodes);
    const number = document.createElement("span");
    number.className = "number";
    number.textContent = "000";
    link.append(words, number);
    line.append(link);
    return line;
  };

  // Each piece of code between two tags becomes an object in the PDF: neighbors that look alike are
  // joined. How a kind of token looks is read from a specimen, before the long document is laid out.
  const joinTokens = (book) => {
    const tokens = [...book.querySelectorAll(".highlight pre span")];
    const kinds = [...new Set(tokens.map((token) => token.className))];
    const specimen = document.createElement("div");
    specimen.className = "bd-article";
    specimen.innerHTML = '<div class="highlight"><pre></pre></div>';
    const block = specimen.querySelector("pre");
    const samples = kinds.map((kind) => block.appendChild(Object.assign(document.createElement("span"), { className: kind })));
    document.querySelector("main").append(specimen);
    const look = (element) => {
      const style = getComputedStyle(element);
      return [style.color, style.fontWeight, style.fontStyle, style.textDecorationLine].join();
    };
    const looks = new Map(kinds.map((kind, i) => [kind, look(samples[i])]));
    const plain = look(block);
    specimen.remove();
    for (const token of tokens) if (looks.get(token.className) === plain) token.replaceWith(...token.childNodes);
    for (const token of tokens.filter((token) => token.parentNode).reverse()) {
      const next = token.nextSibling;
      if (next?.nodeName === "SPAN" && looks.get(next.className) === looks.get(token.className)) {
        token.append(...next.childNodes);
        next.remove();
      }
    }
    book.querySelectorAll(".highlight pre").forEach((code) => code.normalize());
  };

  const list = document.querySelector("#contents nav");
  const holder = document.createDocumentFragment();  // laid out once, when all is there
  const rules = document.createElement("style");
  const titles = [];
  for (const part of contents) {
    if (part.caption) list.append(Object.assign(document.createElement("p"), { textContent: part.caption }));
    const lines = list.appendChild(document.createElement("ul"));
    for (const address of part.pages) {
      const chapter = await article(address);
      holder.append(chapter);
      const heading = chapter.querySelector("h1");
      const title = heading.textContent.trim();
      titles.push(title);
      lines.append(entry(heading, chapter.id, "chapter"));
      for (const heading of chapter.querySelectorAll("h2")) {
        if (heading.id && !/--(references|answers)$/.test(heading.id)) lines.append(entry(heading, heading.id, "section"));
      }
      rules.textContent += `@page page-${chapter.id} { @bottom-left { content: ${JSON.stringify(title)}; } }\n`;
    }
  }
  const loaded = sheets.map((sheet) => new Promise((resolve, reject) => {
    sheet.onload = resolve;
    sheet.onerror = () => reject(new Error(`${sheet.href} cannot be loaded`));
  }));
  document.querySelector("title").after(...sheets);
  document.head.append(rules);
  await Promise.all(loaded);
  joinTokens(holder);
  document.querySelector("main").append(holder);
  document.querySelector("#cover .title").textContent = titles[0];
  await document.fonts.ready;
  await Promise.all([...document.images].map((image) => image.decode()));
  window.dispatchEvent(new Event("beforeprint"));
  return titles;
}
