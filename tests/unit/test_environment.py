"""environment.yml and constraints/lock.txt give what pyproject.toml asks for."""

from __future__ import annotations

import re
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
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert Requirement(everything).extras == set(PROJECT["optional-dependencies"]) - {"all"}


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
