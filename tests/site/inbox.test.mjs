// The inbox's web interface in a real browser: with and without JavaScript, by keyboard only, and on a phone.
import { after, before, describe, test } from 'node:test';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import assert from 'node:assert/strict';
import { promisify } from 'node:util';
import { follow, launch, watch } from './support/browser.mjs';
import { postJson } from './support/http.mjs';
import { none } from './support/list.mjs';
import { binary, packages, site } from './support/paths.mjs';
import { startServer } from './support/server.mjs';

const run = promisify(execFile);

let browser;
let server;
let axe;

before(async () => {
  server = await startServer({ env: { FRONTDESK_INBOX__LISTEN: '127.0.0.1:0' } });
  browser = await launch();
  axe = await readFile(packages.resolve('axe-core'), 'utf8');
  await contact('Marta Lindqvist', 'We need two inspection robots before spring.\n\nCould you send a quote?');
  await contact('<b>Eve</b>', '<img src=x onerror=alert(1)> "quoted" & more');
  await spam(1);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const contact = (name, message) =>
  postJson(`${server.origin}/api/contact`, { name, email: `${name.replace(/\W/g, '')}@example.com`.toLowerCase(), message });

const spam = (n) =>
  contact(
    `Rank ${n}`,
    `Buy cheap backlinks ${n}! Guaranteed first page on Google. https://a.example https://b.example https://c.example https://d.example casino viagra`,
  );

/** Runs `frontdesk inbox` with these arguments, and returns its output. */
async function inbox(...args) {
  const { stdout } = await run(binary, ['inbox', ...args, '--site', site, '--data-dir', server.dataDir]);
  return stdout;
}

/** Logs in in a new browser profile, passes its page to `act`, and closes it. */
async function visit(act, { width = 1440, height = 900, ...options } = {}) {
  const origin = await address();
  const context = await browser.newContext({ viewport: { width, height }, ...options });
  const trouble = [];
  try {
    const page = await context.newPage();
    await watch(page, origin, trouble);
    await page.goto((await inbox('open', '--print', '--address', origin)).trim());
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.waitForURL(`${origin}/?state=open`);
    await act(page, origin);
    // Leaving a page ends its requests.
    none(trouble.filter((line) => !/: net::ERR_ABORTED$/.test(line)), 'the browser complained');
  } finally {
    await context.close();
  }
}

/** The origin of the web interface, which the server prints. */
async function address() {
  for (;;) {
    const found = server.told().match(/^inbox on (http:\/\/\S+)$/m);
    if (found) return found[1];
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const row = (page, name) => page.locator('[data-row]', { hasText: name });

/** Fails if a page has a WCAG violation, or is wider than its window. */
async function check(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    const { violations } = await window.axe.run(document, { runOnly: tags });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 150)).join(' | ')}`);
  });
  none(found, `axe, ${what}`);
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  assert.equal(isWide, false, `${what} is wider than its window`);
}

describe('accessibility', () => {
  for (const [width, height] of [[390, 844], [1440, 900]]) {
    for (const colorScheme of ['light', 'dark']) {
      test(`every page meets WCAG 2.2 AA at ${width} px, ${colorScheme}`, async () => {
        await visit(
          async (page, origin) => {
            await check(page, 'the list');
            const open = await row(page, 'Marta').locator('.open').getAttribute('href');
            for (const path of [open, '/?q=nothing+of+the+kind', '/?status=held', '/review', '/channels', '/statistics', '/statistics?days=7', '/statistics?days=365', '/log', '/sessions']) {
              await page.goto(origin + path);
              await check(page, path);
            }
            await page.goto(`${origin}/review`);
            await page.getByRole('checkbox').first().check();
            await page.getByRole('button', { name: 'Discard selected' }).click();
            await page.getByRole('button', { name: 'Discard permanently' }).waitFor();
            await check(page, 'the confirmation');
            await page.goto(`${origin}/?state=open`);
            await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
            await check(page, 'the help');
          },
          { width, height, colorScheme },
        );
      });
    }
  }

  test('the page for visitors who are not logged in', async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${await address()}/review`);
    await check(page, 'the login page');
    assert.match(await page.textContent('main'), /frontdesk inbox open/);
    await context.close();
  });
});

