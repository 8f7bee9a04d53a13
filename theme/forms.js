// Sends <form data-frontdesk="NAME"> on any page (docs/pages/any-site.md). Creates what a form lacks: places
// for messages, and the field that only programs fill in.
"use strict";

{
  // The texts. A page in another language has its texts as JSON in a script element
  // (docs/pages/languages.md).
  const english = {
    language: "en",
    singular: "1",
    sending: "Sending…",
    thanks: "Thank you. We have received your message.",
    correct: "Not sent. Please correct: {fields}.",
    missing: "Please fill in this field.",
    too_long: "Please shorten the text to at most {max} characters.",
    not_email: "Please enter an e-mail address such as ada@example.com.",
    invalid: "Please check this value: it contains characters that are not accepted.",
    refused: "Your message was not accepted: {reason}",
    no_response: "The server did not respond, so your message may not have been received. Your text is still here. Please try again{or_mail}; a second copy is not delivered.",
    server_error: "Your message was not received because of an error on our server. Your text is still here. Please try again in a moment{or_mail}.",
    or_mail: ", or write to {mail}",
    too_many: "There were too many requests from your network. Your text is still here. Please send it again {wait}.",
    wait: "in a few minutes",
    seconds_one: "in {n} second",
    seconds_other: "in {n} seconds",
    minutes_one: "in about {n} minute",
    minutes_other: "in about {n} minutes",
    hours_one: "in about {n} hour",
    hours_other: "in about {n} hours",
  };
  let words = english;
  const readWords = () => {
    try {
      words = { ...english, ...JSON.parse(document.querySelector("script[data-frontdesk-words]").textContent) };
    } catch {
      words = english;
    }
  };

  const fill = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);

  // A random UUID. crypto.randomUUID exists in secure contexts only.
  const uuid = () =>
    crypto.randomUUID?.() ??
    "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (c) =>
      (c ^ (crypto.getRandomValues(new Uint8Array(1))[0] & (15 >> (c / 4)))).toString(16));

  const set = (element, name, value) =>
    value ? element.setAttribute(name, value) : element.removeAttribute(name);

  const plural = (name, n) => {
    const isSingular = words.singular.split(",").some((one) => one.trim() === String(n));
    return fill(`${name}_${isSingular ? "one" : "other"}`, { n });
  };

  const wait = (seconds) =>
    !(seconds > 0) ? words.wait
      : seconds < 100 ? plural("seconds", Math.ceil(seconds))
        : seconds < 5400 ? plural("minutes", Math.ceil(seconds / 60))
          : plural("hours", Math.ceil(seconds / 3600));

  // The name of a control's field. Many templates write `NAME[]` where a name may occur several times.
  const nameOf = (it) => it.name.replace(/\[\]$/, "");

  // The kind of a field's values, from its control.
  const kindOf = (it) =>
    it.dataset.kind ??
    (it.type !== "checkbox" ? String(it.type).replace(/^(select-one|radio)$/, "choice").replace("select-multiple", "choices").replace("range", "number")
      : /^(on|true)$/.test(it.value) ? "consent" : "choices");

  // Whether a value has a character and, for a web address, more than the scheme that pages put there.
  const isFilled = (kind, value) => !(kind === "url" ? /^(https?:\/\/)?$/i : /^$/).test(String(value ?? "").trim());

  // The problems of values that a kind does not accept, and of choices that are not made.
  const problems = { tel: "not_phone", url: "not_url", date: "not_day", choice: "not_option", choices: "not_options", consent: "not_ticked" };
  const unmade = { choice: "not_chosen", choices: "not_chosen", consent: "not_ticked" };

  const range = ({ type, min: least, max: most }) => {
    const name = least && most ? "between" : least ? "from" : most ? "up_to" : "";
    return name && fill(type === "date" ? `day_${name}` : name, { least, most });
  };

  // The server's sentence about a field, in the language of the page. In English, it stays as it is.
  const translate = (sentence, it) => {
    if (/^en\b/i.test(words.language)) return sentence;
    const kind = kindOf(it);
    const most = sentence.match(/at most ([\d,]+) characters/)?.[1].replaceAll(",", "");
    return /is required/.test(sentence) ? words[unmade[kind] ?? "missing"]
      : most ? fill("too_long", { max: Number(most).toLocaleString(words.language) })
        : /e-mail address/.test(sentence) ? words.not_email
          : kind === "number" ? fill(it.step === "any" ? "not_number" : "not_whole", { range: range(it) })
            : fill(problems[kind] ?? "invalid", { range: range(it), example: it.min || it.max || "2026-12-31" });
  };

  const create = (name, attributes) => Object.assign(document.createElement(name), attributes);

  const labelOf = (field) => {
    const isGroup = field.type === "radio" || kindOf(field) === "choices";
    const group = isGroup && field.closest("fieldset")?.querySelector("legend");
    const label = group || field.labels?.[0];
    const own = [...(label?.childNodes ?? [])].map((node) => node.data?.trim()).find(Boolean);
    const text = own || field.getAttribute("aria-label") || label?.textContent.trim();
    return text || field.placeholder || field.name;
  };

  /** Adds a field that people do not see and programs fill in. */
  const addUnseen = (form) => {
    const box = create("div");
    box.setAttribute("aria-hidden", "true");
    box.style.cssText = "position: absolute; left: -100vw; width: 1px; height: 1px; overflow: hidden";
    const unseen = create("input", { name: "desk_note", tabIndex: -1, autocomplete: "off" });
    for (const name of ["1pIgnore", "bwignore", "lpignore"]) unseen.dataset[name] = "true";
    box.append(unseen);
    form.append(box);
    return unseen;
  };

  // Where the visitor comes from: this page, the site that links to it, and campaign parameters of its URL
  // or, if it has none, of the page before it on this site. Nothing is stored in the browser.
  const lead = () => {
    const from = document.referrer && new URL(document.referrer);
    const isOwn = from.host === location.host;
    const query = [location.search, isOwn ? from.search : ""].find((it) => /[?&](utm_|ref=)/.test(it));
    const sent = { desk_page: location.pathname };
    if (from && !isOwn) sent.desk_referrer = from.hostname;
    for (const [name, value] of new URLSearchParams(query)) {
      if (/^(utm_|ref$)/.test(name)) sent[`desk_${name}`] = value;
    }
    return sent;
  };

  const addStatus = (form) => {
    const status = create("p", { className: "status", tabIndex: -1 });
    // Marks it for a copy of the form, such as one that a script keeps for the way back.
    status.dataset.status = "";
    status.setAttribute("role", "status");
    form.append(status);
    return status;
  };

  // The form's own members: a control named `reset` or `elements` hides the member of that name.
  const unshadowed = (element) =>
    new Proxy({}, {
      get(_, name) {
        const member = Reflect.get(HTMLFormElement.prototype, name, element);
        return typeof member === "function" ? member.bind(element) : member;
      },
      set: (_, name, value) => Reflect.set(HTMLFormElement.prototype, name, value, element),
    });

  // What all runs of this script on a page share: scripts that replace a page's content run it again. The
  // number of forms so far makes ids unique.
  const shared = (window[Symbol.for("frontdesk.forms")] ??= { known: new WeakSet(), count: 0 });

  const enhance = (element) => {
    readWords();
    const form = unshadowed(element);
    const name = form.dataset.frontdesk;
    const desk = form.closest("[data-desk]");
    const status = form.querySelector("[data-status]") ?? addStatus(form);
    const button = form.querySelector("button:not([type=button], [type=reset]), input[type=submit]");
    const unseen = form.querySelector("[name=desk_note]") ?? addUnseen(form);
    const isField = (it) => it.name && it !== unseen && !/^(submit|button|reset|image|fieldset|output)$/.test(it.type) && !it.matches(":disabled");
    // What a browser would send: a page may add, remove, disable and enable controls at any time.
    let [fields, labels] = [[], {}];
    const findFields = () => {
      fields = [...form.elements].filter(isField);
      labels = Object.fromEntries(fields.map((it) => [nameOf(it), labelOf(it)]));
    };
    const fieldOf = (name) => fields.find((it) => nameOf(it) === name);
    const [hints, errors, suffix] = [new WeakMap(), new WeakMap(), shared.count || ""];
    shared.count += 1;
    const began = Date.now();
    let lastBody, key, busy;

    const announce = (text) => {
      (document.querySelector("[data-announce]") ?? status).textContent = text;
    };

    const mark = (field, text) => {
      if (!hints.has(field)) hints.set(field, field.getAttribute("aria-describedby"));
      // Another form on the page may have controls with the same ids.
      let error = errors.get(field) ?? (field.id && form.querySelector(`#${CSS.escape(field.id)}-error`));
      if (!error) {
        if (!text) return;
        field.id ||= `frontdesk-${name}-${nameOf(field)}${suffix}`;
        error = create("p", { id: `${field.id}-error`, className: "error" });
        errors.set(field, error);
        const box = /^(checkbox|radio)$/.test(field.type) && field.closest("fieldset, label");
        if (box?.localName === "fieldset") box.append(error);
        else (box || field).after(error);
      }
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

    const or_mail = form.dataset.mail ? fill("or_mail", { mail: form.dataset.mail }) : "";

    const correct = (wrong) => {
      say(fill("correct", { fields: wrong.map((it) => labels[nameOf(it)]).join(", ") }), false);
      status.classList.add("failed");
      wrong[0].focus();
    };

    // Splits "`email` must be …; `message` is …" by field. Shows sentences that name no field unchanged.
    const explain = (sentence) => {
      const faults = new Map();
      for (const clause of sentence.split(/;\s+(?=`)/)) {
        const lead = clause.match(/^(`\w+`(,? and |, )?)+/)?.[0] ?? "";
        const named = lead.split("`").filter((name) => labels[name]);
        if (!named.length) return say(/^en\b/i.test(words.language) ? sentence : fill("refused", { reason: sentence }));
        const said = clause.replace(/`(\w+)`/g, (all, name) => labels[name] ?? all).replace(/\.?$/, ".");
        for (const name of named) {
          const text = translate(said, fieldOf(name));
          faults.set(name, faults.has(name) ? `${faults.get(name)} ${text}` : text);
        }
      }
      const wrong = [...faults.keys()].map(fieldOf);
      for (const it of wrong) mark(it, faults.get(nameOf(it)));
      correct(wrong);
    };

    const conclude = () => {
      form.reset();
      form.dispatchEvent(new CustomEvent("frontdesk:sent", { bubbles: true, detail: { form: name } }));
      const done = desk?.querySelector("[data-done]");
      if (form.dataset.next) location.assign(form.dataset.next);
      else if (done) {
        desk.querySelector("[data-ask]").hidden = true;
        done.hidden = false;
        done.querySelector("[tabindex]").focus();
      } else {
        say(form.dataset.done || words.thanks, false);
        status.focus();
      }
    };

    // The values with the types of their controls; the server converts them to those of the fields. A number
    // that is not written as in JSON stays a text. Leaves out what is not filled in, except required text.
    // The button that the visitor has pressed may have a value, too.
    const read = (pressed) => {
      const content = pressed?.name && pressed.value ? { [nameOf(pressed)]: pressed.value } : {};
      for (const it of fields) {
        const [kind, name, isBox] = [kindOf(it), nameOf(it), /^(checkbox|radio)$/.test(it.type)];
        if (isBox && !it.checked) continue;
        // Like a browser, this sends no disabled option.
        const given = [...(it.selectedOptions ?? [it])].filter((one) => !one.matches(":disabled"));
        const values = given.map((one) => one.value).filter((value) => isFilled(kind, value));
        const isTicked = isBox && kind === "consent";
        if (!values.length && !isTicked && (content[name] || !it.required || /^(number|choices?)$/.test(kind))) continue;
        const [value = ""] = values;
        content[name] = kind === "choices" ? [content[name] ?? [], values].flat(2)
          : kind === "consent" ? true
            : kind === "number" && String(Number(value)) === value ? Number(value)
              : value;
      }
      return content;
    };

    const send = async (pressed) => {
      if (fields.some((it) => it.type === "file" && it.value)) {
        return explain("A file cannot be sent with this form. Send the form without it.");
      }
      // The browser gives no value for what it cannot read, such as half of a date.
      const unread = fields.filter((it) => it.validity?.badInput);
      for (const it of unread) mark(it, it.validationMessage);
      if (unread.length) return correct(unread);
      const content = read(pressed);
      // A retry with the same content keeps its Idempotency-Key. Changed content gets a new key.
      const body = JSON.stringify(content);
      if (body !== lastBody) key = uuid();
      lastBody = body;
      if (unseen.value) content.desk_note = unseen.value;
      content.desk_controls = true;
      content.desk_ms = Math.max(0, Date.now() - began);

      let answer, said;
      try {
        answer = await fetch(`/api/${name}`, {
          method: "POST",
          headers: { "Content-Type": "application/json", "Idempotency-Key": key },
          body: JSON.stringify({ ...lead(), ...content }),
          signal: AbortSignal.timeout?.(30000),
        });
        said = await answer.json().catch(() => ({}));
      } catch {
        return say(fill("no_response", { or_mail }));
      }
      if (answer.ok && said.ok === true) {
        conclude();
      } else if (answer.status === 429) {
        say(fill("too_many", { wait: wait(Number(answer.headers.get("Retry-After"))) }));
      } else if (answer.status < 500 && typeof said.error === "string") {
        explain(said.error);
      } else {
        say(fill("server_error", { or_mail }));
      }
    };

    form.noValidate = true;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (busy) return;
      busy = true;
      const label = button?.textContent;
      const isShown = button?.localName === "button" && form.dataset.busy;
      if (button) button.setAttribute("aria-disabled", "true");
      if (isShown) button.textContent = form.dataset.busy;
      // Also of fields that have been disabled since, and those that the server has added.
      const before = fields;
      findFields();
      for (const it of new Set([...before, ...fields])) mark(it, "");
      say("", false);
      announce(form.dataset.busy || words.sending);
      try {
        await send(event.submitter);
      } finally {
        busy = false;
        if (document.querySelector("[data-announce]")) announce("");
        button?.removeAttribute("aria-disabled");
        if (isShown) button.textContent = label;
      }
    });
    form.addEventListener("input", ({ target }) => {
      const field = fields.find((it) => it.name === target.name);
      if (field) mark(field, "");
    });
    findFields();

    const instead = desk?.querySelector("[data-instead]");
    if (instead) instead.hidden = true;
    form.hidden = false;
  };

  const enhanceAll = () => {
    for (const form of document.querySelectorAll("form[data-frontdesk]")) {
      if (shared.known.has(form)) continue;
      shared.known.add(form);
      enhance(form);
    }
  };
  enhanceAll();
  // Scripts that load pages without a navigation insert forms later. Searches only what they insert, because
  // pages may change often.
  const hasForm = (node) => node instanceof HTMLFormElement || node.querySelector?.("form");
  const isRelevant = ({ type, addedNodes }) => type === "attributes" || [...addedNodes].some(hasForm);
  shared.observer ??= new MutationObserver((changes) => changes.some(isRelevant) && enhanceAll());
  shared.observer.observe(document, { childList: true, subtree: true, attributeFilter: ["data-frontdesk"] });
}
