"""Score, leaderboard and references of the challenge."""

import json
import re
import threading
from typing import Any

import pytest
import torch

from snnkit import challenge, neuron, nn
from snnkit.challenge import delay_lines, evolve, keep, kept, references, task


def small():
    torch.manual_seed(0)
    return challenge.network(hidden=4)


@pytest.fixture(scope="module")
def thrifty():
    return challenge.reference("thrifty")


def test_the_score_is_that_of_its_parts(thrifty):
    found = challenge.score(thrifty)
    x, y = (torch.cat(parts, dim) for parts, dim in zip(zip(*task.hidden(), strict=True), (1, 0), strict=True))
    seen = challenge.evaluate(thrifty, x, y)
    each = seen.correct.double() - 0.01 * seen.counts
    assert found.samples == len(y) == 2000 and found.accuracy == seen.accuracy and found.spikes == seen.spikes
    assert (
        found.score == pytest.approx(seen.accuracy - 0.01 * seen.spikes, abs=1e-6) == pytest.approx(each.mean().item())
    )
    assert found.error == pytest.approx(each.std().item() / 2000**0.5)
    other = challenge.score(thrifty, salt="another")
    assert other.mark != found.mark and other.score != found.score


def test_references_keep_their_promises():
    scores = {name: challenge.reference_score(name) for name in references.NOTES}
    assert scores["plain"].score < 0.5 < scores["thrifty"].score < scores["two neurons"].score < scores["delays"].score
    assert scores["two neurons"].spikes == pytest.approx(0.75, abs=0.01) and scores["two neurons"].accuracy > 0.995
    assert scores["delays"].spikes == pytest.approx(0.5, abs=0.01) and scores["delays"].accuracy > 0.995
    with pytest.raises(ValueError, match="name must be one of plain, thrifty, two neurons, delays"):
        challenge.reference("best")


def test_evolution_scores_candidates_as_the_rules_do():
    generator = torch.Generator().manual_seed(1)
    numbers = torch.tensor(evolve.START) + 0.3 * torch.randn(4, evolve.NUMBERS, generator=generator)
    x, y = challenge.samples(400, seed=2)
    found = evolve.scores(numbers, x.unflatten(2, (2, -1)).sum(3), y)
    for candidate, score in zip(numbers, found, strict=True):
        seen = challenge.evaluate(references.two_neurons(candidate), x, y)
        assert seen.accuracy - challenge.PRICE * seen.spikes == pytest.approx(score.item(), abs=0.01)


def test_evolution_climbs():
    start = torch.tensor(evolve.START)
    x, y = challenge.samples(2000, seed=11)
    heard = x.unflatten(2, (2, -1)).sum(3)
    before, after = evolve.scores(torch.stack([start, evolve.evolve(generations=60)]), heard, y)
    assert after > before + 0.1


def test_a_neuron_behind_delay_lines_fires_where_the_sum_is_positive():
    weights, bias = delay_lines.fit(updates=30)
    x, _ = challenge.samples(100, seed=1)
    heard, _ = challenge.Delays(delay_lines.LATE)(x.unflatten(2, (2, -1)).sum(3))
    positive = (heard @ weights.flatten() + bias).amax(0) > 0
    out, _ = references.with_delays(weights, bias)(x)
    assert positive.any() and torch.equal(out[..., 1].sum(0), positive.float()) and out[..., 0].sum() == 0


def test_training_learns_and_a_penalty_saves_spikes():
    x, y = challenge.samples(500, seed=99)
    nets = []
    for penalty in (0.0, 0.01):
        torch.manual_seed(0)
        nets.append(challenge.train(challenge.network(16), penalty, updates=120, samples=500))
    plain, saving = (challenge.evaluate(net, x, y) for net in nets)
    assert plain.accuracy > 0.9 and saving.spikes < 0.5 * plain.spikes


def test_training_repeats():
    def weights():
        torch.manual_seed(3)
        return challenge.train(challenge.network(4), 0.01, updates=5, batch=16, samples=64, seed=1).state_dict()

    one, other = weights(), weights()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"penalty": -1.0}, "penalty must be"),
        ({"penalty": float("nan")}, "penalty must be"),
        ({"updates": 0}, "updates must be"),
        ({"batch": 1.5}, "batch must be"),
        ({"samples": True}, "samples must be"),
        ({"warm_up": 2}, "warm_up must be"),
        ({"device": "nowhere"}, "device must be"),
    ],
)
def test_bad_training(arguments, words):
    with pytest.raises(ValueError, match=words):
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
    assert [row[0] for row in with_references.rows()].count("") == len(references.SHOWN)
    assert "sixteen" in repr(with_references) and "sixteen" in with_references._repr_html_()
    assert not list(folder.glob("*.part"))


