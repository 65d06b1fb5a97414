"""Progress bars that do not slow down what they show."""

from __future__ import annotations

import os
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar, RichProgressBar, TQDMProgressBar

from snnkit.data._batches import check_positive_int

__all__ = ["progress_bar"]

KINDS = ("auto", "rich", "tqdm", "none")


def progress_bar(kind: str = "auto", every: int = 20) -> ProgressBar:
    """A progress bar for ``Trainer(callbacks=[...])``, with the loss of the latest batch and what ``module.log`` marks.

    Lightning's own looks at the loss in each batch if told to show it, which on a GPU waits for all the work that is
    queued; this one looks when it is drawn.

    Args:
        kind: "rich", "tqdm", "none", or "auto": tqdm, in a notebook as a widget; none where SNNKIT_HEADLESS=1.
        every: batches from one drawing to the next.

    Raises:
        ValueError: another kind; ``every`` below 1.
        ModuleNotFoundError: "rich" without rich.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}; got {kind!r}")
    check_positive_int("every", every)
    if kind == "none" or (kind == "auto" and os.environ.get("SNNKIT_HEADLESS", "") not in ("", "0")):
        return _Quiet()
    return _Rich(refresh_rate=every) if kind == "rich" else _Tqdm(refresh_rate=every)


class _ShowsLoss(ProgressBar):
    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:  # type: ignore[override]
        metrics: dict[str, Any] = super().get_metrics(trainer, pl_module)  # type: ignore[assignment]
        metrics.pop("v_num", None)
        loss = getattr(pl_module, "step_loss", None)
        return metrics if loss is None else {"loss": float(loss), **metrics}


class _Tqdm(_ShowsLoss, TQDMProgressBar):
    pass


class _Rich(_ShowsLoss, RichProgressBar):
    pass


class _Quiet(ProgressBar):
    """Shows nothing; in the list of callbacks, it keeps Lightning from adding a bar of its own."""

    def disable(self) -> None:
        pass

    def enable(self) -> None:
        pass
