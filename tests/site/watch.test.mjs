// `serve --watch` in a real browser: open pages follow the site, and show its errors.
import { after, before, test } from 'node:test';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { none } from './support/list.mjs';
import { startServer } from './support/server.mjs';

const CONFIGURATION = `[operator]
name = "Example"
email = "hello@example.com"
[site]
title = "Example"
description = "A site about nothing in particular."
`;
const LONG = 'A paragraph that makes the page long.\n\n'.repeat(200);

let browser;
let server;
let folder;

/** Replaces a file of the site, as an editor does. */
async function write(name, text) {
  const file = join(folder, name);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.new`, text);
  await rename(`${file}.new`, file);
}

const page = (words, matter = '') => `---\ntitle: News\ndescription: What is new here.\n${matter}---\n\n${words}\n\n${LONG}`;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'frontdesk-watch-'));
  await write('frontdesk.toml', CONFIGURATION);
  await write('pages/index.md', '---\ntitle: Home\ndescription: The first page.\n---\n\nHello.\n');
  await write('pages/news.md', page('The first state.'));
  server = await startServer({ folder, more: ['--watch', '--drafts'] });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Opens a page and waits until its script waits for changes. */
async function open(path) {
  const context = await browser.newContext();
  const tab = await context.newPage();
  const trouble = await watch(tab, server.origin);
  // The second request for the state follows the first response.
  const waits = () => tab.waitForRequest((request) => /\/_frontdesk\/reload\?\d+$/.test(request.url()));
  const waiting = waits();
  await tab.goto(`${server.origin}${path}`, { waitUntil: 'load' });
  await waiting;
  // A reload cancels the request that waits.
  const problems = () => trouble.filter((problem) => !/^request failed: \S+\/_frontdesk\/reload\?\d*: /.test(problem));
  return { context, tab, problems, waits };
}

const contains = (tab, words) => tab.getByText(words).first().waitFor();

test('an open page follows the site and keeps its scroll position', async () => {
  const { context, tab, problems, waits } = await open('/news/');
  await contains(tab, 'The first state.');
  await tab.evaluate(() => scrollTo(0, 1500));
  const waiting = waits();
  await write('pages/news.md', page('The second state.'));
  await contains(tab, 'The second state.');
  await waiting;
  await tab.waitForFunction(() => Math.abs(scrollY - 1500) < 200);
  none(problems(), 'problems');
  await context.close();
});

test('errors appear in the page until they are corrected', async () => {
  const { context, tab, problems } = await open('/news/');
  await write('pages/news.md', page('Another state.', 'date: <soon>\n'));
  const overlay = tab.getByRole('alert');
  await overlay.waitFor();
  const text = await overlay.innerText();
  assert.match(text, /pages\/news\.md:4: `date` must be a date such as 2026-11-20/);
  assert.equal(await overlay.evaluate((element) => getComputedStyle(element).position), 'fixed');
  await contains(tab, 'The second state.');

  // A page that is opened now shows the errors, too.
  const other = await open('/');
  await other.tab.getByRole('alert').waitFor();

  await write('pages/news.md', page('The third state.'));
  await contains(tab, 'The third state.');
  await overlay.waitFor({ state: 'detached' });
  await other.tab.getByRole('alert').waitFor({ state: 'detached' });
  none([...problems(), ...other.problems()], 'problems');
  await other.context.close();
  await context.close();
});

test('the first warning is shown above the page until it is dismissed', async () => {
  const { context, tab, problems } = await open('/news/');
  await write('pages/news.md', page('A state with a warning. [gone](/gone/)'));
  const note = tab.getByRole('status').filter({ hasText: 'warning' });
  await note.waitFor();
  assert.match(await note.innerText(), /1 warning: pages\/news\.md:6: the link to `\/gone\/` is broken/);
  const [above, below] = await Promise.all(
    [note, tab.locator('body > header')].map((part) => part.evaluate((element) => element.getBoundingClientRect().toJSON())),
  );
  assert.ok(above.bottom <= below.top, 'the note covers nothing');
  await note.getByRole('button', { name: 'Dismiss' }).click();
  await note.waitFor({ state: 'detached' });

  // The same warning stays dismissed.
  await write('pages/news.md', page('Another state with a warning. [gone](/gone/)'));
  await contains(tab, 'Another state with a warning.');
  await write('pages/news.md', page('Two warnings. [gone](/gone/) [also gone](/also-gone/)'));
  await contains(tab, '2 warnings, such as:');
  await write('pages/news.md', page('A state without a warning.'));
  await contains(tab, 'A state without a warning.');
  await note.waitFor({ state: 'detached' });
  none(problems(), 'problems');
  await context.close();
});

test('a change of the stylesheet does not reload the page', async () => {
  const { context, tab, problems } = await open('/news/');
  await tab.evaluate(() => {
    window.mark = 'kept';
  });
  const style = await readFile(new URL('../../theme/style.css', import.meta.url), 'utf8');
  await write('theme/style.css', `${style}\nh1 { color: rgb(1, 2, 3); }\n`);
  await tab.waitForFunction(() => getComputedStyle(document.querySelector('h1')).color === 'rgb(1, 2, 3)');
  assert.equal(await tab.evaluate(() => window.mark), 'kept');
  await tab.waitForFunction(() => document.querySelectorAll('link[rel=stylesheet]').length === 1);
  none(problems(), 'problems');
  await context.close();
});

test('drafts are marked', { timeout: 120_000 }, async () => {
  await write('pages/draft.md', '---\ntitle: Draft\ndescription: Not finished.\ndraft: true\n---\n\nWords.\n');
  // An open page would reload now, which could interrupt its next navigation.
  while (!(await fetch(`${server.origin}/draft/`)).ok) await new Promise((resolve) => setTimeout(resolve, 10));
  const { context, tab } = await open('/draft/');
  await contains(tab, 'Draft: not published.');
  await context.close();
});
