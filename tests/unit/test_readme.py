"""The README and its neighbours keep their word: addresses, links, code, commands."""

from __future__ import annotations

import itertools
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import click
import jupytext
import pytest
import torch

from snnkit import data, encode, records, train
from snnkit.lab import pages
from snnkit.lab.cli import main
from snnkit.lab.course import order
from snnkit.lab.hardware import energy
from snnkit.lab.tools import runner
from snnkit.lab.tools.pair import colab_url
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import minutes

PROJECT = find(Path(__file__).parent)
FILES = [*PROJECT.root.glob("*.md"), *PROJECT.root.glob("docs/*.md")]
PAGES = {str(file.relative_to(PROJECT.root)): file.read_text(encoding="utf-8") for file in FILES}
README, BENCHMARKS, COMMANDS = (PAGES[name] for name in ("README.md", "docs/benchmarks.md", "docs/command_line.md"))
OWNER_AND_NAME = PROJECT.repository.removeprefix("https://github.com/")
ADDRESSES = re.findall(r"https?://[^\s)\"'`>\]]+", README)
each_page = pytest.mark.parametrize("page", PAGES)


def blocks(text, *languages):
    """The fenced blocks of a page in these languages."""
    return [code for language, code in re.findall(r"(?ms)^```(\w*)\n(.*?)^```", text) if language in languages]


def shell_lines(text):
    """Command lines without comments: of the shell blocks, and those in `single backticks`."""
    lines = [line for block in blocks(text, "bash") for line in block.splitlines()]
    prose = re.sub(r"(?ms)^```.*?^```", "", text)
    lines += re.findall(r"`([^`\n]+)`", prose)
    # Where a line joins several commands, each counts.
    return [part for line in lines for part in re.split(r"&&|\|\||;", re.sub(r"(^|\s)#.*", "", line)) if part.strip()]


def calls(program, text):
    """Argument lists of every call of `program` on a page; settings such as OMP_NUM_THREADS=1 may stand in front."""
    found = []
    for line in shell_lines(text):
        try:
            words = shlex.split(line)
        except ValueError:  # prose in backticks with a lone quote
            continue
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words.pop(0)
        if words and words[0] == program:
            # What is behind a pipe or a redirection is no argument; nor are the other names of `a | b | c` in prose.
            found.append(list(itertools.takewhile(lambda word: word not in ("|", ">"), words[1:])))
    return found


def parsed(words, command=main):
    """The context of the innermost command after it has read its options and values."""
    context = command.make_context(command.name, list(words), resilient_parsing=not words)  # prose may name it alone
    if not isinstance(command, click.Group):
        return context
    # click 8.2 and later keep the name of the subcommand apart; earlier ones hand all words on.
    rest = [*(getattr(context, "_protected_args", ()) or getattr(context, "protected_args", ())), *context.args]
    if not rest:
        return context
    _, inner, rest = command.resolve_command(context, rest)
    return parsed(rest, inner)


