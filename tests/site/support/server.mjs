// Starts the release binary with a temporary data folder, and stops it by its process id.
import { spawn, execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { binary, site } from './paths.mjs';

const START_MS = 120_000;
const STOP_MS = 60_000;

/** The site's public address. It differs from the local one, so that tests detect links to the local one. */
const base = 'https://www.example.com';

const calm = {
  // New sites have the inbox's web interface on a fixed port.
  FRONTDESK_INBOX__LISTEN: 'off',
  FRONTDESK_BASE_URL: base,
  FRONTDESK_LIMITS__ENABLED: 'false',
  FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE: '20000',
};

/**
 * Starts a server: `origin` (local address), `base` (public address), `ops`, `dataDir`, `inbox()`, `told()`
 * (its standard output), `stop()`.
 * `env` adds settings; rate limits are off by default. `folder` is the site. `more` has further arguments.
 */
export async function startServer({ env = {}, folder = site, more = [] } = {}) {
  if (!existsSync(binary)) throw new Error(`${binary} does not exist: run "cargo build --release" first`);
  const dataDir = await mkdtemp(join(tmpdir(), 'frontdesk-site-test-'));
  const args = ['serve', folder, '--listen', '127.0.0.1:0', '--ops-listen', '127.0.0.1:0', '--data-dir', dataDir, ...more];
  const child = spawn(binary, args, {
    env: { ...process.env, ...calm, NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));

  let said = '';
  let told = '';
  const addresses = new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no address within ${START_MS} ms; stderr:\n${said}`)), START_MS);
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (chunk) => {
      said += chunk;
    });
    child.stdout.setEncoding('utf8');
    child.stdout.on('data', (chunk) => {
      told += chunk;
      const origin = told.match(/^listening on (http:\/\/\S+)\n/m)?.[1];
      const ops = told.match(/^private listener on (http:\/\/\S+)\n/m)?.[1];
      if (origin && ops) {
        clearTimeout(late);
        resolve({ origin: origin.replace(/\/$/, ''), ops: ops.replace(/\/$/, '') });
      }
    });
    child.once('error', (error) => {
      clearTimeout(late);
      reject(error);
    });
    exited.then(({ code, signal }) => {
      clearTimeout(late);
      reject(new Error(`the server ended at once (${code ?? signal}); stderr:\n${said}`));
    });
  });

  const stop = async () => {
    const running = () => child.exitCode === null && child.signalCode === null;
    if (running()) {
      child.kill('SIGTERM');
      const timer = setTimeout(() => running() && child.kill('SIGKILL'), STOP_MS);
      await exited;
      clearTimeout(timer);
    }
    await rm(dataDir, { recursive: true, force: true });
  };

  try {
    const { origin, ops } = await addresses;
    return { origin, base, ops, dataDir, stop, inbox: () => inbox(dataDir), log: () => said, told: () => told };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The output of `frontdesk inbox list --json`: one object for each submission. */
async function inbox(dataDir) {
  const args = ['inbox', 'list', '--json', '--limit', '100000', '--site', site, '--data-dir', dataDir];
  const { stdout } = await promisify(execFile)(binary, args, { maxBuffer: 1 << 28 });
  return stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
}
