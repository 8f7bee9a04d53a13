// Reloads the page whenever the site changes, and shows errors and warnings in the site. Only `serve --watch`
// adds this script to pages.
"use strict";

{
  const RETRY_MS = 1000;
  const STYLE = `
    :host { display: block; }
    .errors { all: initial; position: fixed; inset: auto 0 0 0; z-index: 2147483647; max-height: 60vh; overflow: auto;
      box-sizing: border-box; padding: 16px 20px; background: #2b0d0a; color: #fff; border-top: 4px solid #ff6b5e;
      font: 14px/1.5 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
    h2 { all: revert; margin: 0 0 8px; font: bold 15px/1.5 sans-serif; }
    p { all: revert; margin: 0 0 8px; }
    b { color: #ffb4ab; }
    i { color: #d8c2bf; font-style: normal; }
    .warnings { all: initial; display: flex; gap: 16px; align-items: start; box-sizing: border-box; padding: 8px 20px;
      background: #fff3d6; color: #3d2c00; font: 14px/1.5 sans-serif; overflow-wrap: anywhere; }
    .warnings p { flex: 1; margin: 0; }
    .warnings b { color: inherit; }
    button { font: inherit; }
    @media print { :host { display: none; } }`;
  const DISMISSED = "frontdesk-dismissed-warnings";
  let overlay = null;
  let note = null;
  let abort = null;

  const element = (name, ...content) => {
    const made = document.createElement(name);
    made.append(...content);
    return made;
  };

  // The shadow root keeps the page's styles away. The policy permits a constructed stylesheet.
  const host = (name, section) => {
    const made = element(name);
    const root = made.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    root.append(section);
    return made;
  };

  const show = (errors) => {
    overlay?.remove();
    overlay = null;
    if (errors.length === 0) return;
    const section = element("section", element("h2", "The site has errors. This is the last version without errors."));
    section.className = "errors";
    section.setAttribute("role", "alert");
    for (const { place, line, message, hint } of errors) {
      const entry = element("p", element("b", line ? `${place}:${line}` : place), `: ${message}`);
      if (hint) entry.append("\n", element("i", `hint: ${hint}`));
      section.append(entry);
    }
    overlay = host("frontdesk-errors", section);
    document.documentElement.append(overlay);
  };

  // Shows the first warning above the page, until it is dismissed or the warnings change.
  const warn = ({ count, first }) => {
    note?.remove();
    note = null;
    const state = JSON.stringify([count, first]);
    if (count === 0 || sessionStorage.getItem(DISMISSED) === state) return;
    const { place, line, message, hint } = first;
    const text = element("p", element("b", count === 1 ? "1 warning: " : `${count} warnings, such as: `));
    text.append(`${line ? `${place}:${line}` : place}: ${message}${hint ? ` (${hint})` : ""}`);
    const button = element("button", "Dismiss");
    button.addEventListener("click", () => {
      sessionStorage.setItem(DISMISSED, state);
      warn({ count: 0 });
    });
    const section = element("section", text, button);
    section.className = "warnings";
    section.setAttribute("role", "status");
    note = host("frontdesk-warnings", section);
    document.body.prepend(note);
  };

  const source = async () => {
    const response = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-cache" });
    return response.text();
  };

  // The addresses of the page's stylesheets, and the rest of the page.
  const divide = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const links = [...page.querySelectorAll("link[rel~=stylesheet][href]")];
    const styles = links.map((link) => link.getAttribute("href"));
    links.forEach((link) => link.setAttribute("href", ""));
    return { styles, rest: page.documentElement.outerHTML };
  };

  // Replaces the stylesheets if nothing else has changed. Returns whether it has done so.
  const replaceStyles = (before, after) => {
    const [old, now] = [divide(before), divide(after)];
    if (old.rest !== now.rest || String(old.styles) === String(now.styles)) return false;
    old.styles.forEach((href, at) => {
      const link = document.querySelector(`link[href="${CSS.escape(href)}"]`);
      if (!link || href === now.styles[at]) return;
      const successor = link.cloneNode();
      successor.setAttribute("href", now.styles[at]);
      successor.addEventListener("load", () => link.remove());
      link.after(successor);
    });
    return true;
  };

  const visible = async () => {
    while (document.hidden) {
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    }
  };

  // Waits for a state that differs from `version`. A hidden tab does not wait: browsers limit the connections
  // to one server, and another tab may need one.
  const next = async (version) => {
    await visible();
    abort = new AbortController();
    const response = await fetch(`/_frontdesk/reload?${version}`, { method: "POST", signal: abort.signal });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.json();
  };

  const run = async () => {
    let known = null;
    let before = "";
    for (;;) {
      try {
        const state = await next(known?.version ?? "");
        // The site may have changed between the request for this page and the first request for its state.
        const isStale = known ? state.site !== known.site : state.age < performance.now();
        if (isStale) {
          const after = await source();
          if (!known || !replaceStyles(before, after)) {
            location.reload();
            return;
          }
          before = after;
        } else if (!known) before = await source();
        if (state.version !== known?.version) {
          show(state.errors);
          warn(state.warnings);
        }
        known = state;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  };

  document.addEventListener("visibilitychange", () => document.hidden && abort?.abort());
  run();
}
