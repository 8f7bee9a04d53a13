"""Measures how much of the example site's Markdown survives a site generator and the conversion by frontdesk.

Builds the pages and posts of `site/` with each generator, serves the build with frontdesk, and compares the
served Markdown with the source, block by block. Usage: `scripts/test generators` installs what this needs, and
`roundtrip.py --work FOLDER --binary FILE [GENERATOR...]` runs it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from mdit_py_plugins.footnote import footnote_plugin

from server import serve

ROOT = Path(__file__).resolve().parents[2]
SITE_URL = "https://www.example.com"
ALERT = re.compile(r"^> \[!(\w+)\]\n((?:^>.*\n?)+)", re.M)

# The lowest mean F1 of all generators, and the lowest of any.
MEAN, LOWEST = 0.98, 0.95

# Text of navigation, search, footers and links for editing, in the templates below and in the themes.
BOILERPLATE = re.compile(
    r"search|edit this page|edit page|skip to|on this page|table of contents|previous|next page|powered by"
    r"|built with|© 20|all rights reserved|toggle|view source|copy to clipboard|last updated on",
    re.I,
)


class Page:
    """A Markdown file of the example site."""

    def __init__(self, file):
        text = file.read_text()
        # YAML or TOML.
        front_matter, self.body = re.match(r"(?:---|\+\+\+)\n(.*?)\n(?:---|\+\+\+)\n?(.*)", text, re.S).groups()
        self.title, self.description = (
            re.search(rf"^{key} ?[:=] (.*)$", front_matter, re.M)[1].strip("\"'") for key in ("title", "description")
        )
        self.body = self.body.strip() or "There is no text here."
        is_post = file.parent.name == "posts"
        self.name = "blog/" + file.stem[len("2026-01-01-"):] if is_post else file.stem
        if self.name in ("index", "blog"):
            self.name = f"{self.name}-page"

    @property
    def source(self):
        return f"# {self.title}\n\n{self.body}"


def source_pages():
    files = sorted(ROOT.glob("site/pages/*.md")) + sorted(ROOT.glob("site/posts/*.md"))
    return [Page(file) for file in files]


def with_alerts(text, form):
    """Replaces alerts by the syntax of a generator: `form(kind, text)`."""
    return ALERT.sub(lambda match: form(match[1].lower(), re.sub(r"(?m)^> ?", "", match[2]).strip()) + "\n", text)


def colons(kind, text):
    kind = {"important": "note", "warning": "caution"}.get(kind, kind)
    return f":::{kind}\n{text}\n:::\n"


def indented(kind, text):
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    return f"!!! {kind}\n\n{lines}\n"


def braces(kind, text):
    return f":::{{{kind}}}\n{text}\n:::\n"


def unchanged(kind, text):
    return f"> [!{kind.upper()}]\n" + "\n".join(f"> {line}" for line in text.splitlines()) + "\n"


def title_line(page):
    return f"title: {json.dumps(page.title)}\n"


# Without `<main>`: the conversion has to find the content.
LAYOUT_TOP = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>%(title)s | Example</title>
<meta name="viewport" content="width=device-width"><meta name="description" content="A page of an example.">
<link rel="stylesheet" href="/style.css"></head><body><header class="site-header">
<p>For AI agents: the guide to this site is <a href="/llms.txt">/llms.txt</a>.</p><a href="/">Example</a>
<form role="search"><input type="search" placeholder="Search"></form><nav>%(links)s</nav></header><div class="layout">
<aside class="sidebar"><h2>Pages</h2><ul>%(items)s</ul></aside><div class="content"><h1>%(title)s</h1>
<p class="meta"><a href="https://example.com/edit">Edit this page</a></p>
"""
LAYOUT_END = """</div></div><footer><p>© 2026 Example. All rights reserved. Built with care.</p></footer></body></html>
"""


