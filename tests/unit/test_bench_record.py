"""`snnkit bench record`: compared, measured, one file; and what is noticed in a file that somebody sends."""

import copy
import json
import re
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner

from snnkit import records
from snnkit.device import Precision
from snnkit.lab.bench import neurons, record, suite, training
from snnkit.lab.bench.baselines import Layer
from snnkit.lab.bench.suite import chosen
from snnkit.lab.cli import main
from snnkit.neuron import LIF

CPU = torch.device("cpu")
T4 = {"type": "cuda", "name": "Tesla T4", "compute_capability": "7.5", "memory_bytes": 15835660288}
MEASURED = ("cpu_epyc_1thread", "frameworks_cpu_epyc_1thread", "training_cpu_epyc_1thread", "compare_cpu_epyc_1thread")


def call(*words):
    return CliRunner().invoke(main, ["bench", *words])


def said(result):
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """The file of a dry run and what was printed."""
    patch = pytest.MonkeyPatch()
    patch.setitem(training._MATMUL_SIZE, "cpu", 64)
    patch.setattr(record, "EQUATIONS", ("LIF",))
    patch.chdir(tmp_path_factory.mktemp("here"))
    result = call("record", "--device", "cpu")
    (file,) = record.Path().resolve().iterdir()
    patch.undo()
    assert result.exit_code == 0, result.output
    return file, result.output


def with_rounds(entry):
    """Three rounds of which the median and the percentiles are those of a row that was recorded without."""
    middle = entry["median_s"]
    ends = [(entry[key] - 0.2 * middle) / 0.8 for key in ("p10_s", "p90_s")] if "p10_s" in entry else [middle] * 2
    times = {"p10_s": middle, "p90_s": middle} | entry | {"rounds_s": [ends[0], middle, ends[1]]}
    return entry | times


RECORDED = {name: records.load(name) for name in MEASURED}
SIZES = ((2**12, 8), (2**18, 128), (None, 500), (None, 25), (None, 4))  # of neurons, if they are a layer's; and steps


def contribution(name="cpu_epyc_1thread", device=T4):
    """As if a recorded run, in some of its sizes, were from another device and part of the set."""
    part, device = copy.deepcopy(RECORDED[name]), dict(device)
    for entries in record.LISTS[part["kind"]]:
        some = [entry for entry in part[entries] if (entry.get("neurons"), entry.get("steps", 25)) in SIZES]
        part[entries] = [with_rounds(entry) if "median_s" in entry else entry for entry in some]
        for entry in part[entries]:  # what a record has without times of rounds
            if entries == "matmuls":
                entry["flops_per_s"] = 2 * entry["size"] ** 3 / entry["median_s"]
    part["provenance"]["device"] = device
    row = {"engine": "triton", "equation": "LIF", "dtype": "float32", "spikes_differ": 0.0, "gradient_differs": 1e-7}
    made = {"schema": 1, "kind": "contribution", "complete": True, "provenance": copy.deepcopy(part["provenance"])}
    made |= {"arguments": {"device": "cuda", "minutes": 10, "quick": False}, "rows": [row], "skipped": []}
    return sealed(made | {"records": [{"part": "neurons, large"} | part]})


def sealed(made):
    return made | {"sha256": records.checksum(made)}


def written(folder, made):
    file = folder / "r.json"
    file.write_text(json.dumps(made))
    return file


