"""The instructor's view: what it counts, and what it does with files that are not what they should be."""

import json
import os

import pytest

from snnkit import course
from snnkit.course import class_report, room


def entry(key, status="to do", attempts=0, hints=0, solution=False, failed=None):
    known = {"key": key, "title": f"Title of {key}", "status": status, "attempts": attempts, "hints": hints}
    return known | {"solution": solution, "when": "", "failed": failed or {}}


def hand_in(folder, file, name, quiz=(None, None), notebook="01", **rows):
    """Write an export: rows are n1=("passed", 2, {…}) and so on."""
    exercises = []
    for n in (1, 2):
        status, attempts, failed = rows.get(f"n{n}", ("to do", 0, {}))
        exercises.append(entry(f"{notebook}.{n}", status, attempts, failed=failed))
    notebooks = {notebook: {"exercises": exercises, "quiz": list(quiz)}, "00": {"exercises": [], "quiz": [None]}}
    data = {"kind": "snnkit progress", "format": 1, "kit": "0.1.0", "name": name}
    data |= {"when": "2026-01-02T10:00:00+00:00", "notebooks": notebooks}
    (folder / file).write_text(json.dumps(data), encoding="utf-8")
    return data


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "room"
    place.mkdir()
    hand_in(place, "b.json", "Bob", n1=("failed", 7, {"leaks": 5, "tau": 2}))
    hand_in(place, "a.json", "Ada", quiz=(True, False), n1=("passed", 2, {"leaks": 1}), n2=("passed", 1, {}))
    hand_in(place, "c.json", "Cy", n1=("passed", 3, {"tau": 2}), n2=("failed", 3, {"shape": 3}))
    hand_in(place, "d.json", "Dee")
    return place


def test_who_is_where(folder):
    view = room(folder)
    assert [learner.name for learner in view.learners] == ["Ada", "Bob", "Cy", "Dee"]
    assert view.notebooks == ["01"]
    assert [view.done(learner) for learner in view.learners] == [(2, 2), (0, 2), (1, 2), (0, 2)]
    told = repr(view)
    assert "4 learners, 3 of 8 exercises passed (38%)" in told
    ada, bob = (next(line for line in told.splitlines() if line.startswith(name)) for name in ("Ada", "Bob"))
    assert "████████ 2/2" in ada and "1/2" in ada.split("2/2")[1] and "░░░░░░░░ 0/2" in bob


def test_who_is_stuck_and_at_what(folder):
    hand_in(folder, "g.json", "Gus", n1=("passed", 9, {"leaks": 8}))  # was stuck
    (stuck,) = room(folder).stuck()
    assert (stuck.learner, stuck.entry.key, stuck.entry.attempts, stuck.check) == ("Bob", "01.1", 7, "leaks")
    assert "Bob: 01.1 Title of 01.1, 7 attempts, 0 hints, mostly fails at “leaks”" in repr(room(folder))


def test_what_fails_most_counts_learners_not_attempts(folder):
    first, second = room(folder).hurdles()
    # "leaks" and "tau" stopped two learners each; "leaks" took more attempts.
    assert (first.key, first.check, first.failed, first.tried) == ("01.1", "leaks", 2, 3)
    assert (second.key, second.check, second.failed, second.tried) == ("01.2", "shape", 1, 2)
    assert "01.1 Title of 01.1: 2 of 3 learners failed at “leaks”" in repr(room(folder))
    hand_in(folder, "e.json", "Eve", n1=("failed", 1, {"tau": 1}))
    assert room(folder).hurdles()[0].check == "tau"


def test_namesakes_are_told_apart_by_their_files(folder):
    hand_in(folder, "b2.json", "bob", n1=("failed", 9, {}))
    told = repr(room(folder))
    assert "Bob (b.json)" in told and "bob (b2.json)" in told and "Ada (" not in told


def test_scorecards_are_read_too(folder, monkeypatch, capsys):
    course.attempt("01.1", lambda x, v, tau: v)
    course.scorecard("01").save(folder / "eve.json")
    course.export(folder / "fay.json", name="Fay")
    view = room(folder)
    assert view.refused == ()
    for name in ("eve", "Fay"):
        learner = next(one for one in view.learners if one.name == name)
        row = learner.notebooks["01"].exercises[0]
        assert (row.key, row.status, row.attempts) == ("01.1", "failed", 1)
    assert (
        sum(next(one for one in view.learners if one.name == "Fay").notebooks["01"].exercises[0].failed.values()) == 1
    )


