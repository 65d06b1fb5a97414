"""Links of a built site: every one that stays within it must lead somewhere; the others are listed."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

REFERENCES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "iframe": "src"}


class Broken(NamedTuple):
    """A link that leads nowhere: the page it is on, and what it says."""

    page: str
    link: str

    def __str__(self) -> str:
        return f"{self.page}: {self.link}"


class Links(NamedTuple):
    """Of a whole site.

    Attributes:
        broken: internal links without a file, or without the place in it.
        external: addresses elsewhere, and the pages that name them.
    """

    broken: list[Broken]
    external: dict[str, list[str]]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        link = values.get(REFERENCES.get(tag, ""))
        # Addresses to connect to early name a server, and no page.
        if link and values.get("rel") not in ("preconnect", "dns-prefetch"):
            self.links.append(link)


def check(folder: Path) -> Links:
    """All links of the HTML files in ``folder`` and below, but for the theme's own templates in ``_static``."""
    found = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.relative_to(folder).parts]
    pages = {path.resolve(): _parsed(path) for path in found}
    broken: list[Broken] = []
    external: dict[str, list[str]] = {}
    for path, page in pages.items():
        name = path.relative_to(folder.resolve()).as_posix()
        for link in dict.fromkeys(page.links):
            try:
                parts = urlsplit(link)
                if parts.scheme in ("http", "https") or parts.netloc:
                    external.setdefault(link, []).append(name)
                    continue
                good = parts.scheme or _leads_somewhere(folder.resolve(), path, parts.path, parts.fragment, pages)
            except (ValueError, OSError):  # no address at all, or no name that a file can have
                good = False
            if not good:
                broken.append(Broken(name, link))
    return Links(broken, dict(sorted(external.items())))


def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _leads_somewhere(folder: Path, page: Path, path: str, fragment: str, pages: dict[Path, _Page]) -> bool:
    target = (page.parent / unquote(path)).resolve() if path else page
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file() or folder not in target.parents:
        return False
    # Places in a file that is no page, a picture's or a script's, are its own affair.
    return not fragment or target not in pages or unquote(fragment) in pages[target].places
