"""Random changes to whole batches of images, where the images are: for ``train.fit(..., augment=...)``.

```python
change = augment.Compose(augment.Shift(2), augment.Flip())
train.fit(net, data.load("fashion"), ..., augment=change)
```

Each takes float images [B, C, H, W] and gives others of the same shape, dtype and device. Each image is changed by
draws of its own, all in one operation without a loop and without waiting for the device, so that a CUDA graph can
capture it (`fit(graphed=True)`). The draws come from `generator`, which must be on the device of the images; None is
PyTorch's global one. `fit` saves the state of either in its checkpoints, so that a resumed run sees what it would have
seen.

All raise TypeError and ValueError for arguments and images that are not what is stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit.data._batches import check_generator, check_real

__all__ = ["Affine", "Compose", "Erase", "Flip", "Shift"]


@dataclass(frozen=True)
class _Augmentation:
    """Checks the images, then changes them by `change`."""

    generator: torch.Generator | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_generator(self.generator)

    def __call__(self, images: Tensor) -> Tensor:
        name = type(self).__name__
        if not isinstance(images, Tensor) or not images.is_floating_point():
            got = images.dtype if isinstance(images, Tensor) else type(images).__name__
            raise TypeError(f"images for {name} must be a floating-point tensor [B, C, H, W]; got {got}")
        if images.ndim != 4:
            raise ValueError(f"images for {name} must be [B, C, H, W]; got {list(images.shape)}")
        if self.generator is not None and self.generator.device.type != images.device.type:
            raise ValueError(
                f"generator of {name} must be on the device of the images; "
                f"got {self.generator.device} and {images.device}"
            )
        return self.change(images)

    def change(self, images: Tensor) -> Tensor:
        raise NotImplementedError

    def uniform(self, images: Tensor, low: float, high: float) -> Tensor:
        """One number per image in [low, high), [B]."""
        # In float32 at least: bfloat16 has 8 bits.
        dtype = torch.float64 if images.dtype == torch.float64 else torch.float32
        return torch.rand(len(images), generator=self.generator, dtype=dtype, device=images.device) * (high - low) + low

    def whole(self, images: Tensor, low: int, high: int) -> Tensor:
        """One whole number per image from low to high, both included, [B]."""
        return torch.randint(low, high + 1, (len(images),), generator=self.generator, device=images.device)


@dataclass(frozen=True)
class Shift(_Augmentation):
    """Move each image by a whole number of pixels from -`pixels` to `pixels`, drawn for each direction.

    What moves out is lost; what comes in is `fill`.
    """

    pixels: int = 2
    fill: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_whole("pixels", self.pixels)
        _check_finite("fill", self.fill)

    def change(self, images: Tensor) -> Tensor:
        b, c, h, w = images.shape
        padded = F.pad(images, (self.pixels,) * 4, value=self.fill)
        rows, columns, image, channel = (torch.arange(n, device=images.device) for n in (h, w, b, c))
        rows = rows + self.whole(images, 0, 2 * self.pixels).unsqueeze(1)
        columns = columns + self.whole(images, 0, 2 * self.pixels).unsqueeze(1)
        at = image.view(b, 1, 1, 1), channel.view(1, c, 1, 1), rows.view(b, 1, h, 1), columns.view(b, 1, 1, w)
        return padded[at]


@dataclass(frozen=True)
class Flip(_Augmentation):
    """Mirror each image left to right with probability `p`. For clothes, not for digits."""

    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_between("p", self.p, 0.0, 1.0)

    def change(self, images: Tensor) -> Tensor:
        chosen = self.uniform(images, 0.0, 1.0) < self.p
        return torch.where(chosen.view(-1, 1, 1, 1), images.flip(3), images)


@dataclass(frozen=True)
class Affine(_Augmentation):
    """Turn, scale, shear and move each image about its centre, with bilinear interpolation; 0 comes in from outside.

    - `degrees`: turned by an angle from -degrees to degrees, at most 180.
    - `scale`: enlarged by a factor from 1 / (1 + scale) to 1 + scale, as often one as the other.
    - `shear`: a row at distance y from the centre is moved sideways by y times a number from -shear to shear.
    - `shift`: moved by a part of its height and of its width from -shift to shift.
    """

    degrees: float = 10.0
    scale: float = 0.1
    shear: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_between("degrees", self.degrees, 0.0, 180.0)
        for name in ("scale", "shear", "shift"):
            _check_between(name, getattr(self, name), 0.0, math.inf)

    def change(self, images: Tensor) -> Tensor:
        h, w = images.shape[2:]
        angle = self.uniform(images, -math.radians(self.degrees), math.radians(self.degrees))
        # From where a pixel of the new image takes its value: the inverse of what is done to the image.
        size = torch.exp(self.uniform(images, -math.log1p(self.scale), math.log1p(self.scale)))
        shear = self.uniform(images, -self.shear, self.shear)
        down, right = (2 * self.uniform(images, -self.shift, self.shift) for _ in range(2))
        cos, sin = torch.cos(angle) / size, torch.sin(angle) / size
        # Both coordinates go from -1 to 1 whatever the shape, so a turn mixes them in the ratio of the sides.
        first = torch.stack((cos, (shear * cos + sin) * (h / w), right), 1)
        second = torch.stack((-sin * (w / h), cos - shear * sin, down), 1)
        matrix = torch.stack((first, second), 1)
        grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
        return F.grid_sample(images.to(grid.dtype), grid, align_corners=False).to(images.dtype)


@dataclass(frozen=True)
class Erase(_Augmentation):
    """Paint a square of `pixels` × `pixels` in each image with `fill`.

    Its centre is any pixel, so that part of it may lie outside. Source: cutout (DeVries and Taylor 2017,
    arXiv:1708.04552).
    """

    pixels: int = 8
    fill: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_whole("pixels", self.pixels)
        _check_finite("fill", self.fill)

    def change(self, images: Tensor) -> Tensor:
        b, _, h, w = images.shape
        inside = []
        for length, shape in ((h, (b, 1, h, 1)), (w, (b, 1, 1, w))):
            first = self.whole(images, 0, length - 1).unsqueeze(1) - self.pixels // 2
            place = torch.arange(length, device=images.device)
            inside.append(((place >= first) & (place < first + self.pixels)).view(shape))
        return images.masked_fill(inside[0] & inside[1], self.fill)


class Compose:
    """One augmentation after the other."""

    def __init__(self, *steps: Callable[[Tensor], Tensor]) -> None:
        for i, step in enumerate(steps):
            if not callable(step):
                raise TypeError(f"step {i} of Compose must be a function of images; got {step!r}")
        self.steps = steps

    def __call__(self, images: Tensor) -> Tensor:
        for step in self.steps:
            images = step(images)
        return images

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self.steps))})"


def _check_whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int of at least 0; got {value!r} ({type(value).__name__})")
    if value < 0:
        raise ValueError(f"{name} must be at least 0; got {value}")


def _check_finite(name: str, value: float) -> None:
    check_real(name, value)
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite; got {value}")


def _check_between(name: str, value: float, low: float, high: float) -> None:
    check_real(name, value)
    if not (low <= value <= high and math.isfinite(value)):
        limits = f"lie in [{low:g}, {high:g}]" if math.isfinite(high) else f"be finite and at least {low:g}"
        raise ValueError(f"{name} must {limits}; got {value}")
