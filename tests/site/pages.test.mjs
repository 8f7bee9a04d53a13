// Checks every page of the sitemap and the 404 page in a browser and with a validator.
import { after, before, test } from 'node:test';
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { each, get } from './support/http.mjs';
import { none } from './support/list.mjs';
import { output, packages } from './support/paths.mjs';
import { startServer } from './support/server.mjs';
import { MISSING, readSite, twinOf } from './support/sitemap.mjs';

const WCAG = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
const VIEWS = [
  { colorScheme: 'light', width: 1280, height: 900 },
  { colorScheme: 'dark', width: 1280, height: 900 },
  { colorScheme: 'light', width: 360, height: 740 },
  { colorScheme: 'dark', width: 360, height: 740 },
];
const MAX_HTML_CHARACTERS = 50_000;
const MAX_HOME_BYTES = 14 * 1024;
const MAX_SCRIPT_BYTES = 3 * 1024;

let server;
let browser;
let site;
/** The results for each page: {path, html, facts, axe, trouble, overflow}. */
let seen;

before(async () => {
  server = await startServer();
  site = await readSite(server);
  browser = await launch();
  const context = await browser.newContext();
  const axe = await readFile(packages.resolve('axe-core/axe.min.js'), 'utf8');
  seen = await each([...site.paths, MISSING], (path) => look(context, axe, path), 2);
  await context.close();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function look(context, axe, path) {
  const url = server.origin + path;
  const { text: html, status } = await get(url, { accept: 'text/html' });
  const page = await context.newPage();
  const trouble = await watch(page, server.origin);
  const violations = [];
  const overflow = [];
  await page.setViewportSize(VIEWS[0]);
  await page.goto(url, { waitUntil: 'load' });
  const facts = await page.evaluate(read);
  await page.evaluate(axe);
  for (const view of VIEWS) {
    const name = `${view.colorScheme}, ${view.width} px`;
    await page.setViewportSize(view);
    await page.emulateMedia({ colorScheme: view.colorScheme, reducedMotion: 'reduce' });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (wide > 0) overflow.push(`${path} is ${wide} px wider than the window (${name})`);
    const found = await page.evaluate((tags) => window.axe.run(document, { runOnly: tags }), WCAG);
    for (const { id, help, nodes } of found.violations) {
      for (const node of nodes) {
        const why = [...node.any, ...node.all, ...node.none].map((it) => it.message).join('; ');
        violations.push(`${path} (${name}) ${id}: ${help} at ${node.target.join(' ')}: ${why}`);
      }
    }
  }
  await page.close();
  // Chromium reports the status 404 of this page as an error.
  const expected = (line) => path === MISSING && /^console: .*status of 404/.test(line);
  return { path, status, html, facts, violations, overflow, trouble: trouble.filter((line) => !expected(line)) };
}

/** Runs in the browser. */
function read() {
  const attribute = (selector, name) => document.querySelector(selector)?.getAttribute(name) ?? null;
  const urls = (selector, name) =>
    [...document.querySelectorAll(selector)].map((it) => new URL(it.getAttribute(name), document.baseURI).href);
  const srcsets = [...document.querySelectorAll('[srcset]')].flatMap((it) =>
    it.srcset.split(',').map((part) => new URL(part.trim().split(/\s+/)[0], document.baseURI).href));
  return {
    lang: document.documentElement.lang,
    title: document.title,
    description: attribute('meta[name=description]', 'content'),
    canonical: attribute('link[rel~=canonical]', 'href'),
    twin: attribute('link[rel~=alternate][type="text/markdown"]', 'href'),
    viewport: attribute('meta[name=viewport]', 'content'),
    ogTitle: attribute('meta[property="og:title"]', 'content'),
    llms: Boolean(document.querySelector('a[href$="/llms.txt"]')),
    headings: [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((it) => ({
      level: Number(it.tagName[1]),
      text: it.textContent.trim(),
    })),
    jsonLd: [...document.querySelectorAll('script[type="application/ld+json"]')].map((it) => it.textContent),
    code: [...document.querySelectorAll('pre > code')].map((it) => it.parentElement.dataset.lang ?? null),
    ids: [...document.querySelectorAll('[id]')].map((it) => it.id),
    links: urls('a[href]', 'href'),
    styles: urls('link[rel~=stylesheet]', 'href'),
    scripts: urls('script[src]', 'src'),
    resources: [...urls('link[href]', 'href'), ...urls('img[src], script[src], source[src]', 'src'), ...srcsets],
  };
}

const realPages = () => seen.filter(({ path }) => path !== MISSING);

test('pages answer 200 and a missing one 404', () => {
  none(
    seen
      .filter(({ path, status }) => status !== (path === MISSING ? 404 : 200))
      .map(({ path, status }) => `${path}: ${status}`),
    'unexpected statuses',
  );
});

test('the HTML is valid', async () => {
  const folder = join(output, 'html');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const names = new Map();
  for (const { path, html } of seen) {
    const name = `${path.replace(/^\/|\/$/g, '').replaceAll('/', '__') || 'index'}.html`;
    names.set(name, path);
    await writeFile(join(folder, name), html);
  }
  const jar = packages.resolve('vnu-jar/build/dist/vnu.jar');
  const args = ['-jar', jar, '--errors-only', '--format', 'json', '--skip-non-html', folder];
  const said = await new Promise((resolve, reject) => {
    // The validator writes its report to stderr, and exits with 1 if it finds errors.
    execFile('java', args, { maxBuffer: 1 << 28 }, (error, _, stderr) =>
      error && typeof error.code !== 'number' ? reject(error) : resolve(stderr));
  });
  // The validator does not know the attributes of WebMCP yet.
  const isNew = ({ message }) => /^Attribute “tool(name|description|paramdescription)” not allowed/.test(message);
  const { messages } = JSON.parse(said);
  none(
    messages.filter((it) => !isNew(it)).map(({ url, lastLine, message, extract }) =>
      `${names.get(decodeURIComponent(url.split('/').pop()))} line ${lastLine}: ${message} «${extract}»`),
    'the validator found errors',
  );
});

test('axe finds no WCAG 2.2 AA violation, light and dark, wide and narrow', () => {
  none(seen.flatMap(({ violations }) => violations), 'axe found violations');
});

test('no page scrolls horizontally', () => {
  none(seen.flatMap(({ overflow }) => overflow), 'pages scroll sideways');
});

test('no policy violation, console error or request to another host', () => {
  none(seen.flatMap(({ path, trouble }) => trouble.map((line) => `${path} ${line}`)), 'the browser complained');
});

test('every head is complete', () => {
  const problems = [];
  for (const { path, facts } of realPages()) {
    const say = (what) => problems.push(`${path}: ${what}`);
    if (!facts.lang) say('no lang');
    if (!facts.title) say('no title');
    if (!facts.description) say('no description');
    if (!facts.viewport) say('no viewport');
    if (!facts.ogTitle) say('no og:title');
    if (facts.canonical !== site.base + path) say(`canonical is ${facts.canonical}`);
    if (facts.twin === null || new URL(facts.twin, site.base).pathname !== twinOf(path)) say(`twin is ${facts.twin}`);
    if (!facts.llms) say('no link to /llms.txt');
    if (facts.jsonLd.length === 0) say('no JSON-LD');
    for (const text of facts.jsonLd) {
      try {
        if (!JSON.parse(text)['@context']) say('JSON-LD has no @context');
      } catch (error) {
        say(`JSON-LD: ${error.message}`);
      }
    }
  }
  const missing = seen.find(({ path }) => path === MISSING).facts;
  if (!missing.lang || !missing.title) problems.push('the 404 page has no lang or no title');
  none(problems, 'incomplete heads');
});

test('titles and descriptions are unique', () => {
  const problems = [];
  for (const key of ['title', 'description']) {
    const by = new Map();
    for (const { path, facts } of realPages()) by.set(facts[key], [...(by.get(facts[key]) ?? []), path]);
    for (const [text, paths] of by) if (paths.length > 1) problems.push(`${key} «${text}» on ${paths.join(', ')}`);
  }
  none(problems, 'the same words on several pages');
});

test('headings start with one h1 and skip no level', () => {
  const problems = [];
  for (const { path, facts } of seen) {
    const tops = facts.headings.filter(({ level }) => level === 1);
    if (tops.length !== 1) problems.push(`${path}: ${tops.length} h1`);
    facts.headings.forEach(({ level, text }, at) => {
      const before = at === 0 ? 0 : facts.headings[at - 1].level;
      if (level > before + 1) problems.push(`${path}: h${level} «${text}» after h${before}`);
    });
  }
  none(problems, 'headings');
});

test('every code block names its language', () => {
  none(
    seen.flatMap(({ path, facts }) => facts.code.filter((lang) => !lang).map(() => `${path}: a block without language`)),
    'code blocks',
  );
});

test(`each page has fewer than ${MAX_HTML_CHARACTERS} characters of HTML`, () => {
  none(
    seen.filter(({ html }) => html.length >= MAX_HTML_CHARACTERS).map(({ path, html }) => `${path}: ${html.length}`),
    'long pages',
  );
});

test('ids are unique, links and anchors inside the site resolve', async () => {
  const problems = [];
  const ids = new Map(seen.map(({ path, facts }) => [path, new Set(facts.ids)]));
  const wanted = new Map();
  for (const { path, facts } of seen) {
    for (const id of facts.ids.filter((it, at, all) => all.indexOf(it) !== at)) problems.push(`${path}: two #${id}`);
    for (const href of [...facts.links, ...facts.resources]) {
      const url = new URL(href);
      if (url.protocol === 'mailto:' || url.protocol === 'tel:') continue;
      if (url.protocol !== 'https:' && url.origin !== server.origin) problems.push(`${path}: link to ${href}`);
      const address = site.local(href);
      if (!address) continue;
      const target = decodeURIComponent(new URL(address).pathname);
      const anchor = decodeURIComponent(url.hash.slice(1));
      if (anchor && !ids.get(target)?.has(anchor)) problems.push(`${path}: no anchor ${target}#${anchor}`);
      wanted.set(address, [...(wanted.get(address) ?? []), path]);
    }
  }
  const here = server.origin + MISSING;
  await each(wanted, async ([address, paths]) => {
    if (address === here) return;
    const { status } = await get(address);
    if (status !== 200) problems.push(`${address.slice(server.origin.length)}: ${status}, linked from ${paths[0]}`);
  });
  none(problems, 'links');
});

test('assets have a fingerprint and are cached forever', async () => {
  const addresses = new Set(
    seen.flatMap(({ facts }) => facts.resources.map(site.local)).filter((it) => /\/assets\//.test(it ?? '')));
  assert.ok(addresses.size > 0, 'pages use no asset');
  const answers = await each(addresses, (address) => get(address));
  none(
    answers
      .filter(({ headers }) => !/immutable/.test(headers['cache-control'] ?? ''))
      .map(({ url, headers }) => `${url}: Cache-Control: ${headers['cache-control']}`),
    'assets that caches may not keep',
  );
});

test('the home page with its CSS fits into the first round trip, and the script is small', async () => {
  const home = seen.find(({ path }) => path === '/');
  const compressed = async (path, decode, encoding) => {
    const answer = await get(new URL(path, server.origin).href, { 'accept-encoding': encoding });
    assert.equal(answer.headers['content-encoding'], encoding, `${path} as ${encoding}`);
    assert.ok(decode(answer.bytes).length > 0, path);
    return answer.bytes.length;
  };
  const { styles, scripts } = home.facts;
  assert.ok(styles.length > 0 && scripts.length > 0, 'the home page has a stylesheet and a script');
  const sizes = {};
  for (const [encoding, decode] of [['br', brotliDecompressSync], ['gzip', gunzipSync]]) {
    let page = await compressed('/', decode, encoding);
    for (const path of styles) page += await compressed(path, decode, encoding);
    let script = 0;
    for (const path of scripts) script += await compressed(path, decode, encoding);
    sizes[encoding] = { page, script };
  }
  const text = JSON.stringify(sizes);
  for (const { page, script } of Object.values(sizes)) {
    assert.ok(page < MAX_HOME_BYTES, `HTML and CSS of the home page: ${text}`);
    assert.ok(script < MAX_SCRIPT_BYTES, `script: ${text}`);
  }
});
