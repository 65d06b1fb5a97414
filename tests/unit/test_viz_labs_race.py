import math

import pytest
import torch

from snnkit import records
from snnkit.engine.missing import cpp_compiler
from snnkit.viz.controls import parse
from snnkit.viz.labs import engine_explorer as race

SMALL = {"T": 4, "N": 1024}


def lanes(figure):
    return list(figure.layout.yaxis.ticktext)


def notes(figure):
    return " ".join(note.text for note in figure.layout.annotations).replace("<br>", " ")


def test_every_record_of_this_benchmark_can_be_chosen():
    known = [*records.names("neurons"), *records.names("published")]
    usable = {name for name in known if any("neurons" in row for row in records.load(name)["rows"])}
    assert set(race.RECORDED.values()) == usable


def test_the_loop_alone_is_measured_above_its_floor():
    figure = race.figure(**SMALL, engine="eager", device=race.CPU)
    assert lanes(figure) == ["eager", "floor"]
    assert "the loop takes" in figure.layout.title.text and "T = 4, N = 1,024" in figure.layout.title.text
    said = notes(figure)
    assert "measured here" in said and f"torch {torch.__version__}" in said and "thread" in said
    assert all(value > 0 for trace in figure.data for value in trace.x)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (n, v)
        for n, spec in race.CONTROLS.items()
        for v in dict.fromkeys(parse(n, spec, race.engine_race.defaults()[n]).trials)
    ],
)
def test_every_control_at_its_ends_and_middle(name, value):
    figure = race.figure(**race.engine_race.defaults() | {"engine": "eager"} | {name: value})
    assert figure.layout.title.text and figure.layout.xaxis.title.text == "milliseconds"
    assert all(value > 0 and math.isfinite(value) for trace in figure.data for value in trace.x if value is not None)
    if name == "engine":
        assert value in lanes(figure)


@pytest.mark.skipif(cpp_compiler() is None, reason="no C++ compiler")
def test_an_engine_races_against_the_loop():
    figure = race.figure(**SMALL, engine="cpp", device=race.CPU)
    assert lanes(figure) == ["eager", "cpp", "cpp, uint8 spikes", "floor"]
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
    monkeypatch.setattr(race, "_candidates", race._candidates.__wrapped__)  # so that none is remembered
    figure = race.figure(**SMALL, engine="cpp", device=race.CPU)
    assert lanes(figure) == ["eager", "floor"]
    assert "TORCH_COMPILE_DISABLE" in notes(figure)


def test_what_is_random_stays_as_it_was():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    race.figure(**SMALL, engine="eager")
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("name", race.RECORDED)
def test_a_record_is_shown_with_its_origin(name):
    figure = race.figure(T=16, N=4096, device=name)
    origin = records.load(race.RECORDED[name])["provenance"]
    assert (origin.get("hardware") or origin["device"]["name"]) in notes(figure)
    assert name in figure.layout.title.text


def test_the_nearest_recorded_size_is_said_to_be_that():
    exact = race.figure(T=32, N=65536, device="AMD EPYC, 1 thread (record)")
    assert "nearest" not in notes(exact) and "T = 32, N = 65,536" in exact.layout.title.text
    other = race.figure(T=4, N=65536, device="AMD EPYC, 1 thread (record)")
    assert "nearest" in notes(other) and "T = 8, N = 65,536" in other.layout.title.text
    published = race.figure(T=8, N=65536, dtype="bfloat16", device="RTX 2080 Ti (published)")
    assert "nearest" in notes(published) and "1,048,576, float32" in published.layout.title.text
    row = next(
        r for r in records.load("spikingjelly_rtx2080ti")["rows"] if r["steps"] == 8 and r["mode"] == "inference"
    )
    assert row["seconds"] * 1e3 in [x for trace in published.data for x in trace.x]


@pytest.mark.parametrize(
    ("name", "value"), [("T", 5), ("N", -1), ("dtype", "int8"), ("engine", "warp"), ("device", "a dream")]
)
def test_settings_that_do_not_exist(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be one of .*, but it is {value!r}"):
        race.figure(**{name: value})
