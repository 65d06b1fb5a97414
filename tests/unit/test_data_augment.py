"""Augmentation: what may change and what may not, drawn for each image, repeatable, and refused where it can't be."""

import math

import pytest
import torch

from snnkit.data.augment import Affine, Compose, Flip, Shift

ALL = [Shift(2), Flip(), Affine(20, 0.2, 0.1, 0.1), Compose(Shift(1), Flip())]


def images(batch=64, channels=2, height=9, width=7, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(batch, channels, height, width, generator=generator).to(dtype)


@pytest.mark.parametrize("change", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_dtype_and_range_stay_and_the_input_is_left_alone(change, dtype):
    x = images(dtype=dtype)
    before = x.clone()
    out = change(x)
    assert out.shape == x.shape and out.dtype == dtype and torch.equal(x, before)
    assert out.min() >= 0 and out.max() <= 1
    assert not torch.equal(out, x)


@pytest.mark.parametrize("change", ALL, ids=repr)
def test_each_image_is_changed_by_draws_of_its_own_and_all_its_channels_alike(change):
    out = change(images(1, 1).expand(64, 2, -1, -1))
    assert len({tuple(image.flatten().tolist()) for image in out}) > 1
    assert torch.equal(out[:, 0], out[:, 1])


def test_shift_moves_by_whole_pixels_and_takes_every_one_of_them():
    x = torch.zeros(2000, 1, 7, 9)
    x[:, :, 3, 4] = 1.0
    out = Shift(2)(x)
    places = out.flatten(1).argmax(1)
    assert torch.equal(out.sum((1, 2, 3)), torch.ones(2000))
    rows, columns = places // 9 - 3, places % 9 - 4
    assert {(int(r), int(c)) for r, c in zip(rows, columns, strict=True)} == {
        (r, c) for r in range(-2, 3) for c in range(-2, 3)
    }
    assert torch.equal(Shift(0)(x), x)


def test_flip_mirrors_the_share_of_images_it_should():
    x = images(4000, 1, 2, 3)
    out = Flip(0.25)(x)
    mirrored = (out == x.flip(3)).all(3).all(2).all(1)
    kept = (out == x).all(3).all(2).all(1)
    assert (mirrored ^ kept).all() and float(mirrored.float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(Flip(0.0)(x), x) and torch.equal(Flip(1.0)(x), x.flip(3))


class Fixed(Affine):
    """Draws the upper end of every range."""

    def uniform(self, images, low, high):
        return torch.full((len(images),), high)


def test_affine_turns_scales_shears_and_moves_in_pixels_whatever_the_shape():
    # A line through the centre of a wide image: five pixels of seven by fifteen.
    line = torch.zeros(1, 1, 7, 15)
    line[0, 0, 3, 5:10] = 1.0
    turned = Fixed(90.0, 0.0)(line)
    torch.testing.assert_close(turned[0, 0, :, 7], torch.tensor([0.0, 1, 1, 1, 1, 1, 0]), atol=1e-4, rtol=0)
    assert turned.sum() == pytest.approx(5, abs=1e-3)
    dot = torch.zeros(1, 1, 9, 9)
    dot[0, 0, 4, 4] = 1.0
    moved = Fixed(0.0, 0.0, shift=1 / 9)(dot)  # one pixel of nine
    assert moved[0, 0].argmax() == 3 * 9 + 3
    square = torch.zeros(1, 1, 16, 16)
    square[0, 0, 6:10, 6:10] = 1.0
    assert Fixed(0.0, 1.0)(square).sum() == pytest.approx(4 * 16, rel=0.05)
    column = torch.zeros(1, 1, 9, 9)
    column[0, 0, :, 4] = 1.0
    sheared = Fixed(0.0, 0.0, shear=1.0)(column)
    assert sheared[0, 0].argmax(1).tolist() == [8, 7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Shift(-1), ValueError, "pixels must be at least 0, but it is -1"),
        (lambda: Shift(True), TypeError, "pixels must be an integer"),
        (lambda: Flip("x"), TypeError, "p must be a number"),
        (lambda: Affine(scale=-0.1), ValueError, "scale must be at least 0"),
        (lambda: Affine(shift=math.nan), ValueError, "shift must be finite"),
        (lambda: Compose(Flip(), 3), TypeError, "step 1 of Compose must be a function, but it is 3"),
        (lambda: Flip()(torch.zeros(2, 1, 3, 3, dtype=torch.uint8)), ValueError, "floating-point .* torch.uint8"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
