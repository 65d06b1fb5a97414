"""One line for each machine: it survives chats and mails, and many of them become a table."""

from __future__ import annotations

import contextlib
import textwrap
import urllib.error
import urllib.request
from email.message import Message

import pytest

from snnkit.tools import doctor
from snnkit.tools.doctor import AMBER, GREEN, RED, Line
from snnkit.workshop import preflight
from snnkit.workshop.preflight import FIELDS, DamagedLine, Verdict, read_line
from snnkit.workshop.timetable import WorkshopError

REACHABLE = preflight.reachable  # as it is; the tests below replace it
GOOD = [
    Line("Python", GREEN, "3.12"),
    Line("torch", GREEN, "2.13"),
    Line("GPU", AMBER, "none"),
    Line("Jupyter", GREEN, "jupyterlab 4"),
    Line("pictures", GREEN, "plotly 7"),
    Line("data: digits", GREEN, "here"),
    Line("data: mnist", AMBER, "not here yet"),
    Line("data: fashion", GREEN, "here"),
]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setattr(preflight, "reachable", lambda: False)


def verdict(name: str = "ada", when: str = "2026-11-22T08:00Z", kind: str = "READY", **facts: str) -> Verdict:
    return Verdict(kind, {"name": name, "when": when, "system": "Linux x86_64", **facts})


# --- one machine ------------------------------------------------------------------------------------------------------


def test_a_machine_without_a_gpu_is_ready():
    found = preflight.check("ada", lines=GOOD)
    assert found.verdict == "READY"
    assert set(found.facts) == set(FIELDS)
    assert (found.facts["device"], found.facts["jupyter"], found.facts["data"]) == ("cpu", "yes", "digits,fashion")
    assert found.facts["network"] == "no"


@pytest.mark.parametrize(
    ("needs", "kind", "red"),
    [
        (("gpu",), "STOP", "gpu"),
        (("network",), "STOP", "network"),
        (("mnist",), "STOP", "mnist"),
        (("fashion",), "READY", ""),
        (("gpu", "mnist"), "STOP", "gpu,mnist"),
    ],
)
def test_what_a_workshop_needs_and_is_not_there_stops(needs, kind, red):
    found = preflight.check("ada", needs, GOOD)
    assert (found.verdict, found.facts["red"]) == (kind, red)


def test_amber_limits_and_red_stops_and_both_are_named_with_their_fix():
    slow = [*GOOD, Line("C++ compiler", AMBER, "none", "install g++")]
    found = preflight.check("ada", lines=slow)
    assert (found.verdict, found.facts["amber"]) == ("LIMITS", "C++ compiler")
    broken = [*slow, Line("disk", RED, "0.1 GiB free here", "make room")]
    found = preflight.check("ada", lines=broken)
    assert (found.verdict, found.facts["red"]) == ("STOP", "disk")
    assert preflight.fixes(broken) == ["disk: 0.1 GiB free here -> make room", "C++ compiler: none -> install g++"]
    assert preflight.fixes(GOOD) == []


def test_an_unknown_need_is_refused():
    with pytest.raises(ValueError, match="needs must be of gpu, network, mnist, fashion, but it is 'coffee'"):
        preflight.check("ada", ("coffee",), GOOD)


def test_this_machine_has_a_verdict_that_can_be_read_again():
    found = preflight.check("", lines=doctor.report())
    again = read_line(found.line())
    assert again is not None and again == found
    assert found.facts["name"] and found.facts["torch"]


# --- the line ---------------------------------------------------------------------------------------------------------


def test_a_line_is_ascii_without_spaces_in_its_fields_and_comes_back():
    odd = verdict("Zoë O'Neill = 50 %\t😀", device="Tesla T4, 15 GiB", red="a,b")
    line = odd.line()
    assert line.isascii() and "\t" not in line and "\n" not in line
    assert len(line.split()) == 3 + len(FIELDS)
    back = read_line(f"[10:31] Zoë: {line} thanks!")
    assert back is not None and back.verdict == "READY"
    assert {name: back.facts[name] for name in odd.facts} == dict(odd.facts)


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
def test_a_line_that_was_changed_is_refused(damage):
    with pytest.raises(DamagedLine):
        read_line(damage(verdict().line()))


# --- many machines ----------------------------------------------------------------------------------------------------


