"""Pages and scripts from the files in ``snnkit/lab/web/``: JavaScript modules, styles and templates, no Python.

A module there imports from the others by lines such as ``import {surface} from "./canvas.js";``, so that node and
browsers load it as it is. A widget, or a page that is one file, needs them joined: ``bundle`` puts every module after
those that it needs, and removes the import lines and the word ``export``. So all names at the top level of joined
modules are in one scope.
"""

from __future__ import annotations

import re
from html import escape
from importlib import resources
from posixpath import dirname, normpath

from snnkit import checks

__all__ = ["POLICY", "bundle", "document", "read"]

# What a page may load: nothing, from nowhere. What it consists of is in the file.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'"
)
_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.\.?/[\w./-]+)";?[ \t]*\n', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+(?=(?:async\s+)?(?:function|class|const|let)\b)", re.MULTILINE)
_MODULE_WORD = re.compile(r"^(import|export)\b.*", re.MULTILINE)
_NAME = re.compile(r"^(?:async\s+)?(?:function\*?|class|const|let)\s+([A-Za-z_$][\w$]*)", re.MULTILINE)


@checks.arguments
def read(name: str) -> str:
    """The text of a file in ``snnkit/lab/web/``, such as ``"style.css"``. FileNotFoundError if there is none."""
    return (resources.files("snnkit.lab") / "web" / name).read_text(encoding="utf-8")


def bundle(*names: str) -> str:
    """Modules of ``snnkit/lab/web/`` and all that they import, as one script without ``import`` and ``export``.

    Args:
        names: files such as ``"network.js"``, in the order in which they are to run.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an import or export of another form, or a name that two of the modules define.
    """
    modules: dict[str, str] = {}
    for name in names:
        _add(name, modules)
    owner: dict[str, str] = {}
    for name, text in modules.items():
        for defined in _NAME.findall(text):
            first = owner.setdefault(defined, name)
            if first != name:
                raise ValueError(f"{defined} must be defined in one module only, but it is in {first} and {name}")
    return "\n".join(modules.values())


def _add(name: str, modules: dict[str, str], within: tuple[str, ...] = ()) -> None:
    if name in modules:
        return
    if name in within:
        raise ValueError(f"modules must not import each other, but {' and '.join(within)} do")
    text = read(name)
    for wanted, other in _IMPORT.findall(text):
        if " as " in wanted:
            raise ValueError(f"an import in {name} must keep the name, but it is {{{wanted.strip()}}}")
        _add(normpath(f"{dirname(name)}/{other}").lstrip("/"), modules, (*within, name))
    text = _EXPORT.sub("", _IMPORT.sub("", text))
    if odd := _MODULE_WORD.search(text):
        raise ValueError(
            f'imports and exports in {name} must be import {{a}} from "./b.js"; or stand before a definition, but one '
            f"is {odd[0]}"
        )
    modules[name] = text.strip() + "\n"


@checks.arguments
def document(title: str, body: str, *, script: str = "", style: str = "", data: str = "", lang: str = "en") -> str:
    """A page that is one file and loads nothing.

    Args:
        title: of the window; plain text.
        body: HTML.
        script: JavaScript, run as a module once the page is there, with the names of ``bundle`` in its scope.
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
