"""One line for each machine: it survives chats and mails, and many of them become a table."""

from __future__ import annotations

import quopri
import sys
import textwrap
import zlib

import pytest
from click.testing import CliRunner

from snnkit.lab.cli.workshop import workshop
from snnkit.lab.tools import doctor
from snnkit.lab.tools.doctor import AMBER, GREEN, RED, Line
from snnkit.lab.workshop import preflight
from snnkit.lab.workshop.preflight import FIELDS, Verdict, from_texts
from snnkit.lab.workshop.timetable import WorkshopError

GOOD = [Line("Python", GREEN, "3.12"), Line("torch", GREEN, "2.13"), Line("GPU", AMBER, "none")]
GOOD.append(Line("data: mnist", AMBER, "not here yet"))


def verdict(name: str = "ada", when: str = "2026-11-22T08:00Z", kind: str = "READY", **facts: str) -> Verdict:
    return Verdict(kind, {"name": name, "when": when, **facts})


def read(text: str) -> preflight.Room:
    return from_texts({"chat": text})


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(workshop, ["preflight", *words])
    assert result.exit_code == code, result.output
    return result.output


# --- one machine ------------------------------------------------------------------------------------------------------


def test_amber_limits_and_red_stops_and_both_are_named_with_their_fix():
    found = preflight.check("ada", GOOD)
    assert found.verdict == "READY" and found.facts["GPU"] == "none" and preflight.fixes(GOOD) == []
    slow = [*GOOD, Line("C++ compiler", AMBER, "none", "install g++")]
    found = preflight.check("ada", slow)
    assert (found.verdict, found.facts["amber"]) == ("LIMITS", "C++ compiler")
    broken = [*slow, Line("disk", RED, "0.1 GB free here", "make room")]
    found = preflight.check("ada", broken)
    assert (found.verdict, found.facts["red"]) == ("STOP", "disk")
    assert preflight.fixes(broken) == ["disk: 0.1 GB free here -> make room", "C++ compiler: none -> install g++"]


def test_this_machine_prints_a_line_that_can_be_collected(tmp_path):
    line = run("--name", "Ada L.").splitlines()[0]
    assert "name=Ada%20L." in line
    (tmp_path / "lines.txt").write_text(f"[9:00] Ada: {line}\n")
    text = run("--collect", str(tmp_path / "lines.txt"), "--expect", "2")
    assert "1 machines" in text and "1 of 2 have not answered" in text and "Ada L." in text
    (tmp_path / "lines.txt").write_text(verdict(kind="STOP").line())
    assert "1 STOP" in run("--collect", str(tmp_path), code=1)
    assert "can't read" in run("--collect", str(tmp_path / "no"), code=2)


# --- the line ---------------------------------------------------------------------------------------------------------


def test_a_line_is_ascii_without_spaces_in_its_fields_and_comes_back():
    odd = verdict("Zoë O'Neill = 50 %\t😀", GPU="Tesla T4, 16 GB", red="a,b")
    line = odd.line()
    assert line.isascii() and "\t" not in line and "\n" not in line
    assert len(line.split()) == 3 + len(FIELDS)
    (back,) = read(f"[10:31] Zoë: {line} thanks!").verdicts
    assert back.verdict == "READY" and {name: back.facts[name] for name in odd.facts} == dict(odd.facts)
    found = preflight.check("", doctor.report())
    assert read(found.line()).verdicts[0].line() == found.line() and found.facts["name"] and found.facts["torch"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[:60],
        lambda line: line.replace("READY", "LIMITS"),
        lambda line: line.replace("name=ada", "name=bob"),
        lambda line: line.rsplit(" ", 1)[0],
        lambda line: line.replace("crc=", "crc=0"),
    ],
)
def test_a_line_that_was_changed_is_named_with_its_place(damage):
    room = read(f"{verdict('bo').line()}\n\n{damage(verdict().line())}\n{verdict('cy').line()}\n")
    assert [one.facts["name"] for one in room.verdicts] == ["bo", "cy"]
    assert len(room.damaged) == 1 and room.damaged[0].startswith("chat:3: ")
    assert "Lines that could not be read" in preflight.text(room)


@pytest.mark.parametrize("body", ["", "READY", "READY name=ada", "READY when=now", "PERFECT name=ada when=now"])
def test_a_line_with_the_right_checksum_and_too_little_is_no_verdict(body):
    room = read(f"{preflight.MARK} {body} crc={zlib.crc32(body.encode()):08x}")
    assert room.verdicts == () and len(room.damaged) == 1


def hard(line: str) -> str:
    return "\n".join(line[i : i + 76] for i in range(0, len(line), 76))


def at_spaces(line: str) -> str:
    return "\n".join(textwrap.wrap(line, 70, break_long_words=False, break_on_hyphens=False))


def printable(line: str) -> str:
    return quopri.encodestring(line.encode()).decode()


