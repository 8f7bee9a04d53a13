// The choice of theme, the brand, and the layout of the header and of code blocks, in a browser.
import { after, before, test } from 'node:test';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { none } from './support/list.mjs';
import { root } from './support/paths.mjs';
import { startServer } from './support/server.mjs';

const LIGHT = 'rgb(255, 255, 255)';
const DARK = 'rgb(17, 19, 24)';

let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

/** Opens a page in a new context, passes it to `work`, and checks that the browser has nothing to complain about. */
async function visit(path, work, options = {}, at = server) {
  const context = await browser.newContext(options);
  try {
    const page = await context.newPage();
    const trouble = await watch(page, at.origin);
    await page.goto(at.origin + path, { waitUntil: 'load' });
    await work(page, context);
    none(trouble, 'the browser complained');
  } finally {
    await context.close();
  }
}

test('the button changes the theme, and says which one is in use', () =>
  visit('/', async (page) => {
    const button = page.locator('[data-theme-button]');
    const label = () => button.getAttribute('aria-label');
    assert.equal(await label(), 'Theme: same as system');
    assert.equal(await background(page), DARK);
    await button.click();
    assert.equal(await label(), 'Theme: light');
    assert.equal(await page.locator('[data-announce]').textContent(), 'Theme: light');
    assert.equal(await background(page), LIGHT);
    await button.press('Enter');
    assert.equal(await label(), 'Theme: dark');
    assert.equal(await background(page), DARK);
    await button.press('Enter');
    assert.equal(await label(), 'Theme: same as system');
    assert.equal(await page.evaluate(() => localStorage.length), 0, 'nothing is stored');
  }, { colorScheme: 'dark' }));

test('the choice holds on other pages, from their first paint, without a cookie', () =>
  visit('/', async (page, context) => {
    await page.locator('[data-theme-button]').click();
    await page.locator('[data-theme-button]').click();
    // The deferred script, which runs later, is not needed.
    await page.route('**/script.*.js', (route) => route.fulfill({ contentType: 'text/javascript', body: '' }));
    await page.goto(`${server.origin}/contact/`, { waitUntil: 'domcontentloaded' });
    assert.equal(await background(page), DARK);
    const isEarly = await page.evaluate(() => {
      const [script] = document.querySelectorAll('head script[src*="/theme."]');
      const sheet = document.querySelector('link[rel=stylesheet]');
      const comesFirst = script.compareDocumentPosition(sheet) & Node.DOCUMENT_POSITION_FOLLOWING;
      return !script.defer && !script.async && Boolean(comesFirst);
    });
    assert.ok(isEarly, 'theme.js runs before the stylesheet');
    assert.deepEqual(await context.cookies(), []);
  }, { colorScheme: 'light' }));

test('without scripts the page follows the system, and has no button', () =>
  visit('/', async (page) => {
    assert.equal(await page.locator('[data-theme-button]').isVisible(), false);
    // `evaluate` works all the same: only the page's own scripts are off.
    assert.equal(await background(page), DARK);
  }, { colorScheme: 'dark', javaScriptEnabled: false }));

test('diagrams follow the chosen theme', () =>
  visit('/', async (page) => {
    const diagram = page.locator('img[src*="/assets/decision-path."]');
    const picture = async () => (await diagram.screenshot()).toString('base64');
    const light = await picture();
    const button = page.locator('[data-theme-button]');
    await button.click();
    assert.equal(await picture(), light, 'light is the system’s theme already');
    await button.click();
    await page.mouse.move(0, 0);
    assert.notEqual(await picture(), light, 'the diagram is dark');
  }, { colorScheme: 'light' }));

