"""Copies between devices are counted, and only those."""

import torch
from torch import nn

from snnkit.bench.transfers import Copy, Transfers

CPU, META = torch.device("cpu"), torch.device("meta")


def test_a_copy_to_another_device_is_noted_with_its_bytes():
    with Transfers() as seen:
        torch.zeros(3, 4).to("meta")
    assert seen.copies == [Copy(CPU, META, 48)]
    assert (seen.count, seen.bytes) == (1, 48)


def test_work_on_one_device_is_not():
    x = torch.zeros(3, 4)
    with Transfers() as seen:
        y = (x + 1).double().clone().to("cpu")
        torch.empty_like(x).copy_(y)
        torch.zeros(3, device="meta") + 1
    assert seen.count == seen.bytes == 0


def test_copies_in_a_loop_and_into_a_buffer_count_each():
    goal = torch.empty(5, 4, device="meta")
    with Transfers() as seen:
        for there, here in zip(goal, torch.zeros(5, 4), strict=True):
            there.copy_(here)
    assert seen.count == 5 and seen.bytes == goal.numel() * 4


def test_a_module_is_moved_tensor_by_tensor():
    with Transfers() as seen:
        nn.Linear(3, 2).to("meta")
    assert sorted(copy.bytes for copy in seen.copies) == [8, 24]


def test_a_view_that_moves_is_written_out_in_full():
    with Transfers() as seen:
        torch.zeros(4).expand(10, 4).to("meta")
    assert seen.bytes == 10 * 4 * 4


def test_a_conversion_is_made_before_it_crosses():
    with Transfers() as seen:
        torch.zeros(10, dtype=torch.uint8).to("meta", torch.float32)
        torch.empty(10, dtype=torch.uint8, device="meta").copy_(torch.zeros(10))
    assert [copy.bytes for copy in seen.copies] == [40, 10]


def test_nothing_is_counted_after_leaving_it():
    with Transfers() as seen:
        pass
    torch.zeros(3).to("meta")
    assert seen.copies == []
