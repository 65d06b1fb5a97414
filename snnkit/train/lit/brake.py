"""A run under Lightning whose loss or weights are no finite numbers stops, and leaves no checkpoint of them."""

from __future__ import annotations

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn

from snnkit.device.precision import Precision
from snnkit.train.finite import RunningStatistics, check_weights, loss_not_finite


class Brake:
    """Looks at the losses of a module's training: on a CPU at each, before anything is learned from it.

    On an accelerator, where a look waits for the device, a flag goes up there, and ``look`` asks for it now and then.

    Args:
        model: whose weights are trained.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._flag: Tensor | None = None  # on an accelerator: 1 once a loss was not finite

    def watch(self, loss: Tensor, module: LightningModule, batch_idx: int) -> None:
        """The loss of a batch; FloatingPointError on a CPU."""
        loss = loss.detach()
        if loss.device.type == "cpu":
            value = loss.item()
            if value - value != 0:  # as it is for NaN and infinity alone
                self._refuse(value, module, batch_idx)
            return
        if self._flag is None or self._flag.device != loss.device:
            self._flag = torch.zeros((), device=loss.device)
        torch.maximum(self._flag, (~loss.isfinite()).to(self._flag.dtype), out=self._flag)

    def look(self, module: LightningModule) -> None:
        """FloatingPointError if a loss on an accelerator was not finite."""
        if self._flag is None or not self._flag.item():
            return
        raise FloatingPointError(
            f"a loss of epoch {module.current_epoch + 1} was not finite, and the weights hold no meaning since: go on "
            "from the last checkpoint, which is older, with a lower lr or in float32; and look for NaN or infinity in "
            f"the data{RunningStatistics(self.model, module.device).told()}"
        )

    def check(self, module: LightningModule) -> None:
        """FloatingPointError where there is nothing worth keeping: to be called before a checkpoint is written."""
        self.look(module)
        check_weights(self.model, module.current_epoch, kept=True)

    def _refuse(self, value: float, module: LightningModule, batch_idx: int) -> None:
        half = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        batches = int(module.trainer.num_training_batches)
        message = loss_not_finite(
            value,
            module.current_epoch,
            batch_idx,
            batches,
            module.trainer.optimizers[0],
            Precision(module.device, half),
        )
        raise FloatingPointError(message + RunningStatistics(self.model, module.device).told())
