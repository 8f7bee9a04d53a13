// The endpoints: Schemathesis against the server's own /openapi.json, and the e-mail addresses of the
// JSON Schema Test Suite (optional/format/email) through the waitlist.
import { after, before, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import assert from 'node:assert/strict';
import { exchange, postJson } from '../support/http.mjs';
import { KINDS, siteWithForms } from '../support/forms_site.mjs';
import { none } from '../support/list.mjs';
import { output, python } from '../support/paths.mjs';
import { startServer } from '../support/server.mjs';

const MIN_CASES = 2000;
const EXAMPLES_AN_OPERATION = 1500;
const EXAMPLES_OF_OWN_FORMS = 150;
const SEED = 20261120;

let server;

before(async () => {
  server = await startServer();
  await mkdir(output, { recursive: true });
});

after(() => server?.stop());

/** Runs Schemathesis against the server's description of its forms. Returns its report. */
const runSchemathesis = async ({ origin }, examples) => {
  const schemathesis = join(dirname(python), 'schemathesis');
  assert.ok(existsSync(schemathesis), `${schemathesis}: run scripts/test, which prepares it`);
  const report = join(output, 'schemathesis.json');
  const args = [
    '--config-file', fileURLToPath(new URL('schemathesis.toml', import.meta.url)),
    'run', `${origin}/openapi.json`,
    // The description contains the public address, so replace it with that of the server under test.
    '--url', origin,
    '--phases', 'examples,coverage,fuzzing,stateful',
    '--checks', 'all',
    '--mode', 'all',
    '--max-examples', String(examples),
    '--seed', String(SEED),
    '--generation-database', 'none',
    '--continue-on-failure',
    '--report', 'json',
    '--report-json-path', report,
    '--no-color',
  ];
  const { status, stdout, stderr, error } = spawnSync(schemathesis, args, { cwd: output, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (error) throw error;
  console.log(stdout.slice(stdout.indexOf('API Operations:')));
  none(status === 0 ? [] : [stdout + stderr], 'Schemathesis');
  const { complete, failures, errors, phases, ...rest } = JSON.parse(await readFile(report, 'utf8'));
  assert.ok(complete, 'the run was complete');
  assert.deepEqual([failures, errors], [[], []]);
  assert.equal(phases.coverage.status, 'success');
  assert.equal(phases.fuzzing.status, 'success');
  return rest;
};

test(`Schemathesis finds no failure in at least ${MIN_CASES} cases`, async () => {
  const { operations, test_cases: cases } = await runSchemathesis(server, EXAMPLES_AN_OPERATION);
  assert.equal(operations.tested, 2, 'operations');
  assert.ok(cases.generated >= MIN_CASES, `${cases.generated} cases`);
});

test('Schemathesis finds no failure on a site with ten forms', async () => {
  // A schema cannot express the bounds of a day and all rules of web addresses (docs/pages/agents.md).
  const kinds = KINDS.filter(([kind]) => kind !== 'url').map(([kind, more]) => [kind, kind === 'date' ? '' : more]);
  const { folder, forms } = await siteWithForms(kinds);
  const own = await startServer({ folder, env: { FRONTDESK_FORMS__HTML_POSTS: 'false' } });
  try {
    const { operations } = await runSchemathesis(own, EXAMPLES_OF_OWN_FORMS);
    assert.equal(operations.tested, forms + 2, 'operations');
  } finally {
    await own.stop();
    await rm(folder, { recursive: true });
  }
});

test('e-mail addresses are accepted or refused as in the JSON Schema Test Suite', async () => {
  const addresses = JSON.parse(await readFile(new URL('email-addresses.json', import.meta.url), 'utf8'));
  const problems = [];
  const expect = async (email, status) => {
    const answer = await postJson(`${server.origin}/api/waitlist`, { email });
    const said = JSON.parse(answer.text);
    const right = status === 200 ? said.ok === true : /`email`/.test(said.error ?? '');
    if (answer.status !== status || !right) problems.push(`${JSON.stringify(email)}: ${answer.status} ${answer.text}`);
  };
  for (const email of addresses.valid) await expect(email, 200);
  for (const email of addresses.invalid) await expect(email, 400);
  // Another type satisfies `format` by itself, but the field's type is string.
  for (const value of addresses['not text']) await expect(value, 400);
  none(problems, 'addresses');

  const kept = (await server.inbox()).filter(({ form }) => form === 'waitlist').map(({ email }) => email);
  none(addresses.valid.filter((email) => !kept.includes(email)).map((email) => `${email} is not in the inbox`), 'inbox');
});

test('every method except POST is refused with an Allow header', async () => {
  const problems = [];
  for (const path of ['/api/waitlist', '/api/contact']) {
    for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const { status, headers, text } = await exchange(server.origin + path, { method });
      if (status !== 405 || headers.allow !== 'POST') problems.push(`${method} ${path}: ${status}, Allow: ${headers.allow}`);
      if (method !== 'HEAD' && typeof JSON.parse(text).error !== 'string') problems.push(`${method} ${path}: ${text}`);
    }
  }
  none(problems, 'methods');
});
