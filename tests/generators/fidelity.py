"""Serves builds, such as the documentation in Debian packages, and measures what the Markdown of their pages loses.

`fidelity.py --binary FILE --sites TOML [NAME...]` serves the builds that the file lists. For each page, the HTML must have
the bytes of the file, and a request for an image gets 406. For some pages of each build, the Markdown is compared with the
main region of the HTML: it must have each heading, block, link, line of code and table cell, and nothing else.
`content.py` reads both. Prints the first texts that are lost or kept, the time until the server listens, and its memory.

The columns of the table: what is lost of how many; blocks that are at another place (labels of tabs, footnotes); the share of
words that are not of the main region; wrong titles and first-level headings; and pages whose Markdown changes if it is
rendered and converted again, of up to 20 per build.
"""

import argparse
import codecs
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from content import ALERT, Page, collapse, read_markdown, render, without_front_matter, words
from server import serve

KINDS = ("heading", "block", "link", "code", "cell")
# The highest shares over all pages: of each kind that may be lost, of words that may be boilerplate, and of
# pages whose Markdown may change.
BARS = {"heading": 0.001, "block": 0.001, "link": 0.002, "code": 0, "cell": 0, "kept": 0.01, "changed": 0.001}


class Client:
    def __init__(self, address):
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc)

    def get(self, path, accept):
        """Returns the status, headers and body, after redirects, and the last path."""
        for _ in range(5):
            answer = self.respond(path, accept)
            body = answer.read()
            if answer.status not in (301, 302, 307, 308):
                break
            path = answer.headers["Location"]
        return answer.status, answer.headers, body, path

    def respond(self, path, accept):
        try:
            self.connection.request("GET", path, headers={"Accept": accept})
            return self.connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            # The server closes idle connections, and this program may have paused.
            self.connection.close()
            self.connection.request("GET", path, headers={"Accept": accept})
            return self.connection.getresponse()


