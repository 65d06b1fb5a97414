"""From whole data sets on a device to batches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from snnkit import checks


def resolve_device(device: str | torch.device = "auto", name: str = "device") -> torch.device:
    """``"auto"`` is a CUDA device if there is one, else the CPU; other values are PyTorch's names of devices.

    Apple's GPU is used on request, by ``"mps"``: no engine compiles for it, and those of the CPU are lost.

    Raises ValueError, with ``name`` as the argument's name, for a device that is unknown or can't be used here.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be 'auto' or a PyTorch device such as 'cpu' or 'cuda:0', but it is {checks.shown(device)}"
        ) from error
    if chosen.type != "cpu":
        _check_usable(chosen, device, name)
    return chosen


def _check_usable(chosen: torch.device, device: str | torch.device, name: str) -> None:
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"{name} is {device!r}, but PyTorch sees no CUDA device here; use 'cpu' or 'auto'")
    if chosen.type == "meta":
        raise ValueError(f"{name} is 'meta', whose tensors have no values; use 'cpu', 'cuda' or 'auto'")
    try:
        torch.empty(0, device=chosen)
    except Exception as error:  # another type for each backend
        raise ValueError(f"{name} is {device!r}, but PyTorch can't use it here; use 'cpu' or 'auto'") from error


def to_device(images: Tensor, labels: Tensor, device: str | torch.device = "auto") -> tuple[Tensor, Tensor]:
    """Put a whole data set on a device: images and labels, each as one contiguous tensor of unchanged dtype.

    MNIST's 60000 images take 47 MB as uint8. On the device they need no workers and no copy per batch.
    Raises ValueError if images `[N, ...]` and labels `[N]` don't match.
    """
    check_data(images, labels)
    target = resolve_device(device)
    return images.to(target).contiguous(), labels.to(target).contiguous()


def to_unit(images: Tensor) -> Tensor:
    """Images uint8 in 0..255 to float32 in [0, 1], any shape."""
    checks.instance("images", images, Tensor, "a tensor of uint8")
    if images.dtype != torch.uint8:
        raise TypeError(f"images must be uint8, as data.load gives them, but they are {images.dtype}")
    return images.float() / 255


@checks.arguments
def batches(
    images: Tensor,
    labels: Tensor,
    batch_size: int,
    *,
    shuffle: bool = True,
    generator: torch.Generator | None = None,
    drop_last: bool = False,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Iterate once over a data set: pairs of images `[B, ...]` and labels `[B]`, on the device of the data.

    The last batch may be smaller, unless ``drop_last``. With ``shuffle`` the order is a permutation drawn from
    ``generator`` (the default one if None). A CPU generator gives the same order on every device. Without ``shuffle``
    the batches are views of the data.
    """
    check_data(images, labels)
    checks.integer("batch_size", batch_size, at_least=1)
    if images.device != labels.device:
        raise ValueError(
            f"images and labels must be on one device (see data.to_device), but they are on {images.device} and "
            f"{labels.device}"
        )
    return _iterate(images, labels, batch_size, shuffle, generator, drop_last)


def _iterate(
    images: Tensor, labels: Tensor, batch_size: int, shuffle: bool, generator: torch.Generator | None, drop_last: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    n, order = len(labels), None
    if shuffle:
        where = generator.device if generator is not None else torch.device("cpu")
        order = torch.randperm(n, generator=generator, device=where).to(images.device)
    for start in range(0, n - batch_size + 1 if drop_last else n, batch_size):
        # A slice, not an index, where nothing is shuffled: a view costs nothing.
        indices = slice(start, start + batch_size) if order is None else order[start : start + batch_size]
        yield images[indices], labels[indices]


def check_data(images: Tensor, labels: Tensor) -> None:
    """Raise an error unless ``images`` `[N, ...]` and ``labels`` `[N]`, or targets `[N, ...]`, are a data set with at
    least one sample."""
    for part, value in (("images", images), ("labels", labels)):
        checks.instance(f"images, labels: the {part}", value, Tensor, "a tensor")
    if not labels.ndim or (labels.dtype != torch.int64 and not labels.is_floating_point()):
        raise ValueError(
            "images, labels: the labels must be int64 [N], or other targets floating point [N, ...], but they are "
            f"{labels.dtype} {list(labels.shape)}"
        )
    if images.ndim < 2 or len(images) != len(labels):
        raise ValueError(
            "images, labels: the images must be [N, ...] with one label each, "
            f"but there are images {list(images.shape)} and labels {list(labels.shape)}"
        )
    if not len(labels):
        raise ValueError("images, labels: the data set must hold at least one sample, but it is empty")


def seeded(seed: int) -> torch.Generator:
    """A generator on the CPU that starts from ``seed``, an int in 0 .. 2**63 - 1."""
    return torch.Generator().manual_seed(checks.integer("seed", seed, at_least=0, at_most=2**63 - 1))
