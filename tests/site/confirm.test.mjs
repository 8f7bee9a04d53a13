// Double opt-in in a browser: from the form through the mail to the confirmed address, with and without JavaScript.
import { after, before, describe, test } from 'node:test';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { findViolations, launch, watch } from './support/browser.mjs';
import { none } from './support/list.mjs';
import { startMailbox } from './support/mailbox.mjs';
import { screenshots } from './support/paths.mjs';
import { markdown, startScratch } from './support/scratch.mjs';

let browser;
let mailbox;
let server;

before(async () => {
  mailbox = await startMailbox();
  const channel = `kind = "smtp"\nname = "mail"\nhost = "127.0.0.1"\nport = ${mailbox.port}\ntls = "none"\n` +
    'from = "desk@example.com"\nto = ["team@example.com"]\nforms = ["waitlist"]\n';
  server = await startScratch(
    {
      'pages/index.md': markdown('Home'),
      'pages/waitlist.md': markdown('Waitlist', '', 'form: waitlist\n'),
      'mails/confirm.md': '---\nsubject: Please confirm\n---\n\nOpen {confirm_link} please.\n',
    },
    `\n[forms]\nhtml_posts = true\n\n[forms.waitlist]\nconfirm = "mails/confirm.md"\n\n[[channel]]\n${channel}`,
  );
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await mailbox?.stop();
});

/** The path of the link in a mail with quoted-printable parts. */
function linkIn(message) {
  const text = message.replaceAll('=\r\n', '').replaceAll('=3D', '=');
  const [link] = text.match(/\/_frontdesk\/confirm\/[\w-]+/) ?? [];
  assert.ok(link, text);
  return link;
}

/** Shows a page in all widths and both themes, to axe and for the screenshots. */
async function inspect(path, name) {
  for (const width of [390, 1440]) {
    for (const colorScheme of ['light', 'dark']) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, bypassCSP: true, colorScheme });
      try {
        const page = await context.newPage();
        await page.goto(server.origin + path, { waitUntil: 'load' });
        none(await findViolations(page), `axe complained about ${name}, ${colorScheme}, at ${width} px`);
        await mkdir(screenshots, { recursive: true });
        await page.screenshot({ path: join(screenshots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      } finally {
        await context.close();
      }
    }
  }
}

const statusOf = async (email) => (await server.inbox()).find((it) => it.email === email)?.status;

describe('a visitor confirms an address', () => {
  for (const javaScriptEnabled of [true, false]) {
    test(javaScriptEnabled ? 'with JavaScript' : 'without JavaScript, by keyboard', async () => {
      const context = await browser.newContext({ javaScriptEnabled });
      try {
        const page = await context.newPage();
        const trouble = await watch(page, server.origin);
        const email = `ada-${javaScriptEnabled}@example.com`;
        await page.goto(`${server.origin}/waitlist/`, { waitUntil: 'load' });
        await page.locator('[name=email]').fill(email);
        await page.keyboard.press('Enter');
        await page.getByText('open the link in').waitFor({ state: 'visible' });
        const link = linkIn(await mailbox.next());
        assert.equal(await statusOf(email), 'unconfirmed');
        if (javaScriptEnabled) await inspect(link, 'confirm-ask');
        const answer = await page.goto(server.origin + link, { waitUntil: 'load' });
        assert.equal(answer.status(), 200);
        assert.equal(await page.locator('main button').count(), 1);
        assert.equal(await statusOf(email), 'unconfirmed', 'opening the link changes nothing');
        const button = page.getByRole('button', { name: 'Confirm' });
        await button.focus();
        await page.keyboard.press('Enter');
        await page.getByRole('heading', { name: 'Address confirmed' }).waitFor();
        assert.notEqual(await statusOf(email), 'unconfirmed');
        await page.reload();
        await page.getByRole('heading', { name: 'Address confirmed' }).waitFor();
        assert.match(await mailbox.next(), /^To: .*team@example\.com/m);
        if (javaScriptEnabled) await inspect(link, 'confirm-done');
        none(trouble, 'the browser complained');
      } finally {
        await context.close();
      }
    });
  }

  test('a damaged link leads to a page with an explanation', async () => {
    await inspect('/_frontdesk/confirm/damaged', 'confirm-invalid');
    const context = await browser.newContext();
    try {
      const page = await context.newPage();
      const answer = await page.goto(`${server.origin}/_frontdesk/confirm/damaged`, { waitUntil: 'load' });
      assert.equal(answer.status(), 404);
      await page.getByRole('heading', { name: 'This link is not valid' }).waitFor();
      assert.equal(await page.locator('main form').count(), 0);
    } finally {
      await context.close();
    }
  });
});
