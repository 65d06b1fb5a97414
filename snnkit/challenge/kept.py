"""A sweep over the penalty, which comes with the kit for those who can't wait for ninety-six trainings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("kept_sweep.json")
COLUMNS = ("RATE_PENALTY", "HIDDEN", "SEED", "accuracy", "spikes", "seconds")


def kept_sweep() -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Column -> values of all runs, and where they come from: {"notebook", "fixed", "runs", "machine", "commit"}.

    The manifest asked for RATE_PENALTY and HIDDEN in a grid, and eight seeds, of the worker notebook ``xor_in_time``.
    """
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return content.pop("columns"), content
