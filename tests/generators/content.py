"""Reads what a reader of an HTML page sees in its content, independently of the converter.

The same code reads the pages of a build and the Markdown, which a parser of GitHub Flavored Markdown renders first.
"""

import re
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import cmarkgfm
from cmarkgfm.cmark import Options
from selectolax.lexbor import LexborHTMLParser

INVISIBLE = {
    "audio", "canvas", "datalist", "embed", "head", "iframe", "input", "link", "map", "meta", "object", "option", "script",
    "select", "style", "svg", "template", "textarea", "title", "video",
}  # fmt: skip
BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr",
    "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "search", "section", "summary", "table", "tbody", "td",
    "tfoot", "th", "thead", "tr", "ul",
}  # fmt: skip
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
FORMULAS = "math, .katex, .MathJax, mjx-container, script[type^='math/tex'], .math"
LINE_NUMBERS = "td.linenos, td.lineno, td.gutter, .gutter, .linenos, .lineno, .linenumber, .source-line-no, .rouge-gutter"
PERMALINK = re.compile(r"\W*$|(permalink|link to|permanent link|direct link|section titled)\b", re.I)
COPY = re.compile(r"(copy|copied)\b.{0,20}$", re.I)
# Titles of admonitions, which Markdown expresses as the kind of an alert.
ALERT = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]")


def words(text):
    return re.findall(r"\w+", text.replace("\u00ad", "").replace("\u200b", "").replace("\ufeff", ""))


def collapse(text):
    return " ".join(text.replace("\u00ad", "").replace("\u200b", "").replace("\ufeff", "").split())


class Block:
    """A run of text without a break: its kind (`text`, `heading`, `cell` or `code`) and the text."""

    __slots__ = ("kind", "text", "words", "is_optional", "links", "level")

    def __init__(self, kind, text, is_optional, links, level=0):
        self.kind, self.text, self.is_optional, self.links, self.level = kind, text, is_optional, links, level
        self.words = words(text)

    def is_only_links(self):
        return bool(self.links) and "".join(words("".join(text for text, _ in self.links))) == "".join(self.words)


