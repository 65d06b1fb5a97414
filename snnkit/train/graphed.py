"""A whole update as one CUDA graph: hundreds of kernels for one launch.

The first updates run as they are, on a side stream, and the next one is recorded: from the gathering of the batch to
the optimizer. Recording runs nothing; from then on each update is a copy of its row numbers and a replay. What Python
does in between (hooks, ``print``, ``if``) happens while recording only.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snnkit.train.generators import generators_of
from snnkit.train.step import PlainStep, Result

WARM_UP = 3  # updates, as PyTorch's notes on CUDA graphs have it: libraries choose kernels, optimizers make their state


def why_not(step: PlainStep) -> str:
    """Why updates can't be recorded here, or an empty string."""
    optimizer, device = step.task.optimizer, step.task.samples.device
    name = type(optimizer).__name__
    if device.type != "cuda":
        return f"the device is {str(device)!r}, and only CUDA has graphs"
    if step.scaler.is_enabled() and not getattr(optimizer, "_step_supports_amp_scaling", False):
        return f"{name} waits for the scaled loss of float16 in every step; one with fused=True doesn't"
    if any(group.get("capturable") is False for group in optimizer.param_groups):
        return f"{name} counts its steps on the CPU; make it with capturable=True"
    if isinstance(optimizer, torch.optim.LBFGS):
        return "LBFGS calls the model as often as it likes"
    return ""


class GraphedStep:
    """As ``PlainStep``, on CUDA, by replaying a recording; gives way to the plain step, and says once why.

    An update of another size than the full one (the last of an epoch) runs plainly. When a setting of the optimizer
    changes, as a scheduler does with ``lr``, the step is recorded anew, since such numbers are constants in a graph.
    The result is overwritten by the next replay.

    Args:
        plain: the step to record.
        size: samples of a full update.
    """

    def __init__(self, plain: PlainStep, size: int) -> None:
        self.plain, self.size = plain, size
        self.refusal = ""
        self.recorded = 0  # how often
        self._warm = 0
        self._graph: Any = None
        self._settings: Any = None
        self._give_up(why_not(plain))

    def __call__(self, rows: Tensor) -> Result:
        if self.refusal or len(rows) != self.size:
            return self.plain(rows)
        if self._warm < WARM_UP:
            return self._warm_up(rows)
        self._rows.copy_(rows)
        if self._graph is None or self._settings != self._settings_now():
            try:
                self._record()
            except RuntimeError as error:
                self._graph = None
                self._give_up(f"recording failed ({str(error).strip().partition(chr(10))[0]})")
                return self.plain(rows)
        self._replay()
        return self._result

    def _warm_up(self, rows: Tensor) -> Result:
        """A real update on the side stream; the last one shows whether a recording could be true to it."""
        device = rows.device
        if self._warm == 0:
            self._stream = torch.cuda.Stream(device)
            self._rows = torch.empty_like(rows)
        self._warm += 1
        current = torch.cuda.current_stream(device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            if self._warm < WARM_UP:
                result = self.plain(rows)
            else:
                result, reason = observed(lambda: self.plain(rows))
                self._give_up(reason)
        current.wait_stream(self._stream)
        return result

    def _record(self) -> None:
        optimizer, device = self.plain.task.optimizer, self._rows.device
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators(device):
            graph.register_generator_state(generator)
        optimizer.zero_grad(set_to_none=True)  # so that the gradients lie in the graph's own memory
        # The old recording, if any, is alive until the new one is there, which takes over its memory.
        pool = None if self._graph is None else self._graph.pool()
        current = torch.cuda.current_stream(device)
        try:
            with torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"):
                self._result = self.plain(self._rows)
        except RuntimeError:
            torch.cuda.set_stream(current)  # a recording that can't be ended leaves its own stream behind
            raise
        self._graph, self._replay, self._settings = graph, graph.replay, self._settings_now()
        self.recorded += 1

    def _generators(self, device: torch.device) -> list[torch.Generator]:
        """Those of the user; PyTorch's own is known to every graph."""
        task = self.plain.task
        found = generators_of(task.encode, task.augment, task.loss, task.model)
        own = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
        return [g for g in found if g.device.type == "cuda" and g is not own]

    def _settings_now(self) -> list[dict[str, Any]]:
        # A tensor's value is read on replay, so its identity is what matters.
        return [
            {key: id(value) if isinstance(value, Tensor) else value for key, value in group.items() if key != "params"}
            for group in self.plain.task.optimizer.param_groups
        ]

    def _give_up(self, reason: str) -> None:
        self.refusal = reason
        if reason:
            warnings.warn(f"graphed=True, but updates run one operation at a time: {reason}", stacklevel=2)


def observed(update: Any) -> tuple[Any, str]:
    """Run an update, and say what it did that a recording would not repeat, or an empty string.

    It must neither wait for the device (a recording can't) nor draw numbers on the CPU (replays would all use the ones
    of the recording).
    """
    before = _host_randomness()
    mode = torch.cuda.get_sync_debug_mode() if torch.cuda.is_available() else 0
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            torch.cuda.set_sync_debug_mode("warn")
        try:
            result = update()
        finally:
            if torch.cuda.is_available():
                torch.cuda.set_sync_debug_mode(mode)
    waits = [w for w in heard if "called a synchronizing CUDA operation" in str(w.message)]
    for warning in heard:
        # PyTorch says once a process that this mode is a prototype.
        if warning not in waits and "Synchronization debug mode" not in str(warning.message):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if waits:
        where = f"{waits[0].filename}, line {waits[0].lineno}"
        return result, f"the step waits for the device, which no graph can ({where})"
    if any(not np.array_equal(old, new) for old, new in zip(before, _host_randomness(), strict=True)):
        return result, "the step draws random numbers on the CPU, which a graph would repeat in every update"
    return result, ""


def _host_randomness() -> list[np.ndarray]:
    """The states of Python's, NumPy's and PyTorch's generators on the CPU."""
    return [
        np.array(random.getstate()[1]),
        np.append(np.random.get_state(legacy=True)[1], np.random.get_state(legacy=True)[2]),  # type: ignore[arg-type]
        torch.get_rng_state().numpy(),
    ]
