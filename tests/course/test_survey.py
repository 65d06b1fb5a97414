"""The surveys before and after a workshop: what is written, what is refused, what the board says."""

import json

import pytest

from snnkit.lab import course
from snnkit.lab.course.survey import QUESTIONS


def test_a_file_has_the_answers_and_nothing_that_tells_who_wrote_it(tmp_path):
    first = course.survey("before", tmp_path, {"step": 1, "own": 0, "from": 2})
    again = course.survey("before", tmp_path, {"step": 1})
    assert first != again and first.parent == tmp_path
    data = json.loads(first.read_text(encoding="utf-8"))
    assert set(data) == {"kind", "format", "when", "date", "answers"} and len(data["date"]) == 10
    assert data["answers"] == {"step": 1, "own": 0, "from": 2}


def test_without_a_notebook_the_questions_are_printed(tmp_path, capsys):
    assert course.survey("before", tmp_path) is None
    told = capsys.readouterr().out
    assert all(question.text in told for question in QUESTIONS["before"].values())
    assert not list(tmp_path.iterdir())


def test_the_board_compares_before_and_after(tmp_path):
    for step, own in ((1, 0), (4, 1), (0, 0)):
        course.survey("before", tmp_path, {"step": step, "own": own})
    for step, own in ((1, 3), (1, 4)):
        course.survey("after", tmp_path, {"step": step, "own": own, "unclear": "What is <b>logit</b>?\nIn 04."})
    told = repr(course.room(tmp_path))
    assert "3 answered before, 2 answered after" in told
    assert "before 1 of 3 right; after 2 of 2 right" in told
    assert "before 1.3 on average (2, 1, 0, 0, 0 from 1 to 5); after 4.5 on average (0, 0, 0, 1, 1 from 1 to 5)" in told
    page = course.room(tmp_path).html()
    assert "&lt;b&gt;logit&lt;/b&gt;" in page and "<b>logit" not in page
    assert "Not read" not in told


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"stop": 1}, "answers must be to from, step, leak, own, but one is to 'stop'"),
        ({"step": 5}, r"answers\['step'\] must be a number from 0 to 4, but it is 5"),
        ({"step": True}, r"answers\['step'\] must be an integer or a text, but it is True"),
        ({"own": "much"}, r"answers\['own'\] must be a number from 0 to 4, but it is 'much'"),
    ],
)
def test_what_is_no_answer_is_refused_and_nothing_is_written(tmp_path, answers, words):
    with pytest.raises((ValueError, TypeError), match=words):
        course.survey("before", tmp_path, answers)
    assert not list(tmp_path.iterdir())


def test_a_text_has_an_end(tmp_path):
    with pytest.raises(ValueError, match=r"answers\['why'\] must be a text of at most 1000 characters"):
        course.survey("after", tmp_path, {"why": "x" * 1001})
    with pytest.raises(ValueError, match="folder must be a folder that exists"):
        course.survey("after", tmp_path / "none", {})


@pytest.mark.parametrize("change", [{"format": 9}, {"when": "later"}, {"answers": [1]}, {"answers": {"step": "1"}}])
def test_a_damaged_file_is_named_and_stops_nothing(tmp_path, change):
    whole = course.survey("before", tmp_path, {"step": 1})
    (tmp_path / "bad.json").write_text(json.dumps(json.loads(whole.read_text()) | change))
    room = course.room(tmp_path)
    assert [file for file, _ in room.refused] == ["bad.json"] and len(room.surveys) == 1
