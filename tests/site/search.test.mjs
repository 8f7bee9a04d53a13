// The search and the navigation of sections, in a browser.
import { after, before, test } from 'node:test';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { get } from './support/http.mjs';
import { none } from './support/list.mjs';
import { packages, root } from './support/paths.mjs';
import { markdown, startScratch } from './support/scratch.mjs';

const files = {
  'pages/index.md': markdown('Home', 'Welcome.'),
  'pages/text.md': markdown('Alpha', 'Before.\n\n## Somewhere\n\nThe kernel is in this text.'),
  'pages/heading.md': markdown('Beta', 'Intro.\n\n## About the kernel\n\nNothing else.'),
  'pages/title.md': markdown('Kernel', 'A page.'),
  'pages/munich.md': markdown('Café München', 'Straße und <b>Bücher</b> &lt;script&gt;alert(1)&lt;/script&gt;'),
  'pages/japanese.md': markdown('東京の案内', '全文検索エンジンの使い方。'),
  'pages/arabic.md': markdown('السَّلامُ عليكم', 'أريد Donau\u00addampfer.'),
  'pages/hebrew.md': markdown('שָׁלוֹם', 'Text.'),
  'pages/hidden.md': markdown('Hidden kernel', 'Secret.', 'unlisted: true\n'),
  'pages/draft.md': markdown('Draft kernel', 'Secret.', 'draft: true\n'),
  'pages/docs/index.md': markdown('Documentation', 'All.', 'section: true\n'),
  'pages/docs/install.md': markdown('Install', 'How.', 'weight: 1\n'),
  'pages/docs/use/first.md': markdown('First steps', '## One\n\nStep.', 'toc: true\n'),
  'pages/docs/use/second.md': markdown('Second steps', 'Step.'),
};

let server;
let browser;

before(async () => {
  server = await startScratch(files, 'search = true\n');
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function visit(path, work, options = {}) {
  const context = await browser.newContext(options);
  try {
    const page = await context.newPage();
    const trouble = await watch(page, server.origin);
    await page.goto(server.origin + path, { waitUntil: 'load' });
    await work(page, trouble);
    none(trouble, 'the browser complained');
  } finally {
    await context.close();
  }
}

const dialog = (page) => page.locator('dialog.search');

/** Opens the search, types a query and waits for the number of results. Returns the links. */
async function search(page, query, said) {
  if (!(await dialog(page).isVisible())) await page.keyboard.press('Control+k');
  await page.locator('.search input').fill(query);
  await page.locator('[data-search-status]', { hasText: new RegExp(`^${said}$`) }).waitFor();
  return page.locator('.search [role=option]').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
}

test('the script is small, and the index is loaded only when the search opens', async () => {
  const script = await readFile(join(root, 'theme/search.js'));
  assert.ok(script.length < 10_000, `${script.length} bytes`);
  await visit('/', async (page) => {
    const loaded = [];
    page.on('request', (request) => loaded.push(new URL(request.url()).pathname));
    await page.reload({ waitUntil: 'load' });
    const isIndex = (path) => path.startsWith('/_frontdesk/');
    assert.deepEqual(loaded.filter(isIndex), []);
    const arrived = page.waitForResponse('**/_frontdesk/search.json');
    await page.locator('[data-search-open]').click();
    await arrived;
    assert.deepEqual(loaded.filter(isIndex), ['/_frontdesk/search.json']);
  });
});

test('titles come before headings, and headings before text', () =>
  visit('/', async (page) => {
    const links = await search(page, 'kern', '3 results');
    assert.deepEqual(links, ['/title/', '/heading/#about-the-kernel', '/text/#somewhere']);
    const marked = await page.locator('.search mark').allTextContents();
    assert.deepEqual(new Set(marked.map((text) => text.toLowerCase())), new Set(['kern']));
    assert.deepEqual(await search(page, 'ernel', 'No results'), [], 'words are found by their beginning');
    assert.deepEqual(await search(page, 'kernel nothing', '1 result'), ['/heading/#about-the-kernel']);
  }));

test('diacritics make no difference, and the highlighting keeps the original text', () =>
  visit('/', async (page) => {
    for (const query of ['munchen', 'MÜNCHEN', 'cafe']) {
      assert.deepEqual(await search(page, query, '1 result'), ['/munich/']);
    }
    assert.deepEqual(await page.locator('.search-title mark').allTextContents(), ['Café']);
    assert.deepEqual(await search(page, 'السلام اريد donaudampfer', '1 result'), ['/arabic/']);
    assert.deepEqual(await search(page, 'שלום', '1 result'), ['/hebrew/']);
    await search(page, 'strasse', '1 result');
    assert.deepEqual(await page.locator('.search mark').allTextContents(), ['Straße']);
    await search(page, 'bucher script', '1 result');
    assert.ok((await page.locator('.search-excerpt').textContent()).includes('<script>alert(1)</script>'));
  }));

test('languages without spaces are searched by neighbouring characters', () =>
  visit('/', async (page) => {
    assert.deepEqual(await search(page, '検索エンジン', '1 result'), ['/japanese/']);
    assert.deepEqual(await search(page, '東京', '1 result'), ['/japanese/']);
    assert.deepEqual(await search(page, '京東', 'No results'), []);
  }));

test('the keyboard opens the search, chooses a result and closes it', () =>
  visit('/', async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.press('k');
    assert.equal(await dialog(page).isVisible(), false, 'a single character is no shortcut (WCAG 2.1.4)');
    const button = page.locator('[data-search-open]');
    assert.equal(await button.locator('kbd').textContent(), 'Ctrl K');
    assert.equal(await button.getAttribute('aria-keyshortcuts'), 'Control+K');
    await page.keyboard.press('Control+k');
    await dialog(page).waitFor();
    await search(page, 'kernel', '3 results');
    const active = () => page.evaluate(() => {
      const id = document.querySelector('.search input').getAttribute('aria-activedescendant');
      return document.getElementById(id)?.getAttribute('href');
    });
    assert.equal(await active(), '/title/');
    await page.keyboard.press('ArrowUp');
    assert.equal(await active(), '/text/#somewhere');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    assert.equal(await active(), '/heading/#about-the-kernel');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'hidden' });
    await page.keyboard.press('Control+k');
    assert.equal(await page.locator('.search input').inputValue(), 'kernel');
    await search(page, 'zz/zz', 'No results');
    await search(page, 'kernel', '3 results');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/heading/#about-the-kernel');
  }));

