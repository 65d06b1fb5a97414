"""The instructor's view: what it counts, what it does with files that are not what they should be, the command."""

import json
import os

import pytest
from click.testing import CliRunner

from snnkit import course
from snnkit.cli import main
from snnkit.course import room


def entry(key, status="to do", attempts=0, failed=None):
    known = {"key": key, "title": f"Title of {key}", "status": status, "attempts": attempts, "hints": 0}
    return known | {"solution": False, "when": "", "failed": failed or {}}


def hand_in(folder, file, name, quiz=(None, None), made=(), **rows):
    """Write an export: rows are n1=("passed", 2, {…}) and so on, ``made`` predictions as (sure, right)."""
    exercises = [entry(f"01.{n}", *rows.get(f"n{n}", ())) for n in (1, 2)]
    notebooks = {"01": {"exercises": exercises, "quiz": list(quiz)}, "00": {"exercises": [], "quiz": [None]}}
    if made:  # older files have none
        predictions = [{"key": "01.a", "sure": sure, "right": right} for sure, right in made]
        notebooks["01"]["predictions"] = predictions
    (folder / file).write_text(json.dumps(GOOD | {"name": name, "notebooks": notebooks}), encoding="utf-8")


GOOD = {"kind": "snnkit progress", "format": 1, "kit": "0", "name": "N", "when": "2026-01-02T10:00:00+00:00"}
ROW = entry("01.1")


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
    assert [learner.name for learner in view.learners] == ["Ada", "Bob", "Cy", "Dee"] and view.notebooks == ["01"]
    assert [learner.passed("01") for learner in view.learners] == [(2, 2), (0, 2), (1, 2), (0, 2)]
    text = repr(view)
    assert "4 learners, 3 of 8 exercises passed (38%)" in text
    ada, bob = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("Ada", "Bob"))
    assert "████████ 2/2" in ada and "1/2" in ada.split("2/2")[1] and "░░░░░░░░ 0/2" in bob


def test_who_is_stuck_and_what_fails_most(folder):
    hand_in(folder, "g.json", "Gus", n1=("passed", 9, {"leaks": 8}))  # was stuck
    assert len(room(folder).stuck()) == 1 and len(room(folder).hurdles()) == 2  # learners are counted, not attempts
    text = repr(room(folder))
    assert "Bob: 01.1 Title of 01.1, 7 attempts, 0 hints, mostly fails at “leaks”" in text
    assert "01.1 Title of 01.1: 3 of 4 learners failed at “leaks”" in text
    assert "01.2 Title of 01.2: 1 of 2 learners failed at “shape”" in text
    for n in range(15):
        hand_in(folder, f"s{n}.json", f"S{n}", n1=("failed", 5 + n, {}))
    text = repr(room(folder))
    assert "… and 6 more" in text and "S14: 01.1" in text and "S0: 01.1" not in text


def test_how_sure_learners_were_and_how_right(folder):
    hand_in(folder, "p.json", "Pat", made=[(90, True), (90, False), (50, None)])
    hand_in(folder, "q.json", "Quy", made=[(90, True), (70, False)])
    text = repr(room(folder))
    assert "70 % sure: right 0 of 1 times" in text and "90 % sure: right 2 of 3 times" in text and "50 %" not in text
    assert "1/2" in next(line for line in text.splitlines() if line.startswith("Pat"))


def test_namesakes_are_told_apart_by_their_files(folder):
    hand_in(folder, "b2.json", "bob", n1=("failed", 9, {}))
    text = repr(room(folder))
    assert "Bob (b.json)" in text and "bob (b2.json)" in text and "Ada (" not in text


def test_nothing_in_a_file_is_trusted(folder):
    hand_in(folder, "x.json", "<script>alert(1)</script>", n1=("failed", 9, {"<b>bold</b>": 9}))
    hand_in(folder, "y.json", "\x1b[2J\u202eevil\nname" + "x" * 200, n1=("failed", 9, {"a\x07b": 1}))
    (folder / "<i>.json").write_text("[]")
    page, text = room(folder)._repr_html_(), repr(room(folder))
    assert "<script" not in page and "<b>bold" not in page and "<i>.json" not in page
    assert "&lt;script&gt;alert(1)" in page and "&lt;b&gt;bold" in page and "2/2" in page and "Ada" in page
    assert all(c.isprintable() or c == "\n" for c in text) and max(map(len, text.splitlines())) < 300


def work(**changes):
    return GOOD | {"notebooks": {"01": {"exercises": [], "quiz": []} | changes}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"kind": "snnkit progress", "for', "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no exported progress"),
        (b'{"kind": []}', "no exported progress"),
        (GOOD | {"format": 2}, "no exported progress of format 1"),
        (GOOD, "damaged: 'notebooks'"),
        (work(exercises={"a": 1}), "damaged"),
        (work(quiz=[2]), "damaged: quiz marks are not booleans"),
        (work(predictions=[{"sure": 80, "right": True}]), "damaged"),
        (work(exercises=[ROW | {"status": []}]), "damaged"),
        (work(exercises=[ROW | {"attempts": 10**30}]), "damaged"),
        (work(exercises=[ROW | {"failed": {"c": "x"}}]), "damaged"),
        (GOOD | {"when": "yesterday", "notebooks": {}}, "damaged"),
        (b" " * 2_000_000, "too large"),
    ],
)
def test_damaged_and_foreign_files_are_listed_and_stop_nothing(content, why, folder):
    (folder / "zz.json").write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    os.mkfifo(folder / "pipe.json")
    (folder / "gone.json").symlink_to(folder / "nowhere")
    view = room(folder)
    assert len(view.learners) == 4
    found = dict(view.refused)
    assert found["zz.json"].startswith(why) and found["pipe.json"] == "no regular file"
    assert "No such file" in found["gone.json"]
    assert "Not read" in repr(view) and f"zz.json: {found['zz.json']}" in repr(view)


def test_a_room_is_a_folder_and_an_empty_one_says_how_files_come_into_it(folder, tmp_path):
    assert "course.export(" in repr(room(tmp_path)) and "course.export(" in room(tmp_path)._repr_html_()
    for bad in ("nowhere", "a.json"):
        with pytest.raises(ValueError, match="folder must be a folder"):
            room(folder / bad)


def run(*words):
    return CliRunner().invoke(main, ["course", *map(str, words)])


def test_the_command_exports_and_shows_the_board(tmp_path):
    course.attempt("01.1", lambda x, v, tau: v)
    done = run("export", tmp_path / "room" / "ada.json", "--name", "Ada")
    assert done.exit_code == 0 and "ada.json" in done.output
    done = run("board", tmp_path / "room", "--html", tmp_path / "page.html")
    assert done.exit_code == 0 and "1 learner, 0 of 3 exercises passed (0%)" in done.output and "page: " in done.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Ada" in page and page.startswith("<!doctype html>")