class Generator:
    """Writes a project, builds it, and knows where the pages are. `title` tells whether the generator itself shows it."""

    def __init__(self, name, alert, content, build, output, shows_title, files):
        self.name, self.alert, self.content, self.build = name, alert, content, build
        self.output, self.shows_title, self.files = output, shows_title, files

    def write(self, folder, pages, tools):
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in self.files(pages).items():
            write(folder / name, text)
        for page in pages:
            body = with_alerts(page.body, self.alert)
            if self.name in WITH_FILES:
                names = "|".join(page.name for page in pages)
                body = re.sub(rf"(?<=\]\()/({names})/(?=[)#])", r"/\1.html", body)
            title = "" if self.shows_title else f"# {page.title}\n\n"
            text = f"---\n{title_line(page)}{self.front_matter(page)}---\n\n{title}{body}"
            if self.name == "mdbook":
                text = title + body
            write(folder / self.content / f"{page.name}.md", text)
        if self.name in WITH_TEMPLATE:
            write(folder / self.static / "style.css", "body { font-family: sans-serif; }\n")
        # These read images while they build.
        if assets := {"vitepress": "public", "docusaurus": "static", "sphinx": "."}.get(self.name):
            shutil.copytree(ROOT / "site/assets", folder / assets / "assets")
        if self.name in NODE_GENERATORS:
            (folder / "node_modules").symlink_to(tools / "node_modules")

    def front_matter(self, page):
        return {
            "eleventy": "layout: page.njk\n",
            "jekyll": f"layout: page\npermalink: /{page.name}/\n",
            "starlight": f"description: {json.dumps(page.description)}\n",
            "mkdocs": f"description: {json.dumps(page.description)}\n",
            "sphinx": f"myst:\n  html_meta:\n    description: {json.dumps(page.description)}\n",
        }.get(self.name, "")

    @property
    def static(self):
        """The folder whose files are published unchanged."""
        return "static" if self.name == "hugo" else "."


WITH_TEMPLATE = {"hugo", "eleventy", "jekyll"}
# Their pages are files such as `/contact.html`, and have no address `/contact/`.
WITH_FILES = {"vitepress", "sphinx", "mdbook"}
NODE_GENERATORS = {"starlight", "eleventy", "docusaurus", "vitepress"}


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def template(title, pages):
    links = "".join(f'<a href="/{page.name}/">{page.title}</a>' for page in pages[:4])
    items = "".join(f'<li><a href="/{page.name}/">{page.title}</a></li>' for page in pages)
    return LAYOUT_TOP % {"title": title, "links": links, "items": items}


def starlight(pages):
    return {
        "package.json": '{"type":"module"}',
        "astro.config.mjs": "import { defineConfig } from 'astro/config';\nimport starlight from '@astrojs/starlight';\n"
        f"export default defineConfig({{ site: '{SITE_URL}', integrations: [starlight({{ title: 'Example', "
        "editLink: { baseUrl: 'https://example.com/edit/' }, lastUpdated: false })] });\n",
        "src/content.config.ts": "import { defineCollection } from 'astro:content';\n"
        "import { docsLoader } from '@astrojs/starlight/loaders';\nimport { docsSchema } from '@astrojs/starlight/schema';\n"
        "export const collections = { docs: defineCollection({ loader: docsLoader(), schema: docsSchema() }) };\n",
        "src/content/docs/index.md": "---\ntitle: Welcome\ndescription: A page of an example.\n---\n\nChoose a page.\n",
    }


def hugo(pages):
    return {
        "config.toml": f'baseURL = "{SITE_URL}/"\ntitle = "Example"\n[markup.goldmark.renderer]\nunsafe = true\n',
        "layouts/_default/single.html": template("{{ .Title }}", pages) + "{{ .Content }}" + LAYOUT_END,
        "layouts/index.html": template("Welcome", pages) + "<p>Choose a page.</p>" + LAYOUT_END,
        "content/_index.md": "---\ntitle: Welcome\n---\n",
    }


def eleventy(pages):
    return {
        "package.json": "{}",
        "eleventy.config.mjs": "import footnotes from 'markdown-it-footnote';\n"
        "export default (config) => {\n  config.addPassthroughCopy('style.css');\n"
        "  config.amendLibrary('md', (library) => library.use(footnotes));\n};\n",
        "_includes/page.njk": template("{{ title }}", pages) + "{{ content | safe }}" + LAYOUT_END,
        "index.md": "---\nlayout: page.njk\ntitle: Welcome\n---\n\nChoose a page.\n",
    }


def docusaurus(pages):
    return {
        "package.json": "{}",
        "docusaurus.config.js": "module.exports = { title: 'Example', url: '%s', baseUrl: '/', onBrokenLinks: 'ignore', "
        "onBrokenAnchors: 'ignore', markdown: { format: 'detect', hooks: { onBrokenMarkdownLinks: 'ignore' } }, "
        "presets: [['classic', { docs: { routeBasePath: '/', editUrl: 'https://example.com/edit/' }, blog: false }]], "
        "themeConfig: { navbar: { title: 'Example' }, footer: { copyright: '© 2026 Example' } } };\n" % SITE_URL,
        "docs/index.md": "---\ntitle: Welcome\nslug: /\n---\n\nChoose a page.\n",
    }


