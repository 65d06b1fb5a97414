"""Where in a model something happens: the module, and the line of the user's code."""

from __future__ import annotations

import linecache
import os
import sys
from types import FrameType, TracebackType
from typing import NamedTuple

import torch
from torch import nn

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_DYNAMO = os.path.join(_TORCH, "_dynamo") + os.sep
_SNNKIT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_RECORDER = tuple(os.path.join(os.path.dirname(os.path.abspath(__file__)), name) for name in ("places.py", "record.py"))


class Place(NamedTuple):
    """A line, and the module whose forward pass came there.

    Attributes:
        module: path and class, as in "net.1 (Leaky)"; empty outside of all modules.
        file: its name in full.
        line: its number.
    """

    module: str
    file: str
    line: int

    @property
    def where(self) -> str:
        """ "net.py:12: the line itself"."""
        if not self.file:
            return ""
        code = linecache.getline(self.file, self.line).strip()
        name = "notebook cell" if "ipykernel" in self.file else os.path.basename(self.file)
        return f"{name}:{self.line}: {code}" if code else f"{name}:{self.line}"


NOWHERE = Place("", "", 0)


def names_of(model: nn.Module) -> dict[int, str]:
    """What to call each module: by ``id``, its path and class."""
    names = {id(module): f"{path or 'model'} ({type(module).__name__})" for path, module in model.named_modules()}
    if type(model).__name__ == "WithLoss":
        names[id(model)] = "loss"  # what it does besides calling its network
    return names


def place_here(names: dict[int, str]) -> Place:
    """Where the code stands that called the recorder: the nearest line of the user's, else of this package's."""
    return _place(_outwards(sys._getframe(1)), names)


def is_compiled_here() -> bool:
    """Whether the code that called the recorder was reached through a function of torch.compile's."""
    return any(
        frame.f_code.co_name == "compile_wrapper" and frame.f_code.co_filename.startswith(_DYNAMO)
        for frame, _ in _outwards(sys._getframe(1))
    )


def place_of(trace: TracebackType | None, names: dict[int, str]) -> Place:
    """Where an error came from, likewise."""
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return _place(list(reversed(frames)), names)


def _outwards(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    """From ``frame`` outwards as far as the recorder's own call of the model."""
    frames = []
    while frame is not None and not (frame.f_code.co_name == "run_recorded" and frame.f_code.co_filename in _RECORDER):
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return frames


def _place(frames: list[tuple[FrameType, int]], names: dict[int, str]) -> Place:
    module, theirs, ours = "", None, None
    for frame, line in frames:
        code = frame.f_code
        if not module and code.co_varnames[:1] == ("self",):
            module = names.get(id(frame.f_locals.get("self")), "")
        file = code.co_filename
        if file.startswith((_TORCH, "<frozen")) or file in _RECORDER:
            continue
        if file.startswith(_SNNKIT):
            ours = ours or (file, line)
        else:
            theirs = theirs or (file, line)
    return Place(module, *(theirs or ours or ("", 0)))
