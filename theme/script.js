// Adds "Copy as Markdown", the choice of theme and the search. Pages also work without this script.
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

// Search: the button, Ctrl+K and `/` open it. search.js is loaded at the first attempt.
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
    button.addEventListener("click", open);
    document.addEventListener("keydown", (event) => {
      const { key, altKey, shiftKey, target } = event;
      const hasModifier = event.ctrlKey || event.metaKey;
      const isCombination = key?.toLowerCase() === "k" && hasModifier && !altKey && !shiftKey;
      const isSlash = key === "/" && !hasModifier && !altKey;
      const isTyping = target.closest?.("input, textarea, select, [contenteditable]");
      if (!isCombination && !(isSlash && !isTyping)) return;
      event.preventDefault();
      open();
    });
  }
}
