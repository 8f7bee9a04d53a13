// Debian's Chromium, driven by playwright-core.
import { existsSync } from 'node:fs';
import { packages } from './paths.mjs';

const executablePath = process.env.TEST_CHROMIUM ?? '/usr/bin/chromium';

/** How long a page may take for anything: only a failure takes that long. */
const PATIENCE_MS = 120_000;

export async function launch() {
  if (!existsSync(executablePath)) throw new Error(`${executablePath} does not exist: install Debian's chromium`);
  const { chromium } = packages('playwright-core');
  const browser = await chromium.launch({
    executablePath,
    timeout: PATIENCE_MS,
    // Only our own pages are opened, and in containers the sandbox often cannot start.
    chromiumSandbox: false,
    args: ['--disable-gpu', '--disable-dev-shm-usage'],
  });
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    // A page that still scrolls smoothly between the press and the release of a mouse button sees no click.
    const context = await newContext({ reducedMotion: 'reduce', ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    return context;
  };
  return browser;
}

/**
 * Writes down what a page must not do: console errors, exceptions, policy violations, requests to other hosts.
 * Returns the growing list `trouble`.
 */
export async function watch(page, origin, trouble = []) {
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy violation: ${event.violatedDirective} blocked ${event.blockedURI || 'inline code'}`);
    });
  });
  page.on('console', (message) => {
    if (message.type() === 'error') trouble.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => trouble.push(`exception: ${error.message}`));
  page.on('requestfailed', (request) => trouble.push(`request failed: ${request.url()}: ${request.failure()?.errorText}`));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) trouble.push(`request to ${url}`);
  });
  return trouble;
}
