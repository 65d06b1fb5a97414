"""`snnkit bench scaling`: predictions before measurements, records, tables and the plot; ranks are played by stand-ins.

tests/scale runs real ones.
"""

import copy
import json

import pytest
from click.testing import CliRunner

from snnkit import records
from snnkit.lab.bench import scaling
from snnkit.lab.bench.scaling_worker import ANSWER, LINK_BYTES
from snnkit.lab.cli import main
from snnkit.lab.hardware.scaling import Link, all_reduce_s, this_machine
from snnkit.train import Launched, LaunchError

LOOP = this_machine(2, link=Link("loop", 1e9, 1e-4, "made up"))
SHARING = 0.1
PARAMETERS = 795_010


class StandIns:
    """In place of ``launch``: answers as ranks would whose updates take what the model says, and keeps the commands."""

    def __init__(self) -> None:
        self.commands: list[tuple[int, list[str]]] = []

    def __call__(self, command, processes, **_):
        words = command[3:]
        self.commands.append((processes, words))
        if words[0] == "links":
            answer = {"links": [(size, all_reduce_s(size, LOOP, processes)) for size in LINK_BYTES]}
        else:
            busy = max(1.0, processes / 2) * (1 + SHARING * (processes > 1))
            waiting = 0.0 if "--apart" in words else 0.004 * (processes - 1)
            answer = {"seconds": [0.04 * busy + waiting] * 5, "parameters": PARAMETERS}
        return Launched(5.5, [[f"{ANSWER}{json.dumps(answer)}"]] * processes)


@pytest.fixture
def stand_ins(monkeypatch):
    made = StandIns()
    monkeypatch.setattr(scaling, "launch", made)
    monkeypatch.setattr(scaling, "cores", lambda: 2)
    return made


def call(*arguments):
    return CliRunner().invoke(main, ["bench", *arguments])


@pytest.fixture
def measured(stand_ins, tmp_path):
    """(path of a record, what was printed)"""
    path = tmp_path / "r.json"
    result = call("scaling", "--repeats", "2", "--out", str(path))
    assert result.exit_code == 0, result.output
    return path, result.output


def test_what_is_predicted_is_predicted_before_any_ranks_train_together(measured, stand_ins):
    trained = [(n, "--apart" in words) for n, words in stand_ins.commands if words[0] == "updates"]
    # One alone, two side by side; then both rounds.
    assert trained[:2] == [(1, False), (2, True)]
    assert trained[2:] == [(1, False), (2, True), (2, False), (4, False)] * 2
    assert [n for n, words in stand_ins.commands[:2] if words[0] == "links"] == [2, 4]
    printed = measured[1]
    assert printed.index("predicted for 2 ranks") < printed.index("Weak scaling")


def test_the_prediction_is_that_of_the_model(measured):
    made = records.read(measured[0])
    machine = made["machine"]
    assert machine["cores"] == 2
    assert machine["sharing"] == pytest.approx(SHARING)
    assert machine["bytes_per_s"] == pytest.approx(1e9)
    assert machine["latency_s"] == pytest.approx(1e-4)
    assert machine["gradient_bytes"] == 4 * PARAMETERS
    two = next(p for p in scaling.predicted(made) if p.ranks == 2)
    # Two buckets, a megabyte and the rest, neither hidden where the cores have to send them.
    waiting = 4 * 1e-4 + 4 * PARAMETERS / 1e9
    assert two.step_s == pytest.approx(0.04 * 1.1 + waiting)
    assert f"predicted for 2 ranks: {0.04 / two.step_s:.1%}" in measured[1]


def test_the_record_holds_every_round_and_can_be_shown(measured):
    made = records.read(measured[0])
    assert made["complete"] and made["kind"] == "scaling"
    rows = {(row["mode"], row["ranks"]): row for row in made["rows"]}
    assert set(rows) == {("together", 1), ("apart", 2), ("together", 2), ("together", 4)}
    two = rows["together", 2]
    assert two["rounds_s"] == pytest.approx([0.048, 0.048])
    assert two["samples_per_s"] == pytest.approx(2 * 256 / 0.048)
    shown = call("show", str(measured[0]))
    assert shown.exit_code == 0, shown.output
    line = next(line for line in shown.output.splitlines() if line.split()[:1] == ["2"])
    assert f"{0.04 / 0.048:.1%}" in line
    assert shown.output.strip() in measured[1] or scaling.results(made) in measured[1]


def test_a_rank_that_fails_is_named_without_a_traceback(monkeypatch):
    def fails(*_, **__):
        raise LaunchError("rank 1 of 2 was ended by SIGKILL", 1, -9, [[], []])

    monkeypatch.setattr(scaling, "launch", fails)
    result = call("scaling", "--quick")
    assert result.exit_code == 1
    assert "rank 1 of 2 was ended by SIGKILL" in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("machine", "bytes_per_s"), 0, "machine.bytes_per_s must be a number above 0, but it is 0"),
        (("rows", 0, "ranks"), 0, "rows[0].ranks must be a whole number above 0, but it is 0"),
        (("rows", 2, "ranks"), 3, "rows[2].ranks must be one of"),
        (("rows", 0, "mode"), "apart", "one rank alone"),
    ],
)
def test_a_damaged_record_is_refused(measured, path, value, words):
    made = copy.deepcopy(records.read(measured[0]))
    place = made
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    with pytest.raises(records.RecordError) as error:
        records.validate(made, "r.json")
    assert words in str(error.value)
