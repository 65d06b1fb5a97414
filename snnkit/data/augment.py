"""Random changes to whole batches of images, on their own device: for ``train.fit(..., augment=augment.Shift(2))``."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit import checks


@checks.arguments
@dataclass(frozen=True)
class Shift:
    """Move each image by a whole number of pixels from -``pixels`` to ``pixels``, drawn for each direction.

    Float images [B, C, H, W] give images of the same shape, dtype and device. Pixels that move out are lost, and new
    pixels are 0. One operation changes all images. It does not wait for the device, so a CUDA graph can capture it
    (``fit(graphed=True)``). ``fit`` saves the state of the generator in its checkpoints, so that a resumed run draws
    the same numbers.

    Args:
        pixels: 0 or more.
        generator: on the device of the images; None: PyTorch's global one.
    """

    pixels: int = 2
    generator: torch.Generator | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        checks.integer("pixels", self.pixels, at_least=0)

    def __call__(self, images: Tensor) -> Tensor:
        checks.instance("images for Shift", images, Tensor, "a floating-point tensor [B, C, H, W]")
        if images.ndim != 4 or not images.is_floating_point():
            raise ValueError(
                f"images for Shift must be floating-point [B, C, H, W], but they are {images.dtype} "
                f"{list(images.shape)}"
            )
        b, c, h, w = images.shape
        padded = F.pad(images, (self.pixels,) * 4)
        image, channel, rows, columns = (torch.arange(n, device=images.device) for n in (b, c, h, w))
        rows, columns = (
            at + torch.randint(2 * self.pixels + 1, (b, 1), generator=self.generator, device=images.device)
            for at in (rows, columns)
        )
        return padded[image.view(b, 1, 1, 1), channel.view(1, c, 1, 1), rows.view(b, 1, h, 1), columns.view(b, 1, 1, w)]
