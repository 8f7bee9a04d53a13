// A page from a site generator in a real browser: its own code runs, and its forms can be submitted.
import { after, before, test } from 'node:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { none } from './support/list.mjs';
import { startServer } from './support/server.mjs';

// The form has neither elements for messages nor a hidden field, and two controls are named like members of forms. The page has every kind of inline code.
const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Contact</title>
<style>h1 { color: rgb(1, 2, 3) }</style></head>
<body onload="document.body.dataset.loaded = 'yes'"><h1 style="margin: 7px">Contact</h1>
<form data-frontdesk="contact" data-done="It has arrived.">
<label>Your name <input name="name" required></label>
<label>E-mail <input name="email" type="email" required></label>
<label>Message <textarea name="message" required></textarea></label>
<button type="reset" name="reset">Clear</button> <input name="elements"> <button>Send</button></form>
<script>document.body.dataset.script = 'yes';
document.addEventListener('frontdesk:sent', (event) => { document.body.dataset.sent = event.detail.form; });</script>
<script src="/_frontdesk/forms.js" defer></script></body></html>`;

let browser;
let server;
let folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'frontdesk-build-'));
  await writeFile(join(folder, 'index.html'), PAGE);
  server = await startServer({ folder });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('the code of a built page runs, and its form can be submitted', async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const trouble = await watch(page, server.origin);
  const referer = 'https://search.example.com/find?text=cranes';
  await page.goto(`${server.origin}/?utm_campaign=spring&q=1`, { waitUntil: 'load', referer });
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('h1')).color), 'rgb(1, 2, 3)');
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('h1')).marginTop), '7px');
  assert.deepEqual(await page.evaluate(() => ({ ...document.body.dataset })), { loaded: 'yes', script: 'yes' });

  const field = (name) => page.locator(`[name=${name}]`);
  await field('name').fill('Ada');
  await field('email').fill('ada@@example');
  await field('message').fill('Hello there, this is a question.');
  await page.locator('button:not([type=reset])').click();
  const error = page.locator('#frontdesk-contact-email-error');
  await error.waitFor();
  assert.match(await error.innerText(), /^E-mail must be an e-mail address/);
  assert.equal(await field('email').getAttribute('aria-invalid'), 'true');
  assert.equal(await page.evaluate(() => document.activeElement.name), 'email');
  assert.match(await page.locator('[role=status]').innerText(), /Please correct: E-mail\./);
  assert.deepEqual(await server.inbox(), []);

  await field('email').fill('ada@example.com');
  assert.equal(await error.isVisible(), false);
  await page.locator('button:not([type=reset])').click();
  await page.waitForFunction(() => document.body.dataset.sent === 'contact');
  assert.equal(await page.locator('[role=status]').innerText(), 'It has arrived.');
  assert.equal(await field('message').inputValue(), '');
  assert.equal(await field('desk_note').boundingBox().then((box) => box.x + box.width < 0), true);
  const [kept, ...others] = await server.inbox();
  assert.deepEqual(kept.lead, { page: '/', referrer: 'search.example.com', utm_campaign: 'spring' });
  assert.deepEqual(await page.evaluate(() => [sessionStorage.length, localStorage.length]), [0, 0]);
  assert.deepEqual(
    [kept.form, kept.name, kept.email, kept.message, others.length],
    ['contact', 'Ada', 'ada@example.com', 'Hello there, this is a question.', 0],
  );
  const isRefusal = (line) => /^console: Failed to load resource/.test(line);
  none(trouble.filter((line) => !isRefusal(line)), 'the browser complained');
  await context.close();
});

test('a form that a script inserts and changes sends what a browser would send', async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${server.origin}/`, { waitUntil: 'load' });
  await page.evaluate(() => {
    document.body.insertAdjacentHTML('beforeend', `<form data-frontdesk="contact" id="later">
      <label>Your name <input name="name"></label> <label>E-mail <input name="email" type="email"></label>
      <fieldset disabled><input name="company" value="Not sent" required></fieldset>
      <label>Attachment <input name="cv" type="file"></label>
      <button name="message" value="Call me back">Call</button> <button name="message" value="Write to me">Write</button></form>`);
  });
  const form = page.locator('#later');
  const status = form.locator('[role=status]');
  await form.locator('[name=name]').fill('Ada');
  await page.evaluate(() => document.querySelector('#later [name=email]').remove());
  await form.getByText('Write').click();
  await page.waitForFunction(() => /`email` is required/.test(document.querySelector('#later [role=status]').innerText));
  await page.evaluate(() => {
    document.querySelector('#later').insertAdjacentHTML('afterbegin', '<label>E-mail <input name="email" type="email"></label>');
  });
  await form.locator('[name=email]').fill('ada@@example');
  await form.getByText('Write').click();
  await page.waitForFunction(() => /Please correct: E-mail\./.test(document.querySelector('#later [role=status]').innerText));
  const ids = await page.evaluate(() => [...document.querySelectorAll('[id]')].map((it) => it.id));
  assert.equal(new Set(ids).size, ids.length, `the ids are unique: ${ids}`);
  await form.locator('[name=email]').fill('ada@example.com');
  await form.locator('[name=cv]').setInputFiles({ name: 'cv.pdf', mimeType: 'application/pdf', buffer: Buffer.from('1') });
  await form.getByText('Write').click();
  await page.waitForFunction(() => /A file cannot be sent/.test(document.querySelector('#later [role=status]').innerText));
  await form.locator('[name=cv]').setInputFiles([]);
  await form.getByText('Write').click();
  await page.waitForFunction(() => document.body.dataset.sent === 'contact');
  assert.match(await status.innerText(), /^Thank you/);
  const kept = (await server.inbox()).find((it) => it.message === 'Write to me');
  assert.deepEqual([kept.name, kept.email, kept.company], ['Ada', 'ada@example.com', undefined]);
  await context.close();
});
