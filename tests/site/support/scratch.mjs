// A temporary site whose pages a test writes.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { startServer } from './server.mjs';

const config = (more) =>
  `[operator]\nname = "Scratch"\nemail = "team@example.com"\n\n[site]\ntitle = "Scratch"\ndescription = "A site."\n${more}`;

/** Starts a server of a new site with these files: `startServer`'s result, whose `stop()` also removes the site. */
export async function startScratch(files, more = '') {
  const folder = await mkdtemp(join(tmpdir(), 'frontdesk-scratch-'));
  try {
    for (const [name, text] of Object.entries({ 'frontdesk.toml': config(more), ...files })) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
    }
    const server = await startServer({ folder });
    const stop = async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    };
    return { ...server, stop };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** The text of a page or post. */
export const markdown = (title, body = '', matter = '') =>
  `---\ntitle: ${title}\ndescription: About ${title}.\n${matter}---\n\n${body}\n`;
