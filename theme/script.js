// Adds "Copy as Markdown". Pages also work without this script.
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
      announce("This page is on the clipboard as Markdown.");
      button.textContent = "Copied";
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
