"""What tests of the engines share."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

from snnkit.engine import block

# Those of functions that are not compiled, kept apart from those that are.
_plain: OrderedDict[Any, Any] = OrderedDict()


@pytest.fixture
def plain_blocks(monkeypatch):
    """The block engine runs its blocks as Python functions. Inductor takes 4 s for each, and tests of derivatives and
    transforms are not about it: `test_compiled.py`, `test_awkward_values.py` and random neurons are."""
    monkeypatch.setattr(block, "_by_inductor", lambda function, example: torch.no_grad()(function))
    monkeypatch.setattr(block, "_kernels", _plain)
