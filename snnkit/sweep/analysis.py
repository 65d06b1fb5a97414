"""What to make of a table of results: means over seeds, and the runs that no other beats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .manifest import SEED
from .recording import RESERVED

if TYPE_CHECKING:
    import polars


def parameters(table: polars.DataFrame) -> list[str]:
    """Names of the parameters in a table of results: its columns in upper case, as they are written in notebooks."""
    return [name for name in table.columns if name.isupper()]


def means(table: polars.DataFrame, by: str | Sequence[str] | None = None) -> polars.DataFrame:
    """One row for each configuration: mean and spread of what was recorded, over its seeds.

    Args:
        table: of ``results``; runs that failed are left out.
        by: names of columns; None: all parameters but SEED.

    Returns:
        ``by``, runs (how many), and for each column of numbers NAME (its mean) and NAME_std (the standard deviation of
        one run, with runs - 1 in the denominator; null for a single run). In the order of the table.

    Raises:
        ValueError: ``by`` names a column that isn't there.
    """
    import polars

    names = [n for n in parameters(table) if n != SEED] if by is None else [by] if isinstance(by, str) else list(by)
    if wrong := [name for name in names if name not in table.columns]:
        raise ValueError(f"by must name columns of the table ({', '.join(table.columns)}), was {wrong[0]!r}")
    skip = {*names, *parameters(table), *RESERVED} - {"seconds", "peak_mb"}
    numbers = [
        n for n in table.columns if n not in skip and (table[n].dtype.is_numeric() or table[n].dtype == polars.Boolean)
    ]
    good = table.filter(polars.col("status") == "ok") if "status" in table.columns else table
    asked = [polars.len().alias("runs")]
    for name in numbers:
        value = polars.col(name).cast(polars.Float64)
        asked += [value.mean(), value.std().alias(f"{name}_std")]
    if not names:
        return good.select(asked)
    return good.group_by(names, maintain_order=True).agg(asked)


def front(
    table: polars.DataFrame, *, maximise: str | Sequence[str] = (), minimise: str | Sequence[str] = ()
) -> polars.DataFrame:
    """The rows that no other row beats: none is at least as good in both columns, and better in one.

    Args:
        table: of ``results`` or ``means``; rows that failed, or have no number there, are left out.
        maximise, minimise: names of columns, two in all.

    Returns:
        These rows, in ascending order of the first column that ``minimise`` names (else of the first of ``maximise``).

    Raises:
        ValueError, TypeError: the names are not two different columns of numbers.
    """
    import polars

    from snnkit.viz.pareto import objectives, undominated  # brings plotly

    good = table.filter(polars.col("status") == "ok") if "status" in table.columns else table
    found = objectives(good.to_dict(as_series=False), maximise, minimise)
    kept = good.filter(polars.Series(found.usable, dtype=polars.Boolean))
    return kept[undominated(found.costs[found.usable])]
