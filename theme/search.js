// Site search: loads the index, ranks the pages, and shows the results in a dialog.
"use strict";
{
  const dialog = document.querySelector("[data-search]");

  // Folding: lower case without diacritics, vowel points of Hebrew and Arabic, and invisible characters.
  const MARKS =
    /[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u093c\u09bc]|\p{DI}/gu;
  const LETTERS = {
    ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i", ς: "σ", ک: "ك", ی: "ي", ى: "ي", ة: "ه", ٱ: "ا",
  };
  // The value of a decimal digit: the number of digits before it in its script.
  const digit = (c) => {
    let value = 0;
    while (value < 9 && /\p{Nd}/u.test(String.fromCodePoint(c.codePointAt() - value - 1))) value++;
    return value;
  };
  const fold = (text) =>
    text
      .normalize("NFKD")
      .replace(MARKS, "")
      .normalize("NFC")
      .toLowerCase()
      .replace(MARKS, "")
      .replace(/[ßæœøłđðþıςکیىةٱ]/g, (c) => LETTERS[c])
      .replace(/(?!\d)\p{Nd}/gu, digit);

  // Scripts without spaces between words: any two neighboring characters are a term.
  const UNSPACED =
    /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]+/u;
  const MOST_TERMS = 16;
  const MOST_RESULTS = 50;

  /** The terms of a query: `text`, and whether it may begin `anywhere` or only at the beginning of a word. */
  const termsOf = (query) => {
    const terms = new Map();
    for (const [word] of fold(query).matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
      for (const part of word.split(new RegExp(`(${UNSPACED.source})`, "u")).filter(Boolean)) {
        const letters = [...part];
        if (!UNSPACED.test(part)) terms.set(part, { text: part, anywhere: false });
        else if (letters.length === 1) terms.set(part, { text: part, anywhere: true });
        else letters.slice(1).forEach((c, at) => terms.set(letters[at] + c, { text: letters[at] + c, anywhere: true }));
      }
    }
    return [...terms.values()].slice(0, MOST_TERMS);
  };

  /** The position of a term in folded text at or after `from`, or -1. */
  const find = (text, term, from = 0) => {
    for (let at = text.indexOf(term.text, from); at >= 0; at = text.indexOf(term.text, at + 1)) {
      if (term.anywhere || at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1])) return at;
    }
    return -1;
  };
  const has = (text, term) => find(text, term) >= 0;

  const prepare = ([path, title, description, sections, words]) => ({
    path,
    title,
    description,
    folded: fold(title),
    others: fold(`${description} ${words}`),
    sections: sections.map(([anchor, heading, text]) => ({
      anchor, heading, text, foldedHeading: fold(heading), foldedText: fold(text),
    })),
  });

  let index;
  const load = () =>
    (index ??= fetch(dialog.dataset.search)
      .then((response) => (response.ok ? response.json() : Promise.reject(response)))
      .then((pages) => pages.map(prepare))
      .catch((error) => {
        index = undefined; // the next attempt loads it again
        throw error;
      }));

  /** The pages that have all terms: terms in titles come first, then those in headings. */
  const search = (pages, query) => {
    const terms = termsOf(query);
    const whole = fold(query.trim());
    const results = [];
    for (const page of terms.length ? pages : []) {
      let score = page.folded === whole ? 10000 : 0;
      const isHit = terms.every((term) => {
        const points = has(page.folded, term) ? 400
          : page.sections.some((it) => has(it.foldedHeading, term)) ? 20
          : has(page.others, term) || page.sections.some((it) => has(it.foldedText, term)) ? 1
          : 0;
        score += points;
        return points > 0;
      });
      if (!isHit) continue;
      // The section with the most terms; the page itself if its title has all of them.
      const inTitle = terms.every((term) => has(page.folded, term));
      let [best, most] = [undefined, 0];
      for (const section of page.sections) {
        const points = terms.reduce(
          (sum, term) => sum + (has(section.foldedHeading, term) ? 3 : has(section.foldedText, term) ? 1 : 0), 0);
        if (points > most) [best, most] = [section, points];
      }
      results.push({ page, score, section: best, anchor: inTitle ? "" : (best?.anchor ?? "") });
    }
    return { terms, results: results.sort((a, b) => b.score - a.score) };
  };

  /** Appends text to an element, with the terms in <mark> elements. */
  const appendMarked = (element, text, terms) => {
    let folded = "";
    const origin = []; // the position in `text` of each folded character
    let at = 0;
    for (const c of text) {
      const letters = fold(c);
      for (let n = 0; n < letters.length; n++) origin.push(at);
      folded += letters;
      at += c.length;
    }
    origin.push(text.length);
    const ranges = [];
    for (const term of terms) {
      for (let from = find(folded, term); from >= 0; from = find(folded, term, from + 1)) {
        ranges.push([origin[from], origin[from + term.text.length]]);
      }
    }
    let done = 0;
    for (const [start, end] of ranges.sort((a, b) => a[0] - b[0])) {
      if (end <= done) continue;
      const from = Math.max(start, done);
      const mark = document.createElement("mark");
      mark.textContent = text.slice(from, end);
      element.append(text.slice(done, from), mark);
      done = end;
    }
    element.append(text.slice(done));
  };

  /** A part of the text around the first term, or the page's description. */
  const excerpt = ({ page, section }, terms) => {
    const first = Math.min(...terms.map((term) => find(section?.foldedText ?? "", term)).filter((at) => at >= 0));
    if (!Number.isFinite(first)) return page.description;
    const { text } = section;
    let start = first < 80 ? 0 : first - 60;
    const space = text.indexOf(" ", start);
    if (start > 0 && space >= 0 && space < first) start = space + 1;
    const part = text.slice(start, start + 180).replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "");
    return `${start > 0 ? "… " : ""}${part}${start + 180 < text.length ? " …" : ""}`;
  };

  const setUp = () => {
    const input = dialog.querySelector("input");
    const list = dialog.querySelector("[role=listbox]");
    const status = dialog.querySelector("[data-search-status]");
    const options = () => [...list.children];
    let active = -1;

    const activate = (at) => {
      active = at;
      options().forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
      const option = options()[at];
      if (option) {
        input.setAttribute("aria-activedescendant", option.id);
        option.scrollIntoView({ block: "nearest" });
      } else input.removeAttribute("aria-activedescendant");
    };

    const show = ({ terms, results }) => {
      list.replaceChildren(
        ...results.slice(0, MOST_RESULTS).map((result, at) => {
          const option = document.createElement("a");
          const { page, section, anchor } = result;
          option.href = page.path + (anchor && `#${encodeURIComponent(anchor)}`);
          option.id = `search-result-${at}`;
          option.tabIndex = -1;
          option.setAttribute("role", "option");
          for (const [name, text] of [
            ["title", page.title],
            ["heading", anchor && section.heading],
            ["excerpt", excerpt(result, terms)],
          ]) {
            if (!text) continue;
            const line = document.createElement("span");
            line.className = `search-${name}`;
            appendMarked(line, text, terms);
            option.append(line, " ");
          }
          return option;
        }),
      );
      input.setAttribute("aria-expanded", String(results.length > 0));
      activate(results.length ? 0 : -1);
      const { none, one, many } = dialog.dataset;
      const said = results.length === 0 ? none : results.length === 1 ? one : many.replace("#", results.length);
      status.textContent = terms.length ? said : "";
    };

    const update = async () => {
      try {
        const pages = await load();
        show(search(pages, input.value));
      } catch {
        show({ terms: [], results: [] });
        status.textContent = dialog.dataset.failed;
      }
    };

    const open = () => {
      if (dialog.open) return;
      dialog.showModal();
      input.focus();
      input.select();
      update();
    };

    dialog.querySelector("[data-search-close]").addEventListener("click", () => dialog.close());
    // A click beside the dialog closes it, and so does following a link to a part of this page.
    dialog.addEventListener("click", ({ target }) => {
      if (target === dialog || target.closest("a")) dialog.close();
    });
    input.addEventListener("input", update);
    input.addEventListener("keydown", (event) => {
      // While an input method composes a character, its keys belong to it.
      if (event.isComposing) return;
      const { length } = options();
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && length) activate((active + step + length) % length);
      else if (event.key === "Enter") options()[active]?.click();
      else return;
      event.preventDefault();
    });
    // script.js loads this script at the first attempt, and sends this event at later ones.
    dialog.addEventListener("search", open);
    open();
  };

  setUp();
}
