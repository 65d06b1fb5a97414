"""The instructor's view: what it counts, what it does with files that are not what they should be, the command."""

import json
import os
import re
from collections import Counter

import pytest
from click.testing import CliRunner

from snnkit.lab import course
from snnkit.lab.cli import main
from snnkit.lab.course import class_report, room
from snnkit.lab.course.exercise import exercises, find, questions


def entry(key, status="to do", attempts=0, failed=None):
    known = {"key": key, "title": f"Title of {key}", "status": status, "attempts": attempts, "hints": 0}
    return known | {"solution": False, "when": "", "failed": failed or {}}


def hand_in(folder, file, name, quiz=(None, None), made=(), when="2026-01-02T10:00:00+00:00", **rows):
    """Write an export: rows are n1=("passed", 2, {…}) and so on, ``made`` predictions as (sure, right)."""
    exercises = [entry(f"01.{n}", *rows.get(f"n{n}", ())) for n in (1, 2)]  # of an older kit: there are three now
    notebooks = {
        "01": {"exercises": exercises, "quiz": list(quiz)},
        "00": {"exercises": [], "quiz": [None]},
    }  # format 1
    if made:  # older files have none
        predictions = [
            {"key": f"01.{k}", "sure": sure, "right": right} for k, (sure, right) in zip("abc", made, strict=False)
        ]
        notebooks["01"]["predictions"] = predictions
    (folder / file).write_text(
        json.dumps(GOOD | {"name": name, "when": when, "notebooks": notebooks}), encoding="utf-8"
    )


GOOD = {"kind": "snnkit progress", "format": 1, "kit": "0", "name": "N", "when": "2026-01-02T10:00:00+00:00"}
FIRST = "first_spiking_neuron"
TOTAL = sum(not one.optional for one in exercises(FIRST))
ROW = entry("first_spiking_neuron.1")
ONE, TWO = (find(key).title for key in ("first_spiking_neuron.1", "first_spiking_neuron.2"))  # not those of the files


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
    assert [learner.name for learner in view.learners] == ["Ada", "Bob", "Cy", "Dee"] and view.notebooks == [FIRST]
    assert [learner.passed(FIRST) for learner in view.learners] == [(2, TOTAL), (0, TOTAL), (1, TOTAL), (0, TOTAL)]
    text = repr(view)
    assert f"4 learners, 3 of {4 * TOTAL} exercises passed" in text
    ada, bob = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("Ada", "Bob"))
    assert f"█ 2/{TOTAL}" in ada or f"░ 2/{TOTAL}" in ada
    assert "1/2" in ada.split(f"2/{TOTAL}")[1] and f"░░░░░░░░ 0/{TOTAL}" in bob


def test_who_is_stuck_and_what_fails_most(folder):
    hand_in(folder, "g.json", "Gus", n1=("passed", 9, {"leaks": 8}))  # was stuck
    assert len(room(folder).stuck()) == 1 and len(room(folder).hurdles()) == 2  # learners are counted, not attempts
    text = repr(room(folder))
    assert f"Bob: 01.1 {ONE}, 7 attempts, 0 hints, mostly fails at “leaks”" in text
    assert f"01.1 {ONE}: 3 of 4 learners failed at “leaks”" in text
    assert f"01.2 {TWO}: 1 of 2 learners failed at “shape”" in text
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


def test_the_latest_file_of_a_name_counts_and_the_others_are_named(folder):
    again = {"n1": ("passed", 8, {"leaks": 6})}
    hand_in(folder, "b (1).json", " BOB ", when="2026-01-03T10:00:00+01:00", **again)
    hand_in(folder, "cy.json", "Cy", when="2026-01-04T10:00:00+00:00", n1=("passed", 1, {}))  # another Cy
    hand_in(folder, "z.json", "Ada", n1=("passed", 3, {}), n2=("passed", 1, {}))  # in the same second
    view = room(folder)
    assert [one.file for one in view.learners] == ["z.json", "b (1).json", "cy.json", "d.json"]
    assert dict(view.earlier) == {
        "a.json": "Ada has a later one, z.json",
        "b.json": " BOB  has a later one, b (1).json",
        "c.json": "Cy has a later one, cy.json; but it has attempts at 01.1, 01.2 that are not in there: "
        "are there two learners?",
    }
    assert "Not the latest of its name\n  a.json: Ada has a later one" in repr(view)


