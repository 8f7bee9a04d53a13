// Forms of the operator's own in a real browser, with and without JavaScript, in two languages.
import { after, before, test } from 'node:test';
import { rm } from 'node:fs/promises';
import assert from 'node:assert/strict';
import { findViolations, launch, watch } from './support/browser.mjs';
import { definitions, siteWithForms } from './support/forms_site.mjs';
import { postJson } from './support/http.mjs';
import { none } from './support/list.mjs';
import { startServer } from './support/server.mjs';

const WIDTHS = [390, 1280];

let browser;
let server;
let folder;

before(async () => {
  ({ folder } = await siteWithForms());
  server = await startServer({ folder, env: { FRONTDESK_BASE_URL: '' } });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  if (folder) await rm(folder, { recursive: true });
});

/** Opens a page, passes it to `act`, and expects no complaints of the browser except about refusals. */
async function visit(path, act, options = {}) {
  const context = await browser.newContext(options);
  const trouble = [];
  try {
    const page = await context.newPage();
    await watch(page, server.origin, trouble);
    await page.goto(server.origin + path, { waitUntil: 'load' });
    await act(page);
    none(trouble.filter((line) => !line.startsWith('console: Failed to load resource')), 'the browser complained');
  } finally {
    await context.close();
  }
}

const controls = (page) => ({
  field: (name) => page.locator(`form [name="${name}"]`),
  send: () => page.locator('form button[type=submit]').click(),
  error: (name) => page.locator(`[id$="-${name}-error"]`),
});

/** Values that every form with all kinds of fields accepts. */
async function fillIn(page) {
  const { field } = controls(page);
  for (const [name, value] of Object.entries({
    text_0: 'Ada', multiline_1: 'One\nTwo', email_2: 'ada@example.org', tel_3: '+49 (0)30 123 456', url_4: 'www.example.com',
    number_5: '7', number_6: '1.5', date_7: '2026-12-24',
  })) {
    await field(name).fill(value);
  }
  await field('choice_8').selectOption('Two & more');
  await field('choices_9').nth(2).check();
  await field('choices_9').nth(0).check();
  await field('consent_10').check();
}

const STORED = {
  text_0: 'Ada', multiline_1: 'One\nTwo', email_2: 'ada@example.org', tel_3: '+4930123456', url_4: 'https://www.example.com/',
  number_5: 7, number_6: 1.5, date_7: '2026-12-24', choice_8: 'Two & more', choices_9: ['One', '<b>Three</b>'], consent_10: true,
  hidden_11: 'One',
};

/** The newest submission to a form. */
async function newest(form) {
  const found = (await server.inbox()).find((submission) => submission.form === form);
  assert.ok(found, `the inbox has a submission to ${form}`);
  return found;
}

function assertStored(submission) {
  for (const [name, value] of Object.entries(STORED)) assert.deepEqual(submission[name], value, name);
}

test('each form has no accessibility violation and fits into narrow windows', async () => {
  for (const [name] of definitions()) {
    for (const prefix of ['/', '/de/']) {
      for (const width of WIDTHS) {
        await visit(`${prefix}${name}/`, async (page) => {
          none(await findViolations(page), `axe complained about ${prefix}${name}/ at ${width} px`);
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
          assert.ok(overflow <= 0, `${name} is ${overflow} px too wide at ${width} px`);
        }, { viewport: { width, height: 900 } });
      }
    }
  }
});

test('values keep their types with JavaScript', async () => {
  await visit('/required/', async (page) => {
    await fillIn(page);
    await controls(page).send();
    await page.locator('[data-done]').waitFor({ state: 'visible' });
  });
  assertStored(await newest('required'));
});

test('values keep their types without JavaScript', async () => {
  await visit('/optional/', async (page) => {
    await fillIn(page);
    await controls(page).send();
    await page.waitForURL('**/thanks/');
  }, { javaScriptEnabled: false });
  assertStored(await newest('optional'));
});

test('an empty form is sent by the keyboard alone', async () => {
  await visit('/optional/', async (page) => {
    const { field } = controls(page);
    await field('text_0').focus();
    await page.keyboard.type('Grace');
    await page.keyboard.press('Enter');
    await page.locator('[data-done]').waitFor({ state: 'visible' });
  });
  const { text_0: text, ...others } = await newest('optional');
  assert.equal(text, 'Grace');
  assert.deepEqual(Object.keys(others).filter((name) => /_\d+$/.test(name)), ['hidden_11']);
});

