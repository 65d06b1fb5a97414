"""Pages and scripts from the files in ``snnkit/lab/web/``: styles, templates, and JavaScript.

Each script there is built from the modules in ``js/src`` by ``make web``.
"""

from __future__ import annotations

import re
from html import escape
from importlib import resources

from snnkit import checks

__all__ = ["POLICY", "bundle", "document", "read"]

# What a page may load: nothing, from nowhere. What it consists of is in the file.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'"
)


@checks.arguments
def read(name: str) -> str:
    """The text of a file in ``snnkit/lab/web/``, such as ``"style.css"``. FileNotFoundError if there is none."""
    return (resources.files("snnkit.lab") / "web" / name).read_text(encoding="utf-8")


@checks.arguments
def bundle(name: str) -> str:
    """A script of ``snnkit/lab/web/``, such as ``"page.js"``, that needs nothing else.

    What its module exports are attributes of ``snnkit`` in its scope: ``snnkit.start(NEURONS)``. FileNotFoundError if
    there is none.
    """
    parts = ("explorers/shared.js", name) if name.startswith("explorers/") else (name,)
    return "".join(read(part).partition("\n")[2] for part in parts)  # the first line is a checksum


@checks.arguments
def document(title: str, body: str, *, script: str = "", style: str = "", data: str = "", lang: str = "en") -> str:
    """A page that is one file and loads nothing.

    Args:
        title: of the window; plain text.
        body: HTML.
        script: JavaScript, run as a module once the page is there, with ``snnkit`` of a ``bundle`` in its scope.
        style: CSS, after that of ``style.css``.
        data: JSON; ``JSON.parse(document.getElementById("data").textContent)`` reads it.
        lang: language of the text.
    """
    # "</script" and "<!--" within a script element would end it, or change how the rest is read.
    held = data.replace("<", "\\u003c")
    code = re.sub(r"<(?=/script|!--|script)", r"\\x3c", script, flags=re.IGNORECASE)
    block = f'<script type="application/json" id="data">{held}</script>\n' if data else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(lang)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n"
        # An icon within the page: browsers would request one.
        '<link rel="icon" href="data:,">\n'
        f"<style>\n{read('style.css')}{style}</style>\n</head>\n"
        f'<body class="snn">\n{body}\n{block}<script type="module">\n{code}</script>\n</body>\n</html>\n'
    )
