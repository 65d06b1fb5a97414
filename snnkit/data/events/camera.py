"""A synthetic event camera: its pixels report changes of brightness, as spikes of two polarities, step by step.

A pixel remembers the logarithm of the intensity at its last event. Whenever the logarithm has risen (or fallen) by a
threshold since, the pixel emits an event of polarity ON (or OFF) and moves its memory by the threshold. Source of the
model: Rebecq, Gehrig and Scaramuzza, ESIM (CoRL 2018, PMLR 87:969-982); of the motion, three saccades along a triangle
in front of a still image: Orchard et al., N-MNIST (2015, doi:10.3389/fnins.2015.00437).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit.data import digits
from snnkit.data._batches import check_generator, check_positive_int, check_real, seeded

_CHUNK = 256  # images at a time, so that memory does not grow with the data set

_FARTHEST = 64  # pixels; images are no larger than half of that


def saccades(steps: int, amplitude: float = 2.0) -> Tensor:
    """The path of the gaze, [steps + 1, 2] in pixels (x, y): once round a triangle of that height, at even speed.

    Three straight saccades of equal duration; it ends where it began.
    """
    check_positive_int("steps", steps)
    check_positive("amplitude", amplitude)
    if amplitude > _FARTHEST:
        raise ValueError(f"amplitude must be at most {_FARTHEST} pixels; got {amplitude!r}")
    corners = torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, 0.0], [0.0, 0.0]]) * amplitude
    place = torch.linspace(0, 3, steps + 1)
    side = place.floor().clamp(max=2).long()
    part = (place - side)[:, None]
    return corners[side] * (1 - part) + corners[side + 1] * part


def events_of(
    images: Tensor,
    path: Tensor,
    *,
    threshold: float = 0.2,
    mismatch: float = 0.0,
    noise: float = 0.0,
    dark: float = 0.1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """What the camera sees of still images while its gaze moves along a path.

    Args:
        images: [N, 1, H, W] in [0, 1]; outside of them all is 0.
        path: of the gaze in pixels (x, y), [T + 1, 2]: the images are shifted by its negative, with bilinear
            interpolation. Step t reports what changes from place t to place t + 1.
        threshold: change of the logarithm of intensity per event.
        mismatch: standard deviation of the thresholds of pixels, as a share of ``threshold``: no two are made alike.
            They are drawn once for the camera, per pixel and polarity, not below a fifth of ``threshold``.
        noise: probability that a pixel reports an event per step and polarity without a reason.
        dark: added to the intensity before the logarithm is taken: the light below which the camera is blind.
        generator: draws ``mismatch`` and ``noise``, on the CPU; None: PyTorch's global one.

    Returns:
        Spikes float32 [N, T, 2, H, W], 0 or 1: whether there was an event of polarity ON (0) and OFF (1). Of several
        within a step one is reported.

    Raises:
        TypeError, ValueError: images that are no floating-point [N, 1, H, W] in [0, 1]; a path of another shape; a
            number out of its range.
    """
    check_scene(images, path, threshold, mismatch, dark, generator)
    check_share("noise", noise)
    limits = thresholds(images, threshold, mismatch, generator)
    events = torch.cat([_seen(part.float(), path, limits, dark) for part in images.split(_CHUNK)])
    if noise:
        events = torch.maximum(events, (torch.rand(events.shape, generator=generator) < noise).to(events))
    return events


def event_digits(
    split: str = "train",
    steps: int = 16,
    *,
    size: int = 16,
    amplitude: float = 2.0,
    threshold: float = 0.2,
    mismatch: float = 0.03,
    noise: float = 0.001,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """The handwritten digits (``data.load("digits")``) as a synthetic event camera sees them in three saccades.

    Args:
        split: "train" (1442) or "test" (355).
        steps: T.
        size: height and width of the camera in pixels, at least 8; the digits are enlarged to it.
        amplitude: of the saccades, in pixels of the camera.
        threshold, mismatch, noise: of ``events_of``.
        seed: of mismatch and noise. The thresholds of the pixels are the same in both splits: it is one camera.

    Returns:
        Spikes float32 [N, steps, 2, size, size], 0 or 1, and labels int64 [N].

    Raises:
        TypeError, ValueError: as ``data.load`` and ``events_of``; a size below 8.
    """
    generator = seeded(seed)
    large, labels = enlarged_digits(split, size)
    events = events_of(
        large,
        saccades(steps, amplitude),
        threshold=threshold,
        mismatch=mismatch,
        noise=noise,
        generator=generator,
    )
    return events, labels


def _seen(images: Tensor, path: Tensor, limits: Tensor, dark: float) -> Tensor:
    """Events [N, T, 2, H, W] of some images, without noise; ``limits`` [2, H, W] are the pixels' thresholds."""
    memory = torch.log(looked_at(images, path[0].tolist()) + dark)
    steps = []
    for place in path[1:].tolist():
        change = torch.log(looked_at(images, place) + dark) - memory
        # How often the change holds the threshold, towards 0: a change of 2.5 thresholds is two events.
        rises = (change / limits[0]).floor().clamp(min=0)
        falls = (-change / limits[1]).floor().clamp(min=0)
        memory = memory + rises * limits[0] - falls * limits[1]
        steps.append(torch.stack([rises, falls], dim=1).clamp(max=1))
    return torch.stack(steps, dim=1)