def test_many_may_hand_in_at_once(tmp_path):
    threads = [threading.Thread(target=challenge.submit, args=("same name", small(), tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(challenge.board(tmp_path, references=False).entries) == 4


def test_what_is_no_entry_is_listed_and_left_alone(tmp_path):
    challenge.submit("Ada", small(), tmp_path)
    (good,) = tmp_path.glob("*.json")
    whole = json.loads(good.read_text())
    damaged = {
        "cut.json": good.read_text()[:50],
        "other.json": '{"kind": "something"}',
        "old.json": json.dumps(whole | {"format": 0}),
        "nan.json": json.dumps(whole | {"error": float("nan")}),
        "tuned.json": json.dumps(whole | {"score": 0.999}),
        "typed.json": json.dumps(whole | {"name": 3}),
        "salted.json": json.dumps(whole | {"mark": "abcdef"}),
        "large.json": " " * 100_000,
        "list.json": "[]",
    }
    for name, text in damaged.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder.json").mkdir()
    board = challenge.board(tmp_path, references=False)
    assert len(board.entries) == 1 and {name for name, _ in board.refused} == {*damaged, "folder.json"}
    why = dict(board.refused)
    assert "only a part" in why["cut.json"] and "not that of its accuracy" in why["tuned.json"]
    assert "other samples" in why["salted.json"] and "name is missing" in why["typed.json"]
    assert all((tmp_path / name).read_text() == text for name, text in damaged.items())
    assert "salted.json" in repr(board) and "salted.json" in board._repr_html_()
    with pytest.raises(ValueError, match="folder must be a folder"):
        challenge.board(good)


def test_names_are_shown_as_text(tmp_path):
    challenge.submit("<b>Ada</b> & ../x", small(), tmp_path)
    (path,) = tmp_path.glob("*.json")
    assert re.fullmatch(r"b-ada-b-x-\d{8}-\d{6}-[0-9a-f]{6}\.json", path.name)
    page = challenge.board(tmp_path, references=False)._repr_html_()
    assert "&lt;b&gt;Ada" in page and "<b>Ada" not in page


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": ""}, ValueError),
        ({"name": "two\nlines"}, ValueError),
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


def test_the_stars_of_your_own_neurons(tmp_path):
    class Mine(neuron.LIF):
        pass

    net = nn.Sequential(torch.nn.Linear(8, 2), Mine())
    assert challenge.submit("Ada", net, tmp_path).neurons == "Mine*"


def test_the_figure_draws_silence_too(tmp_path):
    net = small()
    with torch.no_grad():
        for weights in net.parameters():
            weights.zero_()
    challenge.submit("Ada", net, tmp_path)
    figure: Any = challenge.board(tmp_path, references=False).figure()
    (marks,), (name,) = figure.select_traces(), figure.select_annotations()
    assert list(marks.x) == [0.1] and list(marks.y) == [0.5] and (name.text, name.x, name.y) == ("Ada", -1, 0.5)
    with pytest.raises(ValueError, match="must have an entry"):
        challenge.board(tmp_path / "none", references=False).figure()


def test_the_kept_sweep_says_where_it_comes_from():
    columns, origin = challenge.kept_sweep()
    assert set(columns) == set(kept.COLUMNS) and {len(values) for values in columns.values()} == {origin["runs"]} == {
        96
    }
    assert origin["machine"]["processor"] and origin["machine"]["packages"]["torch"] and origin["machine"]["date"]
    runs = list(zip(*(columns[name] for name in ("RATE_PENALTY", "HIDDEN", "SEED")), strict=True))
    assert len(set(runs)) == 96


def test_only_a_whole_sweep_is_kept(tmp_path):
    pytest.importorskip("polars")
    heads = "run,status,RATE_PENALTY,HIDDEN,SEED,accuracy,spikes,seconds"
    rows = [f"{i},ok,0.0,8,{i},0.9,10.0,1.0" for i in range(2)]
    asked = {"notebook": "xor_in_time", "fixed": {}, "machine": {}, "order": ["0", "1"]}
    (tmp_path / "sweep.json").write_text(json.dumps(asked))
    (tmp_path / "results.csv").write_text("\n".join([heads, *rows]))
    target = tmp_path / "kept.json"
    keep.keep(tmp_path, target)
    assert json.loads(target.read_text())["columns"]["SEED"] == [0, 1]
    for text in (
        [heads, rows[0]],
        [heads, rows[0], rows[1].replace("ok", "failed")],
        [heads.replace("spikes", "s"), *rows],
    ):
        (tmp_path / "results.csv").write_text("\n".join(text))
        with pytest.raises(ValueError, match="must hold a sweep that is done"):
            keep.keep(tmp_path, tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()