def test_a_dry_run_is_one_file_that_says_so(dry):
    file, printed = dry
    assert re.fullmatch(r"snnkit-record-cpu-\d{4}-\d\d-\d\d\.json", file.name)
    content = records.read(file)
    assert content["complete"] and [part["part"] for part in content["records"]] == ["neurons", "training"]
    cases = {(row["engine"], row["equation"], row["dtype"]) for row in content["rows"]}
    assert {("eager", "LIF", "bfloat16"), ("eager", "LIF", "float64")} <= cases
    assert all(row["spikes_differ"] == 0 for row in content["rows"] if row["dtype"] == "float64")
    assert record.check(content).startswith("Not compared with the chip: the catalogue has no ")
    assert record.refusal(content) == "a dry run on a device of type 'cpu'"
    for text in (printed, call("show", str(file)).output):
        assert "compared with eager in float64" in text and "inference, float32, N = 1,024" in text
        assert text.splitlines()[-1] == "It is not for sending in: a dry run on a device of type 'cpu'."


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_no_record(tmp_path):
    result = call("record", "--out", str(tmp_path / "r.json"))
    assert result.exit_code == 2 and "PyTorch finds no CUDA device here" in said(result)
    assert "there is --device cpu" in said(result) and not list(tmp_path.iterdir())


def quickly(monkeypatch, folder, **changes):
    """``benchmark`` on the CPU, with some functions of the module in place of its own."""
    monkeypatch.chdir(folder)
    for name, value in changes.items():
        monkeypatch.setattr(record, name, value)
    lines = []
    return record.benchmark(record.Arguments("cpu"), lines.append), "\n".join(lines)