def vitepress(pages):
    items = ", ".join(f"{{ text: {json.dumps(page.title)}, link: '/{page.name}' }}" for page in pages)
    return {
        "package.json": '{"type":"module"}',
        ".vitepress/config.mjs": "import footnotes from 'markdown-it-footnote';\n"
        "export default { title: 'Example', ignoreDeadLinks: true, "
        "markdown: { config: (library) => library.use(footnotes) }, themeConfig: { "
        f"search: {{ provider: 'local' }}, editLink: {{ pattern: 'https://example.com/:path' }}, sidebar: [{items}] }} }};\n",
        "index.md": "# Welcome\n\nChoose a page.\n",
    }


def mkdocs(pages):
    extensions = "[admonition, footnotes, tables, attr_list, pymdownx.superfences, pymdownx.tilde, "
    return {
        "mkdocs.yml": f"site_name: Example\nsite_url: {SITE_URL}/\nrepo_url: https://example.com/repository\n"
        "edit_uri: edit/\ntheme: {name: material, features: [content.code.copy, content.action.edit]}\n"
        f"markdown_extensions: {extensions}pymdownx.magiclink, "
        "{pymdownx.highlight: {pygments_lang_class: true}}, "
        "{pymdownx.tasklist: {custom_checkbox: true}}, sane_lists]\n",
        "docs/index.md": "---\ndescription: A page of an example.\n---\n\n# Welcome\n\nChoose a page.\n",
    }


def sphinx(pages):
    names = "\n".join(page.name for page in pages)
    return {
        "conf.py": "project = 'Example'\nhtml_theme = 'furo'\nextensions = ['myst_parser']\nhtml_copy_source = False\n"
        "myst_enable_extensions = ['colon_fence', 'tasklist', 'strikethrough', 'linkify']\nmyst_heading_anchors = 4\nmyst_all_links_external = True\n"
        "suppress_warnings = ['myst', 'misc.highlighting_failure']\n",
        "index.md": "---\nmyst:\n  html_meta:\n    description: A page of an example.\n---\n\n"
        f"# Welcome\n\nChoose a page.\n\n```{{toctree}}\n{names}\n```\n",
    }


def jekyll(pages):
    return {
        "_config.yml": f"title: Example\nurl: {SITE_URL}\nplugins: []\nexclude: [node_modules]\n",
        "_layouts/page.html": template("{{ page.title }}", pages) + "{{ content }}" + LAYOUT_END,
        "index.md": "---\nlayout: page\ntitle: Welcome\n---\n\nChoose a page.\n",
    }


def mdbook(pages):
    lines = "".join(f"- [{page.title}]({page.name}.md)\n" for page in pages)
    return {
        "book.toml": "[book]\ntitle = 'Example'\ndescription = 'Pages of an example.'\n[output.html]\ngit-repository-url = 'https://example.com/repository'\n"
        "edit-url-template = 'https://example.com/edit/{path}'\n",
        "src/SUMMARY.md": f"# Summary\n\n- [Welcome](index.md)\n{lines}",
        "src/index.md": "# Welcome\n\nChoose a page.\n",
    }


GENERATORS = [
    Generator("starlight", colons, "src/content/docs", "node_modules/.bin/astro build", "dist", True, starlight),
    Generator("hugo", unchanged, "content", "hugo --quiet", "public", True, hugo),
    Generator("eleventy", unchanged, ".", "node_modules/.bin/eleventy --quiet", "_site", True, eleventy),
    Generator("docusaurus", colons, "docs", "node_modules/.bin/docusaurus build", "build", True, docusaurus),
    Generator("vitepress", unchanged, ".", "node_modules/.bin/vitepress build", ".vitepress/dist", False, vitepress),
    Generator("mkdocs", indented, "docs", "mkdocs build --quiet", "site", False, mkdocs),
    Generator("sphinx", braces, ".", "sphinx-build -q -b html . _build", "_build", False, sphinx),
    Generator("jekyll", unchanged, ".", "jekyll build --quiet", "_site", True, jekyll),
    Generator("mdbook", unchanged, "src", "mdbook build", "book", False, mdbook),
]

PUNCTUATION = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\u00a0": " "})


def normalize(text):
    text = re.sub(r"-{2,}", "-", text.translate(PUNCTUATION).replace("...", "…"))
    return " ".join(text.split())


