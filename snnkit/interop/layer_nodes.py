"""Between PyTorch's stateless layers and NIR's nodes. Shapes are those of a sample, without time and batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from snnkit import checks
from snnkit.files import check_size

Shape = tuple[int, ...]

KEY = "snnkit"  # of notes in metadata
_NO_BIAS = "has no bias"  # of a convolution: NIR's always have one
# Fields of nodes that hold no numbers.
_OTHER_FIELDS = {"metadata", "input_type", "output_type"}


def nir_package() -> Any:
    """The module ``nir``, imported when needed; ImportError says how to install it."""
    try:
        import nir
    except ImportError as error:
        raise ImportError(
            f"interop needs the package nir (and h5py, which comes with it): {checks.pip_install('nir')}"
        ) from error
    if "type_check" not in inspect.signature(nir.read).parameters:
        raise ImportError(f"interop needs nir 1.0.7 or newer, but it is {nir.__version__}: {checks.pip_install('nir')}")
    return nir


class SumPool2d(nn.Module):
    """Sum over windows, which is in NIR but not in PyTorch: [B, C, H, W] -> [B, C, H', W'].

    It counts spikes, where an average would weaken them.

    Args:
        kernel_size: height and width of the window; one int for both.
        stride: from window to window; None: ``kernel_size``.
        padding: zeros on each side, at most half the window.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.kernel_size = _pair("kernel_size", kernel_size, 1)
        self.stride = self.kernel_size if stride is None else _pair("stride", stride, 1)
        self.padding = _pair("padding", padding, 0)

    def forward(self, x: Tensor) -> Tensor:
        checks.instance("x", x, Tensor, "a torch.Tensor [B, C, H, W]")
        return F.avg_pool2d(x, self.kernel_size, self.stride, self.padding, divisor_override=1)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


@checks.arguments
class Scale(nn.Module):
    """Multiplies every number of a sample by its own factor: [B, ...] -> [B, ...].

    Args:
        scale: [...], the shape of a sample.
    """

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(scale.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        checks.instance("x", x, Tensor, "a torch.Tensor [B, ...]")
        if x.shape[1:] != self.scale.shape:
            shapes = f"{list(self.scale.shape)}, but it is {list(x.shape[1:])}"
            raise ValueError(f"the shape of a sample for Scale must be that of its scale, {shapes}")
        return x * self.scale


def _pair(name: str, value: int | tuple[int, int], least: int) -> tuple[int, int]:
    if isinstance(value, tuple) and len(value) != 2:
        raise ValueError(f"{name} of SumPool2d must be an int, or height and width, but it is {checks.shown(value)}")
    height, width = value if isinstance(value, tuple) else (value, value)
    first, second = (checks.integer(f"{name} of SumPool2d", size, at_least=least) for size in (height, width))
    return first, second


def node_of(layer: nn.Module, shape: Shape) -> Any:
    """The NIR node of a layer for samples of this shape; TypeError or ValueError if NIR has none."""
    writer = _WRITERS.get(type(layer))
    if writer is None:
        hint = ""
        if parametrize.is_parametrized(layer):
            (name, *_) = layer.parametrizations  # type: ignore[misc]
            hint = f": call torch.nn.utils.parametrize.remove_parametrizations(layer, {name!r}) first"
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            hint = "; fold it into the layer before it: torch.nn.utils.fusion.fuse_conv_bn_eval"
        if isinstance(layer, (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)):
            hint = "; use nn.AvgPool2d or interop.SumPool2d, and train the network with it"
        raise TypeError(f"NIR has no node for {type(layer).__name__}{hint}")
    return writer(layer, shape)


def check_numbers(nodes: Mapping[str, Any], dtype: torch.dtype = torch.float64) -> None:
    """Raise ValueError with the node's name unless its fields are finite numbers that fit into ``dtype`` and memory."""
    arrays = []
    for name, node in nodes.items():
        for key, value in vars(node).items() if node is not None else ():
            padding = key == "padding" and isinstance(value, (str, bytes))  # "same" or "valid"
            if key in _OTHER_FIELDS or value is None or padding:
                continue
            what = f"{key} of node {name!r} of graph"
            try:
                array = np.asarray(value)
            except (TypeError, ValueError, RuntimeError):  # rows of unequal length; a tensor with gradients
                array = np.empty(0, object)
            if array.dtype.kind not in "biuf":
                actual = f"of {array.dtype}" if isinstance(value, np.ndarray) else checks.shown(value)
                raise ValueError(f"{what} must be an array of numbers, but it is {actual}")
            arrays.append((what, array))
    check_size("all numbers of graph", sum(array.nbytes for _, array in arrays))
    most = torch.finfo(dtype).max
    for what, array in arrays:
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{what} must be finite, but it holds NaN or infinity")
        if array.dtype.kind == "f" and array.size and (largest := float(np.abs(array).max())) > most:
            raise ValueError(
                f"{what} must fit into {dtype}, but it holds {largest:.3g}: give another dtype to from_nir"
            )


def _array(tensor: Tensor) -> np.ndarray:
    if type(tensor) not in (Tensor, nn.Parameter):
        raise TypeError(f"its numbers must be plain tensors, but some are a {type(tensor).__name__}")
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16; float64 stays.
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).numpy()


def _write_linear(layer: nn.Linear, shape: Shape) -> Any:
    nir = nir_package()
    if len(shape) != 1:
        raise ValueError(
            f"samples of Linear must be vectors in NIR, but their shape is {list(shape)}; put nn.Flatten before it"
        )
    weight = _array(layer.weight)
    return nir.Linear(weight=weight) if layer.bias is None else nir.Affine(weight=weight, bias=_array(layer.bias))


