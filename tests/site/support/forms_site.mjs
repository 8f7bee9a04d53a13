// A site with eight forms of its own, which have fields of all kinds.
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const configuration = `[operator]
name = "Harbour Tools"
email = "team@example.com"
[site]
description = "Cranes to rent."
languages = ["en", "de"]
[forms]
html_posts = true
`;

const options = 'options = ["One", "Two & more", "<b>Three</b>"]';

/** The kinds of fields, each with further keys. */
export const KINDS = [
  ['text', 'max = 40'],
  ['multiline', 'max = 500'],
  ['email', ''],
  ['tel', ''],
  ['url', ''],
  ['number', 'min = -3\nmax = 9'],
  ['number', 'min = 0.5\nmax = 7.25'],
  ['date', 'min = "2026-01-01"\nmax = "2027-12-31"'],
  ['choice', options],
  ['choices', `${options}\nmax = 2`],
  ['consent', ''],
  ['hidden', options],
];

const field = (name, [kind, more], required) =>
  `[[field]]\nname = "${name}"\ntype = "${kind}"\nlabel = "The ${name}"\nrequired = ${required}\n${more}\n`;

/** One form with every kind of field, all optional, and one with every kind required; others have a few. */
export const definitions = (kinds = KINDS) => {
  const all = (required) => kinds.map((kind, at) => field(`${kind[0]}_${at}`, kind, required)).join('');
  const forms = { optional: all(false), required: all(true) };
  for (let n = 0; n < 6; n += 1) {
    const [first, second] = [kinds[(2 * n) % kinds.length], kinds[(2 * n + 1) % kinds.length]];
    forms[`form-${n}`] = field('first', first, true) + field('second', second, false);
  }
  return Object.entries(forms).map(([name, fields]) => [name, `title = "Form ${name}"\n${fields}`]);
};

/** Writes the site to a new folder: each form has a page in two languages. */
export async function siteWithForms(kinds = KINDS) {
  const folder = await mkdtemp(join(tmpdir(), 'frontdesk-forms-'));
  for (const part of ['forms', 'pages/de']) await mkdir(join(folder, part), { recursive: true });
  await writeFile(join(folder, 'frontdesk.toml'), configuration);
  const page = (title, more) => `---\ntitle: ${title}\ndescription: A page.\n${more}---\n\nText.\n`;
  for (const prefix of ['', 'de/']) await writeFile(join(folder, `pages/${prefix}index.md`), page('Home', ''));
  const forms = definitions(kinds);
  for (const [name, text] of forms) {
    await writeFile(join(folder, `forms/${name}.toml`), text);
    for (const prefix of ['', 'de/']) await writeFile(join(folder, `pages/${prefix}${name}.md`), page(name, `form: ${name}\n`));
  }
  return { folder, forms: forms.length };
}