def inline_text(token):
    """The text of an inline token with its links, code, emphasis and images marked."""
    parts = []
    for child in token.children or []:
        if child.type in ("text", "text_special"):
            parts.append(normalize_keep(child.content))
        elif child.type == "code_inline":
            parts.append(f"`{child.content}`")
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type == "link_open":
            parts.append(f"[{target(child.attrGet('href'))}](")
        elif child.type == "link_close":
            parts.append(")")
        elif child.type == "image":
            # Sphinx moves and Docusaurus renames images.
            parts.append(f"![{child.content}]({child.attrGet('src').rsplit('/', 1)[-1]})")
        elif child.type in ("em_open", "em_close"):
            parts.append("*")
        elif child.type in ("strong_open", "strong_close"):
            parts.append("**")
        elif child.type in ("s_open", "s_close"):
            parts.append("~~")
        elif child.type == "footnote_ref":
            parts.append("[^]")
        elif child.type == "html_inline":
            parts.append(child.content)
    # The parser makes no links of bare addresses.
    return normalize(re.sub(r"\[mailto:([^\]]+)\]\(\1\)", r"\1", "".join(parts)))


def normalize_keep(text):
    return text.translate(PUNCTUATION)


def target(url):
    """A link's target without the site, the end of a file name, and the trailing slash."""
    url = re.sub(rf"^(?:{SITE_URL}|http://127\.0\.0\.1:\d+)(?=/|$)", "", url or "")
    return re.sub(r"(?:/index)?(?:\.html|\.md)?/?(?=#|$)", "", unquote(url), count=1)


def blocks(markdown):
    """The blocks of a document as texts, each with its kind."""
    parser = MarkdownIt("commonmark", {"linkify": False}).enable(["table", "strikethrough"]).use(footnote_plugin)
    found, row, path = [], None, []
    for token in parser.parse(markdown):
        if token.type in ("blockquote_open", "bullet_list_open", "ordered_list_open"):
            path.append(token.type[:-5])
        elif token.type in ("blockquote_close", "bullet_list_close", "ordered_list_close"):
            path.pop()
        elif token.type == "heading_open":
            kind = token.tag
        elif token.type == "paragraph_open":
            kind = "/".join(path) or "p"
        elif token.type in ("fence", "code_block"):
            language = (token.info.split() or ["text"])[0] if token.type == "fence" else "text"
            found.append(f"code {language}: {token.content.rstrip()}")
        elif token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            found.append("row: " + " | ".join(row))
            row = None
        elif token.type == "inline":
            text = inline_text(token)
            if row is not None:
                row.append(text)
            elif (alert := re.match(r"\[!(\w+)\] ?(.*)", text)) and "blockquote" in kind:
                found.append(f"alert: {alert[1].upper()}")
                if alert[2]:
                    found.append(f"{kind}: {alert[2]}")
            elif text:
                found.append(f"{kind}: {text}")
        elif token.type == "html_block":
            found.append(f"html: {normalize(token.content)}")
    return found


# Generators without the alert use the one in the first column.
ALERT_NAMES = {"IMPORTANT": "NOTE", "WARNING": "CAUTION"}
WITHOUT_LANGUAGE = {"code plaintext": "code text", "code default": "code text", "code none": "code text"}


def comparable(block, generator):
    if block.startswith("alert: ") and generator.alert is colons:
        name = block[7:]
        return f"alert: {ALERT_NAMES.get(name, name)}"
    for name, other in WITHOUT_LANGUAGE.items():
        if block.startswith(f"{name}:"):
            return other + block[len(name):]
    return block


def compare(page, markdown, generator):
    """Returns the blocks in common, the expected number, the found number, and both lists of other blocks."""
    expected = Counter(comparable(block, generator) for block in blocks(page.source))
    found = Counter(comparable(block, generator) for block in blocks(re.sub(r"\A---\n.*?\n---\n", "", markdown, flags=re.S)))
    common = expected & found
    return common.total(), expected.total(), found.total(), list((expected - common).elements()), list((found - common).elements())