def test_an_engine_that_differs_leaves_no_record(monkeypatch, tmp_path):
    wrong = Layer("eager", "LIF", lambda x: LIF(tau=3.0, engine="eager")(x)[0], "eager")
    right = neurons.engine_layer
    monkeypatch.setattr(record, "engines_of", lambda device, quick: ("eager",))
    monkeypatch.setattr(neurons, "engine_layer", lambda name, eq: right(name, eq) if eq == "LIF" else wrong)
    with pytest.raises(ArithmeticError, match=r"there is no record, .* eager, Leaky, float64: .* of its spikes differ"):
        quickly(monkeypatch, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_part_without_time_or_with_an_error_is_named(monkeypatch, tmp_path):
    def no_comparison(device, engines):
        return contribution()["rows"], []

    now = iter([0.0])
    late = SimpleNamespace(monotonic=lambda: next(now, 1e9))
    content, printed = quickly(monkeypatch, tmp_path, compared=no_comparison, time=late)
    skips = [(skip["contestant"], skip["reason"]) for skip in content["skipped"]]
    assert skips == [("neurons", "no time was left"), ("training", "no time was left")]
    assert content["complete"] and not content["records"] and "not measured: no time was left" in printed

    def run(*_, **__):
        raise RuntimeError("a defect\nof two lines")

    broken = SimpleNamespace(Arguments=neurons.Arguments, SUITE=SimpleNamespace(run=run))
    some = [record.Part("a", "neurons", 1, {}), record.Part("b", "neurons", 1, {})]
    changes = {"parts": lambda *_: some, "SUITES": {"neurons": broken}, "time": suite.time}
    content, _ = quickly(monkeypatch, tmp_path, **changes)
    assert [skip["reason"] for skip in content["skipped"]] == ["RuntimeError: a defect"] * 2
    assert records.read(next(iter(tmp_path.iterdir())))["skipped"] == content["skipped"]


def test_an_error_in_a_case_keeps_the_others_and_the_file_is_written_after_each(monkeypatch, tmp_path):
    seen, race = [], neurons.Case.measure

    def measure(case, repeats):
        files = list(tmp_path.iterdir())
        seen.append([len(part["rows"]) for file in files for part in records.read(file)["records"]])
        if case.mode == "training":
            raise RuntimeError("a defect")
        return race(case, repeats)

    monkeypatch.setattr(neurons.Case, "measure", measure)
    size = {"neurons": (8,), "steps": (2,), "engines": ("eager",), "dtypes": ("float32", "bfloat16"), "repeats": 3}
    some = [record.Part(name, "neurons", 1, size | {"peers": False}) for name in "ab"]
    content, printed = quickly(monkeypatch, tmp_path, parts=lambda *_: some, compared=lambda *_: ([], []))
    assert seen == [[], [1], [1], [2], [2], [2, 1], [2, 1], [2, 2]]
    assert [len(part["rows"]) for part in content["records"]] == [2, 2] and content["complete"]
    assert [skip["reason"] for skip in content["skipped"]] == ["RuntimeError: a defect"] * 2
    assert "not whole: RuntimeError: a defect" in printed and "in measure" in printed  # where it was raised


def test_what_was_measured_nowhere_is_no_contribution():
    made = contribution()
    assert record.refusal(made) == "" and record.refusal(made | {"records": []}) == "nothing was measured"


def test_no_case_begins_after_the_time_of_a_benchmark():
    arguments = neurons.Arguments("cpu", neurons=(8,), steps=(2,), engines=("eager",), peers=False, repeats=3)
    lines = []
    content = neurons.SUITE.run(arguments, lines.append, seconds=-1.0)
    (skip,) = content["skipped"]
    assert not content["rows"] and skip["neurons"] == 8 and skip["reason"].startswith("no time was left for this case")
    assert "no time was left for this case and those after it" in lines[-1]


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_the_set_has_options_that_there_are(monkeypatch, low):
    cuda = torch.device("cuda")
    monkeypatch.setattr(Precision, "choose", lambda device, amp: Precision(CPU, low))
    todo = record.parts(cuda, False)
    assert todo[0].suite == "neurons" and {part.suite for part in todo} == set(record.SUITES)
    for part in [*todo, *record.parts(cuda, True)]:
        room = record.SUITES[part.suite]
        arguments = chosen(room.Arguments, "cuda", **part.options)
        assert all(getattr(arguments, key) == value for key, value in part.options.items())
        assert low == torch.bfloat16 or "bfloat16" not in getattr(arguments, "dtypes", ())


@pytest.mark.parametrize("name", MEASURED)
def test_figures_that_were_measured_are_taken(tmp_path, name):
    """Bytes, floors and rates of recorded runs are those that follow from sizes and times; all are slower than a T4."""
    file = written(tmp_path, contribution(name))
    assert record.check(records.read(file)) == "No time is below what NVIDIA T4 allows (320 GB/s)."
    result = call("show", str(file))
    assert result.exit_code == 0 and "To send it in, add the file as it is to snnkit/records/contributed/" in said(
        result
    )


def of(made, path):
    for key in path.split("."):
        made = made[int(key) if key.isdigit() else key]
    return made


def changed(path, value):
    made = contribution()
    place, _, key = path.rpartition(".")
    (of(made, place) if place else made)[key] = value
    return made


@pytest.mark.parametrize(
    "path", ["records.0.rows.0.median_s", "provenance.device.name", "arguments.minutes", "skipped"]
)
def test_a_record_that_is_edited_by_hand_is_refused(tmp_path, path):
    value = {"minutes": 9, "name": "NVIDIA H100", "skipped": [{"reason": "none"}]}.get(path.rpartition(".")[2], 1e-3)
    file = written(tmp_path, changed(path, value))
    with pytest.raises(records.RecordError, match=r"r\.json was changed after it was written, as its SHA-256"):
        records.read(file)
    result = call("show", str(file))
    assert result.exit_code == 1 and "as `snnkit bench record` wrote it" in said(result)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("schema", 2, "schema of .*r.json must be 1, but it is 2"),
        ("records.0.schema", 0, "schema of .*records.0. must be 1, but it is 0"),
        ("records.0.kind", "contribution", "kind must be one of 'neurons', .* but it is 'contribution'"),
        ("records.0.rows.3.median_s", -1e-3, "must be a number above 0, but it is -0.001"),
        ("records.0.rows.3.median_s", float("nan"), "must be a number above 0, but it is nan"),
        ("records.0.rows.3.note", float("nan"), "must hold finite numbers"),
        ("records.0.rows.3.floor_bytes", 10**400, "must be a whole number, but it is an int of"),
        ("records.0.rows.3.neurons", "many", "neurons must be a whole number above 0, but it is 'many'"),
        ("arguments.quick", None, "quick must be true or false, but it is None"),
    ],
)
def test_what_no_record_may_hold(tmp_path, path, value, says):
    made = changed(path, value)
    file = written(tmp_path, made)
    with pytest.raises(records.RecordError, match=says):
        records.read(file)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("records.0.rows.3.median_s", 1.0, r"rows\[3\].median_s must be .*, as other figures say, but it is 1.0"),
        ("records.0.rows.3.p90_s", 1.0, r"rows\[3\].p90_s must be"),
        ("records.0.rows.3.rounds_s", [1.0, 2.0], "must hold at least 3 numbers, but it holds 2"),
        ("records.0.rows.3.rounds_s", [1.0, 2.0, float("1e300")], "each of .*rounds_s must be at most"),
        ("records.0.rows.3.rounds_s", "no", "rounds_s must be a list of numbers, but it is 'no'"),
        ("records.0.rows.3.floor_bytes", 1, "floor_bytes must be 262144, as other figures say, but it is 1"),
        ("records.0.rows.3.floor_s", 1.0, "floor_s must be"),
        ("records.0.rows.3.over_floor", 1.0, "over_floor must be"),
        ("records.0.rows.3.steps", 16, "floor_bytes must be 524288|must have one measurement that sets its scale"),
        ("records.0.rows.3.dtype", "float3", "must have one measurement that sets its scale, but it has 0"),
        ("records.0.copies.0.bytes", 1, r"copies\[0\].bytes must be 262144"),
        ("records.0.copies", [], "must have one measurement that sets its scale, but it has 0"),
        ("records.0.provenance.device.name", "NVIDIA H100", r"records\[0\].provenance.device must be"),
        ("provenance.versions.torch", "new", "Invalid version: 'new'"),
        ("provenance.date", "today", "'today'"),
        ("rows.0.spikes_differ", 0.5, "spikes_differ of triton must be at most 0.001, but it is 0.5"),
        ("rows.0.dtype", "int8", "rows.dtype must be one of"),
    ],
)
def test_figures_that_do_not_fit_each_other_are_named(path, value, says):
    with pytest.raises(records.RecordError, match=says):
        record.check(sealed(changed(path, value)))


