"""Gradients averaged over ranks, in the same order of additions whenever a run is begun or resumed."""

from __future__ import annotations

import contextlib
import inspect
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from snnkit.train.lit.preempt import Stopped
from snnkit.train.lit.shared import Shared, meet

SHARED: bool | None = None  # what ranks do that are not told, see ``SteadyDDP``


class SteadyDDP(DDPStrategy):
    """Lightning's "ddp" of which the weights come out the same to the bit after a resume, on CPUs.

    Gloo averages gradients over the network, on CUDA devices NCCL. With ``shared`` CPU ranks that all run on one x86-64
    machine under Linux average float32 and float64 gradients through memory that they share, by ``shared.meet``; every
    number is added up in the order of the ranks. All ranks decide alike.

    Over the network PyTorch packs gradients into buckets, in the order of the parameters, and again in the order in
    which the first backward pass gave them. Where a number lies in a bucket decides with which rank its sum over ranks
    begins, so with three and more ranks the first update after each start is rounded in another way than in an unbroken
    run. There a pass over nothing but the parameters, in reverse, comes first and settles the buckets for good.

    Args:
        network: whose gradients they are; where it has batch norms, their running statistics are those of rank 0.
        timeout: seconds to wait for another rank.
        shared: whether to use shared memory. False: nowhere; None: where it can be had, and ``options`` bring no hook
            or group of their own; True: ValueError in ``setup``, saying why, where it can't be had.
        options: further arguments of ``DDPStrategy`` and, through it, of ``DistributedDataParallel``.

    Attributes:
        exchange: what averages gradients through shared memory; None where it is not used, or ``setup`` is to come.
    """

    def __init__(self, network: nn.Module, timeout: float, shared: bool | None = SHARED, **options: Any) -> None:
        # Only running statistics change by themselves; constants of neurons are the same on all ranks anyway.
        statistics = any(isinstance(module, _BatchNorm) for module in network.modules())
        known = inspect.signature(DistributedDataParallel).parameters
        # 2.13 has a new name for it and warns of the old one.
        buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        self.exchange: Shared | None = None
        self._asked, self._patience = shared, timeout
        self._theirs = [name for name in ("ddp_comm_hook", "process_group") if options.get(name) is not None]
        super().__init__(
            timeout=timedelta(seconds=timeout), **{"gradient_as_bucket_view": True, buffers: statistics, **options}
        )

    def configure_ddp(self) -> None:
        if self.root_device.type == "cuda":
            # Who waits in vain by gloo raises an error with a reason; NCCL's watchdog just ends the process.
            dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2 * self._patience + 60))
        super().configure_ddp()
        assert isinstance(self.model, DistributedDataParallel)
        self.exchange, why = self._meet(self.model)
        if self.exchange is not None:
            self.model.register_comm_hook(None, self.exchange.hook)
        elif self._asked:
            raise ValueError(f"shared must not be True here, as the ranks can't share memory: {why}")
        elif self.root_device.type == "cpu":  # on others nothing is promised to the bit
            _settle_buckets(self.model)

    def on_exception(self, exception: BaseException) -> None:
        super().on_exception(exception)
        if self.root_device.type == "cuda" and dist.is_initialized() and not isinstance(exception, Stopped):
            with contextlib.suppress(Exception):  # else the teardown waits for gradients that never come
                dist.distributed_c10d._get_default_group()._get_backend(self.root_device).abort()

    def _meet(self, wrapped: DistributedDataParallel) -> tuple[Shared | None, str]:
        if self.root_device.type != "cpu":
            return None, f"they compute on {self.root_device.type}"
        if dist.get_world_size() == 1:
            return None, "there is one alone"
        unfit = ""
        if self._asked is False:
            unfit = "shared is False"
        elif self._theirs:
            unfit = f"{self._theirs[0]} is given"
        elif any(getattr(module, "sparse", False) for module in wrapped.modules()):
            unfit = "some gradients are sparse"
        return meet([p for p in wrapped.parameters() if p.requires_grad], self._patience, unfit)


def _settle_buckets(wrapped: DistributedDataParallel) -> None:
    module: Any = wrapped.module

    def nothing() -> Tensor:
        # What comes last in a sum is first in its backward pass.
        parts = [weights.flatten()[0] * 0 for weights in module.parameters() if weights.requires_grad]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    module.forward = nothing  # of this instance; Lightning does likewise in each step
    try:
        wrapped().backward()
    finally:
        del module.forward
    module.zero_grad()
