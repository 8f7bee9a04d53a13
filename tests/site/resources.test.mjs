// The machine-readable files, each checked with a tool for its format.
import { after, before, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { each, get } from './support/http.mjs';
import { none } from './support/list.mjs';
import { linksOf } from './support/markdown.mjs';
import { output, packages, python, root, schemas } from './support/paths.mjs';
import { startServer } from './support/server.mjs';
import { readSite, twinOf } from './support/sitemap.mjs';

const MAX_LLMS_CHARACTERS = 50_000;
const RESOURCES = {
  '/llms.txt': 'text/plain',
  '/llms-full.txt': 'text/plain',
  '/agents.md': 'text/markdown',
  '/openapi.json': 'application/json',
  '/sitemap-index.xml': 'application/xml',
  '/sitemap.md': 'text/markdown',
  '/robots.txt': 'text/plain',
  '/blog/rss.xml': 'application/rss+xml',
  '/.well-known/security.txt': 'text/plain',
  '/.well-known/agent-skills/index.json': 'application/json',
  '/.well-known/agent-skills/website-guide/SKILL.md': 'text/markdown',
  '/.well-known/api-catalog': 'application/linkset+json',
};

let server;
let site;

before(async () => {
  server = await startServer();
  site = await readSite(server);
  await mkdir(output, { recursive: true });
});

after(() => server?.stop());

const read = (path) => get(server.origin + path);

/** Runs a tool with this standard input. Its output is the message of a failure. */
function tool(command, args, input) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { input, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (error) throw error;
  assert.equal(status, 0, `${command} says:\n${stdout}${stderr}`);
  return stdout;
}

/** Asserts that all URLs are absolute, and that those of this site return 200 (or 405 if they accept only POST). */
async function resolve(urls, where) {
  const problems = [];
  await each(new Set(urls), async (url) => {
    if (!/^(https?:\/\/|mailto:)/.test(url)) return problems.push(`${url} is not absolute`);
    const address = url.startsWith('http') && site.local(url);
    if (!address) return undefined;
    const { status } = await get(address);
    const expected = new URL(address).pathname.startsWith('/api/') ? 405 : 200;
    return status === expected || problems.push(`${url} answers ${status}`);
  });
  none(problems, `links of ${where}`);
}

test('each resource has its media type, regardless of Accept', async () => {
  const problems = [];
  for (const [path, type] of Object.entries(RESOURCES)) {
    for (const accept of ['*/*', 'text/html', 'image/png']) {
      const { status, headers } = await get(server.origin + path, { accept });
      if (status !== 200) problems.push(`${path} (Accept: ${accept}): ${status}`);
      else if (headers['content-type'].split(';')[0] !== type) problems.push(`${path}: ${headers['content-type']}`);
    }
  }
  none(problems, 'resources');
});

test('llms.txt is well-formed and links to the Markdown of every page', async () => {
  const { text } = await read('/llms.txt');
  assert.ok(text.length < MAX_LLMS_CHARACTERS, `${text.length} characters`);
  const problems = [];
  const lines = text.trimEnd().split('\n');
  if (!/^# \S/.test(lines[0])) problems.push(`the first line is no title: ${lines[0]}`);
  if (lines.filter((line) => /^# /.test(line)).length !== 1) problems.push('more than one title');
  if (!/^> \S/.test(lines.slice(1).find((line) => line.trim()) ?? '')) problems.push('no summary in a block quote after the title');
  let section = null;
  let links = 0;
  for (const line of lines) {
    if (/^## \S/.test(line)) {
      if (section && links === 0) problems.push(`«${section}» lists nothing`);
      section = line.slice(3);
      links = 0;
    } else if (section && line.trim()) {
      if (/^- \[[^\]]+\]\([^)\s]+\)(: \S.*)?$/.test(line)) links += 1;
      else problems.push(`under «${section}» there is something other than a link: ${line}`);
    }
  }
  if (!section) problems.push('no section');
  none(problems, 'shape of llms.txt');
  const urls = linksOf(text);
  await resolve(urls, '/llms.txt');
  const named = new Set(urls);
  none(
    site.paths
      .filter((path) => !path.startsWith('/blog/tags/') && !named.has(site.base + twinOf(path)))
      .map((path) => `${path} is missing, or not as Markdown`),
    'pages of llms.txt',
  );
});

test('the other Markdown resources have absolute links that resolve', async () => {
  for (const path of ['/llms-full.txt', '/agents.md', '/sitemap.md']) {
    const { text } = await read(path);
    assert.match(text, /^(---\n[\s\S]*?\n---\n+)?# \S/, `${path} begins with a title`);
    await resolve(linksOf(text), path);
  }
});

test('agents.md names both endpoints and asks for the user’s confirmation', async () => {
  const { text } = await read('/agents.md');
  assert.match(text, /\/api\/waitlist/);
  assert.match(text, /\/api\/contact/);
  assert.match(text, /explicit[\s\S]{0,80}confirm|confirm[\s\S]{0,80}explicit/i);
});

test('the sitemaps are valid against their schema, and every address has its date', () => {
  tool('xmllint', ['--noout', '--schema', join(schemas, 'sitemap-index.xsd'), '-'], site.index.text);
  for (const { name, text } of site.sitemaps) {
    tool('xmllint', ['--noout', '--schema', join(schemas, 'sitemap.xsd'), '-'], text);
    const count = (tag) => text.split(`<${tag}>`).length - 1;
    assert.equal(count('lastmod'), count('url'), `${name}: a date for each address`);
  }
});

test('robots.txt names the sitemap, the content signal and the crawlers of AI companies', async () => {
  const { text } = await read('/robots.txt');
  const problems = [];
  const fields = [];
  for (const line of text.split('\n').map((it) => it.replace(/#.*/, '').trim()).filter(Boolean)) {
    const field = line.match(/^([A-Za-z-]+):\s*(.*)$/);
    if (field) fields.push([field[1].toLowerCase(), field[2]]);
    else problems.push(`not a field: ${line}`);
  }
  const first = fields.findIndex(([name]) => name === 'user-agent');
  const rules = fields.findIndex(([name]) => name === 'allow' || name === 'disallow');
  if (first < 0 || (rules >= 0 && rules < first)) problems.push('a rule before the first user-agent');
  if (!fields.some(([name, value]) => name === 'user-agent' && value === '*')) problems.push('no group for everybody');
  const crawlers = fields.filter(([name, value]) => name === 'user-agent' && value !== '*').map(([, value]) => value);
  for (const crawler of ['GPTBot', 'ClaudeBot']) if (!crawlers.includes(crawler)) problems.push(`no ${crawler}`);
  const signal = fields.find(([name]) => name === 'content-signal')?.[1] ?? '';
  if (!/^[a-z-]+=(yes|no)(\s*,\s*[a-z-]+=(yes|no))*$/.test(signal)) problems.push(`Content-Signal: ${signal || 'none'}`);
  const usage = fields.find(([name]) => name === 'content-usage')?.[1] ?? '';
  if (!/^[a-z-]+=[yn](, [a-z-]+=[yn])*$/.test(usage)) problems.push(`Content-Usage: ${usage || 'none'}`);
  const sitemaps = fields.filter(([name]) => name === 'sitemap').map(([, value]) => value);
  if (sitemaps[0] !== `${site.base}/sitemap-index.xml`) problems.push(`Sitemap: ${sitemaps}`);
  none(problems, 'robots.txt');
  await resolve(sitemaps, '/robots.txt');
});

test('security.txt follows RFC 9116', async () => {
  const { text, headers } = await read('/.well-known/security.txt');
  assert.match(headers['content-type'], /charset=utf-8/i);
  const fields = text.split(/\r?\n/).filter((line) => line && !line.startsWith('#')).map((line) => line.match(/^([A-Za-z-]+): (\S.*)$/));
  assert.ok(fields.every(Boolean), `every line is a field:\n${text}`);
  const values = (name) => fields.filter((field) => field[1].toLowerCase() === name).map((field) => field[2]);
  assert.ok(values('contact').length > 0, 'Contact');
  for (const contact of values('contact')) assert.match(contact, /^(mailto:|https:\/\/|tel:)/);
  assert.equal(values('expires').length, 1, 'one Expires');
  const days = (Date.parse(values('expires')[0]) - Date.now()) / 86_400_000;
  assert.match(values('expires')[0], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/);
  assert.ok(days > 0 && days <= 366, `Expires lies ahead, but less than a year: ${values('expires')[0]}`);
  assert.deepEqual(values('canonical'), [`${site.base}/.well-known/security.txt`]);
});

test('the API catalog is a linkset to the description and the guide', async () => {
  const { text } = await read('/.well-known/api-catalog');
  const { linkset } = JSON.parse(text);
  assert.ok(Array.isArray(linkset) && linkset.length > 0, 'a linkset');
  const relations = new Set();
  const urls = [];
  for (const { anchor, ...links } of linkset) {
    assert.match(anchor ?? '', /^https?:\/\//, 'an anchor for each context');
    for (const [relation, targets] of Object.entries(links)) {
      relations.add(relation);
      for (const target of targets) urls.push(target.href);
    }
  }
  assert.ok(relations.has('service-desc') && relations.has('service-doc'), `relations: ${[...relations]}`);
  assert.ok(urls.includes(`${site.base}/openapi.json`), 'it leads to /openapi.json');
  await resolve(urls, '/.well-known/api-catalog');
});

test('the feed is valid, and its links resolve', async () => {
  assert.ok(existsSync(python), `${python}: run scripts/test, which prepares it`);
  const { bytes } = await read('/blog/rss.xml');
  tool('xmllint', ['--noout', '-'], bytes);
  const { links, count } = JSON.parse(tool(python, [join(root, 'tests/site/feed.py'), `${site.base}/blog/rss.xml`], bytes));
  const posts = site.paths.filter((path) => /^\/blog\/[^/]+\/$/.test(path) && path !== '/blog/tags/');
  assert.equal(count, posts.length, 'every post is in the feed');
  await resolve(links, '/blog/rss.xml');
});

test('openapi.json is valid and describes the service', async () => {
  const { text } = await read('/openapi.json');
  const { createConfig, lintFromString } = packages('@redocly/openapi-core');
  const problems = await lintFromString({
    source: text,
    absoluteRef: `${site.base}/openapi.json`,
    config: await createConfig({ extends: ['recommended'] }),
  });
  const told = (severity) =>
    problems
      .filter((problem) => problem.severity === severity)
      .map(({ ruleId, message, location }) => `${ruleId}: ${message} at ${location[0]?.pointer ?? '?'}`);
  for (const line of told('warn')) console.log(`openapi.json, a warning: ${line}`);
  none(told('error'), 'openapi.json');

  const description = JSON.parse(text);
  assert.equal(description.openapi, '3.1.0');
  assert.equal(description.info.version, '1.0.0');
  assert.deepEqual(description.security, []);
  assert.deepEqual(Object.keys(description.paths).sort(), ['/api/contact', '/api/waitlist']);
  for (const [path, id] of [['/api/waitlist', 'joinWaitlist'], ['/api/contact', 'sendContactMessage']]) {
    const { post } = description.paths[path];
    assert.deepEqual(Object.keys(description.paths[path]).filter((it) => /^[a-z]+$/.test(it) && !['parameters', 'summary', 'description', 'servers'].includes(it)), ['post']);
    assert.equal(post.operationId, id);
    assert.deepEqual(post.security, []);
    assert.equal(post.requestBody.required, true);
    for (const status of ['200', '400', '405', '413', '429', '500']) assert.ok(post.responses[status], `${path} ${status}`);
  }
  assert.ok(description.components.schemas.ContactRequest, 'ContactRequest');
});