def scaled(made, factor):
    """All times of the part of a record times a factor, so that they still fit each other."""
    (part,) = made["records"]
    for entries in ("rows", "copies"):
        for entry in part[entries]:
            for key in ("median_s", "p10_s", "p90_s", "floor_s"):
                if key in entry:
                    entry[key] *= factor
            entry["rounds_s"] = [seconds * factor for seconds in entry["rounds_s"]]
            if "bytes_per_s" in entry:
                entry["bytes_per_s"] /= factor
    return sealed(made)


def test_no_time_is_below_the_floor_of_the_memory():
    """2^18 neurons, 128 steps, float32: 268 MB in 0.8 ms by 320 GB/s, of which the cache may hold twice 4 MB."""
    fast = scaled(contribution(), 1e-3)
    with pytest.raises(records.RecordError, match=r"median_s, on NVIDIA T4, must be at least \d\S+, but it is"):
        record.check(fast)
    (row,) = (
        row
        for row in fast["records"][0]["rows"]
        if (row["neurons"], row["steps"], row["mode"], row["dtype"], row["contestant"])
        == (2**18, 128, "inference", "float32", "cpp")
        and row["equation"] == "LIF"
    )
    least = record._least_seconds(fast["records"][0], "rows", row, record.chips.get("T4"))
    assert least == pytest.approx((2**18 * 128 * 8 - 2 * 2**22) / 320e9)
    unknown = {"type": "cuda", "name": "A GPU\x1b[2J of the future"}
    verdict = record.check(scaled(contribution(device=unknown), 1e-3))
    assert (
        verdict == "Not compared with the chip: the catalogue has no A GPU\N{REPLACEMENT CHARACTER}[2J of the future."
    )


