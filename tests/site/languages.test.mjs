// A site in two languages, in a browser: the links between languages, the texts of pages and forms, and dates.
import { after, before, test } from 'node:test';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { get } from './support/http.mjs';
import { none } from './support/list.mjs';
import { startServer } from './support/server.mjs';

const FILES = {
  'frontdesk.toml': `
[operator]
name = "Example"
email = "hello@example.com"
[site]
title = "Example"
description = "A site in two languages."
languages = ["en", "de"]
search = true
[words.de]
contact_send = "Abschicken"
site_description = "Eine Website in zwei Sprachen."
`,
  'pages/index.md': ['Welcome'],
  'pages/contact.md': ['Contact', 'form: contact', 'nav: 1'],
  'pages/de/index.md': ['Willkommen'],
  'pages/de/contact.md': ['Kontakt', 'slug: kontakt', 'form: contact', 'nav: 1'],
  'posts/2026-11-20-hello.md': ['Hello', 'author: Ada'],
  'posts/de/2026-11-20-hello.md': ['Hallo', 'author: Ada'],
};

let folder;
let server;
let browser;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'frontdesk-languages-'));
  for (const [name, content] of Object.entries(FILES)) {
    const file = join(folder, name);
    await mkdir(dirname(file), { recursive: true });
    const [title, ...more] = content;
    const lines = ['---', `title: ${title}`, 'description: About it.', ...more, '---', 'Text.', ''];
    await writeFile(file, Array.isArray(content) ? lines.join('\n') : content);
  }
  server = await startServer({ folder });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** Opens a page in a new context, passes it to `work`, and checks that the browser has nothing to complain about. */
async function visit(path, work, options = {}) {
  const context = await browser.newContext(options);
  try {
    const page = await context.newPage();
    const trouble = await watch(page, server.origin);
    await page.goto(server.origin + path, { waitUntil: 'load' });
    await work(page);
    // Chromium logs a refused request as an error, but one test expects a refusal.
    none(trouble.filter((line) => !/^console: Failed to load resource/.test(line)), 'the browser complained');
  } finally {
    await context.close();
  }
}

const language = (page) => page.evaluate(() => document.documentElement.lang);

test('the search of a page finds the pages in its language', () =>
  visit('/de/', async (page) => {
    await page.locator('[data-search-open]').click();
    await page.locator('.search input').fill('text');
    await page.locator('.search [role=option]').first().waitFor();
    const found = await page.locator('.search [role=option]').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
    assert.deepEqual(found.sort(), ['/de/', '/de/blog/hello/', '/de/kontakt/']);
  }));

test('the header leads to the same page in the other language, and back', () =>
  visit('/contact/', async (page) => {
    assert.equal(await language(page), 'en');
    await page.getByRole('navigation', { name: 'Languages' }).getByRole('link', { name: 'Deutsch' }).click();
    await page.waitForURL('**/de/kontakt/');
    assert.equal(await language(page), 'de');
    assert.equal(await page.title(), 'Kontakt · Example');
    const links = page.getByRole('navigation', { name: 'Sprachen' }).getByRole('link');
    assert.deepEqual(await links.allTextContents(), ['English', 'Deutsch']);
    assert.equal(await links.nth(1).getAttribute('aria-current'), 'true');
    await links.nth(0).click();
    await page.waitForURL('**/contact/');
  }));

test('the header fits on a narrow screen', () =>
  visit('/de/kontakt/', async (page) => {
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
    const links = await page.getByRole('navigation', { name: 'Sprachen' }).getByRole('link').all();
    for (const link of links) assert.ok((await link.boundingBox()).height >= 44, 'a link is large enough to touch');
  }, { viewport: { width: 360, height: 700 } }));

test('dates are written as in the language of the post', async () => {
  await visit('/blog/hello/', async (page) => assert.equal(await page.locator('time').first().innerText(), '20 November 2026'));
  await visit('/de/blog/hello/', async (page) => {
    assert.equal(await page.locator('time').first().innerText(), '20. November 2026');
    assert.equal(await page.getByText('1 Minute Lesezeit').count(), 1);
  });
});

test('the form has translated texts and messages', () =>
  visit('/de/kontakt/', async (page) => {
    const form = page.locator('form[action="/api/contact"]');
    await form.getByLabel('E-Mail').fill('nobody');
    const message = form.getByLabel('Nachricht');
    await message.evaluate((it) => it.removeAttribute('maxlength'));
    await message.fill('x'.repeat(20_001));
    await form.getByRole('button', { name: 'Abschicken' }).click();
    const error = (name) => page.locator(`#form-contact-${name}-error`);
    await error('email').waitFor({ state: 'visible' });
    assert.equal(await error('name').innerText(), 'Bitte füllen Sie dieses Feld aus.');
    assert.equal(await error('email').innerText(), 'Bitte geben Sie eine E-Mail-Adresse wie ada@example.com ein.');
    assert.equal(await error('message').innerText(), 'Bitte kürzen Sie den Text auf höchstens 20.000 Zeichen.');
    assert.equal(await form.locator('[data-status]').innerText(), 'Nicht gesendet. Bitte korrigieren Sie: Name, E-Mail, Nachricht.');
    await form.getByLabel('Name').fill('Ada');
    await form.getByLabel('E-Mail').fill('ada@example.com');
    await message.fill('Guten Tag.');
    await form.getByRole('button', { name: 'Abschicken' }).click();
    await page.getByRole('heading', { name: 'Nachricht gesendet' }).waitFor();
    assert.deepEqual((await server.inbox()).map((it) => it.message), ['Guten Tag.']);
  }));

test('a refused request is reported in the language of the page', () =>
  visit('/de/kontakt/', async (page) => {
    await page.route('**/api/contact', (route) => route.fulfill({ status: 429, headers: { 'Retry-After': '1' }, body: '{}' }));
    const form = page.locator('form[action="/api/contact"]');
    await form.getByRole('button').click();
    await page.getByText('Bitte senden Sie ihn in 1 Sekunde noch einmal.').waitFor();
  }));

test('each language has its feed, guide and 404 page', async () => {
  const feed = (await get(`${server.origin}/de/blog/rss.xml`)).text;
  assert.match(feed, /<language>de<\/language>/);
  assert.deepEqual([...feed.matchAll(/<item>\n<title>(.*?)</g)].map(([, title]) => title), ['Hallo']);
  const guide = (await get(`${server.origin}/llms.txt`)).text;
  assert.match(guide, /- \[Deutsch\]\(https:\/\/www\.example\.com\/de\/llms\.txt\): Eine Website in zwei Sprachen\./);
  assert.match((await get(`${server.origin}/de/llms.txt`)).text, /\[Kontakt\]\(https:\/\/www\.example\.com\/de\/kontakt\.md\)/);
  const sitemap = (await get(`${server.origin}/sitemap.xml`)).text;
  const entry = sitemap.split('<url>').find((it) => it.includes('<loc>https://www.example.com/de/kontakt/</loc>'));
  assert.deepEqual(
    [...entry.matchAll(/hreflang="(.*?)" href="https:\/\/www\.example\.com(.*?)"/g)].map(([, tag, path]) => `${tag} ${path}`),
    ['en /contact/', 'de /de/kontakt/', 'x-default /contact/'],
  );
  const missing = await get(`${server.origin}/de/nichts/`, { accept: 'text/html' });
  assert.equal(missing.status, 404);
  assert.match(missing.text, /<html lang="de">/);
});
