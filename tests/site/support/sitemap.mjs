// Reads the sitemap of a running site, and maps its public URLs to the local server.
import assert from 'node:assert/strict';
import { get } from './http.mjs';

const locations = (xml) => [...xml.matchAll(/<loc>\s*([^<]+?)\s*<\/loc>/g)].map((match) => unescape(match[1]));

const unescape = (text) =>
  text.replace(/&(amp|lt|gt|quot|apos);/g, (_, name) => ({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" })[name]);

/** Reads /sitemap-index.xml and the sitemaps that it lists. */
export async function readSite(server) {
  const index = await get(`${server.origin}/sitemap-index.xml`);
  assert.equal(index.status, 200, '/sitemap-index.xml');
  const names = locations(index.text);
  assert.ok(names.length > 0, '/sitemap-index.xml names no sitemap');
  const { base } = server;

  /** Maps one of the site's public URLs to the local server; null for other sites. */
  const local = (url) => {
    const absolute = new URL(url, `${base}/`);
    const ours = absolute.origin === base || absolute.origin === server.origin;
    return ours ? server.origin + absolute.pathname + absolute.search : null;
  };

  const sitemaps = [];
  const paths = [];
  for (const name of names) {
    assert.equal(new URL(name).origin, base, `${name} is not on ${base}`);
    const answer = await get(local(name));
    assert.equal(answer.status, 200, name);
    sitemaps.push({ name, text: answer.text, headers: answer.headers });
    for (const url of locations(answer.text)) {
      assert.equal(new URL(url).origin, base, `${url} in ${name} is not on ${base}`);
      paths.push(new URL(url).pathname);
    }
  }
  assert.ok(paths.length > 0, 'the sitemaps name no page');
  assert.equal(new Set(paths).size, paths.length, 'the sitemaps name a page twice');
  return { base, index, sitemaps, paths, local };
}

/** The path of a page's Markdown twin. */
export const twinOf = (path) => (path === '/' ? '/index.md' : `${path.replace(/\/$/, '')}.md`);

/** A path that does not exist on any site. */
export const MISSING = '/there-is-no-such-page/';
