"""On a GPU: the workers of the scaling benchmark, alone and with as many devices as there are."""

import json
import sys

import pytest
import torch

from snnkit.bench.scaling_worker import ANSWER, LINK_BYTES
from snnkit.train import launch

pytest.importorskip("lightning")

LIMIT = 120  # seconds


def answers(device, ranks, *words):
    command = [sys.executable, "-m", "snnkit.bench.scaling_worker", *words, "--device", device.type]
    done = launch(command, ranks, timeout=LIMIT)
    found = [[line for line in output if line.startswith(ANSWER)][-1] for output in done.outputs]
    return [json.loads(line.removeprefix(ANSWER)) for line in found]


@pytest.mark.parametrize("apart", [(), ("--apart",)])
def test_a_rank_alone(device, apart):
    small = ("--hidden", "16", "--steps", "4", "--batch", "8", "--updates", "20")
    (answer,) = answers(device, 1, "updates", *small, *apart)
    assert len(answer["seconds"]) == (2 if device.type == "cuda" else 20)
    assert min(answer["seconds"]) > 0


def test_links_and_updates_of_several(device):
    ranks = 2
    if device.type == "cuda" and torch.cuda.device_count() < ranks:
        pytest.skip(f"needs {ranks} CUDA devices")
    for answer in answers(device, ranks, "links"):
        assert [size for size, _ in answer["links"]] == list(LINK_BYTES)
    for answer in answers(
        device, ranks, "updates", "--hidden", "16", "--steps", "4", "--batch", "8", "--updates", "20"
    ):
        assert min(answer["seconds"]) > 0
