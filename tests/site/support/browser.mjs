// Debian's Chromium, driven by playwright-core.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { packages } from './paths.mjs';

const executablePath = process.env.TEST_CHROMIUM ?? '/usr/bin/chromium';

/** Timeout for every action. Only failures take this long. */
const PATIENCE_MS = 120_000;

export async function launch() {
  if (!existsSync(executablePath)) throw new Error(`${executablePath} does not exist: install Debian's chromium`);
  const { chromium } = packages('playwright-core');
  const browser = await chromium.launch({
    executablePath,
    timeout: PATIENCE_MS,
    // The sandbox often cannot start in containers, and only our own pages are opened.
    chromiumSandbox: false,
    args: ['--disable-gpu', '--disable-dev-shm-usage'],
  });
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    // While a page scrolls smoothly, a click can miss its target.
    const context = await newContext({ reducedMotion: 'reduce', ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    return context;
  };
  return browser;
}

/**
 * Records console errors, exceptions, policy violations and requests to other hosts in the list `trouble`, and
 * returns it.
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
  page.on('requestfailed', (request) => {
    const error = request.failure()?.errorText;
    // A navigation ends the browser's own request for the icon.
    const isIcon = /\/favicon\.[^/]*$/.test(request.url()) && error === 'net::ERR_ABORTED';
    if (!isIcon) trouble.push(`request failed: ${request.url()}: ${error}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) trouble.push(`request to ${url}`);
  });
  return trouble;
}

/**
 * Clicks a link or button that leads to another page, and waits until that page has loaded. (A click can end
 * before the navigation begins, and the load state is then that of the page that is left.)
 */
export async function follow(page, locator) {
  await Promise.all([page.waitForEvent('load'), locator.click()]);
}

/** What axe finds on a page with JavaScript: one line for each violation, with its elements. */
export async function findViolations(page) {
  await page.evaluate(await readFile(packages.resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`);
}
