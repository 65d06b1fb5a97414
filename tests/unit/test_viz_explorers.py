"""Explorers that measure the machine draw what is true."""

import pytest
import torch

from snnkit.engine import cpp_compiler
from snnkit.lab.viz import explorers
from snnkit.lab.viz.explorers import measured as race


def bill_of_a_learner(weights, kept, steps, batch, copies=1, width=4):
    return 4 * weights * (2 + copies), steps * batch * kept * width


def test_a_formula_stands_beside_a_step_that_is_counted():
    # Enough neuron-steps for a compiled neuron, which keeps its input and no more.
    figure = explorers.beside_measured(bill_of_a_learner)(steps=16, batch=16, neurons=500)
    by_part = {trace.name: list(trace.x) for trace in figure.data}
    assert by_part["weights"] == pytest.approx([4 * (785 * 500 + 501 * 10) / 1e6] * 2)
    assert by_part["activity"][0] == pytest.approx(16 * 16 * (784 + 1000 + 10) * 4 / 1e6)
    assert by_part["activity"][1] > 0.99 * by_part["activity"][0]
    alone = explorers.beside_measured()(steps=16, batch=16, neurons=500)
    assert {trace.name: list(trace.x) for trace in alone.data} == {name: both[1:] for name, both in by_part.items()}


@pytest.mark.parametrize(
    ("bill", "setting", "error", "words"),
    [
        (lambda *_: None, {}, TypeError, "the result of bill must be two numbers of bytes, but it is None"),
        (lambda *_: (1, "x"), {}, TypeError, "the activity by bill must be a number, but it is 'x'"),
        (lambda *_: (1, -5), {}, ValueError, "the activity by bill must be at least 0"),
        (bill_of_a_learner, {"batch": 0}, ValueError, "batch must be at least 1"),
        (bill_of_a_learner, {"numbers": "int8"}, ValueError, "numbers must be one of"),
    ],
)
def test_a_formula_and_its_setting_are_checked(bill, setting, error, words):
    with pytest.raises(error, match=words):
        explorers.beside_measured(bill)(**({"steps": 2, "batch": 2, "neurons": 3} | setting))


SMALL = {"T": 4, "N": 1024}


def lanes(figure):
    return list(figure.layout.yaxis.ticktext)


def notes(figure):
    return " ".join(note.text for note in figure.layout.annotations).replace("<br>", " ")


@pytest.mark.skipif(cpp_compiler() is None, reason="no C++ compiler")
def test_an_engine_races_against_the_loop():
    state = torch.get_rng_state()
    figure = race.figure(**SMALL, engine="cpp", device=race.CPU)
    assert lanes(figure) == ["eager", "cpp", "floor"] and torch.equal(torch.get_rng_state(), state)
    assert "times as fast as the loop" in figure.layout.title.text or "neither wins" in figure.layout.title.text
    assert "first call" in " ".join(text for trace in figure.data for text in trace.text or ())


@pytest.mark.parametrize(
    ("p10", "p90", "said"),
    [(0.1, 0.3, "cpp is 5 times as fast as the loop"), (0.1, 0.95, "neither wins"), (0.1, 1.5, "neither wins")],
)
def test_there_is_no_winner_where_spreads_overlap(p10, p90, said):
    size = {"steps": 4, "neurons": 1024, "dtype": "float32"}
    loop = {"contestant": "eager", "p10_s": 0.9, "median_s": 1.0, "p90_s": 1.1} | size
    other = {"contestant": "cpp", "p10_s": p10, "median_s": 0.2, "p90_s": p90} | size
    assert said in race._result([loop, other], "cpp")


@pytest.mark.skipif(cpp_compiler() is None, reason="no C++ compiler")
def test_an_engine_that_refuses_says_why(monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    monkeypatch.setattr(race.bench, "engine_layer", race.bench.engine_layer.__wrapped__)  # so that none is remembered
    figure = race.figure(**SMALL, engine="cpp", device=race.CPU)
    assert lanes(figure) == ["eager", "floor"]
    assert "TORCH_COMPILE_DISABLE" in notes(figure)
