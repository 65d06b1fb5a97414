"""What is told of an epoch, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Series of a history, the head of their column, and how a number is written.
_COLUMNS = {
    "train_loss": ("loss", "{:.3f}"),
    "test_loss": ("test loss", "{:.3f}"),
    "train_accuracy": ("accuracy", "{:.1%}"),
    "test_accuracy": ("test accuracy", "{:.1%}"),
    "samples_per_second": ("samples/s", "{:,.0f}"),
    "output_rate": ("output rate", "{:.3f}"),
}


def epoch_row(series: Mapping[str, Any], index: int = -1) -> dict[str, str]:
    """Head to number, of one epoch, for all that is known of it; rates of layers under the layers' names."""
    row = {head: _written(form, series[name], index) for name, (head, form) in _COLUMNS.items() if series.get(name)}
    rates = series.get("rates", {}).items()
    return row | {f"{layer} rate": _written("{:.3f}", values, index) for layer, values in rates if values}


def _written(form: str, values: Any, index: int) -> str:
    try:
        value = values[index]
    except IndexError:
        return "–"
    return "–" if value is None else form.format(value).replace("%", " %")
