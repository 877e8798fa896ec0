"""Check the pages of a site: links that lead nowhere, files from elsewhere.

    python tools/site_links.py out/site

Every link and picture within the site must exist, with its anchor; no page may load a
script, a style, a font or a picture from the network; every picture has a text; and no
markup of the sources is left. Links to other sites are not followed.
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
# Markup of MyST and reST that a page would show if it were not understood.
LEFT = re.compile(r"(?<!`)(:(?:ref|doc|func|class|eq|math):`|^\.\. \w+::|\{eq\}`|^:::)")


class Page(HTMLParser):
    """What a page names: its anchors, its links, what it loads, its plain text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.silent: list[str] = []
        self.text: list[str] = []
        self.inside: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):  # noqa: D102
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(LOADED.get(tag, "")) and given.get("rel") != "canonical":
            self.loaded.append(given[LOADED[tag]])
        if tag == "img" and not given.get("alt"):
            self.silent.append(given.get("src", ""))
        if tag in {"pre", "code", "script", "style"}:
            self.inside.append(tag)

    def handle_endtag(self, tag):  # noqa: D102
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data):  # noqa: D102
        if not self.inside:
            self.text.append(data)


read = cache(Page)


@cache
def leads_to(folder: Path, link: str) -> Path | None:
    """Return the file that a link of a page in a folder names, or None."""
    place = (folder / link).resolve()
    return place if place.is_file() else None


def faults(path: Path) -> list[str]:
    """Return what is wrong with a page, a line each."""
    page = read(path)
    found = [f"no text: {src}" for src in page.silent]
    found += [f"left over: {text.strip()}" for text in page.text if LEFT.search(text)]
    for target in [*page.links, *page.loaded]:
        parts = urlsplit(target)
        if parts.scheme in {"http", "https"} or parts.netloc:
            if target in page.loaded:
                found.append(f"from the network: {target}")
            continue
        if parts.scheme:
            continue
        place = leads_to(path.parent, unquote(parts.path)) if parts.path else path
        if place is None:
            found.append(f"broken: {target}")
        elif parts.fragment and place.suffix == ".html":
            if unquote(parts.fragment) not in read(place).anchors:
                found.append(f"no such anchor: {target}")
    return found


def main(site: Path) -> None:
    """Print what is wrong with the pages of a site, and fail if anything is."""
    pages = sorted(path.resolve() for path in site.rglob("*.html"))
    pages = [path for path in pages if "_static" not in path.parts]
    wrong = {path: faults(path) for path in pages}
    for path, lines in wrong.items():
        for line in dict.fromkeys(lines):
            print(f"{path.relative_to(site.resolve())}: {line}", file=sys.stderr)
    if any(wrong.values()):
        raise SystemExit(1)
    print(f"{len(pages)} pages, every link within the site leads somewhere.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