def looked_at(images: Tensor, place: Sequence[float]) -> Tensor:
    """Images [N, 1, H, W] seen with the gaze at (x, y): [N, H, W]; bilinear, 0 outside."""
    x, y = place
    whole_x, whole_y = math.floor(x), math.floor(y)
    part_x, part_y = x - whole_x, y - whole_y
    height, width = images.shape[-2:]
    far = max(abs(whole_x), abs(whole_y)) + 1
    padded = F.pad(images[:, 0], (far, far, far, far))

    def moved(dx: int, dy: int) -> Tensor:
        top, left = far + whole_y + dy, far + whole_x + dx
        return padded[:, top : top + height, left : left + width]

    upper = moved(0, 0) * (1 - part_x) + moved(1, 0) * part_x
    lower = moved(0, 1) * (1 - part_x) + moved(1, 1) * part_x
    return upper * (1 - part_y) + lower * part_y


def enlarged_digits(split: str, size: int) -> tuple[Tensor, Tensor]:
    """The digits as float32 [N, 1, size, size] in [0, 1], and their labels; errors as ``event_digits``."""
    if split not in ("train", "test"):
        raise ValueError(f"split must be one of 'train', 'test'; got {split!r}")
    check_positive_int("size", size)
    if size < 8:
        raise ValueError(f"size must be at least 8, the size of the digits; got {size}")
    images, labels = digits.load(split)
    return F.interpolate(images.float() / 255, size=(size, size), mode="bilinear", align_corners=False), labels


def thresholds(images: Tensor, threshold: float, mismatch: float, generator: torch.Generator | None) -> Tensor:
    """Of each pixel and polarity of one camera, [2, H, W]."""
    height, width = images.shape[-2:]
    drawn = torch.randn(2, height, width, generator=generator) if mismatch else torch.zeros(2, height, width)
    return (threshold * (1 + mismatch * drawn)).clamp(min=threshold / 5).to(images.device, torch.float32)


def check_scene(
    images: Tensor,
    path: Tensor,
    threshold: float,
    mismatch: float,
    dark: float,
    generator: torch.Generator | None,
) -> None:
    """Raise unless a camera can look at it; the arguments are those of ``events_of``."""
    check_images(images)
    if not (isinstance(path, Tensor) and path.ndim == 2 and path.shape[1] == 2 and len(path) >= 2):
        raise ValueError("path must be a tensor [T + 1, 2] of places in pixels (x, y), T at least 1")
    if not path.isfinite().all():
        raise ValueError("path must be finite, but holds a NaN or an infinity")
    check_positive("threshold", threshold)
    check_positive("dark", dark)
    check_share("mismatch", mismatch)
    check_generator(generator)


def check_images(images: Tensor) -> None:
    """Raise unless they are floating point [N, 1, H, W] in [0, 1]."""
    if not isinstance(images, Tensor) or not images.is_floating_point():
        got = images.dtype if isinstance(images, Tensor) else type(images).__name__
        raise TypeError(
            f"images must be a floating-point tensor [N, 1, H, W], scale uint8 with data.to_unit; got {got}"
        )
    if images.ndim != 4 or images.shape[1] != 1 or images.numel() == 0:
        raise ValueError(f"images must be [N, 1, H, W] and not empty; got {list(images.shape)}")
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):
        raise ValueError(f"images must lie in [0, 1]; got values from {low:g} to {high:g}")


def check_positive(name: str, value: float) -> None:
    """Raise unless it is a finite number above 0."""
    check_real(name, value)
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number above 0; got {value!r}")


def check_share(name: str, value: float) -> None:
    """Raise unless it is a number in [0, 1)."""
    check_real(name, value)
    if not 0 <= value < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