def test_what_this_kit_does_not_have_is_named_and_does_not_count(folder):
    invented = {
        f"x{n}": {"exercises": [entry("first_spiking_neuron.1", "passed", 1)], "quiz": [True]} for n in range(100)
    }
    rows = [entry(f"01.{n}", "passed", 1) for n in range(2, 5000)]
    made = [
        {"key": key, "sure": 90, "right": True}
        for key in ("first_spiking_neuron.a", "first_spiking_neuron.a", "scaling_out.z")
    ]
    invented["01"] = {"exercises": rows, "quiz": [True] * 5000, "predictions": made}
    (folder / "y.json").write_text(json.dumps(GOOD | {"name": "Yve", "notebooks": invented}))
    view = room(folder)
    assert view.notebooks == [FIRST] and view.learners[-1].passed(FIRST) == (2, TOTAL)
    marks = [len(questions(FIRST)), 1]
    assert [len(view.learners[-1].quiz[FIRST]), len(view.learners[-1].predictions)] == marks
    named = r"y.json: notebook x0, notebook x1, notebook x2, notebook x3, notebook x4 and 509\d more"
    assert re.search(rf"Not in this kit, and not counted\n  {named}", repr(view))


def test_work_grows_with_the_number_of_learners_only(folder):
    """Two passes over all learners, and none for each of them."""
    view, touched = room(folder), Counter()

    class Counted(tuple):
        def __iter__(self):
            touched["all"] += 1
            return super().__iter__()

    few, many = (Counted(view.learners * times) for times in (1, 20))
    counts = []
    for learners in (few, many):
        touched.clear()
        repr(class_report.Room("room", learners, (), ()))
        counts.append(touched["all"])
    assert counts[0] == counts[1] > 0


def test_nothing_in_a_file_is_trusted(folder):
    hand_in(folder, "x.json", "<script>alert(1)</script>", n1=("failed", 9, {"<b>bold</b>": 9}))
    hand_in(folder, "y.json", "\x1b[2J\u202eevil\nname" + "x" * 200)
    hand_in(folder, "z.json", "Zoe", n1=("failed", 9, {"a\x07b\n" + "x" * 200: 1}))
    (folder / "<i>.json").write_text("[]")
    page, text = room(folder)._repr_html_(), repr(room(folder))
    assert "<script" not in page and "<b>bold" not in page and "<i>.json" not in page
    assert "&lt;script&gt;alert(1)" in page and "&lt;b&gt;bold" in page and f"2/{TOTAL}" in page and "Ada" in page
    assert all(c.isprintable() or c == "\n" for c in text) and max(map(len, text.splitlines())) < 300


def work(**changes):
    return GOOD | {"notebooks": {"01": {"exercises": [], "quiz": []} | changes}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"kind": "snnkit progress", "for', "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        ('{"ä": "'.encode("latin-1"), "no JSON"),
        (json.dumps(GOOD).encode("utf-16"), "in UTF-16, but JSON must be in UTF-8: save it again"),
        (json.dumps(GOOD).encode("utf-16-be"), "in UTF-16-BE, but"),
        ('{"name": "Zoë"}'.encode("latin-1"), "in LATIN-1, but"),
        *(
            (work() | {"name": name}, "damaged: name must be one line of 1 to 60")
            for name in ("", "  ", None, ["A"], "a\nb", "x" * 61)
        ),
        (b"[]", "no exported progress"),
        (b'{"kind": []}', "no exported progress"),
        (GOOD | {"format": 9}, "no exported progress of format 3"),
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
    course.attempt("first_spiking_neuron.1", lambda x, v, tau: v)
    done = run("export", tmp_path / "room" / "ada.json", "--name", "Ada")
    assert done.exit_code == 0 and "ada.json" in done.output
    done = run("board", tmp_path / "room", "--html", tmp_path / "page.html")
    assert (
        done.exit_code == 0
        and f"1 learner, 0 of {TOTAL} exercises passed (0%)" in done.output
        and "page: " in done.output
    )
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Ada" in page and page.startswith("<!doctype html>")
