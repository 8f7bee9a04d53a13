// Adds "Copy as Markdown" and the forms. Pages also work without this script.
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

// A random UUID. crypto.randomUUID exists in secure contexts only.
const uuid = () =>
  crypto.randomUUID?.() ??
  "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (c) =>
    (c ^ (crypto.getRandomValues(new Uint8Array(1))[0] & (15 >> (c / 4)))).toString(16));

const set = (element, name, value) =>
  value ? element.setAttribute(name, value) : element.removeAttribute(name);

const plural = (n, unit) => `${n} ${unit}${n === 1 ? "" : "s"}`;

const wait = (seconds) =>
  !(seconds > 0) ? "in a few minutes"
    : seconds < 100 ? `in ${plural(Math.ceil(seconds), "second")}`
      : seconds < 5400 ? `in about ${plural(Math.ceil(seconds / 60), "minute")}`
        : `in about ${plural(Math.ceil(seconds / 3600), "hour")}`;

for (const desk of document.querySelectorAll("[data-desk]")) {
  const form = desk.querySelector("form");
  const status = form.querySelector("[data-status]");
  const button = form.querySelector("button");
  const fields = [...form.elements].filter((it) => it.name && it.tabIndex >= 0);
  const unseen = form.querySelector("[name][tabindex]"); // the hidden field, which only programs fill in
  const labels = Object.fromEntries(fields.map((it) => [it.name, it.labels[0].firstChild.data.trim()]));
  const hints = new Map(fields.map((it) => [it, it.getAttribute("aria-describedby")]));
  let lastBody, key, busy, began = Date.now();

  const mark = (field, text) => {
    const error = document.getElementById(`${field.id}-error`);
    error.textContent = text;
    error.hidden = !text;
    set(field, "aria-invalid", text && "true");
    set(field, "aria-describedby", [text && error.id, hints.get(field)].filter(Boolean).join(" "));
  };

  const say = (text, failed = true) => {
    status.textContent = text;
    status.classList.toggle("failed", failed);
    if (failed) status.focus();
  };

  // Splits "`email` must be …; `message` is …" by field. Shows sentences that name no field unchanged.
  const explain = (sentence) => {
    const faults = new Map();
    for (const clause of sentence.split(/;\s+(?=`)/)) {
      const lead = clause.match(/^(`\w+`(,? and |, )?)+/)?.[0] ?? "";
      const named = lead.split("`").filter((name) => labels[name]);
      if (!named.length) return say(sentence);
      const text = clause.replace(/`(\w+)`/g, (all, name) => labels[name] ?? all).replace(/\.?$/, ".");
      for (const name of named) faults.set(name, faults.has(name) ? `${faults.get(name)} ${text}` : text);
    }
    const wrong = fields.filter((it) => faults.has(it.name));
    for (const it of wrong) mark(it, faults.get(it.name));
    say(`Not sent yet. Please look again at: ${wrong.map((it) => labels[it.name]).join(", ")}.`, false);
    status.classList.add("failed");
    wrong[0].focus();
  };

  const send = async () => {
    const filled = fields.filter((it) => it.required || it.value);
    const value = (it) => (it.type === "email" ? it.value.trim() : it.value);
    const content = Object.fromEntries(filled.map((it) => [it.name, value(it)]));
    // A retry with the same content keeps its Idempotency-Key. Changed content gets a new key.
    const body = JSON.stringify(content);
    if (body !== lastBody) key = uuid();
    lastBody = body;
    if (unseen?.value) content.desk_note = unseen.value;
    content.desk_ms = Math.max(0, Date.now() - began);

    let answer, said;
    try {
      answer = await fetch(form.action, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": key },
        body: JSON.stringify(content),
        signal: AbortSignal.timeout?.(30000),
      });
      said = await answer.json().catch(() => ({}));
    } catch {
      return say(`No answer came back, so take it that nothing was kept. What you typed is still here: try again (it cannot arrive twice), or write to ${form.dataset.mail}.`);
    }
    if (answer.ok && said.ok === true) {
      const done = desk.querySelector("[data-done]");
      form.reset();
      desk.querySelector("[data-ask]").hidden = true;
      done.hidden = false;
      done.querySelector("[tabindex]").focus();
    } else if (answer.status === 429) {
      say(`Too many requests came from your network just now. Nothing is lost, what you typed is still here: send it again ${wait(Number(answer.headers.get("Retry-After")))}.`);
    } else if (answer.status < 500 && typeof said.error === "string") {
      explain(said.error);
    } else {
      say(`Something failed on our side and nothing was kept. What you typed is still here: try again in a moment, or write to ${form.dataset.mail}.`);
    }
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy) return;
    busy = true;
    const label = button.textContent;
    button.setAttribute("aria-disabled", "true");
    button.textContent = form.dataset.busy;
    announce(form.dataset.busy);
    for (const it of fields) mark(it, "");
    say("", false);
    try {
      await send();
    } finally {
      busy = false;
      announce("");
      button.removeAttribute("aria-disabled");
      button.textContent = label;
    }
  });
  form.addEventListener("input", ({ target }) => mark(target, ""));

  desk.querySelector("[data-instead]").hidden = true;
  form.hidden = false;
}
