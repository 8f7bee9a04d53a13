"""Measures what the conversion by frontdesk preserves of the CommonMark specification's examples.

Converts the HTML of each example to Markdown, renders that Markdown, and compares both HTML trees. Examples
with raw HTML are left out, because the Markdown of a page has none. Usage:
`commonmark.py --spec FILE --binary FILE`.
"""

import argparse
import re
import subprocess
import sys

from bs4 import BeautifulSoup, NavigableString
from markdown_it import MarkdownIt

LOWEST = 0.99
EXAMPLE = re.compile(r"^`{32} example\n(.*?)^\.\n(.*?)^`{32}$", re.S | re.M)
INLINE = {"a", "code", "em", "img", "strong"}
ATTRIBUTES = {"href", "src", "alt", "title", "class", "start"}


def tree(element, is_code=False):
    """The children of an element as nested tuples, without white space that browsers ignore."""
    found = []
    for child in element.children:
        if isinstance(child, NavigableString):
            found.append(str(child) if is_code else re.sub(r"\s+", " ", child))
            continue
        attributes = {name: value for name, value in child.attrs.items() if name in ATTRIBUTES}
        if attributes.get("start") == "1":
            del attributes["start"]
        children = tree(child, is_code or child.name == "pre")
        # Emphasis within emphasis looks the same.
        while child.name in ("em", "strong") and len(children) == 1 and children[0][0] == child.name:
            children = children[0][2]
        found.append((child.name, str(sorted(attributes.items())), children))
    if not is_code:
        for index, item in enumerate(found):
            if isinstance(item, str):
                # Text that is all white space has become empty.
                before = found[index - 1][:1] if index else ""
                after = found[index + 1][:1] if index + 1 < len(found) else ""
                before, after = (item[0] if item else None for item in (before, after))
                item = item if before in INLINE else item.lstrip()
                found[index] = item if after in INLINE else item.rstrip()
    return tuple(item for item in found if item)


def normal_tree(html):
    # The address of a host has an empty path or `/`.
    return tree(BeautifulSoup(re.sub(r'(https?://[a-z.]+)/(?=[?#"])', r"\1", html), "html.parser"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--binary", required=True)
    arguments = parser.parse_args()
    library = MarkdownIt("commonmark")
    # Whether a bare address is a link depends on the reader: it is one in GitHub Flavored Markdown (6.9).
    flavored = MarkdownIt("commonmark", {"linkify": True}).enable("linkify")
    flavored.linkify.set({"fuzzy_link": False})
    same, total = 0, 0
    for number, (markdown, html) in enumerate(EXAMPLE.findall(open(arguments.spec).read()), 1):
        markdown, html = markdown.replace("→", "\t"), html.replace("→", "\t")
        tokens = [child for token in library.parse(markdown) for child in [token, *(token.children or [])]]
        if any(token.type in ("html_block", "html_inline") for token in tokens):
            continue
        total += 1
        command = [arguments.binary, "convert", "-"]
        converted = subprocess.run(command, input=html, capture_output=True, text=True, check=True).stdout
        if normal_tree(html) in [normal_tree(reader.render(converted)) for reader in (library, flavored)]:
            same += 1
        else:
            print(f"example {number}: {html!r} became {converted!r}")
    print(f"{same} of {total} examples ({same / total:.1%})")
    if same < LOWEST * total:
        sys.exit(f"at least {LOWEST:.0%} must be the same")


main()
