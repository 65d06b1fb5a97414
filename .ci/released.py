"""Whether the version of a tag may be published: python .ci/released.py v0.1.0

It must be that of the package, and the one that `[tool.snnkit] released` in pyproject.toml names: from its commit on,
the notebooks install exactly that version on Colab. Needs Python 3.11 or newer and nothing else.
"""

import re
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]


def refusal(tag: str, released: str, version: str) -> str:
    """Why this tag may not be published, or an empty string."""
    if tag != f"v{version}":
        return f"the tag must be v{version}, the version in snnkit/__init__.py, but it is {tag!r}"
    if released != version:
        what = f"[tool.snnkit] released in pyproject.toml must be {version!r}, but it is {released!r}"
        return f"{what}: set it, run `snnkit build`, and commit both before the tag"
    return ""


def main(tag: str) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["snnkit"]
    package = (ROOT / "snnkit" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    sys.exit(refusal(tag, settings.get("released", ""), found[1] if found else "?") or 0)


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
