// AFDocs, which checks sites for agents, finds nothing to improve in the example site and in a new site.
import { test } from 'node:test';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { root, site, tools } from './support/paths.mjs';
import { startServer } from './support/server.mjs';

/** Runs all checks. Exits with an error if one fails, so the report is in the output in each case. */
const check = (url) => new Promise((resolve, reject) => {
  const args = [join(tools, 'node/node_modules/afdocs/bin/afdocs.mjs'), 'check', url, '--format', 'json', '--request-delay', '0', '--quiet'];
  execFile(process.execPath, args, { maxBuffer: 1 << 28, timeout: 300_000 }, (error, stdout, stderr) => {
    try {
      resolve(JSON.parse(stdout));
    } catch {
      reject(error ?? new Error(stderr));
    }
  });
});

/** Starts a server on a port without "404": AFDocs takes a short text with it for an error page, and links have the port. */
const startOnOtherPort = async (options) => {
  const server = await startServer(options);
  if (!server.origin.includes('404')) return server;
  await server.stop();
  return startOnOtherPort(options);
};

// All pages are public.
const notApplicable = ['auth-alternative-access'];

for (const folder of [site, join(root, 'starter')]) {
  test(`AFDocs on ${folder.slice(root.length + 1)}`, async () => {
    // Links point to the server under test.
    // AFDocs parses all pages at once, for longer than the server keeps idle connections on a busy machine, and
    // does not repeat the request that it then sends.
    const env = { FRONTDESK_BASE_URL: undefined, FRONTDESK_SERVER__IDLE_TIMEOUT: '5m' };
    const server = await startOnOtherPort({ folder, env });
    try {
      // AFDocs does not repeat a request that fails, for example because the server has just closed an idle
      // connection, and one such request spoils or skips a check. What remains after three runs is a finding.
      let findings;
      for (let attempt = 0; attempt < 3 && findings?.length !== 0; attempt += 1) {
        const { results } = await check(`${server.origin}/`);
        assert.ok(results.length >= 28, `${results.length} checks`);
        findings = results.filter(({ id, status }) => status !== (notApplicable.includes(id) ? 'skip' : 'pass'));
      }
      assert.deepEqual(findings.map(({ id, status, message }) => `${id}: ${status}: ${message}`), []);
    } finally {
      await server.stop();
    }
  });
}
