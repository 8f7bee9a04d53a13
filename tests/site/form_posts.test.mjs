// The forms in a browser without JavaScript: a new site accepts what the browser sends by itself.
import { after, before, describe, test } from 'node:test';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { findViolations, follow, launch, watch } from './support/browser.mjs';
import { none } from './support/list.mjs';
import { screenshots } from './support/paths.mjs';
import { markdown, startScratch } from './support/scratch.mjs';

const WIDTHS = [390, 1440];
const HOSTILE = '"><script>document.title = "stolen"</script>';

let browser;
let server;

before(async () => {
  const form = (name) => `form: ${name}\n`;
  server = await startScratch(
    {
      'pages/index.md': markdown('Home'),
      'pages/contact.md': markdown('Contact', '', form('contact')),
      'pages/waitlist.md': markdown('Waitlist', '', form('waitlist')),
      'pages/de/index.md': markdown('Start'),
      'pages/de/contact.md': markdown('Kontakt', '', form('contact')),
      'pages/de/thanks.md': markdown('Danke sehr'),
    },
    'languages = ["en", "de"]\n\n[forms]\nhtml_posts = true\n',
  );
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens a page without JavaScript, passes it to `act`, and expects no complaints of the browser. */
async function visit(path, act, options = {}) {
  const context = await browser.newContext({ javaScriptEnabled: false, ...options });
  try {
    const page = await context.newPage();
    const trouble = await watch(page, server.origin);
    await page.goto(server.origin + path, { waitUntil: 'load' });
    await act(page);
    const isRefusal = (line) => /^console: Failed to load resource/.test(line);
    none(trouble.filter((line) => !isRefusal(line)), 'the browser complained');
  } finally {
    await context.close();
  }
}

const fill = async (page, values) => {
  for (const [name, value] of Object.entries(values)) await page.locator(`[name=${name}]`).fill(value);
};

/** Sends the form with `press`, and returns the response. */
const send = async (page, press = (button) => follow(page, button)) => {
  const [response] = await Promise.all([
    page.waitForResponse((it) => it.request().method() === 'POST'),
    press(page.locator('form[data-frontdesk] button[type=submit]')),
  ]);
  return response;
};

/** Runs axe on the page's HTML, in a page that permits scripts. */
async function audit(page, width) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, bypassCSP: true });
  try {
    const copy = await context.newPage();
    const html = await page.content();
    await copy.route('**/*', (route) =>
      route.request().isNavigationRequest()
        ? route.fulfill({ contentType: 'text/html; charset=utf-8', body: html })
        : route.continue());
    await copy.goto(`${server.origin}/copy`, { waitUntil: 'load' });
    none(await findViolations(copy), 'axe complained');
  } finally {
    await context.close();
  }
}

async function capture(page, name) {
  await mkdir(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true });
}

const inInbox = async (email) => (await server.inbox()).filter((it) => it.email === email);

