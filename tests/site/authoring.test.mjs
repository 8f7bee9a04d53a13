// Code blocks, formulas, images and the table of contents in a browser, on a small site written for this test.
import { after, before, test } from 'node:test';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { launch, watch } from './support/browser.mjs';
import { none } from './support/list.mjs';
import { packages } from './support/paths.mjs';
import { startServer } from './support/server.mjs';

const paragraph = 'A paragraph that fills some lines of the window with words. '.repeat(30);

const BODY = `
\`\`\`rust title="src/main.rs" {2} showLineNumbers
// A comment, which has the faintest colour.
fn main() {
    println!("<hello>");
}
\`\`\`

\`\`\`python ins={1} del={2}
new = 1
old = 2
\`\`\`

\`\`\`diff
-gone
+come
\`\`\`

![Lines](lines.svg)

The formula $a^2$, and others in a block:

\`\`\`math
\\begin{aligned} x &= \\frac{1}{2} \\\\ y &= \\color{red} 2 \\end{aligned}
\`\`\`

## One

${paragraph}

## Two

${paragraph}

## Three

Short.
`;

let folder;
let server;
let browser;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'frontdesk-authoring-'));
  await mkdir(join(folder, 'pages'));
  await writeFile(join(folder, 'frontdesk.toml'), '[site]\ntitle = "Test"\n');
  const front = '---\ntitle: Test\ndescription: A page for a test.\ntoc: true\n---\n';
  await writeFile(join(folder, 'pages/index.md'), '---\ntitle: Home\ndescription: Home.\n---\n');
  await writeFile(join(folder, 'pages/code.md'), front + BODY);
  const lines = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 100"><path d="M0 50h300" stroke="#888"/></svg>';
  await writeFile(join(folder, 'pages/lines.svg'), lines);
  server = await startServer({ folder });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Opens the page with the given options, hands it to `act`, and checks that the browser reported no problem. */
async function visit(act, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const trouble = await watch(page, server.origin);
  await page.goto(`${server.origin}/code/`, { waitUntil: 'load' });
  await act(page, context);
  await context.close();
  none(trouble, 'the browser complained');
}

test('a button copies the code, without line numbers and removed lines', async () => {
  await visit(
    async (page) => {
      const copied = async (name) => {
        await page.getByRole('button', { name }).first().click();
        await page.getByText('The code is on the clipboard.').waitFor();
        return page.evaluate(() => navigator.clipboard.readText());
      };
      const code = '// A comment, which has the faintest colour.\nfn main() {\n    println!("<hello>");\n}';
      assert.equal(await copied('Copy code: src/main.rs'), code);
      assert.equal(await copied(/^Copy code$/), 'new = 1');
      assert.equal(await page.locator('.copy-code').count(), 3);
    },
    { permissions: ['clipboard-read', 'clipboard-write'] },
  );
});

test('without JavaScript there are no buttons, and the code is complete', async () => {
  await visit(
    async (page) => {
      assert.equal(await page.getByRole('button').count(), 0);
      assert.ok((await page.locator('pre').first().textContent()).startsWith('// A comment'));
    },
    { javaScriptEnabled: false },
  );
});

test('lines are marked by more than a colour', async () => {
  await visit(async (page) => {
    const sign = (selector, pseudo) =>
      page.locator(selector).first().evaluate((it, which) => getComputedStyle(it, which).content, pseudo);
    assert.match(await sign('ins.line', '::after'), /^"\+"/);
    assert.match(await sign('del.line', '::after'), /^"-"/);
    const number = await page.locator('[data-line]').nth(3).getAttribute('data-line');
    assert.equal(number, '4');
    const heights = await page.locator('pre.numbered .line').evaluateAll((all) => all.map((it) => it.offsetHeight));
    assert.ok(Math.max(...heights) < 1.5 * Math.min(...heights), `each line takes one row: ${heights}`);
  });
});

test('formulas and images have their size without scripts and inline styles', async () => {
  await visit(
    async (page) => {
      assert.equal(await page.locator('math').count(), 2);
      const [x, y] = await page.locator('mtd:nth-child(2)').evaluateAll((cells) => cells.map((it) => it.getBoundingClientRect().left));
      assert.equal(x, y, 'the lines of a block are aligned');
      const { width, height } = await page.locator('main img').boundingBox();
      assert.ok(Math.abs(width / height - 3) < 0.05, `${width} by ${height}`);
    },
    { javaScriptEnabled: false },
  );
});

test('the table of contents marks the section that is being read', async () => {
  await visit(async (page) => {
    const current = async (title) => {
      await page.locator(`.toc a[aria-current="true"]:text-is("${title}")`).waitFor({ state: 'attached' });
      assert.equal(await page.locator('.toc a[aria-current]').count(), 1);
    };
    await current('One');
    for (const [id, title] of [['two', 'Two'], ['one', 'One']]) {
      await page.evaluate((at) => document.getElementById(at).scrollIntoView(), id);
      await current(title);
    }
  });
});

test('the page is accessible in light and dark', async () => {
  const axe = await readFile(packages.resolve('axe-core/axe.min.js'), 'utf8');
  for (const colorScheme of ['light', 'dark']) {
    await visit(
      async (page) => {
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run(document));
        none(
          violations.flatMap(({ id, nodes }) => nodes.map((node) => `${colorScheme} ${id}: ${node.html}: ${node.failureSummary}`)),
          'accessibility violations',
        );
      },
      { colorScheme },
    );
  }
});
