"""Keep a sweep with the kit: ``python -m snnkit.challenge.keep FOLDER``, with the results of ``snnkit sweep``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from snnkit.files import replacing
from snnkit.measure.machine import commit

from .kept import COLUMNS, FILE


def keep(folder: Path, path: Path = FILE) -> None:
    """Write the results of the sweep in ``folder`` to ``path``, with the machine that ran it, as the sweep has noted.

    Raises:
        ValueError: a run has failed or is missing, or lacks one of the columns.
        OSError: there is no such sweep.
    """
    import polars

    table = polars.read_csv(folder / "results.csv")
    asked = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    missing = set(COLUMNS) - set(table.columns)
    if missing or (table["status"] != "ok").any() or len(table) != len(asked["order"]):
        raise ValueError(f"folder must hold a sweep that is done, with {', '.join(COLUMNS)}; that in {folder} is not")
    content = {
        "notebook": asked["notebook"],
        "fixed": asked["fixed"],
        "runs": len(table),
        "machine": asked["machine"],
        "commit": commit(FILE.parent.parent),
        "columns": {name: table[name].to_list() for name in COLUMNS},
    }
    with replacing(path) as file:
        file.write(f"{json.dumps(content)}\n".encode())


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1:
        raise SystemExit("usage: python -m snnkit.challenge.keep FOLDER")
    keep(Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
