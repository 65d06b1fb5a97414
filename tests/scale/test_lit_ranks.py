"""Figures and callbacks of several ranks under plain Lightning are those of one process with the global batch."""

import sys

import pytest
import torch

from snnkit.train import launch

from .job import LIMIT

pytestmark = pytest.mark.slow


def ran(folder, ranks):
    folder.mkdir()
    launch([sys.executable, "-X", "faulthandler", "-m", "tests.scale.lit_rank", str(folder)], ranks, timeout=LIMIT)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(ranks)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    # With four, two have no sample of the last batch of validation that another has not.
    return {ranks: ran(folder / str(ranks), ranks) for ranks in (1, 2, 4)}


@pytest.mark.parametrize("ranks", [2, 4])
def test_weights(runs, ranks):
    (alone,) = runs[1]
    for rank in runs[ranks]:
        for name, value in alone["weights"].items():
            torch.testing.assert_close(rank["weights"][name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ranks", [2, 4])
def test_figures_of_training_and_validation(runs, ranks):
    (alone,) = runs[1]
    for rank in runs[ranks]:
        assert len(rank["epochs"]) == 3
        for ours, theirs in zip(alone["epochs"], rank["epochs"], strict=True):
            for stage in ("train", "val"):
                for name in ("loss", "acc", "rate"):
                    assert theirs[f"{stage}/{name}"] == pytest.approx(ours[f"{stage}/{name}"], rel=1e-3), (stage, name)
        assert rank["tested"] == pytest.approx(alone["tested"], rel=1e-3)


@pytest.mark.parametrize("ranks", [2, 4])
def test_firing_rates_are_those_of_all_data(runs, ranks):
    (alone,) = runs[1]
    for rank in runs[ranks]:
        for kind in ("rates", "dead"):
            assert set(rank[kind]) == set(alone[kind]) == {"2", "4"}
            for layer, values in alone[kind].items():
                assert rank[kind][layer] == pytest.approx(values, rel=1e-3, abs=1e-6)
