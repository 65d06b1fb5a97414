"""The runner, on small notebooks of its own: one kernel per case, all started once for the module."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import nbformat
import pytest

from snnkit.tools import pair, run_report, runner
from snnkit.tools.papermill_engine import Watch
from snnkit.tools.parameters import ParameterError
from snnkit.tools.project import ProjectError
from snnkit.tools.run_report import FIELDS

from .tiny_project import make

SWALLOWED = "import ipywidgets as w\n\nw.interact(lambda a: {}[a], a=(0, 3))---print('after')"
OUTPUT = "import ipywidgets as w\n\nwith w.Output():\n    print('in')\n    1 / 0\n---print('after')"
CASES = {
    "00_ok": "import os, sys\n\nprint(QUICK, SOLVE, STEPS, RATE, SEED)---print(sys.executable)"
    "---print(os.environ['SNNKIT_HEADLESS'])---print(os.getcwd())---block = b'x' * (900 * 2**20)\ndel block",
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


def test_each_is_executed_whatever_happens_to_the_others(executed):
    _, results = executed
    assert list(results) == list(CASES)
    assert {name for name, result in results.items() if result.status == "ok"} == {"00_ok", "05_figure"}
    assert all(result.cell is None and result.error is None for result in results.values() if result.status == "ok")


def test_parameters_arrive_with_their_types_and_quick_is_the_default(executed):
    out, _ = executed
    text = "".join(output.get("text", "") for output in outputs(out, "00_ok")).splitlines()
    assert "True True 3 2.0 None" in text


def test_the_kernel_is_this_interpreter_headless_in_the_folder_of_the_notebooks(executed, project):
    out, _ = executed
    text = "".join(output.get("text", "") for output in outputs(out, "00_ok")).splitlines()
    assert text[-3:] == [sys.executable, "1", str(project.notebooks)]


def test_peak_memory_counts_what_the_notebook_takes(executed):
    _, results = executed
    assert 900 < results["00_ok"].peak_mb < 2000
    assert 30 < results["05_figure"].peak_mb < 900


def test_peak_memory_counts_the_last_moments_too():
    work = "input(); block = b'x' * (200 * 2**20); del block; print('done', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        class Done:
            """The end comes between two looks at the memory, right after the peak."""

            def wait(self, _seconds):
                process.stdin.write(b"\n")
                process.stdin.flush()
                return process.stdout.readline() == b"done\n"

        watch = Watch({}, ".")
        watch.begin(process.pid)
        watch.follow_memory(Done())
        process.kill()
    assert watch.peak_bytes > 200 * 2**20


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


def test_the_pairs_are_not_touched(executed, project):
    assert not list(project.notebooks.glob("*.ipynb"))


def test_a_notebook_may_not_take_longer_than_its_limit(tmp_path):
    project = make(tmp_path, {"00_slow": "import time\n\ntime.sleep(100)"})
    out = runner.output_folder(project, tmp_path / "out")
    (result,) = runner.execute_all(project, runner.prepare(project, ["00_slow"], {}), out, limit=5)
    assert result.error == "TimeoutError: the notebook took longer than 5 s"
    assert "sleep" in result.source


def test_report_json_has_exactly_the_fields_promised(executed):
    out, results = executed
    run_report.write(out, list(results.values()), {"python": "3"})
    content = json.loads((out / "report.json").read_text())
    assert set(content) == {"notebooks", "environment"}
    assert [set(entry) for entry in content["notebooks"]] == [set(FIELDS)] * len(CASES)
    assert [entry["name"] for entry in content["notebooks"]] == list(CASES)


def test_report_html_is_one_page_that_needs_nothing_else(executed):
    out, results = executed
    run_report.render_copy(out, "01_raises")
    page = run_report.write(
        out, list(results.values()), {"devices": [], "cuda": None, "packages": {"a": "1"}}
    ).read_text()
    assert "4 of 6 notebooks failed" in page
    assert "no &lt;b&gt;such&lt;/b&gt; thing" in page and "<b>such" not in page
    links = Links()
    links.feed(page)
    assert "html/01_raises.html" in links.found
    assert all((out / link).exists() for link in links.found)
    assert not {"script", "link", "img"} & links.tags


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.found += [value for key, value in attrs if key in ("href", "src")]


def test_everything_is_refused_before_anything_runs(project):
    with pytest.raises(ParameterError, match="notebook 00_ok has no parameter 'STEP'"):
        runner.prepare(project, project.names(), {"STEP": "3"})
    with pytest.raises(ParameterError, match=r"STEPS must be int, but it is '3\.5'"):
        runner.prepare(project, project.names(), {"STEPS": "3.5"})
    with pytest.raises(ParameterError, match="QUICK is given twice"):
        runner.prepare(project, project.names(), {"QUICK": "true"}, full=True)


def test_full_means_not_quick(project):
    assert runner.prepare(project, ["00_ok"], {})[0].parameters == {"QUICK": True}
    assert runner.prepare(project, ["00_ok"], {}, full=True)[0].parameters == {"QUICK": False}
    assert runner.prepare(project, ["00_ok"], {"QUICK": "off"}, solve=True)[0].parameters == {
        "QUICK": False,
        "SOLVE": True,
    }


def test_a_parameter_must_be_in_every_notebook_chosen(tmp_path):
    project = make(tmp_path, {"00_a": "1", "01_b": "1"})
    source = project.source("01_b")
    source.write_text(source.read_text().replace("STEPS: int = 8  # time steps\n", ""))
    with pytest.raises(ParameterError, match="notebook 01_b has no parameter 'STEPS'"):
        runner.prepare(project, project.names(), {"STEPS": "3"})


def test_an_output_folder_that_can_not_be_is_refused(project, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProjectError, match="can't write to the output folder"):
        runner.output_folder(project, tmp_path / "file")
    with pytest.raises(ProjectError, match="would overwrite the notebooks"):
        runner.output_folder(project, project.root)


@pytest.mark.parametrize("name", runner.PATH_VARIABLES)
def test_a_kernel_sees_the_folders_that_were_meant_here(monkeypatch, tmp_path, name):
    def seen(value):
        monkeypatch.setenv(name, value)
        return runner.environment(1)[name]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert seen("../data") == str(tmp_path.parent / "data")
    assert seen("~/data") == str(tmp_path / "home" / "data")
    assert seen("/data") == "/data"
    assert seen("") == ""
    monkeypatch.delenv(name)
    assert name not in runner.environment(1)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("presses", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_ctrl_c_leaves_a_valid_report_and_no_kernel(tmp_path, presses):
    project = make(
        tmp_path, {"00_quick": "1", "01_slow": "open('started', 'w').close()\nimport time\n\ntime.sleep(300)"}
    )
    command = [sys.executable, "-m", "snnkit.cli", "run", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 120
    while not (project.notebooks / "started").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    for press in range(presses):
        time.sleep(0.1 * press)
        process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert "1 of 2 notebooks ran" in text and "Traceback" not in text
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [entry["name"] for entry in content["notebooks"]] == ["00_quick"]
    assert content["environment"]["interrupted"] is True