def test_html_holds_the_same_and_trusts_nothing(folder):
    hand_in(folder, "x.json", "<script>alert(1)</script>", n1=("failed", 9, {"<b>bold</b>": 9}))
    (folder / "<i>.json").write_text("[]")
    for page in (room(folder)._repr_html_(), room(folder).html()):
        assert "<script" not in page and "<b>bold" not in page and "<i>.json" not in page
        assert "&lt;script&gt;alert(1)" in page and "&lt;b&gt;bold" in page and "2/2" in page and "Ada" in page
        assert 'scope="row"' in page and 'scope="col"' in page
    assert room(folder).html().startswith("<!doctype html>") and "color-scheme" in room(folder).html()


def test_a_terminal_is_safe_from_names(folder):
    hand_in(folder, "x.json", "\x1b[2J\u202eevil\nname" + "x" * 200, n1=("failed", 9, {"a\x07b": 1}))
    told = repr(room(folder))
    assert all(c.isprintable() or c == "\n" for c in told)
    assert max(len(line) for line in told.splitlines()) < 300


GOOD = {"kind": "snnkit progress", "format": 1, "kit": "0", "name": "N", "when": "2026-01-02T10:00:00+00:00"}
ROW = entry("01.1")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no JSON"),
        (b'{"kind": "snnkit progress", "for', "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "neither an exported progress nor a scorecard"),
        (b'{"format": 1, "exercises": {}, "quiz": {}}', "neither an exported progress nor a scorecard"),
        (b'{"kind": []}', "neither an exported progress nor a scorecard"),
        (GOOD | {"format": 2}, "format must be 1, but it is 2"),
        (GOOD, "damaged: notebooks is missing"),
        (GOOD | {"notebooks": []}, "damaged"),
        (GOOD | {"notebooks": {"../..": {"exercises": [], "quiz": []}}}, "damaged: a notebook without a number"),
        (GOOD | {"notebooks": {"01": {"exercises": {}, "quiz": []}}}, "damaged: exercises that are no list"),
        (GOOD | {"notebooks": {"01": {"exercises": [3], "quiz": []}}}, "damaged"),
        (GOOD | {"notebooks": {"01": {"exercises": [], "quiz": [2]}}}, "damaged: quiz marks are not booleans"),
        (GOOD | {"notebooks": {"01": {"exercises": [ROW | {"status": []}], "quiz": []}}}, "damaged"),
        (GOOD | {"notebooks": {"01": {"exercises": [ROW | {"attempts": -1}], "quiz": []}}}, "damaged"),
        (GOOD | {"notebooks": {"01": {"exercises": [ROW | {"attempts": 10**30}], "quiz": []}}}, "damaged"),
        (GOOD | {"notebooks": {"01": {"exercises": [ROW | {"failed": {"c": "x"}}], "quiz": []}}}, "damaged"),
        (GOOD | {"notebooks": {"01": {"exercises": [ROW | {"failed": [1]}], "quiz": []}}}, "damaged"),
        (GOOD | {"when": "yesterday", "notebooks": {}}, "damaged"),
        (GOOD | {"when": 3, "notebooks": {}}, "damaged"),
    ],
)
def test_damaged_and_foreign_files_are_listed_and_stop_nothing(content, why, folder):
    path = folder / "zz.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    view = room(folder)
    assert len(view.learners) == 4
    ((file, told),) = view.refused
    assert file == "zz.json" and told.startswith(why)
    assert "Not read" in repr(view) and f"zz.json: {told}" in repr(view)
    path.unlink()
    assert "Not read" not in repr(room(folder))


def test_files_that_are_none_are_listed_unopened(folder, monkeypatch):
    (folder / "folder.json").mkdir()
    (folder / "gone.json").symlink_to(folder / "nowhere")
    monkeypatch.setattr(class_report, "LARGEST", 10_000)
    (folder / "large.json").write_text(" " * 10_001)
    expected = {"folder.json": "no regular file", "large.json": "too large"}
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe.json")
        expected["pipe.json"] = "no regular file"
    told = dict(room(folder).refused)
    assert "No such file" in told.pop("gone.json")
    assert told.keys() == expected.keys() and all(told[file].startswith(why) for file, why in expected.items())


def test_an_empty_room_says_how_files_come_into_it(tmp_path):
    assert "course.export(" in repr(room(tmp_path)) and "course.export(" in room(tmp_path)._repr_html_()


def test_many_lines_are_cut(folder):
    for n in range(15):
        hand_in(folder, f"s{n}.json", f"S{n}", n1=("failed", 5 + n, {}))
    told = repr(room(folder))
    assert "… and 6 more" in told and "S14: 01.1" in told and "S0: 01.1" not in told


@pytest.mark.parametrize("bad", ["nowhere", "a.json"])
def test_a_room_is_a_folder(bad, folder):
    with pytest.raises(ValueError, match="folder must be a folder"):
        room(folder / bad)
