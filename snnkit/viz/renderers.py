"""What plotly needs to show a figure, without the seconds that one import far behind it takes."""

from __future__ import annotations

import contextlib
import sys

SLOW = "rfc3987_syntax"


def prepare() -> None:
    """Before the first ``go.FigureWidget`` or ``figure.show()``: import jsonschema, but not what is slow in it.

    plotly's renderers import nbformat, which imports jsonschema, which can check IRIs, by grammars that rfc3987_syntax
    builds while it is imported: where it is installed, as by JupyterLab and on Colab, that is more than 8 tenths of the
    time until the first explorer is there. No notebook has an IRI to check. So jsonschema finds it missing, and leaves
    this check out; whoever else imports it gets it.
    """
    if SLOW in sys.modules or "jsonschema" in sys.modules:
        return
    sys.modules[SLOW] = None  # type: ignore[assignment]
    try:
        with contextlib.suppress(ImportError):
            import jsonschema  # noqa: F401
    finally:
        sys.modules.pop(SLOW, None)
