"""Program text to be read: several listings side by side, with colours that suit light and dark pages."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

from . import theme

LANGUAGES = ("text", "python", "cpp")


@dataclass(frozen=True)
class Listing:
    """What ``listing`` gives: text with ``print``, columns in a notebook.

    Attributes:
        parts: (title, text, language) of each.
    """

    parts: tuple[tuple[str, str, str], ...]

    def __repr__(self) -> str:
        return "\n\n".join(f"== {title}\n{text.rstrip()}" for title, text, _ in self.parts)

    def _repr_html_(self) -> str:
        columns = "".join(_column(*part) for part in self.parts)
        box = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:.4em 1.6em;margin:.4em 0"
        return f'<div class="snnkit-listing" style="{box}">{columns}</div>'


def listing(texts: Mapping[str, str | tuple[str, str]]) -> Listing:
    """Listings side by side where the page is wide enough, else one under the other.

    Args:
        texts: title to text, or to (text, language) with a language of ``LANGUAGES``.

    Raises:
        ValueError: nothing to show, or a language that is not known.
    """
    parts = [(title, *(given if isinstance(given, tuple) else (given, "text"))) for title, given in texts.items()]
    if not parts:
        raise ValueError("texts must hold at least one title with its text")
    for _, _, language in parts:
        if language not in LANGUAGES:
            raise ValueError(f"the language must be one of {', '.join(map(repr, LANGUAGES))}, but it is {language!r}")
    return Listing(tuple(parts))


def _column(title: str, text: str, language: str) -> str:
    inside = "margin:0;padding:.2em 0;overflow:auto;max-height:30em;white-space:pre;background:none"
    inside += ";font-size:12px;line-height:1.4"
    head = f'<div style="color:{theme.TEXT};border-bottom:1px solid {theme.AXIS}">{html.escape(title)}</div>'
    body = f'<pre style="{inside}">{_coloured(text.rstrip(), language)}</pre>'
    return f'<div style="flex:1 1 22em;min-width:0">{head}{body}</div>'


def _coloured(text: str, language: str) -> str:
    """HTML of ``text``; without colours where Pygments, which comes with IPython, is missing."""
    if language == "text":
        return html.escape(text)
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.style import Style
        from pygments.token import Comment, Keyword, Name, Number, String
    except ImportError:
        return html.escape(text)

    class Kit(Style):
        """Colours of the theme: no background, and nothing for names, which stay as the page has them."""

        styles = {  # noqa: RUF012 - Pygments reads a plain class attribute
            Comment: theme.TEXT,
            Keyword: theme.BLUE,
            Name.Builtin: theme.BLUE,
            Number: theme.VERMILION,
            String: theme.GREEN,
        }

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    coloured = highlight(text, lexer, HtmlFormatter(nowrap=True, noclasses=True, style=Kit))
    return coloured.removesuffix("\n")