def _write_conv(layer: nn.Conv1d | nn.Conv2d, shape: Shape) -> Any:
    nir = nir_package()
    if layer.padding_mode != "zeros":
        raise ValueError(
            f'padding_mode of {type(layer).__name__} must be "zeros" in NIR, but it is "{layer.padding_mode}"'
        )
    one = isinstance(layer, nn.Conv1d)
    sizes = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
    if one:
        sizes = {name: size if isinstance(size, str) else size[0] for name, size in sizes.items()}
    weight = _array(layer.weight)
    return (nir.Conv1d if one else nir.Conv2d)(
        input_shape=shape[-1] if one else tuple(shape[-2:]),
        weight=weight,
        groups=layer.groups,
        bias=np.zeros(len(weight), weight.dtype) if layer.bias is None else _array(layer.bias),
        metadata={KEY: _NO_BIAS} if layer.bias is None else {},
        **sizes,
    )


def _write_pool(layer: nn.AvgPool2d | SumPool2d, shape: Shape) -> Any:
    if isinstance(layer, nn.AvgPool2d) and (
        layer.ceil_mode or layer.divisor_override is not None or (layer.padding and not layer.count_include_pad)
    ):
        raise ValueError("AvgPool2d in NIR has neither ceil_mode nor divisor_override, and counts its padding")
    sizes = {name: np.broadcast_to(getattr(layer, name), 2).copy() for name in ("kernel_size", "stride", "padding")}
    return getattr(nir_package(), type(layer).__name__)(**sizes)


def _write_flatten(layer: nn.Flatten, shape: Shape) -> Any:
    # PyTorch counts the batch, NIR does not.
    rank = len(shape) + 1
    start, end = (dim % rank - 1 for dim in (layer.start_dim, layer.end_dim))
    if start < 0:
        raise ValueError(f"start_dim of Flatten must not be the batch, but it is {layer.start_dim}")
    return nir_package().Flatten(
        input_type={"input": np.array(shape)}, start_dim=start, end_dim=-1 if end == len(shape) - 1 else end
    )


_WRITERS: dict[type, Callable[[Any, Shape], Any]] = {
    nn.Linear: _write_linear,
    nn.Conv1d: _write_conv,
    nn.Conv2d: _write_conv,
    nn.AvgPool2d: _write_pool,
    SumPool2d: _write_pool,
    Scale: lambda layer, shape: nir_package().Scale(scale=_array(layer.scale)),
    nn.Flatten: _write_flatten,
}


def _with_weights(layer: Any, weight: np.ndarray, bias: np.ndarray | None) -> Any:
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must be of shape {[len(weight)]}, but its shape is {list(bias.shape)}")
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if layer.bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
    return layer


def _read_linear(node: Any, dtype: torch.dtype) -> nn.Linear:
    weight = np.array(node.weight, np.float64)
    bias = np.array(node.bias, np.float64) if type(node).__name__ == "Affine" else None
    if weight.ndim != 2:
        raise ValueError(f"weight must be a matrix [out, in], but its shape is {list(weight.shape)}")
    outputs, inputs = weight.shape
    return _with_weights(nn.Linear(inputs, outputs, bias is not None, dtype=dtype), weight, bias)


def _read_conv(node: Any, dtype: torch.dtype) -> nn.Conv1d | nn.Conv2d:
    kind = nn.Conv1d if type(node).__name__ == "Conv1d" else nn.Conv2d
    dims = 1 if kind is nn.Conv1d else 2
    weight, groups = np.array(node.weight, np.float64), int(node.groups)
    bias = None if node.bias is None else np.array(node.bias, np.float64)
    if weight.ndim != dims + 2:
        raise ValueError(f"weight must have {dims + 2} dimensions, but its shape is {list(weight.shape)}")
    layer = kind(
        weight.shape[1] * groups,
        weight.shape[0],
        weight.shape[2:],  # type: ignore[arg-type]
        stride=_sizes(node.stride, dims),
        padding=node.padding if isinstance(node.padding, str) else _sizes(node.padding, dims),
        dilation=_sizes(node.dilation, dims),
        groups=groups,
        bias=bias is not None and (bool(bias.any()) or note_of(node).get(KEY) != _NO_BIAS),
        dtype=dtype,
    )
    return _with_weights(layer, weight, bias)


def note_of(node: Any) -> dict[str, Any]:
    """The metadata of a node or graph; files may hold anything there."""
    return node.metadata if isinstance(node.metadata, dict) else {}


def _sizes(value: Any, dims: int) -> Any:
    return tuple(int(size) for size in np.broadcast_to(np.asarray(value), (dims,)))


def _read_pool(node: Any, dtype: torch.dtype) -> nn.AvgPool2d | SumPool2d:
    kind = nn.AvgPool2d if type(node).__name__ == "AvgPool2d" else SumPool2d
    return kind(_sizes(node.kernel_size, 2), _sizes(node.stride, 2), _sizes(node.padding, 2))


def _read_flatten(node: Any, dtype: torch.dtype) -> nn.Flatten:
    start, end = (int(dim) + 1 if dim >= 0 else int(dim) for dim in (node.start_dim, node.end_dim))
    return nn.Flatten(start, end)


# The layer that a node of this kind describes; ValueError if its numbers do not fit.
LAYERS: dict[str, Callable[[Any, torch.dtype], nn.Module]] = {
    "Linear": _read_linear,
    "Affine": _read_linear,
    "Conv1d": _read_conv,
    "Conv2d": _read_conv,
    "AvgPool2d": _read_pool,
    "SumPool2d": _read_pool,
    "Scale": lambda node, dtype: Scale(torch.tensor(np.array(node.scale, np.float64), dtype=dtype)),
    "Flatten": _read_flatten,
}
