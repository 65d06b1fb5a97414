"""environment.yml and constraints/lock.txt give what pyproject.toml asks for."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import click
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from snnkit.lab import cli

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TABLE["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
LOCK = (ROOT / "constraints" / "lock.txt").read_text(encoding="utf-8").splitlines()
CONDA = dict(
    re.fullmatch(r"([a-z0-9_.-]+?)\s*([<>=!~].*)?", one).groups("") for one in ENVIRONMENT["dependencies"][:-1]
)
# Where conda-forge calls a package by another name, or has a smaller one that does.
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
# What the environment holds besides the requirements.
TOOLS = {"python", "pip", "make", "cxx-compiler"}


def requirements(*extras):
    """Requirements of the project and of the extras, without the project's own extras that [all] is made of."""
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    return [Requirement(text) for text in texts if not text.startswith(f"{PROJECT['name']}[")]


def applies(requirement, python):
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


def test_conda_takes_the_ranges_of_pyproject_from_conda_forge_and_pip_adds_the_kit_alone():
    assert ENVIRONMENT["name"] == "snnkit" and ENVIRONMENT["channels"] == ["conda-forge", "nodefaults"]
    assert ENVIRONMENT["dependencies"][-1] == {"pip": ["-e ."]}
    python = CONDA["python"].lstrip("=")
    assert Version(python) in SpecifierSet(PROJECT["requires-python"])
    needed = {CONDA_NAMES.get(r.name, r.name): r.specifier for r in requirements("lab") if applies(r, python)}
    assert set(CONDA) == set(needed) | TOOLS
    assert {name: SpecifierSet(CONDA[name]) for name in needed} == needed


PINS = [Requirement(line) for line in LOCK if line.strip() and not line.startswith("#")]


def test_every_line_pins_one_version_and_names_no_address():
    assert not [line for line in LOCK if "://" in line or "@" in line or line.startswith("-")]
    exact = [pin for pin in PINS if [one.operator for one in pin.specifier] == ["=="] and "*" not in str(pin.specifier)]
    assert exact == PINS


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_every_requirement_is_pinned_inside_its_range(python):
    """By one version on this Python (on Linux)."""
    versions = {}
    for pin in PINS:
        if applies(pin, python):
            versions.setdefault(canonicalize_name(pin.name), []).append(next(iter(pin.specifier)).version)
    for requirement in requirements(*PROJECT["optional-dependencies"]):
        found = versions.get(canonicalize_name(requirement.name), [])
        assert len(found) == applies(requirement, python), f"{requirement.name}: {found}"
        assert all(requirement.specifier.contains(version) for version in found), requirement.name
    assert versions["torch"] == ["2.13.0"]  # the one that everything was measured with


def test_versions_that_were_withdrawn_as_malware_are_refused():
    (lightning,) = (each.specifier for each in requirements("scale") if each.name == "lightning")
    assert list(lightning.filter(["2.5.9", "2.6.0", "2.6.2", "2.6.3", "2.6.6"])) == ["2.6.0", "2.6.6"]


def test_the_lock_is_for_the_extra_that_has_all():
    extras = PROJECT["optional-dependencies"]

    def parts(name):
        """The extras that an extra is made of, itself included."""
        named = (Requirement(text) for text in extras[name])
        return {name}.union(*(parts(one) for r in named if r.name == PROJECT["name"] for one in r.extras))

    assert parts("all") == set(extras)


def test_the_course_takes_what_every_notebook_needs():
    (course,) = PROJECT["optional-dependencies"]["course"]
    assert Requirement(course).extras == {"lab", "scale", "quantize", "nir"}


def test_every_notebook_is_in_the_wheel():
    """Slow tests build one; these lines are what a new notebook needs."""
    targets = TABLE["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    names = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    assert targets == {name: f"snnkit/lab/{name}" for name in [*names, "notebooks/workers"]}


@pytest.mark.parametrize(
    ("tag", "released", "says"),
    [
        ("v0.1.0", "0.1.0", ""),
        ("v0.1.0", "", "released in pyproject.toml must be '0.1.0', but it is ''"),
        ("v0.1.0", "0.0.9", "must be '0.1.0', but it is '0.0.9'"),
        ("0.1.0", "0.1.0", "the tag must be v0.1.0"),
        ("v0.1", "0.1.0", "the tag must be v0.1.0"),
        ("", "0.1.0", "the tag must be v0.1.0"),
    ],
)
def test_only_the_version_that_pyproject_names_may_be_published(tag, released, says):
    pytest.importorskip("tomllib", reason="Python 3.11 has it")
    refusal = runpy.run_path(str(ROOT / ".ci" / "released.py"))["refusal"](tag, released, "0.1.0")
    assert bool(refusal) == bool(says) and says in refusal


def test_publishing_is_refused_first_and_its_right_is_where_none_of_our_code_runs():
    flow = WORKFLOWS["publish"]
    build, publish = (flow["jobs"][name] for name in ("build", "publish"))
    commands = [step["run"] for step in build["steps"] if "run" in step]
    assert commands == ['python .ci/released.py "$GITHUB_REF_NAME"', "make release"]
    assert publish["needs"] == "build" and publish["environment"]["name"] == "pypi"
    assert publish["permissions"] == {"id-token": "write"} and not [s for s in publish["steps"] if "run" in s]
    others = [job for one in WORKFLOWS.values() for job in one["jobs"].values() if job is not publish]
    assert not [job for job in others if "id-token" in job.get("permissions", {})]
    assert flow["permissions"] == {"contents": "read"} and list(flow.get("on") or flow[True]) == ["release"]


def test_the_wheel_is_installed_on_three_systems():
    (job,) = WORKFLOWS["install"]["jobs"].values()
    assert job["strategy"]["matrix"]["system"] == ["ubuntu-latest", "windows-latest", "macos-latest"]
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert "snnkit lab --no-open" in commands and "snnkit run 00" in commands
    named = re.findall(r"tests/\S+\.py", commands)
    assert len(named) > 5 and not [name for name in named if not (ROOT / name).is_file()]


WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")
}


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_steps_of_the_hosted_ci_call_targets_and_commands_that_exist(workflow):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    steps = [step for job in WORKFLOWS[workflow]["jobs"].values() for step in job["steps"]]
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    assert lines
    for line in lines:
        if made := re.match(r"make (\S+)$", line):
            assert made[1] in targets, line
        if called := re.match(r"snnkit (\S+)", line):
            assert called[1] in cli.main.list_commands(click.Context(cli.main)), line


def test_the_hosted_ci_runs_the_oldest_python_and_those_of_colab_and_conda():
    pythons = WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert pythons[0] == PROJECT["requires-python"].removeprefix(">=") and CONDA["python"].lstrip("=") in pythons
    assert {"3.13", "3.14"} <= set(pythons)
    # YAML 1.1 reads "on" as true.
    assert any("schedule" in (flow.get("on") or flow[True]) for flow in WORKFLOWS.values())