describe('without JavaScript', () => {
  test('a submission is found, annotated, done and reopened', async () => {
    await visit(
      async (page) => {
        await page.getByRole('searchbox').fill('inspection ROBOTS');
        await follow(page, page.getByRole('button', { name: 'Search' }));
        await follow(page, row(page, 'Marta').locator('.open'));
        assert.equal(await page.textContent('h1'), 'Marta Lindqvist');
        const reply = await page.getByRole('link', { name: 'Reply by mail' }).getAttribute('href');
        assert.match(reply, /^mailto:martalindqvist@example\.com\?subject=.*%3E%20We%20need%20two/);
        await page.getByLabel('New note').fill('Call on Monday\nbefore ten');
        await follow(page, page.getByRole('button', { name: 'Add note' }));
        assert.equal(await page.textContent('.notice p'), 'The note is saved.');
        assert.equal(await page.locator('.entry .text').textContent(), 'Call on Monday\nbefore ten');
        await follow(page, page.getByRole('button', { name: 'Done' }));
        await follow(page, page.getByRole('link', { name: 'Inbox', exact: true }).first());
        assert.equal(await row(page, 'Marta').count(), 0);
        await follow(page, page.getByRole('link', { name: 'Done', exact: true }));
        await follow(page, row(page, 'Marta').getByRole('button', { name: 'Reopen' }));
        assert.equal(await row(page, 'Marta').count(), 0);
        assert.equal(await page.textContent('.notice p'), 'Marked as open.');
      },
      { javaScriptEnabled: false },
    );
  });

  test('held submissions are released, or discarded after a confirmation', async () => {
    await spam(2);
    await visit(
      async (page, origin) => {
        await page.goto(`${origin}/review`);
        await row(page, 'Rank 2').getByRole('checkbox').check();
        await follow(page, page.getByRole('button', { name: 'Discard selected' }));
        assert.match(await page.textContent('main'), /Rank 2/);
        assert.doesNotMatch(await page.textContent('main'), /Rank 1/);
        await follow(page, page.getByRole('link', { name: 'Cancel' }));
        assert.equal(await row(page, 'Rank 2').count(), 1);
        await row(page, 'Rank 2').getByRole('checkbox').check();
        await follow(page, page.getByRole('button', { name: 'Discard selected' }));
        await follow(page, page.getByRole('button', { name: 'Discard permanently' }));
        assert.equal(await row(page, 'Rank 2').count(), 0);
        assert.equal(await row(page, 'Rank 1').count(), 1);
      },
      { javaScriptEnabled: false },
    );
    assert.match(await inbox('log', '--limit', '1'), /discard/);
  });
});