/** The errors beside the fields, in German. */
const ERRORS = {
  tel_3: 'Bitte geben Sie eine Telefonnummer wie +49 30 123456 ein.',
  url_4: 'Bitte geben Sie eine Webadresse wie https://www.example.com/ ein.',
  number_5: 'Bitte geben Sie eine ganze Zahl von -3 bis 9 ein.',
  number_6: 'Bitte geben Sie eine Zahl von 0.5 bis 7.25 ein.',
  choice_8: 'Bitte wählen Sie etwas aus.',
  choices_9: 'Bitte wählen Sie etwas aus.',
  consent_10: 'Bitte kreuzen Sie dieses Feld an.',
};

for (const javaScriptEnabled of [true, false]) {
  test(`faults are named beside the fields ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
    await visit('/de/required/', async (page) => {
      const { field, send, error } = controls(page);
      for (const [name, value] of Object.entries({
        text_0: 'Ada', multiline_1: 'One', email_2: 'ada@example.org', tel_3: 'none', url_4: 'no address', number_5: '99', number_6: '8',
        date_7: '2026-12-24',
      })) {
        await field(name).fill(value);
      }
      await send();
      for (const [name, text] of Object.entries(ERRORS)) {
        await error(name).waitFor({ state: 'visible' });
        assert.equal((await error(name).textContent()).trim(), text, name);
        assert.equal(await field(name).first().getAttribute('aria-invalid'), 'true', name);
      }
      assert.equal(await field('text_0').inputValue(), 'Ada');
      assert.equal(await page.locator('.error:visible').count(), Object.keys(ERRORS).length);
    }, { javaScriptEnabled });
  });
}

/** A random number generator with a fixed start, so that a failure can be repeated. */
function generator(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const ROUNDS = 40;

/** Random texts, numbers and days for each control, some of them wrong. */
const VALUES = {
  text_0: (below) => 'x'.repeat(1 + below(40)),
  email_2: (below) => ['ada@example.org', 'a.b+c@x.example', 'ada', 'ada@', '@example.org', 'a b@example.org'][below(6)],
  number_5: (below) => String(below(20) - 7),
  number_6: (below) => String(below(100) / 10),
  date_7: (below) => `202${5 + below(4)}-${String(1 + below(12)).padStart(2, '0')}-${String(1 + below(28)).padStart(2, '0')}`,
};

// Documented differences (docs/pages/forms.md): the server checks the form of telephone numbers and completes web
// addresses, HTML has no constraint on a group of check boxes, and quoted local parts of e-mail addresses are
// only valid for the server.
test('the constraints of the controls agree with the server', async () => {
  const below = generator(20261127);
  await visit('/required/', async (page) => {
    const { field } = controls(page);
    await fillIn(page);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [name, value] of Object.entries(VALUES)) await field(name).fill(value(below));
      const isChosen = below(2) === 1;
      await field('choice_8').selectOption(isChosen ? 'One' : '');
      await field('consent_10').setChecked(below(2) === 1);
      const { valid, content } = await page.evaluate(() => {
        const form = document.querySelector('form[data-frontdesk]');
        const content = {};
        const wrong = [];
        for (const it of form.elements) {
          if (!it.name || it.name === 'desk_note') continue;
          if (!it.validity.valid) wrong.push(it.name);
          if (it.dataset.kind === 'choices') {
            if (it.checked) (content[it.name] ??= []).push(it.value);
          } else if (it.dataset.kind === 'consent') content[it.name] = it.checked;
          else content[it.name] = it.type === 'number' ? it.valueAsNumber : it.value;
        }
        return { valid: wrong, content };
      });
      const answer = await postJson(`${server.origin}/api/required`, { ...content, url_4: 'https://www.example.com/' });
      const refused = [...(JSON.parse(answer.text).error ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name);
      const inHtml = valid.filter((name) => name !== 'url_4');
      assert.deepEqual([...new Set(inHtml)].sort(), [...new Set(refused)].sort(), `${JSON.stringify(content)}: ${answer.text}`);
    }
  });
});