def test_a_folder_is_tabulated_worst_first(tmp_path):
    (tmp_path / "mail.txt").write_text(
        "Dear all,\n> " + verdict("Bo", kind="LIMITS", amber="C++ compiler").line() + "\n"
    )
    (tmp_path / "chat.log").write_text(
        f"{verdict('ada').line()}\n{verdict('cy', kind='STOP', red='disk,gpu').line()}\n"
    )
    (tmp_path / "photo.png").write_bytes(b"\x89PNG" + b"snnkit-preflight/1 ")
    room = preflight.from_path(tmp_path)
    assert [(one.verdict, one.facts["name"]) for one in room.verdicts] == [
        ("STOP", "cy"),
        ("LIMITS", "Bo"),
        ("READY", "ada"),
    ]
    assert room.damaged == ()
    text = preflight.text(room, expected=5)
    assert text.startswith("3 machines: 1 READY, 1 LIMITS, 1 STOP; 2 of 5 have not answered")
    assert "  disk: 1 (cy)" in text and "  C++ compiler: 1 (Bo)" in text


def test_the_last_word_of_a_machine_counts():
    first, mended = verdict(when="2026-11-22T08:00Z", kind="STOP"), verdict(when="2026-11-22T08:20Z")
    for order in ((first, mended), (mended, first)):
        room = preflight.from_lines((str(place), one.line()) for place, one in enumerate(order))
        assert [one.verdict for one in room.verdicts] == ["READY"]
    elsewhere = verdict(system="Colab x86_64")
    assert len(preflight.from_lines([("1", first.line()), ("2", elsewhere.line())]).verdicts) == 2


def test_a_line_that_a_mail_has_wrapped_and_quoted_is_mended():
    whole = verdict("ada", device="cpu", data="digits").line()
    wrapped = [f"> > {part}" for part in textwrap.wrap(whole, 70, break_long_words=False, break_on_hyphens=False)]
    assert len(wrapped) > 2
    room = preflight.from_lines(("", line) for line in ["Hi,", *wrapped, "Ada"])
    assert [one.facts["name"] for one in room.verdicts] == ["ada"] and room.damaged == ()


def test_damaged_lines_are_named_with_their_place(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text(
        f"{verdict().line()}\n\n{verdict('bo').line()[:50]}\n{verdict('cy').line().replace('READY', 'STOP')}\n"
    )
    room = preflight.from_path(file)
    assert len(room.verdicts) == 1
    assert [one.partition(": ")[0] for one in room.damaged] == ["lines.txt:3", "lines.txt:4"]
    assert "changed on the way" in room.damaged[1]
    assert "Lines that could not be read" in preflight.text(room)


def test_what_is_no_place_is_refused(tmp_path):
    with pytest.raises(WorkshopError, match="there is no file or folder"):
        preflight.from_path(tmp_path / "nothing")


def test_the_csv_has_all_fields_and_no_formula():
    room = preflight.from_lines([("", verdict("=HYPERLINK(1)", device='a "b"').line())])
    head, row = preflight.table(room).splitlines()
    assert head == ",".join(("verdict", *FIELDS))
    assert row.startswith("READY,'=HYPERLINK(1),") and '"a ""b"""' in row


# --- the network ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "online"),
    [
        (None, True),
        (urllib.error.HTTPError("", 403, "no", Message(), None), True),
        (urllib.error.URLError("no route"), False),
        (TimeoutError(), False),
    ],
)
def test_any_answer_counts_as_a_network(answer, online, monkeypatch):
    asked = []

    def opened(request, timeout):
        asked.append((request.full_url, request.method, timeout))
        if answer is not None:
            raise answer
        return contextlib.nullcontext()

    monkeypatch.setattr(urllib.request, "urlopen", opened)
    assert REACHABLE() is online
    ((url, method, timeout),) = asked
    assert url.startswith("https://github.com/") and method == "HEAD" and timeout <= 10


LINE = preflight.Verdict("READY", dict.fromkeys(preflight.FIELDS, "x")).line()


def test_what_powershell_writes_is_read(tmp_path):
    (tmp_path / "one.txt").write_bytes(LINE.encode("utf-16"))
    assert preflight.from_path(tmp_path).count("READY") == 1


def test_a_line_can_not_steer_a_terminal_or_a_spreadsheet():
    facts = {**dict.fromkeys(preflight.FIELDS, "\x1b[2Jx"), "name": "\t=1+1"}
    room = preflight.from_lines([("chat", preflight.Verdict("STOP", facts).line())])
    assert room.verdicts
    assert "\x1b" not in preflight.text(room)
    assert ",\t=" not in preflight.table(room)
