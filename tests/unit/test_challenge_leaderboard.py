"""Score, leaderboard and references of the challenge."""

import json
import threading
from typing import Any

import pytest
import torch

from snnkit import challenge, neuron, nn
from snnkit.challenge import leaderboard, networks, scoring


def small():
    torch.manual_seed(0)
    return challenge.network(hidden=4)


@pytest.fixture(scope="module")
def thrifty():
    return challenge.reference("thrifty")


def test_the_score_is_that_of_its_parts(thrifty):
    found = challenge.score(thrifty)
    seen = challenge.evaluate(thrifty, *scoring.hidden())
    each = seen.correct.double() - 0.01 * seen.counts
    assert found.samples == 2000 and found.accuracy == seen.accuracy and found.spikes == seen.spikes
    assert (
        found.score == pytest.approx(seen.accuracy - 0.01 * seen.spikes, abs=1e-6) == pytest.approx(each.mean().item())
    )
    assert found.error == pytest.approx(each.std().item() / 2000**0.5)
    other = challenge.score(thrifty, salt="another")
    assert other.mark != found.mark and other.score != found.score


def test_references_keep_their_promises():
    scores = {name: challenge.reference_score(name) for name in networks.NOTES}
    assert scores["plain"].score < 0.5 < scores["thrifty"].score < scores["two neurons"].score < scores["delays"].score
    assert scores["two neurons"].spikes == pytest.approx(0.75, abs=0.01) and scores["two neurons"].accuracy > 0.995
    assert scores["delays"].spikes == pytest.approx(0.5, abs=0.01) and scores["delays"].accuracy > 0.995
    with pytest.raises(
        ValueError, match="name must be one of 'plain', 'thrifty', 'two neurons', 'delays', but it is 'best'"
    ):
        challenge.reference("best")


def test_training_learns_and_a_penalty_saves_spikes():
    x, y = challenge.samples(500, seed=99)
    nets = []
    for penalty in (0.0, 0.01):
        torch.manual_seed(0)
        nets.append(challenge.train(challenge.network(16), penalty, updates=120))
    plain, saving = (challenge.evaluate(net, x, y) for net in nets)
    assert plain.accuracy > 0.9 and saving.spikes < 0.5 * plain.spikes


