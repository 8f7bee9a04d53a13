// Adds "Copy as Markdown", the choice of theme, the search, buttons that copy code, and the current
// section in the table of contents. Pages also work without this script.
"use strict";

const announce = (text) => {
  document.querySelector("[data-announce]").textContent = text;
};

// Copy as Markdown: replaces the link to the Markdown by a button.
for (const link of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break; // insecure context or old browser: keep the link
  const button = document.createElement("button");
  button.type = "button";
  button.className = link.className;
  const label = (button.textContent = link.textContent);
  button.addEventListener("click", async () => {
    try {
      const text = fetch(link.href).then((r) => (r.ok ? r.text() : Promise.reject(r)));
      if (window.ClipboardItem) {
        // Safari requires the write() call in the click handler, before the text has arrived.
        const blob = text.then((t) => new Blob([t], { type: "text/plain" }));
        await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
      } else await navigator.clipboard.writeText(await text);
      announce(link.dataset.announcement);
      button.textContent = link.dataset.copied;
      setTimeout(() => {
        button.textContent = label;
        announce("");
      }, 3000);
    } catch {
      location.assign(link.href);
    }
  });
  link.replaceWith(button);
}

// Theme: a button that changes from the system's theme to light, to dark, and back. theme.js applies the
// stored choice to the next page.
{
  const button = document.querySelector("[data-theme-button]");
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const current = () => root.dataset.theme ?? "auto";
  const show = () => button.setAttribute("aria-label", (button.title = button.dataset[current()]));
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    show();
  };
  if (button) {
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      apply(themes[(themes.indexOf(current()) + 1) % themes.length]);
      announce(button.dataset[current()]);
      try {
        if (root.dataset.theme) localStorage.setItem("theme", root.dataset.theme);
        else localStorage.removeItem("theme");
      } catch {} // storage may be blocked; the choice then lasts until the page is left
    });
    // Follow a choice made in another tab.
    addEventListener("storage", ({ key, newValue }) => key === "theme" && apply(newValue));
    // A page restored from the back/forward cache may have an older choice.
    addEventListener("pageshow", ({ persisted }) => {
      if (persisted) try { apply(localStorage.getItem("theme")); } catch {}
    });
  }
}

// Search: the button and Ctrl+K (on Apple's devices, ⌘K) open it. search.js is loaded at the first attempt. A
// single character must not be a shortcut, because speech input types characters (WCAG 2.1.4).
{
  const dialog = document.querySelector("[data-search]");
  const button = document.querySelector("[data-search-open]");
  const open = () => {
    const { script } = dialog.dataset;
    if (!script) return dialog.dispatchEvent(new Event("search"));
    delete dialog.dataset.script;
    const element = document.createElement("script");
    element.src = script;
    element.addEventListener("error", () => (dialog.dataset.script = script)); // try again next time
    document.head.append(element);
  };
  if (button && dialog?.showModal) {
    button.hidden = false;
    if (/Mac|iPhone|iPad/.test(navigator.platform)) {
      button.setAttribute("aria-keyshortcuts", "Meta+K");
      const hint = button.querySelector("kbd");
      if (hint) hint.textContent = "⌘K";
    }
    button.addEventListener("click", open);
    document.addEventListener("keydown", (event) => {
      const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
      if (key?.toLowerCase() !== "k" || !(ctrlKey || metaKey) || altKey || shiftKey) return;
      event.preventDefault();
      open();
    });
  }
}

// A button on each code block copies the code: without line numbers, which are generated content, and
// without lines that the page shows as removed.
const texts = document.querySelector("[data-announce]").dataset;
for (const pre of document.querySelectorAll("pre.code")) {
  if (!navigator.clipboard) break;
  let box = pre.closest(".code-box");
  if (!box) {
    box = document.createElement("div");
    box.className = "code-box";
    pre.replaceWith(box);
    box.append(pre);
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code";
  button.textContent = texts.copyLabel;
  const title = box.querySelector("figcaption");
  button.setAttribute("aria-label", title ? `${texts.copyCode}: ${title.textContent}` : texts.copyCode);
  button.addEventListener("click", async () => {
    const code = pre.firstElementChild.cloneNode(true);
    for (const removed of code.querySelectorAll("del")) removed.remove();
    try {
      await navigator.clipboard.writeText(code.textContent.replace(/\n$/, ""));
      button.textContent = texts.copied;
      announce(texts.copiedCode);
    } catch {
      announce(texts.notCopied);
    }
    setTimeout(() => {
      button.textContent = texts.copyLabel;
      announce("");
    }, 3000);
  });
  box.append(button);
}

// The table of contents marks the section that is being read: the last one that begins above the upper
// quarter of the window, or the first one.
const links = [...document.querySelectorAll(".toc a")];
const sections = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1)))).filter(Boolean);
if (sections.length === links.length && links.length && window.IntersectionObserver) {
  const mark = () => {
    const line = innerHeight / 4;
    const below = sections.findIndex((section) => section.getBoundingClientRect().top > line);
    const current = links[below < 0 ? links.length - 1 : Math.max(0, below - 1)];
    for (const link of links) {
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  // The zone is the upper quarter of the window and everything above, so a heading enters or leaves it
  // exactly where the current section changes.
  const observer = new IntersectionObserver(mark, { rootMargin: "9999999px 0px -75% 0px" });
  for (const section of sections) observer.observe(section);
}
