"""The runner, on small notebooks of its own: one kernel per case, all started once for the module."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import nbformat
import pytest

from snnkit.files import locked
from snnkit.lab.tools import pair, run_report, runner
from snnkit.lab.tools.notebook_client import WatchedClient, errors_in, errors_in_outputs
from snnkit.lab.tools.run_report import FIELDS

from .tiny_project import make

SWALLOWED = "import ipywidgets as w\n\nw.interact(lambda a: {}[a], a=(0, 3))---print('after')"
OUTPUT = "import ipywidgets as w\n\nwith w.Output():\n    print('in')\n    1 / 0\n---print('after')"
CASES = {
    "00_ok": "import os, sys, time\n\nprint(QUICK, SOLVE, STEPS, RATE, SEED)---print(sys.executable)"
    "---print(os.environ['SNNKIT_HEADLESS'])---print(os.getcwd())---block = b'x' * (900 * 2**20)\ntime.sleep(0.6)",
    "01_raises": "a = 1---raise KeyError('no <b>such</b> thing')---print('never')",
    "02_interact": SWALLOWED,
    "03_output": OUTPUT,
    "04_dies": "import os\n\nos.write(2, b'the reason')\nos._exit(3)",
    "05_figure": "import plotly.graph_objects as go\n\ngo.FigureWidget(data=[go.Scatter(y=[1, 2])])",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make(tmp_path_factory.mktemp("project"), CASES)


@pytest.fixture(scope="module")
def executed(project, tmp_path_factory):
    """(output folder, results by name) of all cases, run two at a time with one parameter set."""
    out = runner.output_folder(project, tmp_path_factory.mktemp("out"))
    jobs = runner.prepare(project, project.select(), {"STEPS": "3", "RATE": 2}, solve=True)
    results = runner.execute_all(project, jobs, out, limit=120, at_once=2)
    return out, {result.name: result for result in results}


def outputs(out, name):
    notebook = nbformat.read(out / "notebooks" / f"{name}.ipynb", as_version=4)
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_each_is_executed_whatever_happens_to_the_others(executed, project):
    _, results = executed
    assert list(results) == list(CASES)
    assert {name for name, result in results.items() if result.status == "ok"} == {"00_ok", "05_figure"}
    assert all(result.cell is None and result.error is None for result in results.values() if result.status == "ok")
    assert not list(project.notebooks.glob("*.ipynb"))  # the pairs are not touched


def test_a_kernel_is_this_interpreter_with_typed_parameters_headless_beside_the_notebooks(executed, project):
    out, results = executed
    text = "".join(output.get("text", "") for output in outputs(out, "00_ok")).splitlines()
    assert "True True 3 2.0 None" in text
    assert text[-3:] == [sys.executable, "1", str(project.notebooks)]
    assert 900 < results["00_ok"].peak_mb < 2000 and 30 < results["05_figure"].peak_mb < 900


def test_a_failing_cell_is_named_with_its_source_and_exception(executed, project):
    out, results = executed
    result = results["01_raises"]
    cells = pair.notebook(project, "01_raises").cells
    assert result.error == "KeyError: 'no <b>such</b> thing'"
    assert cells[result.cell].source == result.source == "raise KeyError('no <b>such</b> thing')"
    assert "KeyError" in result.traceback
    assert not any("never" in output.get("text", "") for output in outputs(out, "01_raises"))


@pytest.mark.parametrize(("name", "error"), [("02_interact", "KeyError"), ("03_output", "ZeroDivisionError")])
def test_errors_that_widgets_swallow_are_failures(executed, name, error):
    out, results = executed
    assert results[name].status == "failed"
    assert results[name].error.startswith(error)
    assert "import ipywidgets" in results[name].source
    assert any("after" in output.get("text", "") for output in outputs(out, name))  # the kernel noticed nothing


def test_a_kernel_that_dies_is_a_failure_with_its_last_words(executed):
    _, results = executed
    assert results["04_dies"].error.startswith("DeadKernelError")
    assert "the reason" in results["04_dies"].traceback


def test_widgets_leave_no_javascript_in_the_copy(executed):
    out, _ = executed
    copy = out / "notebooks" / "05_figure.ipynb"
    assert "application/vnd.jupyter.widget-view+json" in copy.read_text()
    assert copy.stat().st_size < 100_000


def test_a_notebook_may_not_take_longer_than_its_limit(tmp_path):
    project = make(tmp_path, {"00_slow": "import time\n\ntime.sleep(100)"})
    out = runner.output_folder(project, tmp_path / "out")
    (result,) = runner.execute_all(project, runner.prepare(project, ["00_slow"], {}), out, limit=3)
    assert result.error == "TimeoutError: the notebook took longer than 3 s"
    assert "sleep" in result.source


def test_a_reply_that_comes_while_a_widget_is_answered_is_not_lost(tmp_path):
    def wait(message):  # the reply to the cell has come when nbclient tells the Output widget of the error
        if message["msg_type"] == "error":
            time.sleep(0.5)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in OUTPUT.split("---")])
    WatchedClient(notebook, runner.environment(1), str(tmp_path), limit=60, on_message=wait).run()
    assert notebook.cells[-1].outputs[0].text == "after\n"


# --- errors that nobody raises again: in outputs, in widgets, on stderr -----------------------------------------------

ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "\x1b[31mbad\x1b[0m", "traceback": ["1", "2"]}
LINES = ["Exception in thread 1:\nTraceback (most recent ", "call last):\n  File 'a', line 1\nKey", "Error: 'x'\n"]


def stream(name, text):
    return {"output_type": "stream", "name": name, "text": text}


def test_errors_in_outputs_and_widgets_are_found_and_printed_ones_are_not():
    clean = {"cells": [{}, {"outputs": [stream("stderr", "a warning\n"), stream("stdout", "".join(LINES))]}]}
    assert errors_in(clean, [{"outputs": [stream("stdout", "1")]}, {}]) == []
    (found,) = errors_in({"cells": [{}, {"outputs": [ERROR]}]})
    assert (found.cell, str(found), found.traceback) == (1, "ValueError: bad", "1\n2")
    (found,) = errors_in(clean, [{"outputs": [ERROR]}])
    assert (found.cell, str(found)) == (None, "ValueError: bad")
    (found,) = errors_in_outputs([stream("stderr", piece) for piece in LINES], 3)
    assert (found.cell, str(found)) == (3, "KeyError: 'x'")


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_report_for_programs_and_the_page_that_needs_nothing_else(executed):
    out, results = executed
    run_report.render_copy(out, "01_raises")
    environment = {"devices": [], "cuda": None, "packages": {"a": "1"}}
    page = run_report.write(out, list(results.values()), environment).read_text()
    content = json.loads((out / "report.json").read_text())
    assert set(content) == {"notebooks", "environment"}
    assert [set(entry) for entry in content["notebooks"]] == [set(FIELDS)] * len(CASES)
    assert [entry["name"] for entry in content["notebooks"]] == list(CASES)
    assert "4 of 6 notebooks failed" in page
    assert "no &lt;b&gt;such&lt;/b&gt; thing" in page and "<b>such" not in page
    links = re.findall('(?:href|src)="([^"]*)"', page)
    assert "html/01_raises.html" in links and all((out / link).exists() for link in links)
    assert not re.search("<(script|link|img)|text-overflow", page)
    copy = (out / "html" / "01_raises.html").read_text()
    assert re.findall(r'src="([^"]*)"', copy) == ["figures.js"]


# --- before anything runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "switches", "given"),
    [
        ({}, {}, {"QUICK": True}),
        ({}, {"full": True}, {"QUICK": False}),
        ({"QUICK": "false"}, {"solve": True}, {"QUICK": False, "SOLVE": True}),
    ],
)
def test_quick_is_the_default_and_full_means_not_quick(project, wanted, switches, given):
    assert runner.prepare(project, ["00_ok"], wanted, **switches)[0].parameters == given


@pytest.mark.parametrize("name", runner.PATH_VARIABLES)
def test_a_kernel_sees_the_folders_that_were_meant_here(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    meant = {"../data": tmp_path.parent / "data", "~/data": tmp_path / "home" / "data", "/data": "/data", "": ""}
    for value, path in meant.items():
        monkeypatch.setenv(name, value)
        assert runner.environment(1)[name] == str(path)
    monkeypatch.delenv(name)
    assert name not in runner.environment(1)


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_leave_a_valid_report_and_no_kernel(tmp_path, number):
    slow = "import os, time\n\nopen('started', 'w').write(str(os.getpid()))\ntime.sleep(300)"
    project = make(tmp_path, {"00_quick": "1", "01_slow": slow})
    command = [sys.executable, "-m", "snnkit.lab.cli", "run", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    started, deadline = project.notebooks / "started", time.monotonic() + 120
    while not (started.exists() and started.read_text()) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    with locked(tmp_path / "out" / ".lock", wait=False) as mine:
        assert not mine
    process.send_signal(number)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, text
    assert "1 of 2 notebooks ran" in text and "Traceback" not in text
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [entry["name"] for entry in content["notebooks"]] == ["00_quick"]
    assert content["environment"]["interrupted"] is True
    assert not list((tmp_path / "out").rglob("*.part"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
