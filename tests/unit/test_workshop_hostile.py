"""Zips that must not be unpacked, schedules of nonsense, and lines as mail and shells leave them."""

import hashlib
import zipfile

import pytest

from snnkit.workshop import collect, schedule, sealed, verdict
from snnkit.workshop.markdown import Page
from snnkit.workshop.problem import WorkshopError

LIST = f"{hashlib.sha256(b'1').hexdigest()}  a\n"
HEAD = "**Minutes:** 90\n\n| start | minutes | what | file | GPU |\n|---|---|---|---|---|\n"
LINE = verdict.Verdict("READY", dict.fromkeys(verdict.FIELDS, "x")).line()


def zipped(folder, *more, listed=LIST, method=zipfile.ZIP_DEFLATED):
    path = folder / "bundle.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in (("t/a", b"1"), *more, ("t/CHECKSUMS.sha256", listed)):
            archive.writestr(name, content)
    return path


def test_a_good_zip_passes(tmp_path):
    assert sealed.verify(zipped(tmp_path, ("t/mine.ipynb", b""))) == (1, ["mine.ipynb"])


@pytest.mark.parametrize("name", ["t/../../evil", "../evil", "/etc/evil", "t/..\\evil"])
def test_a_zip_that_would_leave_its_folder_is_refused(tmp_path, name):
    with pytest.raises(WorkshopError, match="must not be unpacked"):
        sealed.verify(zipped(tmp_path, (name, b"")))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["t/a", "u/a"])
def test_of_two_files_of_one_name_nobody_knows_which_is_unpacked(tmp_path, name):
    with pytest.raises(WorkshopError, match="'a' twice"):
        sealed.verify(zipped(tmp_path, (name, b"2")))


def test_a_list_of_nothing_proves_nothing(tmp_path):
    with pytest.raises(WorkshopError, match="lists no file"):
        sealed.verify(zipped(tmp_path, listed=""))


def test_an_endless_list_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(sealed, "LARGEST_LIST", 1000)
    with pytest.raises(WorkshopError, match="has the line '0000"):
        sealed.verify(zipped(tmp_path, listed="0" * 10_000))


@pytest.mark.parametrize("damage", ["encrypted", "of an unknown method", "broken LZMA"])
def test_what_python_can_not_unpack_is_damaged(tmp_path, damage):
    path = zipped(tmp_path, method=zipfile.ZIP_LZMA if damage == "broken LZMA" else zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    if damage == "broken LZMA":
        content[40:48] = b"\xff" * 8
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        begin = -1
        while damage != "broken LZMA" and (begin := content.find(mark, begin + 1)) >= 0:
            if damage == "encrypted":
                content[begin + at] |= 1
            else:
                content[begin + at + 2] = 93
    path.write_bytes(content)
    with pytest.raises(WorkshopError, match="damaged"):
        sealed.verify(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("| 0:00 | ² | a | b | off |", "minutes a whole number"),
        (f"| 0:00 | {'9' * 5000} | a | b | off |", "minutes a whole number"),
        (f"| 0:00 | 3 | a | [x]({'a' * 5000}) | off |", "does not exist"),
        ("| 0:00 | 3 |", "GPU must be"),
    ],
)
def test_nonsense_in_a_schedule_is_a_problem_of_its_line(tmp_path, row, said):
    (tmp_path / "x.md").write_text(f"{HEAD}{row}\n", encoding="utf-8")
    _, problems = schedule.read(Page.read(tmp_path / "x.md", tmp_path), tmp_path, {}, {})
    assert any(said in str(problem) and problem.line == 5 for problem in problems)


def test_a_length_beyond_all_patience_is_none(tmp_path):
    (tmp_path / "x.md").write_text(HEAD.replace("90", "9" * 5000), encoding="utf-8")
    _, problems = schedule.read(Page.read(tmp_path / "x.md", tmp_path), tmp_path, {}, {})
    assert any("must say its length" in str(problem) for problem in problems)


def test_what_powershell_writes_is_read(tmp_path):
    (tmp_path / "one.txt").write_bytes(LINE.encode("utf-16"))
    assert collect.from_path(tmp_path).count("READY") == 1


def test_a_line_can_not_steer_a_terminal_or_a_spreadsheet():
    facts = {**dict.fromkeys(verdict.FIELDS, "\x1b[2Jx"), "name": "\t=1+1"}
    room = collect.from_lines([("chat", verdict.Verdict("STOP", facts).line())])
    assert room.verdicts
    assert "\x1b" not in collect.text(room)
    assert ",\t=" not in collect.table(room)