class Content:
    """The blocks, links and lines of code below some elements, in order."""

    def __init__(self, base, opened=frozenset(), skip=frozenset(), is_rendered=False, has_notes=False, has_math=False):
        self.base, self.opened, self.skip, self.is_rendered = base, opened, skip, is_rendered
        self.has_notes, self.has_math = has_notes, has_math
        self.blocks, self.links, self.lines, self.formulas = [], [], [], 0
        self.text, self.block_links, self.open_links = [], [], []

    def flush(self, kind, is_optional, level=0):
        text = "".join(self.text)
        if self.has_math and kind != "code":
            text = re.sub(r"\\\(.+?\\\)|\\\[.+?\\\]|\$\$.+?\$\$", " ", text, flags=re.S)
        text = collapse(text)
        if text:
            self.blocks.append(Block(kind, text, is_optional, self.block_links, level))
        self.text, self.block_links = [], []

    def walk(self, node, kind, is_optional, level=0):
        child = node.child
        while child is not None:
            self.visit(child, kind, is_optional, level)
            child = child.next

    def visit(self, node, kind, is_optional, level):
        tag = node.tag
        if tag == "-text":
            text = node.text_content or ""
            self.text.append(text)
            for link in self.open_links:
                link.append(text)
            return
        if tag.startswith(("-", "!")) or tag in INVISIBLE or node.mem_id in self.skip:
            return
        attributes = node.attributes
        if not self.is_rendered:
            if is_hidden(attributes, tag) and not self.is_opened(attributes):
                return
            is_navigation = tag == "nav" or attributes.get("role") == "navigation"
            if is_navigation and not self.is_opened(attributes):
                if not has_sentences(node):
                    return
                is_optional = True
            if tag in ("button", "a") or attributes.get("role") == "button":
                own = collapse(node.text(deep=True))
                if tag == "a" and "#" in (attributes.get("href") or "") and own and PERMALINK.match(own):
                    return
                if COPY.match(own) and tag != "a":
                    return
                is_number = re.fullmatch(r"\W*\d+\W*", own)
                if self.has_notes and (kind != "heading" or is_number) and is_note_mark(attributes, own):
                    return
            if is_line_number(node) or tag == "pre" and is_number_column(node):
                return
        if not self.is_rendered and is_formula(node, attributes, tag):
            self.formulas += 1
            return
        if tag in ("br", "wbr"):
            if tag == "br":
                self.text.append("\n")
            return
        if tag == "a" and "href" in attributes:
            self.open_links.append([])
            self.walk(node, kind, is_optional, level)
            text = collapse("".join(self.open_links.pop()))
            href = attributes["href"] or ""
            is_image = node.css_first("img") is not None
            is_heading = href.startswith("#") and node.css_first(", ".join(HEADINGS))
            is_heading = is_heading or attributes.get("role") == "tab"
            if (words(text) or is_image) and not is_heading and kind != "code" and not is_optional and not href.lower().startswith("javascript:") and href != "#":
                link = (text, self.target(href))
                self.block_links.append(link)
                if not (kind == "heading" and (href.startswith("#") or self.is_own(href))) and href.strip():
                    self.links.append(link)
            return
        if tag == "rp":
            return
        if tag in BLOCKS and kind == "heading":
            self.text.append(" ")
            self.walk(node, kind, is_optional, level)
            self.text.append(" ")
            return
        if tag in BLOCKS:
            self.flush(kind, is_optional, level)
            inner, inner_level = kind, level
            if tag in HEADINGS:
                inner, inner_level = "heading", int(tag[1])
            elif (tag == "pre" or "fragment" in (attributes.get("class") or "").split()) and (self.is_rendered or not node.css_first("table, pre pre")):
                self.lines += code_lines(node, self.is_rendered, self.skip)
                inner = "code"
            elif tag in ("td", "th") and kind != "code":
                inner = "cell"
            elif tag == "summary":
                inner = "text"
            self.walk(node, inner, is_optional, inner_level)
            self.flush(inner, is_optional, inner_level)
            return
        if tag == "button" or attributes.get("role") == "tab":
            self.text.append(" ")
            self.walk(node, kind, is_optional, level)
            self.text.append(" ")
            return
        if tag == "code" and self.is_rendered and kind != "code":
            self.lines += [("span", node.text(deep=True))]
        self.walk(node, kind, is_optional, level)

    def is_opened(self, attributes):
        role = attributes.get("role")
        if role in ("dialog", "alertdialog"):
            return False
        return role == "tabpanel" or attributes.get("id") in self.opened or role == "region" and "aria-labelledby" in attributes

    def is_own(self, href):
        return urldefrag(urljoin(self.base, href))[0] == urldefrag(self.base)[0]

    def target(self, href):
        """The address of a link without what servers may change: the origin, `index.html`, the end of a file name."""
        try:
            parts = urlsplit(urljoin(self.base, href.strip()))
        except ValueError:
            return href
        own = urlsplit(self.base)
        host = parts.netloc.lower()
        origin = "" if host in ("", own.netloc) else f"{parts.scheme}://{host}"
        if parts.scheme not in ("http", "https", ""):
            return unquote(href.strip())
        # `urljoin` removes empty segments of relative addresses only.
        path = re.sub(r"(?:(?<=/)index)?(?:\.html|\.md)?/?$", "", re.sub("//+", "/", unquote(parts.path)))
        return f"{origin}{path}?{unquote(parts.query)}#{unquote(parts.fragment)}"


def is_hidden(attributes, tag):
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    style = (attributes.get("style") or "").replace(" ", "").lower()
    if "display:none" in style or "visibility:hidden" in style:
        return True
    return tag == "dialog" and "open" not in attributes


def is_formula(node, attributes, tag):
    if tag in ("math", "mjx-container"):
        return True
    classes = (attributes.get("class") or "").split()
    is_tex = "math" in classes and re.search(r"[\\^_$]", node.text(deep=True))
    return bool({"katex", "MathJax"} & set(classes)) or bool(is_tex)


def is_note_mark(attributes, text):
    """Whether a link may be the mark of a footnote, whose number Markdown does not have."""
    return (attributes.get("href") or "").startswith("#") and re.fullmatch(r"\W*\w{0,3}\W*", text)


