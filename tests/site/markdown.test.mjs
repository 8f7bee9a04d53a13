// The Markdown of every page: at its own URL, by content negotiation, and its links.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { each, get } from './support/http.mjs';
import { none } from './support/list.mjs';
import { linksOf, withoutCode } from './support/markdown.mjs';
import { startServer } from './support/server.mjs';
import { MISSING, readSite, twinOf } from './support/sitemap.mjs';

let server;
let site;
/** For each page: its path, and the responses for the twin and by negotiation. */
let pages;

before(async () => {
  server = await startServer();
  site = await readSite(server);
  pages = await each(site.paths, async (path) => ({
    path,
    twin: await get(server.origin + twinOf(path), { accept: 'text/html' }),
    negotiated: await get(server.origin + path, { accept: 'text/markdown' }),
    html: await get(server.origin + path, { accept: 'text/html' }),
  }));
});

after(() => server?.stop());

/** Asserts that `problem` returns nothing for any page. */
const check = (what, problem) => none(pages.map((it) => problem(it) && `${it.path}: ${problem(it)}`).filter(Boolean), what);

test('each twin is Markdown, regardless of Accept', () => {
  check('twins', ({ twin }) => twin.status !== 200 && `${twin.status}`);
  check('types', ({ twin }) =>
    twin.headers['content-type'] !== 'text/markdown; charset=utf-8' && `${twin.headers['content-type']}`);
});

test('content negotiation returns the same Markdown as the twin', () => {
  check('statuses', ({ negotiated }) => negotiated.status !== 200 && `${negotiated.status}`);
  check('types', ({ negotiated }) =>
    negotiated.headers['content-type'] !== 'text/markdown; charset=utf-8' && `${negotiated.headers['content-type']}`);
  check('bodies', ({ twin, negotiated }) => !twin.bytes.equals(negotiated.bytes) && 'another text than the twin’s');
  check('other representations', ({ html }) => !html.headers['content-type']?.startsWith('text/html') && 'no HTML');
});

test('Vary contains Accept', () => {
  for (const which of ['negotiated', 'html']) {
    check(`Vary (${which})`, (it) =>
      !(it[which].headers.vary ?? '').toLowerCase().split(/\s*,\s*/).includes('accept') && `${it[which].headers.vary}`);
  }
});

test('the representations link to each other', () => {
  check('Link to the canonical page', ({ path, twin }) =>
    !(twin.headers.link ?? '').includes(`<${site.base}${path}>; rel="canonical"`) && `Link: ${twin.headers.link}`);
  check('Link to the twin', ({ path, html }) =>
    !/rel="alternate"/.test(html.headers.link ?? '') || !html.headers.link.includes(twinOf(path))
      ? `Link: ${html.headers.link}` : null);
});

test('each begins with front matter and its title', () => {
  check('front matter', ({ twin: { text } }) => {
    const front = text.match(/^---\n([\s\S]*?)\n---\n/)?.[1];
    if (!front) return 'no front matter';
    const missing = ['title', 'description', 'last_updated', 'url', 'doc_version', 'llms_txt'].filter((key) => !new RegExp(`^${key}: \\S`, 'm').test(front));
    return missing.length ? `no ${missing.join(', ')}` : null;
  });
  check('title', ({ twin: { text } }) => !/^---\n[\s\S]*?\n---\n+# \S/.test(text) && 'no # title after the front matter');
  check('one title', ({ twin: { text } }) => {
    const titles = withoutCode(text).match(/^# /gm)?.length;
    return titles !== 1 && `${titles} lines that begin with #`;
  });
});

test('no template or HTML is left in the text', () => {
  check('leftovers', ({ twin: { text } }) => withoutCode(text).match(/\{\{|\{%|<(?:div|span|p|section|h[1-6])\b[^>]*>/)?.[0]);
});

test('all links are absolute, and those to this site resolve', async () => {
  const problems = [];
  const wanted = new Map();
  for (const { path, twin } of pages) {
    for (const link of linksOf(twin.text)) {
      if (!/^(https?:\/\/|mailto:|tel:)/.test(link)) problems.push(`${path}: ${link} is not absolute`);
      else if (link.startsWith('http') && site.local(link)) wanted.set(site.local(link), path);
    }
  }
  await each(wanted, async ([address, path]) => {
    const { status } = await get(address);
    // The page also links to the forms' endpoints, which accept only POST.
    const expected = new URL(address).pathname.startsWith('/api/') ? 405 : 200;
    if (status !== expected) problems.push(`${path}: ${new URL(address).pathname} answers ${status}`);
  });
  none(problems, 'links in Markdown');
});

test('a missing page has a Markdown representation with links', async () => {
  const answer = await get(server.origin + MISSING, { accept: 'text/markdown' });
  assert.equal(answer.status, 404);
  assert.equal(answer.headers['content-type'], 'text/markdown; charset=utf-8');
  const links = linksOf(answer.text);
  assert.ok(links.length > 0, 'it offers ways on');
  none(links.filter((link) => !/^(https?:\/\/|mailto:)/.test(link)), 'links that are not absolute');
});
