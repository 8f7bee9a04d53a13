// Screenshots for manual review: one page of each kind in three widths, light and dark, in
// target/screenshots.
import { after, before, test } from 'node:test';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { launch } from './support/browser.mjs';
import { screenshots } from './support/paths.mjs';
import { startServer } from './support/server.mjs';
import { MISSING, readSite } from './support/sitemap.mjs';

const WIDTHS = [360, 768, 1440];

let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await launch();
  await rm(screenshots, { recursive: true, force: true });
  await mkdir(screenshots, { recursive: true });
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test('screenshots of one page of each kind', async () => {
  const { paths } = await readSite(server);
  const post = paths.find((path) => /^\/blog\/[^/]+\/$/.test(path) && path !== '/blog/tags/');
  const kinds = ['/', '/product/', '/developers/', '/contact/', '/waitlist/', '/blog/', '/blog/tags/', post, MISSING];
  const shown = kinds.filter((path) => path === MISSING || paths.includes(path));
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme, reducedMotion: 'reduce' });
    const page = await context.newPage();
    for (const path of shown) {
      const name = path === MISSING ? '404' : path.replace(/^\/|\/$/g, '').replaceAll('/', '-') || 'home';
      await page.goto(server.origin + path, { waitUntil: 'load' });
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        await page.screenshot({ path: join(screenshots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      }
    }
    await context.close();
  }
  const files = await readdir(screenshots);
  assert.equal(files.length, shown.length * WIDTHS.length * 2);
  for (const file of files) assert.ok((await stat(join(screenshots, file))).size > 2000, `${file} shows something`);
});
