// Extracts the links of Markdown: inline, by reference, in angle brackets and in raw HTML, but not in code.

export function linksOf(markdown) {
  const text = withoutCode(markdown.replace(/^---\n[\s\S]*?\n---\n/, ''));
  const links = [];
  // [text](target "title"): the target has balanced brackets or is wrapped in <>.
  for (const [, wrapped, bare] of text.matchAll(/\]\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))/g)) {
    links.push(wrapped ?? bare);
  }
  for (const [, target] of text.matchAll(/^ {0,3}\[(?!\^)[^\]\n]+\]:\s*<?([^\s>]+)>?/gm)) links.push(target);
  for (const [, target] of text.matchAll(/<([a-z][a-z0-9+.-]*:[^\s<>]*)>/gi)) links.push(target);
  for (const [, target] of text.matchAll(/\s(?:href|src)=["']([^"']*)["']/gi)) links.push(target);
  return links;
}

/** The text without fenced blocks and code spans. */
export function withoutCode(markdown) {
  const kept = [];
  let fence = null;
  for (const line of markdown.split('\n')) {
    const marker = line.match(/^[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})(.*)$/);
    if (fence) {
      if (marker && marker[1][0] === fence[0] && marker[1].length >= fence.length && !marker[2].trim()) fence = null;
    } else if (marker && !(marker[1][0] === '`' && marker[2].includes('`'))) {
      fence = marker[1];
    } else {
      kept.push(line);
    }
  }
  return kept.join('\n').replace(/(?<!`)(`+)(?!`)([\s\S]*?)(?<!`)\1(?!`)/g, '');
}