describe('without JavaScript', () => {
  for (const width of WIDTHS) {
    const options = { viewport: { width, height: 900 } };

    test(`a contact message leads to the thank-you page at ${width} px`, () =>
      visit('/contact/', async (page) => {
        const email = `success-${width}@example.com`;
        assert.equal(await page.locator('[data-instead]').count(), 0);
        await fill(page, { name: 'Ada', email, message: 'First line\nSecond line: naïve, 東京' });
        assert.equal((await send(page)).status(), 303);
        assert.equal(page.url(), `${server.origin}/thanks/`);
        assert.equal(await page.locator('h1').innerText(), 'Thank you');
        await capture(page, `thanks-${width}`);
        await audit(page, width);
        const [kept, ...others] = await inInbox(email);
        assert.deepEqual([kept.message, others], ['First line\nSecond line: naïve, 東京', []]);
        await page.reload();
        await page.goBack();
        assert.equal(page.url(), `${server.origin}/contact/`);
        assert.ok(await page.locator('form[data-frontdesk]').isVisible());
        assert.equal((await inInbox(email)).length, 1, 'neither a reload nor the Back button sends again');
      }, options));

    test(`errors appear beside their fields, which keep their text, at ${width} px`, () =>
      visit('/contact/', async (page) => {
        const message = `\n${HOSTILE}</textarea>`;
        await fill(page, { name: HOSTILE, email: 'nobody', message });
        assert.equal((await send(page)).status(), 400);
        assert.match(await page.title(), /^Error: Contact/);
        const field = (name) => page.locator(`[name=${name}]`);
        assert.equal(await field('name').inputValue(), HOSTILE);
        assert.equal(await field('email').inputValue(), 'nobody');
        assert.equal(await field('message').inputValue(), message);
        assert.equal(await page.locator('main script').count(), 0);
        const [error] = (await field('email').getAttribute('aria-describedby')).split(' ');
        assert.match(await page.locator(`#${error}`).innerText(), /^Please enter an e-mail address/);
        assert.equal(await page.locator('[aria-invalid]').count(), 1);
        await capture(page, `form-error-${width}`);
        await audit(page, width);
        // The summary has the focus, and its links follow.
        const focused = () => page.locator(':focus');
        assert.match(await focused().innerText(), /^Not sent\. Please correct: E-mail\.$/);
        await page.keyboard.press('Tab');
        assert.equal(await focused().innerText(), 'E-mail');
        await page.keyboard.press('Enter');
        await page.waitForURL(/#form-contact-email$/);
        const email = `corrected-${width}@example.com`;
        await fill(page, { email });
        assert.equal((await send(page)).status(), 303);
        const [kept] = await inInbox(email);
        assert.deepEqual([kept.name, kept.message], [HOSTILE, message]);
      }, options));
  }

  test('the answers are in the language of the page, also on a page of the operator', () =>
    visit('/de/contact/', async (page) => {
      await fill(page, { name: 'Ada' });
      assert.equal((await send(page)).status(), 400);
      assert.equal(await page.locator('html').getAttribute('lang'), 'de');
      assert.match(await page.locator('[data-status]').innerText(), /^Nicht gesendet\. Bitte korrigieren Sie: E-Mail, /);
      await fill(page, { email: 'german@example.com', message: 'Hallo' });
      await send(page);
      assert.equal(page.url(), `${server.origin}/de/thanks/`);
      assert.equal(await page.locator('h1').innerText(), 'Danke sehr');
    }));

  test('the waitlist gives the same answer to a known address', () =>
    visit('/waitlist/', async (page) => {
      for (let i = 0; i < 2; i += 1) {
        await page.goto(`${server.origin}/waitlist/`);
        await fill(page, { email: 'known@example.com' });
        assert.equal((await send(page)).status(), 303);
        assert.equal(page.url(), `${server.origin}/thanks/`);
      }
      assert.equal((await inInbox('known@example.com')).length, 1);
    }));

  test('the address of a form in the address bar shows the form', () =>
    visit('/api/contact', async (page) => {
      assert.match(await page.locator('[data-status]').innerText(), /^Nothing has been sent yet/);
      await fill(page, { name: 'Ada', email: 'bar@example.com', message: 'Hello' });
      assert.equal((await send(page)).status(), 303);
    }));
});

test('with JavaScript, the script sends the form, also from the page with errors', () =>
  visit('/contact/', async (page) => {
    const values = { name: 'Ada', email: 'nobody', message: 'Hello' };
    await fill(page, values);
    // As if the visitor had sent the form before its script ran.
    await page.evaluate(() => document.querySelector('form[data-frontdesk]').submit());
    await page.waitForURL('**/api/contact?page=/contact/');
    assert.equal(await page.locator('[name=message]').inputValue(), 'Hello');
    await fill(page, { email: 'script@example.com' });
    const response = await send(page, (button) => button.click());
    assert.equal(response.request().headers()['content-type'], 'application/json');
    await page.locator('[data-done]').waitFor({ state: 'visible' });
    assert.equal((await inInbox('script@example.com')).length, 1);
  }, { javaScriptEnabled: true }));