def is_number_column(pre):
    """Whether a `<pre>` in a cell has only the numbers of the lines in the next cell."""
    lines = pre.text(deep=True).split()
    in_cell = any(parent is not None and parent.tag == "td" for parent in (pre.parent, pre.parent.parent))
    return in_cell and len(lines) > 0 and all(line.isdigit() for line in lines) and [int(x) for x in lines] == list(
        range(int(lines[0]), int(lines[0]) + len(lines))
    )


def has_sentences(node):
    """Whether navigation contains text that is not a link, of at least eight words in one element."""
    for inner in node.traverse(include_text=True):
        if inner.tag == "-text" and len(words(inner.text_content or "")) >= 8:
            parent = inner.parent
            while parent is not None and parent.mem_id != node.mem_id and parent.tag != "a":
                parent = parent.parent
            if parent is None or parent.tag != "a":
                return True
    return False


def code_lines(node, is_rendered, skip):
    """The lines of a `<pre>` that are not blank, without line numbers and buttons."""
    parts = []

    def walk(parent):
        child = parent.child
        is_after_number = False
        while child is not None:
            tag = child.tag
            if tag == "-text":
                text = child.text_content or ""
                # Doxygen puts a no-break space between the number of a line and its code.
                parts.append(text.removeprefix("\xa0") if is_after_number else text)
            elif tag == "br":
                parts.append("\n")
            elif tag not in INVISIBLE and tag != "button" and child.mem_id not in skip and not (not is_rendered and is_line_number(child)):
                if tag in ("div", "p", "li") and parts and not parts[-1].endswith("\n"):
                    parts.append("\n")
                walk(child)
                if tag in ("div", "p", "li") and parts and not parts[-1].endswith("\n"):
                    parts.append("\n")
            is_after_number = not is_rendered and not tag.startswith("-") and "lineno" in (child.attributes.get("class") or "")
            child = child.next

    walk(node)
    text = "".join(parts).replace("\u200b", "").replace("\ufeff", "")
    return [("line", line.rstrip()) for line in re.split(r"\r\n|\n|\r", text) if line.strip()]


def is_line_number(node):
    classes = (node.attributes.get("class") or "").split()
    return any(c in ("linenos", "lineno", "gutter", "linenumber", "source-line-no", "rouge-gutter", "ln", "lnt") for c in classes)


class Page:
    """An HTML page: its title, and its content as `main` and `without` select it."""

    def __init__(self, html, url, main=None, without=None, has_notes=False):
        self.url = url
        tree = LexborHTMLParser(with_streamed_parts(html))
        title = tree.css_first("head title") or tree.css_first("title")
        self.title = collapse(title.text(deep=True)) if title else ""
        og_title = tree.css_first("meta[property='og:title']")
        self.og_title = collapse(og_title.attributes.get("content") or "") if og_title else ""
        base = tree.css_first("base[href]")
        opened = set()
        for name in ("aria-controls", "data-bs-target", "data-target"):
            for node in tree.css(f"[{name}]"):
                opened |= {value.lstrip("#") for value in (node.attributes[name] or "").split()}
        for node in tree.css("[data-bs-toggle], [data-toggle], [role=tab]"):
            if (node.attributes.get("href") or "").startswith("#"):
                opened.add(node.attributes["href"][1:])
        skip = {node.mem_id for node in tree.css(without)} if without else set()
        skip |= {node.mem_id for node in tree.css("[data-pagefind-ignore]")}
        skip |= {node.mem_id for node in tree.css("[data-markdown-ignore]") if not holds_main(node)}
        skip |= {node.mem_id for node in tables_of_contents(tree)}
        roots, is_explicit = find_roots(tree, main)
        if not is_explicit:
            for node in tree.css("header, footer, [role=banner], [role=contentinfo], search, [role=search]"):
                if not is_inside(node, ("article", "section", "blockquote", "figure")) and not node.css_first("h1"):
                    skip.add(node.mem_id)
        has_math = "mathjax" in html.lower() or "katex" in html.lower()
        # Haddock configures MathJax to ignore text.
        has_math &= 'ignoreClass: ".*"' not in html
        content = Content(urljoin(url, base.attributes["href"]) if base else url, opened, skip, has_notes=has_notes, has_math=has_math)
        for root in roots:
            content.visit(root, "text", False, 0)
            content.flush("text", False)
        self.content, self.has_main = content, is_explicit
        self.has_math = content.formulas > 0 or has_math