test('a search that cannot load its index says so, and loads it at the next attempt', () =>
  visit('/', async (page, trouble) => {
    await page.route('**/_frontdesk/search.json', (route) => route.fulfill({ status: 500, body: '' }));
    await page.locator('[data-search-open]').click();
    await page.locator('[data-search-status]', { hasText: 'could not be loaded' }).waitFor();
    await page.unroute('**/_frontdesk/search.json');
    await search(page, 'kernel', '3 results');
    const others = trouble.filter((line) => !/status of 500|search\.json/.test(line));
    trouble.splice(0, trouble.length, ...others);
  }));

test('the search is accessible in both themes', () =>
  visit('/', async (page) => {
    const axe = await readFile(packages.resolve('axe-core/axe.min.js'), 'utf8');
    await search(page, 'kernel', '3 results');
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run('dialog.search', { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
      none(violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(' ')}`), colorScheme);
    }
  }));

test('on a Mac the shortcut has the command key', () =>
  visit('/', async (page) => {
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, 'platform', { get: () => 'MacIntel' }));
    await page.reload({ waitUntil: 'load' });
    const button = page.locator('[data-search-open]');
    assert.equal(await button.locator('kbd').textContent(), '⌘K');
    assert.equal(await button.getAttribute('aria-keyshortcuts'), 'Meta+K');
    await page.keyboard.press('Meta+k');
    await dialog(page).waitFor();
  }));

test('without scripts there is no search button', () =>
  visit('/', async (page) => {
    assert.equal(await page.locator('[data-search-open]').isVisible(), false);
    assert.equal(await dialog(page).isVisible(), false);
  }, { javaScriptEnabled: false }));

test('the index has no unlisted pages and no drafts, and is revalidated', async () => {
  const index = await get(`${server.origin}/_frontdesk/search.json`);
  assert.equal(index.headers['content-type'], 'application/json');
  assert.ok(!/Hidden|Draft|Secret/.test(index.text));
  const again = await get(`${server.origin}/_frontdesk/search.json`, { 'if-none-match': index.headers.etag });
  assert.equal(again.status, 304);
});

test('a section shows its tree beside the content, and as a menu on a phone', () =>
  visit('/docs/use/first/', async (page) => {
    const nav = page.locator('.section-nav');
    const links = () => nav.locator('a:visible').allTextContents();
    assert.deepEqual(await links(), ['Documentation', 'Install', 'First steps', 'Second steps']);
    assert.equal(await nav.locator('[aria-current=page]').textContent(), 'First steps');
    const [left, text] = await Promise.all([nav.boundingBox(), page.locator('article').boundingBox()]);
    assert.ok(left.x + left.width <= text.x, 'beside the content');
    await page.setViewportSize({ width: 390, height: 800 });
    assert.deepEqual(await links(), []);
    await nav.locator('summary', { hasText: 'Menu' }).click();
    assert.equal((await links()).length, 4);
    const turn = page.locator('.turn a');
    assert.deepEqual(await turn.evaluateAll((all) => all.map((it) => it.getAttribute('href'))), ['/docs/install/', '/docs/use/second/']);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${overflow} px too wide`);
  }, { viewport: { width: 1280, height: 900 }, javaScriptEnabled: true }));
