// Screenshots for review: one page of each kind of the example site, a new site and the documentation, three widths,
// light and dark, under target/screenshots.
import { after, before, test } from 'node:test';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { launch } from './support/browser.mjs';
import { root, screenshots, site } from './support/paths.mjs';
import { startServer } from './support/server.mjs';
import { MISSING, readSite } from './support/sitemap.mjs';

const WIDTHS = [390, 768, 1280];
const SCHEMES = ['light', 'dark'];
const PATHS = ['/', '/product/', '/developers/', '/contact/', '/waitlist/', '/blog/', '/blog/tags/'];
// Of the documentation: code, diagrams and long tables.
const DOCS_PATHS = ['/authoring/', '/performance/', '/configuration/'];
const SITES = [['site', site], ['starter', join(root, 'starter')], ['docs', join(root, 'docs')]];

let browser;

before(async () => {
  browser = await launch();
  await rm(screenshots, { recursive: true, force: true });
});

after(() => browser?.close());

for (const [name, folder] of SITES) {
  test(`one page of each kind of ${name} is pictured`, async () => {
    const server = await startServer({ folder });
    try {
      const { paths } = await readSite(server);
      const post = paths.find((path) => /^\/blog\/[^/]+\/$/.test(path) && path !== '/blog/tags/');
      const tag = paths.find((path) => /^\/blog\/tags\/[^/]+\/$/.test(path));
      const shown = [...PATHS, ...DOCS_PATHS, post, tag].filter((path) => paths.includes(path));
      const into = join(screenshots, name);
      await mkdir(into, { recursive: true });
      for (const colorScheme of SCHEMES) {
        const context = await browser.newContext({ colorScheme });
        const page = await context.newPage();
        for (const path of [...shown, MISSING]) {
          const file = path === MISSING ? '404' : path.replace(/^\/|\/$/g, '').replaceAll('/', '-') || 'home';
          await page.goto(server.origin + path, { waitUntil: 'load' });
          for (const width of WIDTHS) {
            await page.setViewportSize({ width, height: 900 });
            await page.screenshot({ path: join(into, `${file}-${width}-${colorScheme}.png`), fullPage: true });
          }
        }
        await context.close();
      }
      const files = await readdir(into);
      assert.equal(files.length, (shown.length + 1) * WIDTHS.length * SCHEMES.length);
      for (const file of files) assert.ok((await stat(join(into, file))).size > 2000, `${file} is not blank`);
    } finally {
      await server.stop();
    }
  });
}
