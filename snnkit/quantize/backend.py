"""The one place that knows torchao."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn


def torchao() -> Any:
    """``torchao.quantization``; ImportError saying what to install."""
    try:
        with _quiet():
            found = importlib.import_module("torchao.quantization")
        if "version" not in inspect.signature(found.Int8WeightOnlyConfig).parameters:  # Colab ships 0.10
            raise ImportError(f"torchao {importlib.metadata.version('torchao')} is too old")
    except ImportError as error:
        raise ImportError(
            "int8 weights need torchao, which is not installed or does not work with this PyTorch: "
            f"pip install 'snnkit[quantize]' (it said: {error})"
        ) from error
    return found


def convert(layer: nn.Module) -> None:
    """Make the weight of a Linear int8, in place: per output, symmetric."""
    ao = torchao()
    # What torchao recommends for Inductor would change settings of the whole process.
    config = ao.Int8WeightOnlyConfig(version=2, set_inductor_config=False)
    with _quiet():
        ao.quantize_(layer, config)
    describe(layer)


def is_int8(layer: nn.Module) -> bool:
    """Whether ``convert`` had it, or another user of torchao."""
    weight = getattr(layer, "weight", None)
    return isinstance(weight, Tensor) and type(weight).__module__.startswith("torchao.")


def describe(layer: nn.Module) -> None:
    """Let the layer print what it is; what torchao puts there can't be pickled."""
    layer.extra_repr = partial(str, f"{type(layer).extra_repr(layer)}, int8 weight")


def bytes_of(tensor: Tensor) -> int:
    """What a tensor takes, or the plain tensors that one of torchao's consists of."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return tensor.numel() * tensor.element_size()
    return sum(bytes_of(getattr(tensor, name)) for name in flatten()[0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Importing torchao tells of kernels for other GPUs and of deprecations inside it, nothing for its users to do."""
    loggers = [logging.getLogger("torchao"), logging.getLogger("torch.utils._pytree")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
