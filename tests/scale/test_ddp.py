"""Ranks that train together do what one process does with the global batch, and nothing else."""

import json
import sys

import pytest
import torch

from snnkit.train import launch
from tests.scale.job import LIMIT, WORKER

pytest.importorskip("lightning")

# 100 samples in batches of 24: the last of the five has 4, which four ranks share one by one.
SETTINGS = {"samples": 100, "batch_size": 24, "hidden": 16, "steps": 5, "epochs": 4, "loss": "rate_cross_entropy"}
SETTINGS["unused"] = True


def train(folder, ranks, **settings):
    """What each of the ranks noted in 20 updates."""
    folder.mkdir()
    argument = json.dumps({**SETTINGS, **settings, "notes": str(folder)})
    launch([sys.executable, WORKER, argument], ranks, timeout=LIMIT)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(ranks)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return train(tmp_path_factory.mktemp("alone") / "notes", 1)[0]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def together(request, tmp_path_factory):
    return train(tmp_path_factory.mktemp("together") / "notes", request.param)


def test_gradients_and_weights_are_those_of_one_process(alone, together):
    assert alone["updates"] == 20 and len(alone["gradients"]) == 4
    assert max(gradient.abs().max() for gradient in alone["gradients"]) > 1e-3
    for rank in together:
        assert rank["updates"] == 20
        for ours, theirs in zip(alone["gradients"], rank["gradients"], strict=True):
            torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-6)
        for name, ours in alone["weights"].items():
            torch.testing.assert_close(rank["weights"][name], ours, rtol=1e-4, atol=1e-6)


def test_all_ranks_hold_the_same_weights_to_the_bit(together):
    for rank in together[1:]:
        assert all(torch.equal(rank["weights"][name], value) for name, value in together[0]["weights"].items())


def test_figures_are_those_of_all_samples(alone, together):
    for rank in together:
        for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "output_rate"):
            assert rank["history"][name] == pytest.approx(alone["history"][name], rel=1e-4), name


@pytest.mark.slow
def test_three_ranks_resume_to_the_bit(tmp_path):
    """The sum over three or more ranks depends on its order, which must be the same after a resume."""
    whole = train(tmp_path / "whole", 3, checkpoint=str(tmp_path / "whole.pt"))
    file = str(tmp_path / "parts.pt")
    with pytest.raises(Exception, match="planted"):
        train(tmp_path / "first", 3, checkpoint=file, every=3, fail=2, at=8)
    parts = train(tmp_path / "second", 3, checkpoint=file, every=3, resume=True)
    assert len(parts[0]["batches"]) == 20 - 6
    for name, value in whole[0]["weights"].items():
        assert torch.equal(parts[2]["weights"][name], value), name
    for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "output_rate"):
        assert parts[0]["history"][name] == whole[0]["history"][name]
