"""The cheatsheet as one page for a printer or a browser."""

from __future__ import annotations

from html import escape
from pathlib import Path

from .problem import WorkshopError

FILE = "workshop/cheatsheet.md"
# Two columns on one sheet of A4 or Letter; on a screen as wide as it is comfortable.
STYLE = """
:root { color-scheme: light dark; }
body { font: 10.5pt/1.35 system-ui, sans-serif; max-width: 75em; margin: 1em auto; padding: 0 1em;
       columns: 2 28em; column-gap: 2em; }
h1 { column-span: all; font-size: 1.5em; margin: 0 0 .3em; }
h1 + p { column-span: all; margin: 0 0 .6em; }
h2 { font-size: 1.05em; margin: .8em 0 .2em; border-bottom: 1px solid; break-after: avoid; }
p, ul { margin: .25em 0; }
ul { padding-left: 1.2em; }
pre { font-size: .86em; line-height: 1.3; margin: .3em 0; padding: .4em .6em; white-space: pre-wrap;
      break-inside: avoid; background: rgba(127, 127, 127, .13); border-radius: 3px; }
code { font-family: ui-monospace, Consolas, monospace; }
table { border-collapse: collapse; font-size: .92em; margin: .3em 0; break-inside: avoid; }
th, td { border-bottom: 1px solid rgba(127, 127, 127, .4); padding: .1em .5em .1em 0; text-align: left; }
@page { size: A4; margin: 9mm; }
@media print {
  :root { color-scheme: light; }
  body { font-size: 8.3pt; line-height: 1.25; max-width: none; margin: 0; padding: 0; columns: 2; column-gap: 6mm; }
  h2 { margin-top: .5em; }
  pre { white-space: pre-wrap; overflow: visible; background: #f2f2f2; padding: .25em .4em; }
  a { color: inherit; text-decoration: none; }
}
"""


def html(root: Path) -> str:
    """The cheatsheet of the project in ``root`` as a page of its own, light or dark as the reader has it.

    Raises WorkshopError where there is no cheatsheet, or no ``markdown-it-py``, which comes with ``snnkit[lab]``.
    """
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise WorkshopError("the HTML needs markdown-it-py: pip install 'snnkit[lab]'") from None
    try:
        text = (root / FILE).read_text(encoding="utf-8")
    except OSError as error:
        raise WorkshopError(f"can't read {root / FILE}: {error.strerror or error}") from None
    body = MarkdownIt("commonmark").enable("table").render(text)
    title = escape(text.partition("\n")[0].lstrip("# "))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n"
    )