@pytest.mark.parametrize("broken", [hard, at_spaces, printable])
@pytest.mark.parametrize("before", ["", "[10:31] Ada: ", "x" * 70 + " "])  # which breaks the mark, too
@pytest.mark.parametrize("quote", ["", "> > "])
def test_a_line_that_a_mail_has_broken_and_quoted_is_read(broken, before, quote):
    sent = [verdict(name, GPU="none", disk="40 GB = all > 3D", processor="A 64 ☃") for name in ("3Dee", "bo")]
    lines = broken("\n".join(before + one.line() for one in sent) + " thanks!").splitlines()
    assert len(lines) > 4
    room = read("\r\n".join(quote + line for line in ["Hi,", *lines, "Ada"]))
    assert room.damaged == () and [one.line() for one in room.verdicts] == [one.line() for one in sent]


def test_the_sender_of_a_line_that_can_not_be_read_is_named():
    (why,) = read(verdict("Zoë", disk="40 GB").line().replace("40", "41")).damaged
    assert why.startswith("chat:1: the line of Zoë is cut off, or changed")


def test_no_path_of_the_machine_is_in_the_line():
    found = preflight.check("ada", [
        Line("Python", GREEN, "3.12.1 on Linux (/home/ada lovelace/snn kit/bin/python)"),
        Line("torch", RED, r"OSError: C:\Users\ada\torch\lib.dll is missing"),
        Line("processor", GREEN, "Intel(R) Core(TM) i7, 4 cores"), Line("memory", GREEN, "3.1 of 8.0 GB free"),
    ])  # fmt: skip
    facts = {name: found.facts[name] for name in ("Python", "torch", "processor", "memory")}
    assert facts == {
        "Python": "3.12.1 on Linux", "torch": "OSError: lib.dll is missing",
        "processor": "Intel(R) Core(TM) i7, 4 cores", "memory": "3.1 of 8.0 GB free",
    }  # fmt: skip
    assert sys.executable not in preflight.check("ada", doctor.report()).facts["Python"]


# --- many machines ----------------------------------------------------------------------------------------------------


def test_a_folder_is_tabulated_worst_first(tmp_path):
    (tmp_path / "mail.txt").write_text("Dear all,\n> " + verdict("Bo", kind="LIMITS", amber="C++ compiler").line())
    (tmp_path / "windows.txt").write_bytes(verdict("ada").line().encode("utf-16"))  # what PowerShell writes
    (tmp_path / "chat.log").write_text(verdict("cy", kind="STOP", red="disk,torch").line())
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\xff")
    room = preflight.from_path(tmp_path)
    assert [(one.verdict, one.facts["name"]) for one in room.verdicts] == [
        ("STOP", "cy"), ("LIMITS", "Bo"), ("READY", "ada"),
    ]  # fmt: skip
    assert room.damaged == ()
    text = preflight.text(room, expected=5)
    assert text.startswith("3 machines: 1 READY, 1 LIMITS, 1 STOP; 2 of 5 have not answered")
    assert "  disk: 1 (cy)" in text and "  C++ compiler: 1 (Bo)" in text
    with pytest.raises(WorkshopError, match="can't read"):
        preflight.from_path(tmp_path / "nothing")


def test_the_last_word_of_a_machine_counts_and_steers_no_terminal():
    first, later = verdict(when="2026-11-22T08:00Z", kind="STOP"), verdict("Ada", when="2026-11-22T08:20Z")
    for order in ((first, later), (later, first)):
        assert [one.verdict for one in read("\n".join(one.line() for one in order)).verdicts] == ["READY"]
    room = read(Verdict("STOP", dict.fromkeys(FIELDS, "\x1b[2Jx")).line())
    assert room.verdicts and "\x1b" not in preflight.text(room)


def test_two_people_of_one_name_stay_two_machines_and_are_asked_about():
    one = {"processor": "A, 4 cores", "memory": "3.1 of 8.0 GB free", "disk": "9 GB free here", "GPU": "none"}
    again = one | {"memory": "2.0 of 8.0 GB free", "disk": "8 GB free here", "when": "2026-11-22T09:00Z"}
    other = one | {"processor": "B, 8 cores", "memory": "9.0 of 16.0 GB free"}
    room = read("\n".join(verdict(**facts).line() for facts in (one, again)))
    assert len(room.verdicts) == 1 and room.doubtful == ()
    room = read(
        "\n".join(verdict(name, **facts).line() for name, facts in (("Ada", one), ("ada", again), ("ADA ", other)))
    )
    assert len(room.verdicts) == 2
    assert (
        "Names to ask about\n  ada is the name of 2 machines, with different facts (processor: A, 4 cores / B, 8"
        in (preflight.text(room))
    )


def test_the_placeholder_of_the_invitation_is_no_name():
    assert "write your own name in place of YOURNAME" in run("--name", "yourname", code=2)
    assert "write your own name in place of YOURNAME" in run("--name", "<YourName>", code=2)
    (doubt,) = read(verdict("<YOURNAME>").line()).doubtful
    assert doubt.startswith("YOURNAME is what the invitation says")