describe('with JavaScript', () => {
  test('a list shows a new submission and keeps the focus', async () => {
    await visit(async (page) => {
      await row(page, 'Marta').locator('.open').focus();
      await contact('Grace Hopper', 'A live one');
      await row(page, 'Grace Hopper').waitFor();
      assert.match(await page.evaluate(() => document.activeElement.textContent), /Marta/);
      const { stdout } = await run(binary, ['inbox', 'list', '--json', '--limit', '1', '--site', site, '--data-dir', server.dataDir]);
      await inbox('done', JSON.parse(stdout).id);
      await row(page, 'Grace Hopper').waitFor({ state: 'detached' });
    });
  });

  test('hostile text is shown as text', async () => {
    await visit(async (page) => {
      await row(page, '<b>Eve</b>').locator('.open').click();
      await page.getByRole('heading', { level: 1, name: '<b>Eve</b>', exact: true }).waitFor();
      assert.match(await page.textContent('.fields'), /<img src=x onerror=alert\(1\)> "quoted" & more/);
    });
  });

  test('rows stay where they are from press to release', async () => {
    await visit(async (page) => {
      const listUrl = page.url();
      const rows = page.locator('[data-row]');
      // Sends a contact message, and waits until an update of the list waits for the release.
      const change = async (name) => {
        await contact(name, `A letter from ${name}`);
        await page.locator('[data-live][aria-busy=true]').waitFor();
      };
      await page.getByRole('heading', { level: 1 }).hover();
      await page.mouse.down();
      const before = await rows.count();
      await change('Mary Shelley');
      assert.equal(await rows.count(), before);
      await page.mouse.up();
      await row(page, 'Mary Shelley').waitFor();
      // The click opens the row that was pressed, not the one that takes its place.
      await row(page, 'Mary Shelley').locator('.open').hover();
      await page.mouse.down();
      await change('Mary Somerville');
      await page.mouse.up();
      await page.getByRole('heading', { level: 1, name: 'Mary Shelley', exact: true }).waitFor();
      // A space on a box selects it when the key is released.
      await page.goto(listUrl);
      const box = row(page, 'Mary Somerville').locator('input[name=id]');
      await box.focus();
      await page.keyboard.down('Space');
      await change('Mary Anning');
      await page.keyboard.up('Space');
      assert.equal(await box.isChecked(), true);
      await row(page, 'Mary Anning').waitFor();
      assert.equal(await box.isChecked(), true);
    });
  });

  test('the keyboard alone opens, annotates and finishes a submission', async () => {
    await contact('Konrad Zuse', 'By keyboard');
    await visit(async (page) => {
      const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
      // Waits for a notice and until the page is loaded, because its script reads the keys.
      const told = async (notice) => {
        await page.getByText(notice).waitFor();
        await page.waitForLoadState();
      };
      await press('j');
      assert.match(await page.evaluate(() => document.activeElement.textContent), /Konrad Zuse/);
      await press('j', 'k', 'Enter');
      await page.waitForURL('**/submissions/*');
      await press('n');
      await page.keyboard.type('jek is text here');
      assert.equal(await page.getByLabel('New note').inputValue(), 'jek is text here');
      await press('Tab', 'Enter');
      await told('The note is saved.');
      // A submission that is done leads back to the list from which it was opened.
      await press('e');
      await told('Marked as done.');
      assert.equal(await row(page, 'Konrad Zuse').count(), 0);
      assert.equal(new URL(page.url()).search, '?state=open');
      await press('z');
      await told('Undone.');
      assert.equal(await row(page, 'Konrad Zuse').count(), 1);
      // Two at once, and the focus stays in the list.
      await press('j', 'x', 'j', 'x');
      assert.equal(await page.textContent('[data-count]'), '2 selected');
      await press('s');
      await told('2 submissions: Marked as spam');
      assert.notEqual(await page.evaluate(() => document.activeElement.closest('[data-row]')), null);
      await press('z');
      await told('Undone.');
      await press('/');
      await page.keyboard.type('zuse');
      await press('Enter');
      await page.waitForURL('**q=zuse');
    });
  });

  test('shortcuts can be switched off', async () => {
    await visit(async (page) => {
      await page.keyboard.press('?');
      await page.getByLabel('Use keyboard shortcuts').uncheck();
      await page.getByRole('button', { name: 'Close' }).click();
      for (const reload of [false, true]) {
        if (reload) await page.reload();
        for (const key of ['j', '?', '/']) await page.keyboard.press(key);
        // A closed dialog may keep the focus until the next frame.
        assert.equal(await page.evaluate(() => document.activeElement.closest('[data-row], #q, dialog[open]')), null);
      }
      await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
      await page.getByLabel('Use keyboard shortcuts').check();
      await page.getByRole('button', { name: 'Close' }).click();
      await page.keyboard.press('j');
      assert.notEqual(await page.evaluate(() => document.activeElement.closest('[data-row]')), null);
    });
  });

  test('all held submissions can be selected at once', async () => {
    await visit(async (page, origin) => {
      await page.goto(`${origin}/review`);
      await page.getByRole('button', { name: 'Select all' }).click();
      const boxes = page.getByRole('checkbox');
      assert.equal(await page.locator('input[name=id]:checked').count(), await boxes.count());
    });
  });
});