def measure(generator, pages, arguments):
    folder = arguments.work / generator.name
    generator.write(folder, pages, arguments.work)
    # The commands of Python packages are beside the interpreter.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = dict(os.environ, PATH=path, ASTRO_TELEMETRY_DISABLED="1", DOCUSAURUS_TELEMETRY_DISABLED="1", NODE_ENV="production")
    built = subprocess.run(generator.build, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    if built.returncode:
        raise SystemExit(f"{generator.name} failed:\n{built.stdout[-3000:]}{built.stderr[-3000:]}")
    shutil.copytree(ROOT / "site/assets", folder / generator.output / "assets", dirs_exist_ok=True)
    process, address = serve(arguments.binary, folder / generator.output, folder / "data", SITE_URL)
    totals = [0, 0, 0]
    problems = []
    try:
        for page in pages:
            with urllib.request.urlopen(f"{address}/{page.name}.md") as answer:
                markdown = answer.read().decode()
            *counts, missing, added = compare(page, markdown, generator)
            totals = [total + count for total, count in zip(totals, counts)]
            source = page.source.lower()
            problems += [f"{page.name}: - {block}" for block in missing] + [f"{page.name}: + {block}" for block in added]
            for block in added:
                if (match := BOILERPLATE.search(block)) and match[0].lower() not in source:
                    problems.append(f"{page.name}: boilerplate: {block}")
    finally:
        process.terminate()
        process.wait()
    common, expected, found = totals
    list_pages(generator, pages, arguments.work)
    return 2 * common / (expected + found), problems


def list_pages(generator, pages, work):
    """Writes the sources and `GENERATOR.tsv`, in each line an HTML file and its source, for `scripts/bench convert`."""
    output = work / generator.name / generator.output
    lines = []
    for page in pages:
        source = work / "source" / f"{page.name}.md"
        write(source, page.source)
        html = next(file for file in (output / page.name / "index.html", output / f"{page.name}.html") if file.exists())
        lines.append(f"{html}\t{source}\n")
    write(work / "pages" / f"{generator.name}.tsv", "".join(lines))


def check_for_agents(generator, arguments):
    """Returns what AFDocs finds on a build whose template names llms.txt."""
    folder = arguments.work / generator.name
    process, address = serve(arguments.binary, folder / generator.output, folder / "data")
    # AFDocs takes a short text with "404" for an error page, and links have the port.
    while "404" in address:
        process.terminate()
        process.wait()
        process, address = serve(arguments.binary, folder / generator.output, folder / "data")
    try:
        # Footnote marks differ between HTML and Markdown, in two of forty paragraphs of one page.
        command = ["node", arguments.afdocs, "check", address, "--format", "json", "--request-delay", "0", "--quiet"]
        answer = subprocess.run([*command, "--parity-pass-threshold", "10"], capture_output=True, text=True)
        results = json.loads(answer.stdout)["results"]
    finally:
        process.terminate()
        process.wait()
    return [f"{it['id']}: {it['message']}" for it in results if it["status"] not in ("pass", "skip")]


def audit(generator, arguments):
    """Returns what `frontdesk audit` finds broken in a build, and prints its advice."""
    build = arguments.work / generator.name / generator.output
    answer = subprocess.run([arguments.binary, "audit", build, "--json"], capture_output=True, text=True)
    if answer.returncode not in (0, 1):
        return [f"audit: {answer.stderr}"]
    findings = [json.loads(line) for line in answer.stdout.splitlines()]
    lines = [(it["severity"], f"audit: {it['rule']} {it.get('url', '')}: {it['message']}") for it in findings]
    for severity, line in lines:
        if severity != "broken":
            print(f"    {severity}: {line[:300]}")
    return [line for severity, line in lines if severity == "broken"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=lambda value: Path(value).resolve(), required=True)
    parser.add_argument("--binary", type=lambda value: str(Path(value).resolve()), required=True)
    parser.add_argument("--afdocs", help="the command of AFDocs, to check the builds whose templates are below")
    parser.add_argument("--differences", type=int, default=12, help="differences to print for each generator")
    parser.add_argument("generators", nargs="*")
    arguments = parser.parse_args()
    pages = source_pages()
    scores, faults = {}, []
    for generator in GENERATORS:
        if arguments.generators and generator.name not in arguments.generators:
            continue
        score, problems = measure(generator, pages, arguments)
        scores[generator.name] = score
        print(f"{generator.name}: F1 {score:.3f}, {len(problems)} differences", flush=True)
        for problem in problems[: arguments.differences]:
            print(f"    {problem[:300]}")
        faults += [problem for problem in problems if ": boilerplate: " in problem]
        if arguments.afdocs and generator.name in WITH_TEMPLATE:
            found = check_for_agents(generator, arguments)
            print(f"    AFDocs: {found or 'nothing to improve'}", flush=True)
            faults += found
        broken = audit(generator, arguments)
        print(f"    audit: {broken or 'nothing broken'}", flush=True)
        faults += broken
    mean = sum(scores.values()) / len(scores)
    print(f"mean: {mean:.3f}")
    if mean < MEAN or min(scores.values()) < LOWEST or faults:
        sys.exit(f"the mean must be at least {MEAN} and each score {LOWEST}; no page may contain navigation; {faults}")


if __name__ == "__main__":
    main()
