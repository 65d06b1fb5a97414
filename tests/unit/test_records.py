"""Records: written whole, refused when damaged or without provenance, and some come with the kit."""

import copy
import json
import os
import shutil
import subprocess

import pytest

from snnkit import records
from snnkit.lab.bench import tables
from snnkit.measure import machine

PUBLISHED = "spikingjelly_rtx2080ti"

CASE = {"mode": "training", "dtype": "float32", "neurons": 8, "steps": 2}
WHO = {"contestant": "block", "library": "snnkit", "engine": "block", "equation": "LIF", "out_dtype": "float32"}
SECONDS = ("first_s", "median_s", "p10_s", "p90_s", "host_s", "floor_s", "spikes_differ", "gradient_differs")
COUNTS = ("calls", "floor_bytes", "held_bytes", "held_x_bytes", "compared_neurons")
MEASURED = {
    "schema": 1,
    "kind": "neurons",
    "provenance": {
        "date": "2026-01-01T00:00:00+00:00",
        "device": {"type": "cuda", "name": "Some GPU", "compute_capability": "9.0", "driver": "1.2"},
        "cpu": "Some CPU",
        "threads": 1,
        "versions": {"python": "3.12", "torch": "2.13", "snnkit": "0.1"},
        "commit": {"id": "0123456789abcdef", "dirty": True},
    },
    "arguments": {},
    "copies": [CASE | {"bytes": 128, "bytes_per_s": 1e9, "median_s": 128e-9}],
    "skipped": [],
    "rows": [CASE | WHO | dict.fromkeys(SECONDS, 1e-3) | dict.fromkeys(COUNTS, 64) | {"over_floor": 2.0}],
}


def changed(path, value):
    """MEASURED with another value at a dotted path; None takes it away."""
    made = copy.deepcopy(MEASURED)
    *way, last = path.split(".")
    place = made
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


def test_what_is_written_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = records.write("~/new/r.json", MEASURED)
    assert path == tmp_path / "new" / "r.json"
    assert records.read("~/new/r.json") == MEASURED
    assert [p.name for p in path.parent.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("schema", None, "has no schema"),
        ("schema", 2, "schema of .* must be 1, but it is 2"),
        ("kind", "other", "but it is 'other'"),
        ("provenance.commit", {"id": "0123"}, "provenance.commit.dirty must be true or false, but it is missing"),
        ("provenance.device.compute_capability", 9.0, "compute_capability must be a text, but it is 9.0"),
        ("provenance", None, "does not say where its numbers come from"),
        ("rows", None, "rows must be a list, but it is missing"),
        ("rows.0.median_s", None, r"rows\[0\].median_s must be a number above 0, but it is missing"),
        ("rows.0.median_s", float("nan"), r"rows\[0\].median_s must be .* is nan"),
        ("rows.0.floor_bytes", 10**400, r"rows\[0\].floor_bytes must be a whole number, but it is an int of"),
        ("rows.0", [1], r"rows\[0\] must be an object"),
        ("skipped", [{"contestant": "a"}], r"skipped\[0\].reason must be a text, but it is missing"),
    ],
)
def test_what_a_reader_needs(tmp_path, path, value, says):
    made = changed(path, value) if path != "rows.0" else MEASURED | {"rows": value}
    with pytest.raises(records.RecordError, match=says):
        records.validate(made, "r.json")
    file = tmp_path / "r.json"
    with pytest.raises(records.RecordError):
        records.write(file, made)
    assert not file.exists()
    file.write_text(json.dumps(made))
    with pytest.raises(records.RecordError, match=r"r\.json"):
        records.read(file)


@pytest.mark.parametrize("data", [b"", b'{"schema": 1', b"\xff\xfe\x00", b"[]", b"3", b"[" * 100_000])
def test_a_damaged_file_is_named(tmp_path, data):
    file = tmp_path / "r.json"
    file.write_bytes(data)
    with pytest.raises(records.RecordError, match=r"r\.json is not a record"):
        records.read(file)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(records.RecordError, match=r"r\.json is not a record: no regular file"):
        records.read(file)