class Row:
    """What was counted on a site."""

    def __init__(self, name):
        self.name = name
        self.pages = self.moved = self.words = self.kept = self.titles = self.h1s = self.changed = 0
        self.total, self.lost = Counter(), Counter()
        self.examples = defaultdict(list)

    def note(self, kind, page, text):
        self.examples[kind].append(f"{page}: {text[:160]}")

    def add(self, other):
        for name in ("pages", "moved", "words", "kept", "titles", "h1s", "changed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.total += other.total
        self.lost += other.lost

    def cells(self):
        counts = [f"{self.lost[kind]}/{self.total[kind]}" for kind in KINDS]
        kept = f"{100 * self.kept / max(self.words, 1):.2f} %"
        return [self.name, str(self.pages), *counts, str(self.moved), kept, str(self.titles), str(self.h1s), str(self.changed)]

    def faults(self):
        for kind in KINDS:
            if self.lost[kind] > BARS[kind] * self.total[kind]:
                yield f"{self.lost[kind]} of {self.total[kind]} lost: {kind}"
        if self.kept > BARS["kept"] * self.words:
            yield f"{self.kept} of {self.words} words are not of the main region"
        if self.titles or self.h1s:
            yield f"wrong titles: {self.titles}, wrong first-level headings: {self.h1s}"
        if self.changed > BARS["changed"] * self.pages:
            yield f"the Markdown of {self.changed} of {self.pages} pages changes when it is converted again"


HEADER = ["site", "pages", "headings", "blocks", "links", "code lines", "cells", "moved", "kept", "titles", "H1", "changed"]


def align(expected, found, work):
    """The runs of differing words as pairs of ranges, by `diff`."""
    a, b = work / "a", work / "b"
    a.write_text("".join(f"{word}\n" for word in expected))
    b.write_text("".join(f"{word}\n" for word in found))
    output = subprocess.run(["diff", a, b], capture_output=True, text=True).stdout
    for match in re.finditer(r"^(\d+)(?:,(\d+))?([acd])(\d+)(?:,(\d+))?$", output, re.M):
        start, end, change, to, to_end = match.groups()
        start, to = int(start), int(to)
        end, to_end = int(end or start), int(to_end or to)
        yield (range(start - 1, end) if change != "a" else range(0), range(to - 1, to_end) if change != "d" else range(0))


def join_words(text, texts):
    """Removes the words from a text that has the same letters, divided into other words."""
    letters = text.replace(" ", "")
    if len(letters) < 6:
        return False
    pattern = re.compile(r" ?".join(map(re.escape, letters)))
    for at, other in enumerate(texts):
        if letters in other.replace(" ", "") and (match := pattern.search(other)):
            texts[at] = f"{other[:match.start()]} \0 {other[match.end():]}"
            return True
    return False


def move_words(own, texts):
    """Removes the words from `texts` if each is in one of these, as the labels of tabs are above their panels."""
    places = [next((at for at, text in enumerate(texts) if f" {word} " in text), None) for word in own]
    if len(own) > 12 or None in places:
        return False
    for word, place in zip(own, places):
        texts[place] = texts[place].replace(f" {word} ", " \0 ", 1)
    return True


def compare(row, name, page, content, work):
    """Counts what the blocks of `content`, the Markdown, lack of those of `page`, and what they have beyond them."""
    expected = [(word, block) for block in page.content.blocks for word in words(ALERT.sub("", block.text))]
    found = [(word, block) for block in content.blocks for word in ALERT.sub("", block.text) and words(ALERT.sub("", block.text))]
    missing, extra = [], []
    for left, right in align([word for word, _ in expected], [word for word, _ in found], work):
        if "".join(expected[at][0] for at in left) != "".join(found[at][0] for at in right):
            missing.append(list(left))
            extra.append(list(right))
    # What is elsewhere in the Markdown has moved.
    texts = [" " + " ".join(found[at][0] for at in run) + " " for run in extra]
    lost = defaultdict(list)
    for run in sorted(missing, key=len, reverse=True):
        by_block = defaultdict(list)
        for at in run:
            by_block[id(expected[at][1])].append(at)
        for part in by_block.values():
            text = " " + " ".join(expected[at][0] for at in part) + " "
            place = next((at for at, other in enumerate(texts) if text in other), None)
            block = expected[part[0]][1]
            if place is None and join_words(text, texts):
                continue
            if place is not None or move_words(text.split(), texts):
                if place is not None:
                    texts[place] = texts[place].replace(text, " \0 ", 1)
                row.moved += 1
                row.note("moved", name, block.text)
            else:
                lost[id(block)] += [expected[at][0] for at in part]
    alerts = sum(len(ALERT.findall(block.text)) for block in content.blocks)
    notes = content.notes
    optional = {tuple(block.words) for block in page.content.blocks if block.is_optional}
    row.words += len(found)
    kept = []
    for text, run in zip(texts, extra):
        own = [word for word in text.split() if word != "\0"]
        # The title, which the converter adds as the heading.
        is_title = bool(run) and found[run[0]][1].level == 1 and run[0] < 40
        if own and not is_title:
            kept += own
            row.note("kept", name, " ".join(own))
    row.kept += len(kept)
    for block in page.content.blocks:
        if block.is_optional or not block.words:
            continue
        kind = {"text": "block", "code": "block"}.get(block.kind, block.kind)
        row.total["block"] += 1
        if block.kind == "cell":
            row.total["cell"] += 1
        # A repeated text elsewhere may have been left out instead.
        if id(block) not in lost or tuple(lost[id(block)]) in optional:
            continue
        if alerts and all(is_alert_title(word) or len(block.words) <= 2 for word in lost[id(block)]):
            alerts -= 1
            continue
        if notes and (is_title_of_notes(block.text) or all(len(word) <= 3 for word in lost[id(block)])):
            notes -= 1
            continue
        row.lost["block"] += 1
        if block.kind == "cell":
            row.lost["cell"] += 1
        row.note(kind if block.kind == "cell" else "block", name, f"{' '.join(lost[id(block)])[:60]!r} of {block.text!r}")
    count_lost(row, name, page, content)


def is_alert_title(word):
    return word.lower() in ("note", "tip", "hint", "important", "warning", "caution", "danger", "see", "also")


def is_title_of_notes(text):
    return text.lower().strip(":") in ("footnotes", "notes", "references", "endnotes", "footnote", "citations")


def count_lost(row, name, page, content):
    headings = Counter("".join(block.words) for block in page.content.blocks if block.kind == "heading" and not block.is_optional)
    found = Counter("".join(block.words) for block in content.blocks if block.kind == "heading")
    headings.pop("", None)
    alerts = sum(len(ALERT.findall(block.text)) for block in content.blocks)
    if alerts:
        headings = Counter({text: number for text, number in headings.items() if not is_alert_title(text)})
    if content.notes:
        # Markdown needs no title above its footnotes.
        headings = Counter({text: number for text, number in headings.items() if not is_title_of_notes(text)})
    count(row, name, "heading", headings, found)
    # Cells without words, such as check marks.
    cells = Counter(b.text for b in page.content.blocks if b.kind == "cell" and not b.words and not b.is_optional)
    found = Counter(b.text for b in content.blocks if not b.words)
    row.total["cell"] += cells.total()
    together = "".join(b.text for b in content.blocks if b.kind == "cell")
    for text, lost in (cells - found).items():
        if together.count(text) >= cells[text]:
            continue
        row.lost["cell"] += lost
        row.note("cell", name, f"{lost} x {text!r}")
    targets = Counter(target for _, target in page.content.links)
    found = Counter(target for _, target in content.links)
    count(row, name, "link", targets, found)
    lines = Counter(line for _, line in page.content.lines)
    found = Counter(line for kind, line in content.lines if kind == "line")
    spans = Counter(collapse(line) for kind, line in content.lines if kind == "span")
    row.total["code"] += lines.total()
    missing = lines - found
    for line, number in missing.items():
        in_spans = min(number, spans[collapse(line)])
        spans[collapse(line)] -= in_spans
        if number > in_spans:
            row.lost["code"] += number - in_spans
            row.note("code", name, repr(line))


def count(row, name, kind, expected, found):
    row.total[kind] += expected.total()
    for text, number in (expected - found).items():
        row.lost[kind] += number
        row.note(kind, name, f"{number} x {text}")


SEPARATORS = r"\s+[|\-–—·•»:]+\s+|\s+::\s+|\s[—–-]\s|: "


def check_titles(row, name, page, content, title, site_names):
    def key(text):
        return "".join(words(text)).lower()

    own = [key(title_part) for title_part in (page.title, page.og_title, *re.split(SEPARATORS, page.title))]
    h1s = [block.text for block in page.content.blocks if block.level == 1 and not block.is_optional]
    headings = [block.text for block in page.content.blocks if block.kind == "heading"]
    allowed = {text for text in [*own, *map(key, h1s)] if text}
    if key(page.title) in site_names:
        allowed |= set(map(key, headings[:1]))
    # Parts of a title may be separated by the separator itself.
    is_part = key(title) and any(key(title) in text for text in own + [key(h) for h in h1s])
    if (page.title or h1s) and not (key(title) in allowed or is_part):
        row.titles += 1
        row.note("title", name, f"{title!r} for {page.title!r}, {h1s[:1]}")
    elif urlsplit(page.url).path != "/" and key(title) in site_names and any(text not in site_names for text in allowed):
        row.titles += 1
        row.note("title", name, f"{title!r} is the name of the site; {page.title!r}, {h1s[:1]}")
    found = [block.text for block in content.blocks if block.level == 1]
    if not h1s and not title:
        return
    # Of several first-level headings, the title of the page may be the right one.
    right = [*map(key, h1s[:1]), *([key(title)] if len(h1s) != 1 else []), *map(key, headings[:1] if not h1s else [])]
    if len(found) != 1 or key(found[0]) not in right:
        row.h1s += 1
        row.note("H1", name, f"{found[:2]} for {h1s[:2] or title!r}")


def drop_repeated(pages):
    """Marks the blocks of links that are on nine of ten pages."""
    if len(pages) < 5:
        return
    seen = Counter()
    for _, page, *_ in pages:
        seen.update({(block.text, tuple(block.links)) for block in page.content.blocks if block.is_only_links()})
    repeated = {key for key, number in seen.items() if number * 10 >= len(pages) * 9}
    for _, page, *_ in pages:
        for block in page.content.blocks:
            if block.is_only_links() and (block.text, tuple(block.links)) in repeated:
                block.is_optional = True
                for link in block.links:
                    if link in page.content.links:
                        page.content.links.remove(link)


def check_response(client, file, path):
    """Returns the Markdown of a page and its path, or `None` for a page without Markdown, and the faults."""
    faults = []
    status, headers, body, path = client.get(path, "text/html")
    expected = 404 if file.name == "404.html" else 200
    if status != expected or body != file.read_bytes():
        return None, path, [f"{status}, or not the HTML of the build"]
    # Redirecting pages and fragments of pages have no Markdown.
    if "text/markdown" not in ", ".join(headers.get_all("Link", [])):
        return None, path, faults
    if client.get(path, "image/png")[0] != 406:
        faults.append("no 406 to a request for an image")
    if client.get(path, "text/markdown;q=0.5, text/html")[2] != body:
        faults.append("not the HTML, although it is preferred")
    status, headers, markdown, _ = client.get(path, "text/markdown")
    if status != 200 or not headers["Content-Type"].startswith("text/markdown"):
        faults.append(f"{status} {headers['Content-Type']} instead of Markdown")
    return markdown.decode(), path, faults


def changes(binary, markdown):
    """Where the Markdown changes if it is rendered and converted again, or `None`."""
    body, _ = without_front_matter(markdown)
    again = subprocess.run([binary, "convert", "-"], input=html_again(body), capture_output=True, text=True).stdout
    return first_difference(body, again)


def html_again(body):
    """The Markdown as HTML, with alerts, and with addresses in text as text."""
    return re.sub(
        r"<blockquote>\n<p>\[!(\w+)\](\n|</p>)",
        lambda m: f'<blockquote class="markdown-alert markdown-alert-{m[1].lower()}"><p class="markdown-alert-title">{m[1]}</p>'
        + ("<p>" if m[2] == "\n" else ""),
        render(body, ("table", "strikethrough", "tasklist")),
    )


def first_difference(body, again):
    # The renderer encodes brackets in addresses.
    pairs = zip(unquote(body).strip().splitlines() + [""], unquote(again).strip().splitlines() + [""])
    for a, b in pairs:
        if a != b:
            at = max(0, len(os.path.commonprefix([a, b])) - 15)
            return f"{a[at:at + 60]!r} -> {b[at:at + 60]!r}"
    return None


def measure(name, site, arguments, work):
    row, faults = Row(name), []
    folder = arguments.root / site["folder"].lstrip("/")
    if not folder.is_dir():
        sys.exit(f"{name}: there is no folder {folder}")
    build = work / "site"
    # Packages link to files of other packages, which may be missing.
    subprocess.run(["cp", "--recursive", "--dereference", folder.resolve(), build], stderr=subprocess.DEVNULL)
    files = sorted(file for ending in ("*.html", "*.htm") for file in build.rglob(ending))
    # Hidden files are not published, and a page with this name is for missing paths.
    files = [file for file in files if not file.name.startswith(".") and file.name != "404.html"]
    kept = files
    if arguments.sample and len(files) > arguments.sample:
        kept = [files[at * len(files) // arguments.sample] for at in range(arguments.sample)]
        for file in set(files) - set(kept):
            file.unlink()
    if not (build / "index.html").exists():
        (build / "index.html").write_text("<!doctype html><title>Index</title><main><h1>Index</h1><p>Index.</p></main>")
    start = time.monotonic()
    process, address = serve(arguments.binary, build, work / "data", "https://www.example.com")
    seconds = time.monotonic() - start
    pages = []
    try:
        client = Client(address)
        step = max(1, len(kept) // arguments.pages) if arguments.pages else 1
        for at, file in enumerate(kept):
            markdown, path, found = check_response(client, file, "/" + quote(str(file.relative_to(build))))
            faults += [f"{path}: {fault}" for fault in found]
            # A build may have written the Markdown itself.
            if markdown is not None and at % step == 0 and not file.with_suffix(".md").exists():
                html = decode(file.read_bytes())
                has_notes = re.search(r"^\[\^", markdown, re.M) is not None
                page = Page(html, f"https://www.example.com{path}", site.get("main"), site.get("without"), has_notes)
                pages.append((path, page, markdown))
        memory = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]
    finally:
        process.terminate()
        process.wait()
    drop_repeated(pages)
    parts = Counter(part for _, page, _ in pages for part in {"".join(words(p)).lower() for p in re.split(SEPARATORS, page.title)})
    site_names = {part for part, number in parts.items() if number * 2 > len(pages) and len(pages) > 4}
    for at, (path, page, markdown) in enumerate(pages):
        for block in page.content.blocks:
            # The logo of a page without a main region.
            block.is_optional |= block.level == 1 and block.is_only_links() and "".join(block.words).lower() in site_names
        row.pages += 1
        content, title = read_markdown(markdown, page.url, page.has_math)
        compare(row, path, page, content, work)
        check_titles(row, path, page, content, title, site_names)
        if at % max(1, len(pages) // 20) == 0 and not page.has_math and (change := changes(arguments.binary, markdown)):
            row.changed += 1
            row.note("changed", path, change)
        if arguments.save:
            target = Path(arguments.save) / name / (path.strip("/").replace("/", "_") + ".md")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(markdown)
    about = f"{len(kept)} pages, {seconds:.1f} s until it listens, {int(memory) // 1024} MB at most"
    return row, faults, about


def decode(data):
    declared = re.search(rb"<meta[^>]+charset=[\"']?([\w-]+)|<\?xml[^>]+encoding=[\"']([\w-]+)", data[:2048], re.I)
    # The server says that what can be read as UTF-8 is UTF-8, and a header precedes a declaration.
    encodings = ["utf-8"]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    elif declared:
        encodings.append((declared[1] or declared[2]).decode())
    # Browsers read these names as supersets, in which each byte of the first is a character.
    names = {"iso-8859-1": "cp1252", "us-ascii": "cp1252", "euc-kr": "cp949"}
    encodings = [names.get(encoding.lower(), encoding) for encoding in encodings]
    for encoding in encodings:
        try:
            return data.decode(encoding, errors="c1" if encoding == "cp1252" else "strict").lstrip("\ufeff")
        except (UnicodeDecodeError, LookupError):
            pass
    # Single bytes that are wrong become replacement characters, as in browsers.
    return data.decode(encodings[-1] if declared else "cp1252", errors="replace" if declared else "c1")


# Windows-1252 in browsers has a control character for each byte without a character.
codecs.register_error("c1", lambda error: ("".join(map(chr, error.object[error.start:error.end])), error.end))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=lambda value: str(Path(value).resolve()), required=True)
    parser.add_argument("--sites", type=Path, required=True, help="the builds, and the selectors of their content")
    parser.add_argument("--root", type=Path, default=Path("/"), help="the folder that contains those in this file")
    parser.add_argument("--sample", type=int, default=0, help="the number of pages of each build to serve")
    parser.add_argument("--pages", type=int, default=300, help="the number of pages of each build to compare")
    parser.add_argument("--examples", type=int, default=5, help="texts to print for each kind of difference")
    parser.add_argument("--save", help="a folder for the Markdown of the pages")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    sites = tomllib.loads(arguments.sites.read_text())
    rows, faults, total = [], [], Row("all")
    for name, site in sites.items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as work:
            row, found, about = measure(name, site, arguments, Path(work))
        rows.append(row)
        total.add(row)
        faults += [f"{name}{fault}" for fault in found]
        print(f"{name}: {about}", flush=True)
        print("    " + ", ".join(f"{a} {b}" for a, b in zip(HEADER[1:], row.cells()[1:])), flush=True)
        for kind, texts in row.examples.items():
            for text in texts[: arguments.examples]:
                print(f"    {kind}: {text}")
    print()
    for cells in [HEADER, ["---"] + ["---:"] * (len(HEADER) - 1), *[row.cells() for row in [*rows, total]]]:
        print("| " + " | ".join(cells) + " |")
    faults += list(total.faults())
    for fault in faults[:40]:
        print(f"    {fault}")
    if faults:
        sys.exit(f"{len(faults)} faults")


if __name__ == "__main__":
    main()