def with_streamed_parts(html):
    """Puts the parts that React streams after the page to their places, as its scripts do."""
    for name, first, second in re.findall(r'\$R([CS])\("([^"]+)","([^"]+)"\)', html):
        place, part = (first, second) if name == "C" else (second, first)
        content = re.search(rf'<div hidden(?:="")? id="{re.escape(part)}">(.*?)</div><script>', html, re.S)
        if content:
            html = html.replace(content[0], "<script>")
            fallback = "(?:(?!<!--/\\$).)*" if name == "C" else ""
            template = rf'<template id="{re.escape(place)}"></template>{fallback}'
            html = re.sub(template, lambda _: content[1], html, count=1, flags=re.S)
    return html


def tables_of_contents(tree):
    """The headings that say that a list of the page's own sections follows, and these lists."""
    for title in tree.css(", ".join(HEADINGS)):
        if collapse(title.text(deep=True)).lower().strip(":") not in ("contents", "table of contents", "on this page"):
            continue
        following, steps = title, 0
        while following is not None and following.next is None and steps < 4:
            following, steps = following.parent, steps + 1
        following = following and following.next
        while following is not None and following.tag == "-text" and not collapse(following.text_content or ""):
            following = following.next
        lists = [] if following is None else [following] if following.tag in ("ul", "ol") else following.css("ul, ol")
        links = lists[0].css("a[href]") if lists else []
        if len(links) > 2 and all(link.attributes["href"].startswith("#") for link in links):
            yield from (title, lists[0])


def holds_main(node):
    """Whether a node is the main region of the page, or contains it."""
    return any(it.tag == "main" or it.attributes.get("role") == "main" for it in node.traverse())


def is_inside(node, tags):
    parent = node.parent
    while parent is not None:
        if parent.tag in tags:
            return True
        parent = parent.parent
    return False


def find_roots(tree, main):
    """The elements of the main region, and whether the page marks it."""
    selectors = [main] if main else ["[data-pagefind-body]", "main, [role=main]"]
    for selector in selectors:
        matches = {node.mem_id: node for node in tree.css(selector)}
        found = [node for node in matches.values() if words(node.text(deep=True)) or node.css_first("img")]
        ids = {node.mem_id for node in found}
        outermost = []
        for node in found:
            parent = node.parent
            while parent is not None and parent.mem_id not in ids:
                parent = parent.parent
            if parent is None:
                outermost.append(node)
        if outermost:
            return outermost, True
    articles = tree.css("article")
    body = tree.body
    if len(articles) == 1 and len(articles[0].text(deep=True)) * 2 > len(body.text(deep=True)):
        return articles, True
    return [body], False


def render(markdown, extensions=("table", "strikethrough", "autolink", "tasklist")):
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    return cmarkgfm.markdown_to_html_with_extensions(markdown, options=options, extensions=extensions)


def without_front_matter(markdown):
    """Returns the body, and the title that the front matter has."""
    match = re.match(r"---\n(.*?)\n---\n", markdown, re.S)
    if not match:
        return markdown, ""
    title = re.search(r"^title: (.*)$", match[1], re.M)
    title = title[1] if title else ""
    if title.startswith('"'):
        import json

        title = json.loads(title)
    return markdown[match.end():], title


def read_markdown(markdown, url, has_math):
    body, title = without_front_matter(markdown)
    if has_math:
        # Code may contain dollar signs.
        body = re.sub(r"(^```.*?^```|`+[^`\n]+`+)|\$\$.+?\$\$|\$(?=\S)[^$\n]+\$", lambda m: m[1] or " ", body, flags=re.S | re.M)
    tree = LexborHTMLParser(f"<!doctype html><body>{render(body)}")
    for node in tree.css(".footnote-backref, .footnote-ref"):
        node.decompose()
    content = Content(url, is_rendered=True)
    content.visit(tree.body, "text", False, 0)
    content.flush("text", False)
    content.notes = len(tree.css("section.footnotes > ol > li"))
    return content, title