def test_what_a_reader_does_not_need(tmp_path):
    """Contestants may fail without a word, outside a commit, on a device that tells no memory."""
    made = changed("provenance.commit", None)
    made["rows"][0]["peak_bytes"] = None
    made["rows"].append(made["rows"][0] | {"peak_bytes": 7})
    made["skipped"] = [{"contestant": "a", "reason": ""}, {"contestant": "b", "steps": 2, "reason": "slow"}]
    back = records.read(records.write(tmp_path / "r.json", made))
    assert "not timed: b (steps 2): slow" in tables(back)


@pytest.mark.parametrize("kind", ["training", "demo"])
def test_what_the_other_tables_need(kind):
    case = {"net": "mlp", "equation": "IF", "dtype": "float32", "width": 8, "steps": 2, "batch": 4}
    who = {"contestant": "snnkit", "library": "snnkit", "model": "mlp", "mode": "training", "device": "cpu"}
    numbers = "samples_per_s first_s ready_s median_s p10_s p90_s floor_s over_floor spikes_differ update_differs"
    row = case | who | dict.fromkeys(numbers.split(), 1.0) | {"floor_flops": 3, "parameters": 5, "default": False}
    made = MEASURED | {"kind": kind, "matmuls": [], "rows": [row], "skipped": [case | who | {"reason": "slow"}]}
    records.validate(made, "r.json")
    assert "mlp" in tables(made) and ": slow" in tables(made)
    for name in {"training": ("default", "batch"), "demo": ("steps", "device")}[kind]:
        less = {key: value for key, value in row.items() if key != name}
        with pytest.raises(records.RecordError, match=rf"rows\[0\]\.{name} must be .*, but it is missing"):
            records.validate(made | {"rows": [less]}, "r.json")


@pytest.mark.parametrize("name", records.names())
def test_each_record_of_the_kit_is_complete(name):
    loaded = records.load(name)
    assert loaded["rows"] and loaded.get("complete", True)


def test_the_published_curve_is_as_published():
    """In milliseconds, rounded. That the torch backend's backward is quadratic in T is no slip."""
    loaded = records.load(PUBLISHED)
    ms = {(r["contestant"], r["mode"], r["steps"]): round(r["seconds"] * 1e3, 3) for r in loaded["rows"]}
    assert len(ms) == 20 and {r["neurons"] for r in loaded["rows"]} == {2**20}
    torch_backend, cupy = "SpikingJelly (torch backend)", "SpikingJelly (CuPy backend)"
    assert [ms[cupy, "inference", t] for t in (8, 16, 32, 64, 128)] == [0.817, 1.6, 3.257, 6.828, 14.054]
    assert [ms[cupy, "training", t] for t in (8, 16, 32, 64, 128)] == [1.65, 3.21, 6.417, 13.074, 26.715]
    assert [ms[torch_backend, "inference", t] for t in (8, 32, 128)] == [1.918, 7.607, 30.345]
    assert [ms[torch_backend, "training", t] for t in (8, 32, 128)] == [8.132, 66.346, 827.606]
    assert loaded["provenance"]["url"].startswith("https://github.com/fangwei123456/spikingjelly/blob/")


def test_the_commit_and_whether_files_differ_from_it(tmp_path):
    def git(*words):
        identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert machine.commit(package) is None
    git("init", "-q")
    assert machine.commit(package) is None  # nothing committed
    git("add", "package/__init__.py")
    git("commit", "-q", "-m", "one")
    clean = machine.commit(package)
    assert clean is not None and len(clean["id"]) == 40 and clean["dirty"] is False
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "__init__.py").write_text("")
    assert machine.commit(strange) is None  # in a repository, but none of its files
    shutil.rmtree(strange)
    (package / "r.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    assert machine.commit(package) == clean
    (package / "__init__.py").write_text("x = 1")
    assert machine.commit(package) == clean | {"dirty": True}