test('the navigation has one line at every width, and code is no wider than text', () =>
  visit('/developers/', async (page) => {
    for (const width of [320, 390, 768, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      const found = await page.evaluate(() => {
        const box = (element) => element.getBoundingClientRect();
        const lines = new Set([...document.querySelectorAll('.main-nav li')].map((item) => Math.round(box(item).top)));
        const text = Math.max(...[...document.querySelectorAll('.prose > p')].map((it) => box(it).right));
        const code = Math.max(...[...document.querySelectorAll('.prose pre')].map((it) => box(it).right));
        return { lines: lines.size, excess: code - text };
      });
      assert.equal(found.lines, 1, `${width} px`);
      assert.ok(found.excess < 1, `${width} px: code is ${found.excess} px wider than text`);
    }
  }));

test('a form takes its space before its script has run, so that the page does not move', () =>
  visit('/contact/', async (page) => {
    const box = (it) => ({ height: it.getBoundingClientRect().height, visible: it.checkVisibility({ visibilityProperty: true }) });
    const form = page.locator('form[data-frontdesk]');
    const ready = await form.evaluate(box);
    assert.ok(ready.visible);
    await page.route('**/forms.*.js', (route) => route.fulfill({ contentType: 'text/javascript', body: '' }));
    await page.reload({ waitUntil: 'load' });
    assert.deepEqual(await form.evaluate(box), { height: ready.height, visible: false });
    await page.locator('[data-instead]').waitFor({ state: 'visible' });
  }));

test('a brand sets logo, icon, preview and colours in both themes, within the policy', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'frontdesk-brand-'));
  try {
    await cp(join(root, 'starter'), folder, { recursive: true });
    await cp(join(root, 'site/assets'), join(folder, 'assets'), { recursive: true });
    const file = join(folder, 'frontdesk.toml');
    const brand = '[brand]\nlogo = "logo.svg"\nfavicon = "favicon.svg"\nimage = "og.png"\naccent = "#7c2d92"\naccent_dark = "#f0abfc"\n';
    await writeFile(file, (await readFile(file, 'utf8')).replace('[brand]\n', brand));
    const branded = await startServer({ folder });
    try {
      for (const [colorScheme, accent, text] of [
        ['light', 'rgb(124, 45, 146)', 'rgb(255, 255, 255)'],
        ['dark', 'rgb(240, 171, 252)', 'rgb(0, 0, 0)'],
      ]) {
        await visit('/', async (page) => {
          const button = page.locator('.button').first();
          const style = await button.evaluate((it) => [getComputedStyle(it).backgroundColor, getComputedStyle(it).color]);
          assert.deepEqual(style, [accent, text]);
          const logo = page.locator('.brand img');
          assert.ok(await logo.evaluate((it) => it.complete && it.naturalWidth > 0), 'the logo is shown');
          assert.equal(await page.locator('.brand').innerText(), 'Example');
          assert.match(await page.locator('link[rel=icon]').getAttribute('href'), /^\/assets\/favicon\.[0-9a-f]{10}\.svg$/);
          const image = await page.locator('meta[property="og:image"]').getAttribute('content');
          assert.match(image, /^https:\/\/www\.example\.com\/assets\/og\.[0-9a-f]{10}\.png$/);
        }, { colorScheme }, branded);
      }
    } finally {
      await branded.stop();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test('at 1280 px no comment is cut off, the menu ends above the footer, and a full stop follows code at once', async () => {
  const documentation = await startServer({ folder: join(root, 'docs') });
  try {
    for (const path of ['/configuration/', '/any-site/', '/deliveries/', '/authoring/']) {
      await visit(path, async (page) => {
        await page.setViewportSize({ width: 1280, height: 800 });
        await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
        const found = await page.evaluate(() => {
          const box = (it) => it.getBoundingClientRect();
          // The first letter after each piece of inline code, if it is a full stop.
          const gaps = [...document.querySelectorAll('.prose > p > code')].flatMap((code) => {
            const next = code.nextSibling;
            if (next?.nodeType !== Node.TEXT_NODE || !next.data.startsWith('.')) return [];
            const [text, stop] = [new Range(), new Range()];
            text.selectNodeContents(code);
            stop.setStart(next, 0);
            stop.setEnd(next, 1);
            const [end, start] = [[...text.getClientRects()].at(-1), box(stop)];
            // They may be on different lines.
            return Math.abs(end.bottom - start.bottom) < 8 ? [start.left - end.right] : [];
          });
          const comments = [...document.querySelectorAll('pre .c-comment')];
          const cut = comments.filter((it) => {
            const end = box(it.closest('pre')).right;
            return [...it.getClientRects()].some((part) => part.right > end);
          });
          return {
            gaps,
            comments: comments.length,
            cut: cut.map((it) => it.textContent),
            distance: box(document.querySelector('.foot')).top - box(document.querySelector('.section-nav')).bottom,
          };
        });
        none(found.cut, `comments of ${path} are cut off`);
        assert.ok(found.distance >= 16, `the menu of ${path} ends ${found.distance} px above the footer`);
        none(found.gaps.filter((gap) => gap > 1), `full stops of ${path} do not follow code at once`);
        if (path === '/configuration/') assert.ok(found.comments > 0, 'there are comments');
      }, {}, documentation);
    }
  } finally {
    await documentation.stop();
  }
});
