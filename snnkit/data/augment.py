"""Random changes to whole batches of images, where the images are: for ``train.fit(..., augment=...)``.

```python
change = augment.Compose(augment.Shift(2), augment.Flip())
train.fit(net, data.load("fashion"), ..., augment=change)
```

Each takes float images [B, C, H, W] and returns images of the same shape, dtype and device. Each image is changed by
separate random numbers, all in one operation without a loop and without waiting for the device, so that a CUDA graph
can capture it (``fit(graphed=True)``). The random numbers come from ``generator``, which must be on the device of the
images; None is PyTorch's global one. ``fit`` saves the state of either in its checkpoints, so that a resumed run draws
what it would have drawn.

All raise TypeError and ValueError for arguments and images of another kind or outside their range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit import checks
from snnkit.data._batches import check_generator

__all__ = ["Affine", "Compose", "Flip", "Shift"]


@dataclass(frozen=True)
class _Augmentation:
    """Checks the images, then changes them by ``change``."""

    generator: torch.Generator | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_generator(self.generator)

    def __call__(self, images: Tensor) -> Tensor:
        name = type(self).__name__
        checks.instance(f"images for {name}", images, Tensor, "a floating-point tensor [B, C, H, W]")
        if images.ndim != 4 or not images.is_floating_point():
            raise ValueError(
                f"images for {name} must be floating-point [B, C, H, W], but they are {images.dtype} "
                f"{list(images.shape)}"
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
    """Move each image by a whole number of pixels from -``pixels`` to ``pixels``, drawn for each direction.

    What moves out is lost; what comes in is 0.
    """

    pixels: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.integer("pixels", self.pixels, at_least=0)

    def change(self, images: Tensor) -> Tensor:
        b, c, h, w = images.shape
        padded = F.pad(images, (self.pixels,) * 4)
        rows, columns, image, channel = (torch.arange(n, device=images.device) for n in (h, w, b, c))
        rows = rows + self.whole(images, 0, 2 * self.pixels).unsqueeze(1)
        columns = columns + self.whole(images, 0, 2 * self.pixels).unsqueeze(1)
        at = image.view(b, 1, 1, 1), channel.view(1, c, 1, 1), rows.view(b, 1, h, 1), columns.view(b, 1, 1, w)
        return padded[at]


@dataclass(frozen=True)
class Flip(_Augmentation):
    """Mirror each image left to right with probability ``p``. For clothes, not for digits."""

    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("p", self.p, at_least=0, at_most=1)

    def change(self, images: Tensor) -> Tensor:
        chosen = self.uniform(images, 0.0, 1.0) < self.p
        return torch.where(chosen.view(-1, 1, 1, 1), images.flip(3), images)


@dataclass(frozen=True)
class Affine(_Augmentation):
    """Rotate, scale, shear and move each image about its centre, with bilinear interpolation; 0 comes in from outside.

    - ``degrees``: rotated by an angle from -degrees to degrees, at most 180.
    - ``scale``: enlarged by a factor from 1 / (1 + scale) to 1 + scale, as often one as the other.
    - ``shear``: a row at distance y from the centre is moved sideways by y times a number from -shear to shear.
    - ``shift``: moved by a part of its height and of its width from -shift to shift.
    """

    degrees: float = 10.0
    scale: float = 0.1
    shear: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("degrees", self.degrees, at_least=0, at_most=180)
        for name in ("scale", "shear", "shift"):
            checks.number(name, getattr(self, name), at_least=0)

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


class Compose:
    """One augmentation after the other, of images or of events."""

    def __init__(self, *steps: Callable[[Any], Any]) -> None:
        for i, step in enumerate(steps):
            checks.function(f"step {i} of Compose", step)
        self.steps = steps

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x

    def __repr__(self) -> str:
        return f"Compose({', '.join(map(repr, self.steps))})"
