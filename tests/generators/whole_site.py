"""Serves large builds, such as the documentation in Debian packages, and checks each of their pages.

`whole_site.py --binary FILE FOLDER...` compares the HTML of each page with its file, and requires 406 for images,
and Markdown that is not empty. Prints the pages, the time until the server listens, and its memory.
"""

import argparse
import http.client
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

from server import serve


class Client:
    def __init__(self, address):
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc)

    def get(self, path, accept):
        """Returns the status, headers and body, after redirects."""
        for _ in range(5):
            self.connection.request("GET", path, headers={"Accept": accept})
            answer = self.connection.getresponse()
            body = answer.read()
            if answer.status not in (301, 302, 307, 308):
                break
            path = answer.headers["Location"]
        return answer.status, answer.headers, body


def check_page(client, file, path):
    """Yields the faults of a page."""
    status, headers, body = client.get(path, "text/html")
    if status != 200 or body != file.read_bytes():
        yield f"{status}, or not the HTML of the build"
    # Redirecting pages and fragments of pages have no Markdown.
    if "text/markdown" not in ", ".join(headers.get_all("Link", [])):
        return
    if client.get(path, "image/png")[0] != 406:
        yield "no 406 to a request for an image"
    if client.get(path, "text/markdown;q=0.5, text/html")[2] != body:
        yield "not the HTML, although it is preferred"
    status, headers, markdown = client.get(path, "text/markdown")
    text = re.sub(r"\A---\n.*?\n---\n", "", markdown.decode(), flags=re.S)
    if status != 200 or not headers["Content-Type"].startswith("text/markdown"):
        yield f"{status} {headers['Content-Type']} instead of Markdown"
    elif not re.search(r"\w", re.sub(r"\A\s*# .*", "", text)) and has_text(body.decode(errors="replace")):
        yield "the Markdown has no text"


def has_text(html):
    """Whether the main content is more than a heading."""
    main = re.search(r"<main\b.*?</main>", html, re.S)
    without_heading = re.sub(r"<h1\b.*?</h1>", "", main[0] if main else html, flags=re.S)
    return re.search(r"\w", re.sub(r"<[^>]*>", "", without_heading)) is not None


def check(folder, binary, work):
    # Packages link to files of other packages, which may be missing.
    build = work / "site"
    subprocess.run(["cp", "--recursive", "--dereference", folder.resolve(), build], stderr=subprocess.DEVNULL)
    start = time.monotonic()
    process, address = serve(binary, build, work / "data")
    seconds = time.monotonic() - start
    try:
        client = Client(address)
        faults, pages, with_markdown = [], 0, 0
        for file in sorted(build.rglob("*.html")):
            path = "/" + quote(str(file.relative_to(build)))
            pages += 1
            faults += [f"{path}: {fault}" for fault in check_page(client, file, path)]
        memory = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]
    finally:
        process.terminate()
        process.wait()
    print(f"{folder}: {pages} pages, {seconds:.1f} s until it listens, {int(memory) // 1024} MB at most", flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=lambda value: str(Path(value).resolve()), required=True)
    parser.add_argument("folders", nargs="+", type=Path)
    arguments = parser.parse_args()
    faults = []
    for folder in arguments.folders:
        with tempfile.TemporaryDirectory() as work:
            faults += check(folder, arguments.binary, Path(work))
    for fault in faults[:40]:
        print(f"    {fault}")
    if faults:
        sys.exit(f"{len(faults)} faults")


main()
