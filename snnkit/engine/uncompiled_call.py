"""A call that PyTorch's compiler leaves to Python; in a file of its own, as that compiler takes a second to import."""

from collections.abc import Callable
from typing import Any

import torch


def _called(function: Callable, *arguments: Any) -> Any:
    return function(*arguments)


#: ``function(*arguments)``, and nothing within it is compiled.
uncompiled_call: Callable = torch.compiler.disable(_called, reason="a kernel reads tensors by their addresses")
