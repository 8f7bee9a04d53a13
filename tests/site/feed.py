"""Parses an RSS feed from standard input. Prints its links as JSON, or prints its errors and exits with 1.

Argument: the feed's own URL.
"""

import json
import sys
from urllib.parse import urlsplit

import feedparser


def main() -> int:
    own_url = sys.argv[1]
    raw = sys.stdin.buffer.read()
    feed = feedparser.parse(raw, response_headers={"content-type": "application/rss+xml; charset=utf-8"})
    problems = []
    if feed.bozo:
        problems.append(f"the parser complains: {feed.bozo_exception}")
    if feed.version != "rss20":
        problems.append(f"version {feed.version!r} instead of RSS 2.0")
    for key in ("title", "link", "subtitle", "language"):
        if not feed.feed.get(key):
            problems.append(f"the channel has no {key}")
    if not any(link.get("rel") == "self" and link.get("href") == own_url for link in feed.feed.get("links", [])):
        problems.append("the channel has no atom:link to itself")
    if not feed.entries:
        problems.append("no entry")
    ids = [entry.get("id") for entry in feed.entries]
    if len(set(ids)) != len(ids):
        problems.append("two entries have one guid")
    dates = [entry.get("published_parsed") for entry in feed.entries]
    if all(dates) and dates != sorted(dates, reverse=True):
        problems.append("the newest entry is not the first")
    for entry in feed.entries:
        name = entry.get("title") or "an entry without title"
        for key in ("title", "link", "id", "published_parsed", "summary"):
            if not entry.get(key):
                problems.append(f"{name}: no {key}")
        if not urlsplit(entry.get("link", "")).scheme:
            problems.append(f"{name}: the link is not absolute")
    if problems:
        print("\n".join(problems))
        return 1
    links = [feed.feed.link, *(entry.link for entry in feed.entries)]
    print(json.dumps({"links": links, "count": len(feed.entries)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
