"""The certificate of a track: what counts, what it shows, and what is refused."""

import pytest
from click.testing import CliRunner

from snnkit.lab import course
from snnkit.lab.cli import main
from snnkit.lab.course import order
from snnkit.lab.course.progress import Progress


@pytest.fixture
def progress(progress_file):
    return Progress(progress_file)


def test_it_is_complete_when_all_but_the_optional_exercises_are_passed(progress, progress_file):
    keys = [one for name in order.notebooks_of("research") for one in course.exercises(name)]
    for one in keys[:-1]:
        progress.attempted(one.key, "passed")
    course.start(order.notebooks_of("research")[0])
    made = course.certificate("research", "Ada")
    assert made.passed == len([one for one in keys[:-1] if not one.optional]) and not made.complete
    assert made.missing == [order.label(keys[-1].key)]
    assert f"Still to do: {made.missing[0]}" in repr(made) and f"Still to do: {made.missing[0]}." in made.html()
    progress.attempted(keys[-1].key, "passed")
    course.start(order.notebooks_of("research")[0])
    made = course.certificate("research", "Ada")
    assert made.complete and "Still to do" not in repr(made) + made.html()
    assert "exercises passed" in repr(made) and "20 · Your own data" in repr(made)


def test_the_page_has_the_name_as_text_and_counts_hints(progress, tmp_path):
    progress.hinted("your_own_data.1", 2)
    course.start("your_own_data")
    page = course.certificate("research", "<b>Ada</b>").save(tmp_path / "ada.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;Ada&lt;/b&gt;" in page and "<b>Ada" not in page and "Hints opened: 2" in page
    assert "Research: so far" in page


def test_predictions_are_counted_where_some_were_made(progress):
    course.start("sweeps")
    assert "21 · Sweeps: 0 of 3 exercises, no predictions, quiz 0 of 3" in repr(course.certificate("research"))
    progress.locked("sweeps.a", 2.0, 70)
    course.start("sweeps")
    assert "0 of 3 exercises, 0 of 1 predictions right, quiz" in repr(course.certificate("research"))


def test_an_unknown_track_is_refused_with_the_ones_there_are():
    with pytest.raises(ValueError, match="track must be one of 'spikes', 'machines', 'research', but it is 'spike'"):
        course.certificate("spike")
    done = CliRunner().invoke(main, ["course", "certificate", "spike"])
    assert done.exit_code == 2 and "'spike' is not one of 'spikes'" in done.output


def test_every_notebook_is_in_one_track_and_numbers_go_up():
    every = [name for track in order.TRACKS for name in order.notebooks_of(track)]
    assert tuple(every) == order.NOTEBOOKS
    assert list(order.NUMBERS.values()) == sorted(set(order.NUMBERS.values()))


def test_a_copy_of_an_earlier_notebook_is_told_where_its_exercises_are(monkeypatch):
    monkeypatch.delitem(order.NUMBERS, "preflight")
    monkeypatch.setitem(order.MOVED, "preflight.1", "encodings.1")
    with pytest.raises(ValueError, match=r"earlier edition.*in 03 · Turning the world into spikes, .*lab --to NEW"):
        course.start("preflight")
    assert order.named("preflight.1") == "encodings.1"
    with pytest.raises(ValueError, match=r"prediction of its notebook.*'encodings.z'.* copy of an earlier version"):
        course.predict("encodings.z")
