// A plain HTTP client that does not follow redirects, decode bodies or cache responses.
import { Agent, request } from 'node:http';

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

/** Sends a request. In the response, names in `headers` are in lower case, and `bytes` is the body as received. */
export function exchange(url, { method = 'GET', headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers, agent, timeout: 120_000 }, (incoming) => {
      const chunks = [];
      incoming.on('data', (chunk) => chunks.push(chunk));
      incoming.on('error', reject);
      incoming.on('end', () => {
        const bytes = Buffer.concat(chunks);
        resolve({ url, status: incoming.statusCode, headers: incoming.headers, bytes, text: bytes.toString('utf8') });
      });
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`${method} ${url}: no answer within two minutes`)));
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

export const get = (url, headers = {}) => exchange(url, { headers });

export const postJson = (url, value) =>
  exchange(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) });

/** Calls `work` for each item, a few at a time. Returns the results in the order of the items. */
export async function each(items, work, atOnce = 8) {
  const list = [...items];
  const results = new Array(list.length);
  let next = 0;
  const lane = async () => {
    while (next < list.length) {
      const at = next++;
      results[at] = await work(list[at]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, list.length) }, lane));
  return results;
}
