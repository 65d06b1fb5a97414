"""Records: written whole, refused when damaged or without provenance, and some come with the kit."""

import copy
import json
import shutil
import subprocess

import pytest

from snnkit import records
from snnkit.bench import provenance, record

PUBLISHED = "spikingjelly_rtx2080ti"

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
    "copies": [{"mode": "training", "dtype": "float32", "neurons": 8, "steps": 2, "bytes": 128, "bytes_per_s": 1e9}],
    "skipped": [],
    "rows": [
        {
            "contestant": "block",
            "library": "snnkit",
            "engine": "block",
            "equation": "LIF",
            "mode": "training",
            "dtype": "float32",
            "out_dtype": "float32",
            "neurons": 8,
            "steps": 2,
            "first_s": 1.0,
            "median_s": 2e-3,
            "p10_s": 1e-3,
            "p90_s": 3e-3,
            "host_s": 2e-3,
            "calls": 1,
            "floor_bytes": 320,
            "floor_s": 1e-3,
            "over_floor": 2.0,
            "held_bytes": 64,
            "held_x_bytes": 64,
            "compared_neurons": 8,
            "spikes_differ": 0.0,
            "gradient_differs": 0.0,
        }
    ],
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


def test_what_is_written_is_read(tmp_path):
    path = record.write(tmp_path / "new" / "r.json", MEASURED)
    assert record.read(path) == MEASURED
    assert [p.name for p in path.parent.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("schema", None, "says no schema"),
        ("schema", 2, "has schema 2, but this snnkit reads schema 1"),
        ("kind", "other", "but it is 'other'"),
        ("provenance", None, "does not say where its numbers come from"),
        ("provenance.date", None, "provenance.date is missing, but it must be a text"),
        ("provenance.date", "", "provenance.date is ''"),
        ("provenance.device", {"type": "cuda"}, "provenance.device.name is missing"),
        ("provenance.versions.torch", None, "provenance.versions.torch is missing"),
        ("provenance.threads", True, "provenance.threads is True, but it must be a whole number"),
        ("rows", None, "rows is missing, but it must be a list"),
        ("rows.0.median_s", None, r"rows\[0\].median_s is missing, but it must be a number"),
        ("rows.0.median_s", "fast", r"rows\[0\].median_s is 'fast'"),
        ("rows.0.median_s", float("nan"), r"rows\[0\].median_s is nan"),
        ("rows.0.median_s", -1.0, r"rows\[0\].median_s is -1.0"),
        ("rows.0", [1], r"rows\[0\] must be an object|says no"),
        ("copies.0.bytes_per_s", None, r"copies\[0\].bytes_per_s is missing"),
        ("skipped", {}, "skipped is {}, but it must be a list"),
    ],
)
def test_what_a_reader_needs(tmp_path, path, value, says):
    made = changed(path, value) if path != "rows.0" else MEASURED | {"rows": value}
    with pytest.raises(record.RecordError, match=says):
        record.validate(made, "r.json")
    file = tmp_path / "r.json"
    with pytest.raises(record.RecordError):
        record.write(file, made)
    assert not file.exists()
    file.write_text(json.dumps(made))
    with pytest.raises(record.RecordError, match=r"r\.json"):
        record.read(file)


@pytest.mark.parametrize("data", [b"", b'{"schema": 1', b"\xff\xfe\x00", b"[]", b"3"])
def test_a_damaged_file_is_named(tmp_path, data):
    file = tmp_path / "r.json"
    file.write_bytes(data)
    with pytest.raises(record.RecordError, match=r"r\.json is no record"):
        record.read(file)


def test_an_old_record_survives_a_failure_to_write(tmp_path):
    file = record.write(tmp_path / "r.json", MEASURED)
    with pytest.raises(record.RecordError):
        record.write(file, changed("provenance", None))
    assert record.read(file) == MEASURED


@pytest.mark.parametrize("name", records.names())
def test_each_record_of_the_kit_is_complete(name):
    loaded = records.load(name)
    assert loaded["rows"] and loaded["kind"] in ("neurons", "training", "demo", "recipe", "published")
    assert loaded.get("complete", True)


def test_records_are_found_by_kind():
    assert PUBLISHED in records.names() and PUBLISHED in records.names("published")
    assert PUBLISHED not in records.names("neurons")


def test_an_unknown_name():
    with pytest.raises(ValueError, match=f"name must be one of .*'{PUBLISHED}'.*, but it is 'mine'"):
        records.load("mine")


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
    assert provenance.commit(package) is None
    git("init", "-q")
    assert provenance.commit(package) is None  # nothing committed
    git("add", "package/__init__.py")
    git("commit", "-q", "-m", "one")
    clean = provenance.commit(package)
    assert clean is not None and len(clean["id"]) == 40 and clean["dirty"] is False
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "__init__.py").write_text("")
    assert provenance.commit(strange) is None  # in a repository, but none of its files
    shutil.rmtree(strange)
    (package / "r.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    assert provenance.commit(package) == clean
    (package / "__init__.py").write_text("x = 1")
    assert provenance.commit(package) == clean | {"dirty": True}
