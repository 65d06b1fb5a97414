"""Figures and callbacks of several ranks under plain Lightning are those of one process with the global batch."""

import sys

import pytest
import torch

from snnkit.train import launch

from .job import LIMIT

pytestmark = pytest.mark.slow


def ran(folder, ranks, validation):
    folder.mkdir()
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.scale.lit_rank", str(folder), str(validation)]
    launch(command, ranks, timeout=LIMIT)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(ranks)]


# Of 23 samples to validate the last batch has 11, of which the last of four ranks has fewer than the others; with one
# sample, one of two ranks has none.
@pytest.mark.parametrize(("validation", "several"), [(23, [2, 4]), (1, [2])])
def test_weights_and_figures_are_those_of_one_process(validation, several, tmp_path):
    (alone,) = ran(tmp_path / "alone", 1, validation)
    for rank in (rank for ranks in several for rank in ran(tmp_path / str(ranks), ranks, validation)):
        for name, value in alone["weights"].items():
            torch.testing.assert_close(rank["weights"][name], value, rtol=1e-4, atol=1e-6)
        assert len(rank["epochs"]) == 3
        for ours, theirs in zip(alone["epochs"], rank["epochs"], strict=True):
            for name in (f"{stage}/{figure}" for stage in ("train", "val") for figure in ("loss", "acc", "rate")):
                assert theirs[name] == pytest.approx(ours[name], rel=1e-3), name
        assert rank["tested"] == pytest.approx(alone["tested"], rel=1e-3)
