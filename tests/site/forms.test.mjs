// Both forms in a real browser: what a visitor sees, and what the inbox contains afterwards.
import { after, before, describe, test } from 'node:test';
import { rename, rm, stat } from 'node:fs/promises';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { get, postJson } from './support/http.mjs';
import { none } from './support/list.mjs';
import { startServer } from './support/server.mjs';
import { readSite, twinOf } from './support/sitemap.mjs';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Valid values for each form. `who` makes them unique to a test. */
const FORMS = {
  waitlist: (who) => ({ email: `${who}@example.com` }),
  contact: (who) => ({
    name: `Ada of ${who}`,
    email: `${who}@example.com`,
    message: `First line of ${who}, with “quotes” & <angle brackets>.\n\nSecond paragraph: naïve, 東京, 🚪.`,
  }),
};

let browser;
let server;
let site;
/** The path of a page that has the form. */
const pages = {};

before(async () => {
  server = await startServer();
  site = await readSite(server);
  browser = await launch();
  const page = await browser.newPage();
  for (const path of site.paths) {
    await page.goto(server.origin + path);
    for (const form of Object.keys(FORMS)) {
      if (await page.locator(`form[action="/api/${form}"]`).count()) pages[form] ??= path;
    }
  }
  await page.close();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens the page of a form in a new browser profile, passes it to `act`, and closes it. */
async function visit(form, act, { at = server, context: options = {} } = {}) {
  assert.ok(pages[form], `no page of the sitemap has a form that goes to /api/${form}`);
  const context = await browser.newContext(options);
  const trouble = [];
  try {
    const page = await context.newPage();
    await watch(page, at.origin, trouble);
    await page.goto(at.origin + pages[form], { waitUntil: 'load' });
    await act(desk(page, form), page, context);
    // Chromium logs a refused request as an error, but these tests expect refusals.
    const isRefusal = (line) => /^(console: Failed to load resource|request failed:)/.test(line);
    none(trouble.filter((line) => !isRefusal(line)), 'the browser complained');
  } catch (error) {
    const said = [...trouble, ...at.log().split('\n').slice(-20)];
    throw new Error(`${error.message}\nThe browser and the server said:\n${said.join('\n')}`, { cause: error });
  } finally {
    await context.close();
  }
}

/** One form on a page. */
function desk(page, name) {
  const form = page.locator(`form[action="/api/${name}"]`);
  const field = (key) => form.locator(`[name="${key}"]`);
  const button = form.locator('button[type=submit]');
  const focused = () => page.evaluate(() => {
    const it = document.activeElement;
    return { name: it.getAttribute('name'), text: it.textContent.trim(), body: it === document.body, visible: it.checkVisibility() };
  });
  return {
    form,
    field,
    button,
    focused,
    async fill(values) {
      for (const [key, value] of Object.entries(values)) await field(key).fill(value);
    },
    /** Presses the button and returns the response. */
    async send(press = () => button.click()) {
      const isAnswer = (response) => response.url().endsWith(`/api/${name}`);
      const [answer] = await Promise.all([page.waitForResponse(isAnswer), press()]);
      return answer;
    },
    async expectSuccess() {
      await form.waitFor({ state: 'hidden' });
      const { text, body, visible } = await focused();
      assert.ok(!body && visible && text.length > 0, `the focus is on what says that it worked, not on «${text}»`);
      const said = await page.evaluate(() => document.activeElement.parentElement.innerText);
      assert.ok(said.length > text.length + 20, `it says what happens next: «${said}»`);
    },
    async expectKept(values) {
      assert.ok(await form.isVisible(), 'the form is still there');
      for (const [key, value] of Object.entries(values)) assert.equal(await field(key).inputValue(), value, key);
      assert.notEqual(await button.getAttribute('aria-disabled'), 'true', 'the button works again');
      assert.ok(await button.isEnabled(), 'the button works again');
    },
    /** The text of the form's live region once it is longer than the progress message. */
    async status() {
      const region = form.locator('[role=status], [role=alert], [aria-live]').first();
      await page.waitForFunction((it) => it.textContent.trim().length > 20, await region.elementHandle());
      assert.ok(await region.isVisible(), 'the message is visible');
      return (await region.innerText()).trim();
    },
    /** The error message beside a field, which `aria-describedby` must reference. */
    async error(key) {
      const input = field(key);
      await page.waitForFunction((it) => it.getAttribute('aria-invalid') === 'true', await input.elementHandle());
      const tied = ((await input.getAttribute('aria-describedby')) ?? '').split(/\s+/).filter(Boolean);
      const texts = [];
      for (const id of tied) {
        const line = page.locator(`[id="${id}"]`);
        assert.equal(await line.count(), 1, `aria-describedby of ${key} names #${id}`);
        if (await line.isVisible()) texts.push((await line.innerText()).trim());
      }
      return texts.join(' ');
    },
  };
}

/** The submissions with this form and e-mail address. */
async function kept(form, email, at = server) {
  return (await at.inbox()).filter((it) => it.form === form && it.email === email);
}

async function expectInInbox(form, values, at = server) {
  const found = await kept(form, values.email, at);
  assert.equal(found.length, 1, `${form} ${values.email} is in the inbox exactly once`);
  for (const [key, value] of Object.entries(values)) assert.equal(found[0][key], value, key);
  assert.ok(found[0].id && found[0].received_at && found[0].status, 'with id, time and status');
}

for (const [name, values] of Object.entries(FORMS)) {
  describe(name, () => {
    test('a submission reaches the inbox, and the page confirms it', () =>
      visit(name, async (desk) => {
        const sent = values(`sent-${name}`);
        await desk.fill(sent);
        const answer = await desk.send();
        assert.equal(answer.status(), 200);
        assert.deepEqual(await answer.json(), { ok: true });
        assert.match(answer.request().headers()['idempotency-key'] ?? '', UUID);
        await desk.expectSuccess();
        await expectInInbox(name, sent);
      }));

    test('the form can be used with the keyboard alone', () =>
      visit(name, async (desk, page) => {
        const sent = values(`keyboard-${name}`);
        const keys = Object.keys(sent);
        for (const key of keys) {
          for (let tabs = 0; (await desk.focused()).name !== key; tabs += 1) {
            assert.ok(tabs < 200, `${key} is reached by Tab`);
            await page.keyboard.press('Tab');
          }
          const lines = sent[key].split('\n');
          for (const [at, line] of lines.entries()) {
            if (at > 0) await page.keyboard.press('Enter');
            await page.keyboard.insertText(line);
          }
        }
        const answer = await desk.send(async () => {
          // Enter submits the form in a single-line field. In a text area, move on to the button.
          if (keys.length > 1) await page.keyboard.press('Tab');
          await page.keyboard.press('Enter');
        });
        assert.equal(answer.status(), 200);
        await desk.expectSuccess();
        await expectInInbox(name, sent);
      }));

    test('an invalid address shows an error beside its field, which gets the focus', () =>
      visit(name, async (desk) => {
        const sent = { ...values(`invalid-${name}`), email: 'ada@@example' };
        await desk.fill(sent);
        const answer = await desk.send();
        assert.equal(answer.status(), 400);
        const { error } = await answer.json();
        const clause = error.match(/`email`([^;`]+)/)?.[1].replace(/\.$/, '').trim();
        assert.ok(clause, `the sentence names \`email\`: ${error}`);
        const shown = await desk.error('email');
        assert.ok(shown.includes(clause), `«${clause}» is beside the field, which says «${shown}»`);
        assert.equal((await desk.focused()).name, 'email');
        await desk.expectKept(sent);
        assert.deepEqual(await kept(name, sent.email), []);

        // After the correction, the form is accepted and the error message disappears.
        const mended = values(`mended-${name}`);
        await desk.field('email').fill(mended.email);
        assert.notEqual(await desk.field('email').getAttribute('aria-invalid'), 'true');
        await desk.fill(mended);
        assert.equal((await desk.send()).status(), 200);
        await desk.expectSuccess();
        await expectInInbox(name, mended);
      }));

    test('each empty field shows an error, and the first one gets the focus', () =>
      visit(name, async (desk) => {
        const keys = Object.keys(values('x'));
        const answer = await desk.send();
        assert.equal(answer.status(), 400);
        const { error } = await answer.json();
        for (const key of keys) {
          assert.ok(error.includes(`\`${key}\``), `the sentence names ${key}: ${error}`);
          assert.ok((await desk.error(key)).length > 0, `${key} has its message`);
        }
        assert.equal((await desk.focused()).name, keys[0]);
      }));

    test('a double click sends once', () =>
      visit(name, async (desk, page) => {
        const sent = values(`double-${name}`);
        let requests = 0;
        // Delay all responses until every button has been pressed.
        let release;
        const isPressed = new Promise((resolve) => {
          release = resolve;
        });
        await page.route(`**/api/${name}`, async (route) => {
          requests += 1;
          await isPressed;
          await route.continue();
        });
        await desk.fill(sent);
        const answer = await desk.send(async () => {
          try {
            await desk.button.dblclick();
            await desk.field('email').press('Enter');
          } finally {
            release();
          }
        });
        assert.equal(answer.status(), 200);
        await desk.expectSuccess();
        assert.equal(requests, 1, 'requests');
        await expectInInbox(name, sent);
      }));

    test('too many requests: the page says when to try again, and keeps what was typed', async () => {
      const strict = await startServer({
        // The next request is allowed in an hour, so the result does not depend on the browser's speed.
        env: { FRONTDESK_LIMITS__ENABLED: 'true', FRONTDESK_LIMITS__PER_MINUTE: '1', FRONTDESK_LIMITS__PER_HOUR: '1' },
      });
      try {
        const first = await postJson(`${strict.origin}/api/${name}`, values(`first-${name}`));
        assert.equal(first.status, 200);
        await visit(name, async (desk) => {
          const sent = values(`limited-${name}`);
          await desk.fill(sent);
          const answer = await desk.send();
          assert.equal(answer.status(), 429);
          assert.match(answer.headers()['retry-after'] ?? '', /^[1-9][0-9]*$/);
          assert.equal(typeof (await answer.json()).error, 'string');
          assert.match(await desk.status(), /second|minute/i);
          await desk.expectKept(sent);
          assert.deepEqual(await kept(name, sent.email, strict), []);
        }, { at: strict });
      } finally {
        await strict.stop();
      }
    });

    test('a server that cannot store it: the page says so and keeps the input, and a retry works', async () => {
      const broken = await startServer();
      const aside = `${broken.dataDir}.aside`;
      try {
        await visit(name, async (desk) => {
          const sent = values(`broken-${name}`);
          await desk.fill(sent);
          // Without its data folder, the server cannot store submissions, and must not create the folder
          // again.
          await rename(broken.dataDir, aside);
          const answer = await desk.send();
          assert.equal(answer.status(), 500);
          assert.equal(typeof (await answer.json()).error, 'string');
          assert.ok((await desk.status()).length > 0);
          await desk.expectKept(sent);
          assert.equal((await get(broken.origin + pages[name])).status, 200, 'pages are still served');

          await assert.rejects(stat(broken.dataDir), { code: 'ENOENT' });
          await rename(aside, broken.dataDir);
          let later;
          for (let attempt = 0; attempt < 120 && later?.status() !== 200; attempt += 1) {
            if (later) await new Promise((resolve) => setTimeout(resolve, 500));
            later = await desk.send();
          }
          assert.equal(later.status(), 200, 'it recovers by itself');
          await desk.expectSuccess();
          await expectInInbox(name, sent, broken);
        }, { at: broken });
      } finally {
        await broken.stop();
        await rm(aside, { recursive: true, force: true });
      }
    });

    test('no connection: the page says so and keeps what was typed', () =>
      visit(name, async (desk, _, context) => {
        const sent = values(`offline-${name}`);
        await desk.fill(sent);
        await context.setOffline(true);
        await desk.button.click();
        assert.ok((await desk.status()).length > 0);
        await desk.expectKept(sent);
        await context.setOffline(false);
        assert.equal((await desk.send()).status(), 200);
        await desk.expectSuccess();
        await expectInInbox(name, sent);
      }));

    test('without JavaScript the page shows an e-mail address instead of the form', () =>
      visit(name, async (desk, page) => {
        assert.equal(await desk.form.isVisible(), false, 'no dead form');
        for (const control of await page.locator('input, textarea, button').all()) {
          assert.equal(await control.isVisible(), false, 'no dead control');
        }
        const address = page.locator('main a[href^="mailto:"]').first();
        assert.ok(await address.isVisible(), 'the operator’s address is visible');
        assert.match(await address.innerText(), /@/);
      }, { context: { javaScriptEnabled: false } }));

    test('fields have labels, autocomplete and a live region for messages', () =>
      visit(name, async (desk) => {
        for (const key of Object.keys(values('x'))) {
          assert.ok(await desk.field(key).evaluate((it) => it.labels.length > 0), `${key} has a label`);
          if (key !== 'message') {
            assert.equal(await desk.field(key).getAttribute('autocomplete'), key === 'email' ? 'email' : 'name');
          }
        }
        assert.ok(await desk.form.locator('[role=status], [aria-live=polite]').count(), 'a polite live region');
      }));
  });
}

test('“Copy as Markdown” copies the twin', async () => {
  const post = site.paths.find((path) => /^\/blog\/[^/]+\/$/.test(path) && !path.startsWith('/blog/tags/'));
  const context = await browser.newContext();
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.origin });
  try {
    for (const path of ['/', pages.contact, post].filter(Boolean)) {
      const page = await context.newPage();
      await page.goto(server.origin + path, { waitUntil: 'load' });
      await page.getByRole('button', { name: 'Copy as Markdown' }).first().click();
      await page.getByText('clipboard').first().waitFor({ state: 'attached' });
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      const twin = await get(server.origin + twinOf(path));
      assert.equal(copied, twin.text, path);
      await page.close();
    }
  } finally {
    await context.close();
  }
});