def headings(text):
    """The anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# --- addresses and links ----------------------------------------------------------------------------------------------


def test_every_address_of_the_project_is_the_one_of_the_setting():
    covers = "".join(PAGES[f"docs/{track}.md"] for track in order.TRACKS)
    own = [a for a in (*ADDRESSES, *re.findall(r"https?://[^\s)\"'`>\]]+", covers)) if re.search(r"snnkit", a)]
    assert len(own) > len(PROJECT.names())
    places = (
        PROJECT.repository,
        f"https://colab.research.google.com/github/{OWNER_AND_NAME}/blob/{PROJECT.branch}/",
        f"https://mybinder.org/v2/gh/{OWNER_AND_NAME}/{PROJECT.branch}?",
    )
    assert [a for a in own if not a.startswith(places)] == []
    (path,) = [unquote(a.split("labpath=")[1]) for a in ADDRESSES if "labpath=" in a]
    assert (PROJECT.root / path).is_file(), "what Binder opens"
    assert f"git clone {PROJECT.repository} && cd {OWNER_AND_NAME.split('/')[1]}\n" in README


@pytest.mark.parametrize("name", PROJECT.names())
def test_the_cover_of_its_track_has_each_notebook_with_its_badge_and_its_minutes(name):
    lines = PAGES[minutes.cover(name)].splitlines()
    (row,) = [line for line in lines if line.startswith("|") and f"(../notebooks/{name}.ipynb)" in line]
    assert f"({colab_url(PROJECT, name)})" in row
    top = next(c.source for c in jupytext.read(PROJECT.source(name)).cells if c.source.startswith("# "))
    stated = re.search(r"(\d+) min", top)
    assert stated and row.split("|")[2].strip() == stated[1]


@pytest.mark.parametrize("track", order.TRACKS)
def test_the_hours_of_a_track_are_those_of_its_notebooks(track):
    cover = PAGES[f"docs/{track}.md"]
    total = sum(int(one) for one in re.findall(r"(?m)^\| \[\d\d [^|]*\| (\d+) \|", cover))
    (hours,) = re.findall(r"\*\*Hours:\*\* ([\d.]+)", cover)
    (listed,) = re.findall(rf"(?m)^\| \*\*\[{order.TRACKS[track]}\]\(docs/{track}.md\)[^|]*\| ([\d.]+) \|", README)
    assert hours == listed == f"{total / 60:.1f}"


@each_page
def test_every_relative_link_leads_somewhere(page):
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]) if not re.match(r"\w+:", link)]
    for link in links:
        file, _, anchor = link.partition("#")
        target = (PROJECT.root / page).parent / file if file else PROJECT.root / page
        assert target.exists(), f"{page} links to {file}, which does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in headings(target.read_text(encoding="utf-8")), f"{page} links to a heading {anchor!r}"


def test_the_tables_of_measurements_are_those_of_the_records():
    measured = runpy.run_path(str(PROJECT.root / "docs" / "measured.py"))
    pages = [page.read_text(encoding="utf-8") for page in measured["PAGES"]]
    assert set(re.findall(r"<!-- measured: (\w+) -->", "".join(pages))) == set(measured["TABLES"])
    assert [measured["written"](page) for page in pages] == pages, "python docs/measured.py"
    first = re.search(r"<!-- measured: \w+ -->\s*(?:\|.*\n){2}.*?(\d+\.\d+)", README)
    assert first
    wrong = README[: first.start(1)] + "99.9" + README[first.end(1) :]
    assert wrong != README == measured["written"](wrong)  # it can fail


def test_why_spikes_counts_energy_as_the_kit_does():
    measured = runpy.run_path(str(PROJECT.root / "docs" / "measured.py"))
    net, x = pages.reader_network(), encode.repeat(data.to_unit(data.load("digits", "test")[0]), 20)
    rows = energy.count(net, x).energy().rows
    for way, row in {
        "floats, spikes": "spiking: arithmetic alone, static layers once",
        "floats, no spikes": "without spikes, one pass: arithmetic alone",
        "floats, no spikes, zero pixels skipped": "without spikes, one pass: zeros skipped, too",
    }.items():
        assert 1e3 * sum(measured["ways"]()[way].values()) == pytest.approx(rows[row]), way


# --- code and commands ------------------------------------------------------------------------------------------------


def test_the_peaks_of_memory_are_those_of_the_record():
    rows = [row for row in records.load("training_cpu_epyc_1thread")["rows"] if row["net"] == "conv"]
    peaks = {row["contestant"]: row["peak_bytes"] / 1e6 for row in rows if row["dtype"] == "float32"}
    theirs = min(peak for name, peak in peaks.items() if name.startswith("SpikingJelly"))
    assert f"(float32): {peaks['auto']:.0f} MB, against {theirs:.0f} MB and more" in " ".join(BENCHMARKS.split())
    once, each = (
        next(row["median_s"] for row in rows if row["dtype"] == "float32" and row["contestant"] == name)
        for name in ("SpikingJelly, channels-last + first layer once", "SpikingJelly, channels-last")
    )
    assert f"Computing it once there saved {1 - once / each:.0%}".replace("%", " %") in " ".join(BENCHMARKS.split())


def test_the_code_of_the_readme_runs(monkeypatch, capsys):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")  # no progress bars
    namespace = {"__name__": "readme"}
    code = blocks(README, "python")
    assert len(code) >= 2
    for number, block in enumerate(code):
        exec(compile(block, f"README.md, python block {number}", "exec"), namespace)
    printed = capsys.readouterr().out
    assert float(re.search(r"([\d.]+)% of the test digits", printed)[1]) > 85
    assert "Resting" in printed and "16 steps or more" in printed


def test_the_code_for_series_of_unequal_lengths_runs(monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    (code,) = [code for code in blocks(PAGES["docs/data.md"], "python") if "pad_sequence" in code]
    names = {"__name__": "data"}
    torch.manual_seed(0)
    exec(compile(code, "docs/data.md", "exec"), names)
    x, y = names["batch"](names["rows"])
    assert x.shape == (25, 39, 2) and (y[0, :15] == 1).all() and (y[0, 15:] == -100).all()
    out, _ = names["net"](x.transpose(0, 1))
    right = y == out.argmax(2).T
    measured = train.evaluate(names["net"], [(x, y)], encode=None, loss=names["each_step"])
    assert measured["accuracy"] == pytest.approx(right[y >= 0].float().mean().item())  # without steps that are none


@pytest.mark.slow
def test_the_code_for_a_network_on_two_processes_runs(tmp_path):
    (code,) = blocks(PAGES["docs/clusters.md"], "python")
    (tmp_path / "fit.py").write_text(code)
    done = subprocess.run([sys.executable, "fit.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "max_epochs=3" in done.stderr, done.stderr


@each_page
def test_every_snnkit_command_is_one(page):
    """Names, options and values are parsed by the command itself, down to notebooks and their parameters."""
    for words in calls("snnkit", PAGES[page]):
        if not words:
            continue  # `snnkit` alone: the name of the kit
        try:
            given = parsed(words).params
        except click.ClickException as error:
            pytest.fail(f"{page}: snnkit {shlex.join(words)}: {error.format_message()}")
        if words[0] == "run":
            parameters = dict(pair.split("=", 1) for pair in given["assignments"])
            chosen = PROJECT.select(given["notebooks"])
            assert runner.prepare(PROJECT, chosen, parameters, full=given["full"], solve=given["solve"])


def test_commands_are_found_at_all():
    assert ["run", "--jobs", "2", "--timeout", "600"] in calls("snnkit", COMMANDS)
    assert ["train", "dense", "--threads", "1"] in calls("snnkit", BENCHMARKS), "the one with settings in front of it"


def test_the_papermill_call_names_a_notebook_and_parameters_that_exist():
    ((notebook, _, *rest),) = [words for words in calls("papermill", COMMANDS) if words]
    assert (PROJECT.root / notebook).is_file()
    assert rest[::3] == ["-p"] * (len(rest) // 3)
    assert runner.prepare(PROJECT, [Path(notebook).stem], dict(zip(rest[1::3], rest[2::3], strict=True)))


@each_page
def test_every_make_target_exists(page):
    targets = set(re.findall(r"(?m)^([a-z-]+):", (PROJECT.root / "Makefile").read_text(encoding="utf-8")))
    for words in calls("make", PAGES[page]):
        asked = [word for word in words if "=" not in word]
        assert set(asked) <= targets, f"{page}: make {' '.join(words)}"


def test_prose_about_frameworks_is_what_the_record_says():
    record, text = records.load("frameworks_cpu_epyc_1thread"), (PROJECT.root / "docs" / "frameworks.md").read_text()

    def times(name, features, mode, part="neurons"):
        rows = [r for r in record["rows"] if (r["features"], r["mode"], r["part"]) == (features, mode, part)]
        (theirs,) = (r for r in rows if r["contestant"] == name)
        ours = (r for r in rows if r["library"] == "snnkit" and r["equation"] == theirs["equation"])
        product = next(s for s in record["scales"] if (s["features"], s["mode"], s["part"]) == (features, mode, part))
        base = min(r["median_s"] for r in ours) if part == "neurons" else product["median_s"]
        return theirs["median_s"] / base

    for mode in ("inference", "training"):
        large, small = (f"{times('SpikingJelly', n, mode):.1f}" for n in (2048, 512))
        assert re.search(rf"{large}\s+times in place of {small}", text)
    slow = {"SpikingJelly, FlexSN", "Sinabs", "Norse"}
    quick = {r["contestant"] for r in record["rows"]} - {"cpp", "Spyx", "snnTorch, StateLeaky"}
    shares = {
        n: sorted(
            times(one, n, mode, "layer")
            for mode in ("inference", "training")
            for one in (quick if mode == "inference" else quick - slow)
        )
        for n in (512, 2048)
    }
    assert f"take {100 * shares[2048][0] - 100:.0f} to {100 * shares[2048][-1] - 100:.0f} % more time" in text
    assert f"they take {shares[512][0]:.1f} to {shares[512][-1]:.1f} times as long" in text


def test_memory_of_a_hub_is_that_of_the_table_by_notebook():
    workshop = PROJECT.root / "workshop"
    table = re.findall(r"^\| \[(\d\d) .*?\| \d+ \| \d+ \| (\d+) \|", (workshop / "gpu_budget.md").read_text(), re.M)
    most = max(int(megabytes) for number, megabytes in table if number not in ("15", "21"))
    assert f"take at most {most / 1000:.1f} GB" in (workshop / "jupyterhub_and_hpc.md").read_text()
