"""Builds sites with generators that `roundtrip.py` does not compare with their source, for `fidelity.py`.

`builds.py --work FOLDER` writes the projects to the folder, and builds them with the programs in its `node_modules` and
beside the Python interpreter. The pages of the example site are the content, except for Asciidoctor, Doxygen and TypeDoc.
Also copies `builders/`, pages in the form that website builders emit.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import roundtrip
from roundtrip import braces, source_pages, title_line, with_alerts, write

HERE = Path(__file__).parent
SPHINX = {"alabaster": "alabaster", "rtd": "sphinx_rtd_theme", "pydata": "pydata_sphinx_theme", "book": "sphinx_book_theme"}


def run(command, folder, tools):
    path = f"{Path(sys.executable).parent}:{tools}/node_modules/.bin:{os.environ['PATH']}"
    built = subprocess.run(command, shell=True, cwd=folder, env=dict(os.environ, PATH=path), capture_output=True, text=True)
    if built.returncode:
        raise SystemExit(f"{command} failed in {folder}:\n{built.stdout[-3000:]}{built.stderr[-3000:]}")


def flat(page):
    return page.name.replace("/", "-")


def pelican(folder, pages, tools, theme):
    for page in pages:
        head = f"Title: {page.title}\nDate: 2026-01-02\nCategory: docs\nTags: a, b\n"
        write(folder / "content" / f"{page.name}.md", f"{head}\n{page.body}")
    write(
        folder / "pelicanconf.py",
        f"AUTHOR='Rowan'\nSITENAME='Example'\nSITEURL=''\nPATH='content'\nTIMEZONE='UTC'\nTHEME='{theme}'\n"
        "LINKS=(('Pelican','https://getpelican.com/'),)\n",
    )
    run("pelican content -o out -s pelicanconf.py -q", folder, tools)


def nikola(folder, pages, tools):
    run("nikola init -q site", folder, tools)
    for page in pages:
        head = f".. title: {page.title}\n.. date: 2026-01-02 00:00:00 UTC\n"
        write(folder / f"site/pages/{flat(page)}.md", f"{head}.. slug: {flat(page)}\n\n{page.body}")
    for page in pages[:4]:
        head = f".. title: {page.title}\n.. date: 2026-01-02 00:00:00 UTC\n.. tags: a, b\n"
        write(folder / f"site/posts/{flat(page)}-post.md", f"{head}.. slug: {flat(page)}-post\n\n{page.body}")
    # A build with a folder `pages` would look like a site.
    with (folder / "site/conf.py").open("a") as file:
        file.write("\nPAGES = (('pages/*.md', 'docs', 'page.tmpl'),)\nPOSTS = (('posts/*.md', 'posts', 'post.tmpl'),)\n")
    run("nikola build -q", folder / "site", tools)


def hexo(folder, pages, tools):
    for page in pages:
        head = f"---\n{title_line(page)}date: 2026-01-02\ntags: [a, b]\ncategories: [docs]\n---\n"
        write(folder / f"source/_posts/{flat(page)}.md", f"{head}\n{page.body}")
    write(folder / "_config.yml", f"title: Example\nurl: {roundtrip.SITE_URL}\ntheme: landscape\npermalink: :title/\n")
    parts = ["generator-archive", "generator-category", "generator-index", "generator-tag", "renderer-ejs", "renderer-marked"]
    names = ["hexo", "hexo-renderer-stylus", "hexo-theme-landscape", *[f"hexo-{part}" for part in parts]]
    package = {"name": "example", "hexo": {"version": ""}, "dependencies": dict.fromkeys(names, "*")}
    write(folder / "package.json", json.dumps(package))
    (folder / "node_modules").symlink_to(tools / "node_modules")
    run("hexo generate --silent", folder, tools)


def asciidoctor(folder, pages, tools):
    source = (HERE / "sources/manual.adoc").read_text()
    for number in range(6):
        write(folder / f"page{number}.adoc", source.replace("{number}", str(number)))
    run("asciidoctor -a experimental -D out *.adoc", folder, tools)


def doxygen(folder, pages, tools):
    for page in pages:
        write(folder / f"{flat(page)}.md", page.source)
    shutil.copy(HERE / "sources/shapes.hpp", folder)
    write(
        folder / "Doxyfile",
        "PROJECT_NAME=Example\nINPUT=.\nFILE_PATTERNS=*.md *.hpp\nGENERATE_LATEX=NO\nHTML_OUTPUT=out\nQUIET=YES\n"
        "SOURCE_BROWSER=YES\nEXTRACT_ALL=YES\nWARNINGS=NO\n",
    )
    run("doxygen Doxyfile", folder, tools)


def typedoc(folder, pages, tools):
    (folder / "node_modules").symlink_to(tools / "node_modules")
    shutil.copy(HERE / "sources/shapes.ts", folder)
    write(folder / "README.md", pages[0].source)
    write(folder / "package.json", '{"name": "shapes", "version": "1.0.0", "type": "module"}')
    options = {"target": "es2022", "module": "nodenext", "moduleResolution": "nodenext", "strict": True, "skipLibCheck": True}
    write(folder / "tsconfig.json", json.dumps({"compilerOptions": options, "files": ["shapes.ts"]}))
    run("typedoc --out out shapes.ts", folder, tools)


def sphinx(folder, pages, tools, theme):
    for page in pages:
        write(folder / f"{page.name}.md", f"# {page.title}\n\n{with_alerts(page.body, braces)}")
    shutil.copy(HERE / "sources/reference.rst", folder)
    names = "\n".join(page.name for page in pages)
    write(folder / "index.md", f"# Welcome\n\nChoose a page.\n\n```{{toctree}}\n{names}\nreference\n```\n")
    write(
        folder / "conf.py",
        f"project = 'Example'\nhtml_theme = '{SPHINX[theme]}'\nextensions = ['myst_parser']\nmyst_heading_anchors = 4\n"
        "myst_enable_extensions = ['colon_fence', 'tasklist', 'strikethrough', 'linkify', 'dollarmath', 'deflist']\n"
        "suppress_warnings = ['myst', 'misc.highlighting_failure']\n",
    )
    run("sphinx-build -q -b html . out", folder, tools)


BUILDS = {
    **{f"pelican-{theme}": (pelican, theme) for theme in ("notmyidea", "simple")},
    **{f"sphinx-{theme}": (sphinx, theme) for theme in SPHINX},
    **{build.__name__: (build,) for build in (nikola, hexo, asciidoctor, doxygen, typedoc)},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=lambda value: Path(value).resolve(), required=True)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    pages = source_pages()
    shutil.copytree(HERE / "builders", arguments.work / "builders", dirs_exist_ok=True)
    for name, (build, *theme) in BUILDS.items():
        if arguments.names and name not in arguments.names:
            continue
        folder = arguments.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build(folder, pages, arguments.work, *theme)
        print(f"{name}: built", flush=True)


main()
