"""A whole update as one CUDA graph: a single launch instead of hundreds of kernels.

The first updates run without a graph, on a side stream. The next one is captured, from the gathering of the batch to
the optimizer. Capturing runs nothing. Afterwards each update is a copy of its row numbers and a replay. Python code in
between (hooks, ``print``, ``if``) runs during the capture only.
"""

from __future__ import annotations

import pickle
import random
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snnkit.train.batches import HeldData
from snnkit.train.seeding import generators_of
from snnkit.train.step import PlainStep, Update

# Updates before the capture, as in PyTorch's notes: libraries choose kernels, optimizers create their state.
WARM_UP = 3


def why_not(step: PlainStep) -> str:
    """Why updates can't be captured here, or an empty string."""
    optimizer, device = step.config.optimizer, step.config.precision.device
    name = type(optimizer).__name__
    if device.type != "cuda":
        return f"the device is {str(device)!r}, and only CUDA has graphs"
    if not isinstance(step.config.data, HeldData) or not isinstance(step.config.data.samples, Tensor):
        return "the data are not tensors that are on the device as a whole"
    if step.config.metric.stateful:
        return f"the metric, {step.config.metric.name}, keeps a state of its own"
    if step.scaler.is_enabled() and not getattr(optimizer, "_step_supports_amp_scaling", False):
        return f"{name} waits for the scaled loss of float16 in every step; one with fused=True doesn't"
    if any(group.get("capturable") is False for group in optimizer.param_groups):
        return f"{name} counts its steps on the CPU; make it with capturable=True"
    return ""


class GraphedStep:
    """As ``PlainStep``, on CUDA, by replaying a graph. If that fails, it uses the plain step, and one warning says why.

    A smaller update (the last of an epoch) runs without a graph. When a setting of the optimizer changes, such as
    ``lr`` by a scheduler, the step is captured again, because these numbers are constants in a graph. The next replay
    overwrites the result.
    """

    def __init__(self, plain: PlainStep) -> None:
        self.plain = plain
        self.refusal = ""  # why updates run plainly
        self.captures = 0  # how often the step was captured
        self._warm = 0
        self._graph: Any = None
        self._settings: Any = None
        self._give_up(why_not(plain))
        self.size = plain.config.data.update_size if isinstance(plain.config.data, HeldData) else 0

    def __call__(self, indices: Any) -> Update:
        if self.refusal or len(indices) != self.size:
            return self.plain(indices)
        if self._warm < WARM_UP:
            return self._warm_up(indices)
        self._indices.copy_(indices)
        if self._graph is None or self._settings != self._settings_now():
            try:
                self._capture()
            except RuntimeError as error:
                self._graph = None
                self._give_up(f"recording failed ({str(error).strip().partition(chr(10))[0]})")
                return self.plain(indices)
        self._replay()
        return self._result

    def _warm_up(self, indices: Tensor) -> Update:
        """A real update on the side stream; the last one shows whether a capture would reproduce it."""
        device = indices.device
        if self._warm == 0:
            self._stream = torch.cuda.Stream(device)
            self._indices = torch.empty_like(indices)
        self._warm += 1
        current = torch.cuda.current_stream(device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            if self._warm < WARM_UP:
                result = self.plain(indices)
            else:
                result, reason = observed(lambda: self.plain(indices))
                self._give_up(reason)
        current.wait_stream(self._stream)
        return result

    def _capture(self) -> None:
        optimizer, device = self.plain.config.optimizer, self._indices.device
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators(device):
            graph.register_generator_state(generator)
        optimizer.zero_grad(set_to_none=True)  # so that the gradients are in the graph's own memory
        # The old graph, if any, lives until the new one exists, which reuses its memory.
        pool = None if self._graph is None else self._graph.pool()
        current = torch.cuda.current_stream(device)
        try:
            with torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"):
                self._result = self.plain(self._indices)
        except RuntimeError:
            torch.cuda.set_stream(current)  # a capture that fails leaves its own stream set
            raise
        self._graph, self._replay, self._settings = graph, graph.replay, self._settings_now()
        self.captures += 1

    def _generators(self, device: torch.device) -> list[torch.Generator]:
        """Those of the user's functions; every graph knows PyTorch's own."""
        config = self.plain.config
        generators = generators_of(config.encode, config.augment, config.loss, config.regulariser, config.model)
        own = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
        return [g for g in generators if g.device.type == "cuda" and g is not own]

    def _settings_now(self) -> list[dict[str, Any]]:
        # A tensor's value is read on replay, so its identity is what matters.
        return [
            {key: id(value) if isinstance(value, Tensor) else value for key, value in group.items() if key != "params"}
            for group in self.plain.config.optimizer.param_groups
        ]

    def _give_up(self, reason: str) -> None:
        self.refusal = reason
        if reason:
            warnings.warn(f"graphed=True, but updates run one operation at a time: {reason}", stacklevel=2)


def observed(update: Any) -> tuple[Any, str]:
    """Run an update; return its result, and what a graph would not repeat of it, or an empty string.

    It must not wait for the device (a graph can't), and not draw numbers on the CPU (all replays would use the same).
    """
    before = _host_randomness()
    mode = torch.cuda.get_sync_debug_mode() if torch.cuda.is_available() else 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            torch.cuda.set_sync_debug_mode("warn")
        try:
            result = update()
        finally:
            if torch.cuda.is_available():
                torch.cuda.set_sync_debug_mode(mode)
    waits = [w for w in caught if "called a synchronizing CUDA operation" in str(w.message)]
    for warning in caught:
        # PyTorch warns once per process that this mode is a prototype.
        if warning not in waits and "Synchronization debug mode" not in str(warning.message):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if waits:
        where = f"{waits[0].filename}, line {waits[0].lineno}"
        return result, f"the step waits for the device, which no graph can ({where})"
    if before != _host_randomness():
        return result, "the step draws random numbers on the CPU, which a graph would repeat in every update"
    return result, ""


def _host_randomness() -> bytes:
    """The states of Python's, NumPy's and PyTorch's generators on the CPU."""
    return pickle.dumps((random.getstate(), np.random.get_state(), torch.get_rng_state().numpy()))
