"""Files on a shared board that are no entries, or say what can't be, and names as people have them."""

import json

import pytest
from torch import nn

from snnkit import challenge, neuron
from snnkit.challenge import entries, task

ENTRY = {
    "kind": entries.KIND, "format": entries.FORMAT, "price": challenge.PRICE, "name": "Ada", "note": "",
    "when": "2026-01-01T00:00:00+00:00", "score": 0.89, "error": 0.01, "accuracy": 0.9, "spikes": 1.0,
    "samples": 2000, "mark": task.mark(), "neurons": "LIF", "parameters": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        {"accuracy": 10**400},
        {"accuracy": 5.0, "score": 4.99},
        {"spikes": -1000.0, "score": 10.9},
        {"accuracy": -0.1, "score": -0.11},
        {"error": -1.0},
        {"samples": -1},
        {"parameters": 10**4000},
        {"spikes": float("inf")},
        {"score": float("nan")},
    ],
)
def test_an_impossible_entry_is_listed_and_the_board_still_stands(tmp_path, damage):
    (tmp_path / "good.json").write_text(json.dumps(ENTRY))
    (tmp_path / "bad.json").write_text(json.dumps({**ENTRY, **damage}))
    board = challenge.board(tmp_path, references=False)
    assert [entry.name for entry in board.entries] == ["Ada"]
    ((file, why),) = board.refused
    assert file == "bad.json" and "damaged" in why
    board.figure()


def test_a_file_name_can_not_steer_a_terminal(tmp_path):
    (tmp_path / "\x1b[2Jx.json").write_text("{}")
    assert "\x1b" not in repr(challenge.board(tmp_path, references=False))


@pytest.mark.parametrize("name", ["👩\u200d💻 Ada", "🦊", "عربي", "a/b", "<b>x</b>"])
def test_names_as_people_have_them(tmp_path, name):
    (tmp_path / "one.json").write_text(json.dumps({**ENTRY, "name": name}))
    board = challenge.board(tmp_path, references=False)
    assert board.entries[0].name == name == entries._line("name", name, entries.NAME)
    assert "<b>x" not in board._repr_html_()


class OnlySpikes(nn.Module):
    def forward(self, x):
        assert ((x == 0) | (x == 1)).all(), "no spikes"
        return x


def test_a_synapse_that_takes_spikes_alone_is_named():
    net = nn.Sequential(OnlySpikes(), nn.Linear(8, 2), neuron.LIF())
    with pytest.raises(challenge.RuleError, match=r"0 \(OnlySpikes\) must be a synapse.*AssertionError: no spikes"):
        challenge.evaluate(net, *challenge.samples(8))


@pytest.mark.parametrize("name", ["\u200d", "a\u202eb", "a\nb", " "])
def test_names_that_nobody_could_read(name):
    with pytest.raises(ValueError, match="name must be one line"):
        entries._line("name", name, entries.NAME)