def test_no_product_is_faster_than_the_chip():
    made = contribution("training_cpu_epyc_1thread")
    matmul = made["records"][0]["matmuls"][0]
    matmul |= {"size": 2**14}
    matmul["flops_per_s"] = 2 * 2**42 / matmul["median_s"]
    made["records"][0]["rows"] = []
    with pytest.raises(records.RecordError, match=r"matmuls\[0\].median_s, on NVIDIA T4, must be at least 0.135"):
        record.check(made)


@pytest.mark.parametrize(
    ("name", "memory", "chip"),
    [
        ("Tesla T4", 15.8e9, "T4"),
        ("NVIDIA L4", 23.6e9, "L4"),
        ("NVIDIA L40S", 47e9, None),
        ("NVIDIA A100-SXM4-40GB", 42.4e9, "A100"),
        ("NVIDIA A100-SXM4-80GB", 85.1e9, "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", 85.1e9, "A100 80GB"),
        ("NVIDIA A100-PG509-200", 85.1e9, None),
        ("NVIDIA H100 80GB HBM3", 85e9, "H100"),
        ("NVIDIA H100 NVL", 100e9, None),
        ("NVIDIA H200", 150.1e9, "H200"),
        ("Tesla V100S-PCIE-32GB", 34e9, None),
        ("NVIDIA GeForce RTX 2080 Ti", 11.5e9, "RTX 2080 Ti"),
        ("AMD EPYC", 0, None),
    ],
)
def test_a_device_is_the_chip_of_its_name_and_its_memory(name, memory, chip):
    found = record.chip_of({"name": name, "memory_bytes": memory})
    assert (found.name if found else None) == chip


@pytest.mark.parametrize("content", [b"no JSON", b"[" * 10**6, b'{"schema": 1, "kind": "contribution"}'])
def test_what_is_no_record_at_all(tmp_path, content):
    file = tmp_path / "r.json"
    file.write_bytes(content)
    result = call("show", str(file))
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit) and "r.json" in said(result)


def test_a_large_file_is_not_read(tmp_path):
    file = tmp_path / "r.json"
    with open(file, "wb") as sparse:
        sparse.truncate(10**8)
    result = call("show", str(file))
    assert result.exit_code == 1 and "is not a record: too large: 100 MB" in said(result)


def test_what_is_no_contribution_though_nothing_is_wrong():
    made = contribution()
    assert record.refusal(made) == ""
    assert record.refusal(made | {"complete": False}) == "it was interrupted"
    assert record.refusal(made | {"arguments": {"quick": True}}) == "a dry run in small sizes"


def test_records_are_listed_those_of_users_apart(monkeypatch, tmp_path):
    listed = call("show").output
    assert [name for name in records.names() if name not in listed] == []
    monkeypatch.setattr(records, "files", lambda package: tmp_path)
    (tmp_path / "contributed").mkdir()
    assert "not measured by us: 0" in call("show", "--contributed").output
    name = "contributed/snnkit-record-tesla-t4-2027-01-31"
    written(tmp_path, contribution()).rename(tmp_path / f"{name}.json")
    result = call("show", "--contributed")
    assert result.exit_code == 0, result.output
    assert re.search(
        rf"{name}\s+contribution\s+Tesla T4\s+\d\S+\s+No time is below what NVIDIA T4 allows", result.output
    )
    assert call("show", name).exit_code == 0
    assert call("show", name, "--contributed").exit_code == 2
    written(tmp_path, contribution() | {"sha256": "0"}).rename(tmp_path / f"{name}.json")
    assert "was changed after it was written" in said(call("show", "--contributed"))


def test_what_users_sent_in_is_as_it_was_written_and_possible():
    for name in records.contributed():
        content = records.load(name)
        assert record.check(content, name) and not record.refusal(content), name