def test_training_repeats():
    def weights():
        torch.manual_seed(3)
        return challenge.train(challenge.network(4), 0.01, updates=5, seed=1).state_dict()

    one, other = weights(), weights()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"penalty": -1.0}, "penalty must be at least 0, but it is -1.0"),
        ({"penalty": float("nan")}, "penalty must be finite"),
        ({"updates": 0}, "updates must be at least 1, but it is 0"),
        ({"warm_up": 2}, "warm_up must be at most 1, but it is 2"),
        ({"device": "nowhere"}, "device must be"),
    ],
)
def test_bad_training(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        challenge.train(small(), **arguments)


def test_bad_networks():
    with pytest.raises(TypeError, match=r"net must be a snnkit\.nn\.Sequential"):
        challenge.train(torch.nn.Linear(8, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hidden must be"):
        challenge.network(0)


def test_entries_come_back_best_first(tmp_path, thrifty):
    folder = tmp_path / "board"
    assert challenge.board(folder, references=False).entries == ()
    entry = challenge.submit("Ada", thrifty, folder, note="sixteen")
    worse = challenge.submit("ada", small(), folder)
    challenge.submit("Bob", small(), folder)
    board = challenge.board(folder, references=False)
    assert board.entries[0] == entry and {e.name for e in board.entries} == {"Ada", "ada", "Bob"} and not board.refused
    assert [e.name for e in board.best()] == ["Ada", "Bob"] and worse in board.entries
    assert entry.neurons == "LIF, LIF" and entry.parameters == 178
    assert [row[0] for row in board.rows()] == ["1.", "2."]
    with_references = challenge.board(folder)
    assert [row[0] for row in with_references.rows()].count("") == len(networks.SHOWN)
    assert "sixteen" in repr(with_references) and "sixteen" in with_references._repr_html_()
    assert not list(folder.glob("*.part"))


def test_many_may_hand_in_at_once(tmp_path):
    threads = [threading.Thread(target=challenge.submit, args=("same name", small(), tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(challenge.board(tmp_path, references=False).entries) == 4


ENTRY = {
    "kind": leaderboard.KIND, "format": leaderboard.FORMAT, "price": challenge.PRICE, "name": "Ada", "note": "",
    "when": "2026-01-01T00:00:00+00:00", "score": 0.89, "error": 0.01, "accuracy": 0.9, "spikes": 1.0,
    "samples": 2000, "mark": scoring.mark(), "neurons": "LIF", "parameters": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"kind": "snnkit challenge entry", "for', "only a part"),
        ("[]", "no entry of the challenge"),
        (" " * 100_000, "too large"),
        ({"kind": "something"}, "no entry of the challenge"),
        ({"format": 0}, "of another version"),
        ({"mark": "abcdef"}, "scored on other samples"),
        ({"name": 3}, "damaged: name must be a text"),
        ({"score": 0.999}, "not that of its accuracy"),
        ({"accuracy": 5.0, "score": 4.99}, "not that of its accuracy"),
        ({"accuracy": 10**400}, "damaged"),
        ({"spikes": -1000.0, "score": 10.9}, "damaged: spikes must be at least 0"),
        ({"error": -1.0}, "damaged: error must be at least 0"),
        ({"error": float("nan")}, "damaged: error must be finite"),
        ({"samples": -1}, "damaged: samples"),
        ({"parameters": True}, "damaged: parameters"),
    ],
)
def test_what_is_no_entry_is_listed_and_left_alone(tmp_path, content, why):
    (tmp_path / "good.json").write_text(json.dumps(ENTRY))
    text = content if isinstance(content, str) else json.dumps(ENTRY | content)
    (tmp_path / "bad.json").write_text(text)
    board = challenge.board(tmp_path, references=False)
    assert [entry.name for entry in board.entries] == ["Ada"]
    ((file, said),) = board.refused
    assert file == "bad.json" and why in said and (tmp_path / "bad.json").read_text() == text
    assert "bad.json" in repr(board) and "bad.json" in board._repr_html_()
    with pytest.raises(ValueError, match="folder must be a folder"):
        challenge.board(tmp_path / "good.json")


@pytest.mark.parametrize("name", ["🦊", "عربي", "a/b", "<b>Ada</b> & ../x"])
def test_names_as_people_have_them(tmp_path, name):
    assert challenge.submit(name, small(), tmp_path).name == name
    board = challenge.board(tmp_path, references=False)
    assert board.entries[0].name == name and "<b>Ada" not in board._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": ""}, ValueError),
        ({"name": "two\nlines"}, ValueError),
        ({"name": "a\u202eb"}, ValueError),
        ({"name": "x" * 41}, ValueError),
        ({"name": 5}, TypeError),
        ({"note": "x" * 201}, ValueError),
        ({"net": nn.Sequential(torch.nn.Linear(8, 2), neuron.LI())}, challenge.RuleError),
    ],
)
def test_nothing_is_written_for_what_is_refused(arguments, error, tmp_path):
    with pytest.raises(error):
        challenge.submit(**({"name": "Ada", "net": small(), "folder": tmp_path} | arguments))
    assert not list(tmp_path.iterdir())


def test_the_figure_draws_silence_too(tmp_path):
    net = small()
    with torch.no_grad():
        for weights in net.parameters():
            weights.zero_()
    challenge.submit("Ada", net, tmp_path)
    figure: Any = challenge.board(tmp_path, references=False).figure()
    (marks,), (name,) = figure.select_traces(), figure.select_annotations()
    assert list(marks.x) == [0.1] and list(marks.y) == [0.5] and (name.text, name.x, name.y) == ("Ada", -1, 0.5)


def test_the_recorded_sweep_says_where_it_comes_from():
    columns, origin = challenge.recorded_sweep()
    assert set(columns) == {"RATE_PENALTY", "HIDDEN", "SEED", "accuracy", "spikes", "seconds"}
    assert {len(values) for values in columns.values()} == {origin["runs"]} == {96}
    assert origin["machine"]["processor"] and origin["machine"]["packages"]["torch"] and origin["machine"]["date"]
