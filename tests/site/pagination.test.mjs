// The pages of long lists of posts: links, Markdown, sitemap and accessibility.
import { after, before, test } from 'node:test';
import { readFile } from 'node:fs/promises';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { get } from './support/http.mjs';
import { none } from './support/list.mjs';
import { packages } from './support/paths.mjs';
import { markdown, startScratch } from './support/scratch.mjs';

const posts = Array.from({ length: 45 }, (_, at) => {
  const number = at + 1;
  const date = new Date(Date.UTC(2025, 0, number)).toISOString().slice(0, 10);
  return [`posts/p${number}.md`, markdown(`Post ${number}`, 'Text.', `date: ${date}\ntags: [news]\n`)];
});

let server;
let browser;

before(async () => {
  server = await startScratch({ 'pages/index.md': markdown('Home'), ...Object.fromEntries(posts) });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test('following the links to older posts shows each post once', async () => {
  for (const base of ['/blog/', '/blog/tags/news/']) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const trouble = await watch(page, server.origin);
    await page.goto(server.origin + base);
    const seen = [];
    const visited = [];
    for (;;) {
      visited.push(new URL(page.url()).pathname);
      seen.push(...(await page.locator('.posts :is(h2, h3)').allTextContents()));
      assert.equal(await page.locator('.pages [aria-current=page]').textContent(), String(visited.length));
      const next = page.locator('.pages a[rel=next]');
      if ((await next.count()) === 0) break;
      await next.click();
      await page.waitForURL(`**/page/${visited.length + 1}/`);
    }
    assert.deepEqual(visited, [base, `${base}page/2/`, `${base}page/3/`]);
    assert.deepEqual(seen, Array.from({ length: 45 }, (_, at) => `Post ${45 - at}`));
    none(trouble, 'the browser complained');
    await context.close();
  }
});

test('each page has its own canonical address, title, twin and place in the sitemap', async () => {
  const sitemap = await get(`${server.origin}/sitemap.xml`);
  const page = await get(`${server.origin}/blog/page/2/`);
  for (const part of [
    `<link rel="canonical" href="${server.base}/blog/page/2/">`,
    '<link rel="prev" href="/blog/">',
    '<link rel="next" href="/blog/page/3/">',
    '<title>Blog, page 2 · Scratch</title>',
    'content="Posts 21 to 40 of 45."',
  ]) assert.ok(page.text.includes(part), part);
  assert.ok(sitemap.text.includes(`<loc>${server.base}/blog/page/2/</loc>`));
  const twin = await get(`${server.origin}/blog/page/2.md`);
  assert.equal(twin.status, 200);
  assert.equal((twin.text.match(/^- \[Post /gm) ?? []).length, 20);
  assert.ok(twin.text.includes(`[Older posts](${server.base}/blog/page/3/)`));
  const first = await get(`${server.origin}/blog/page/1/`);
  assert.deepEqual([first.status, first.headers.location], [308, '/blog/']);
  assert.equal((await get(`${server.origin}/blog/page/4/`)).status, 404);
});

test('the links between pages are accessible and fit on a phone', async () => {
  const context = await browser.newContext({ viewport: { width: 320, height: 700 } });
  const page = await context.newPage();
  await page.goto(`${server.origin}/blog/page/2/`);
  const axe = await readFile(packages.resolve('axe-core/axe.min.js'), 'utf8');
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
  none(violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(' ')}`), 'axe');
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, `${overflow} px too wide`);
  await context.close();
});
