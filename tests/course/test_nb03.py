"""The references of notebook 03 can be drawn, and are what the library does."""

import pytest
import torch

from snnkit import encode
from snnkit.course import nb03
from snnkit.course.nb03 import latency_encode, poisson_encode


@pytest.mark.parametrize("exercise", nb03.EXERCISES, ids=lambda e: e.key)
def test_references_can_be_drawn(exercise):
    assert len(exercise.plot(exercise.reference, exercise.reference).data) >= 2


def test_the_references_agree_with_the_library():
    x = torch.linspace(0, 1, 65).view(5, 13)
    torch.testing.assert_close(latency_encode(x, 17), encode.latency(x, 17, linear=True))
    seeded = [torch.Generator().manual_seed(3) for _ in range(2)]
    torch.testing.assert_close(poisson_encode(x, 17, seeded[0]), encode.poisson(x, 17, generator=seeded[1]))
