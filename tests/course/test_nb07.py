"""The references of notebook 07 are what PyTorch counts and does."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from snnkit.course.nb07 import conv_flops, scaled_update
from snnkit.encode import repeat
from snnkit.nn import time_batched


@pytest.mark.parametrize("static", [False, True])
def test_the_price_is_that_of_pytorch(static):
    layer = torch.nn.Conv2d(3, 5, 3, padding=1, device="meta")
    x = repeat(torch.zeros(1, 3, 6, 7, device="meta"), 4)
    with FlopCounterMode(display=False) as counter:
        time_batched(layer, x if static else x.contiguous())
    assert conv_flops(3, 5, 3, 6, 7, steps=4, static=static) == counter.get_total_flops()


def test_a_scaler_that_is_off_changes_nothing():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    norm = scaled_update((weight * torch.tensor([3.0, 4.0])).sum(), [weight], optimizer, scaler, 1.0)
    assert norm.item() == pytest.approx(5) and weight.tolist() == pytest.approx([0.7, -2.4], abs=1e-5)
