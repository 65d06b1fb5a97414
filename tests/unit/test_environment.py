"""environment.yml and constraints/lock.txt give what pyproject.toml asks for."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
LOCK = (ROOT / "constraints" / "lock.txt").read_text(encoding="utf-8").splitlines()

# Where conda-forge calls a package by another name, or has a smaller one that does.
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
# What the environment holds besides the requirements.
TOOLS = {"python", "pip", "make", "cxx-compiler"}


def requirements(*extras):
    """Requirements of the project and of the extras, without the project's own extras that [all] is made of."""
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    return [Requirement(text) for text in texts if not text.startswith(f"{PROJECT['name']}[")]


def conda_specs():
    """Name to range, as conda writes them: `python=3.12`, `numpy>=1.26`."""
    lines = [line for line in ENVIRONMENT["dependencies"] if isinstance(line, str)]
    split = [re.fullmatch(r"([a-z0-9_.-]+?)\s*([<>=!~].*)?", line) for line in lines]
    assert all(split), f"not all of {lines} are a name and a range"
    return {match[1]: match[2] or "" for match in split if match}


def conda_python():
    """The environment's Python, `3.12`."""
    return conda_specs()["python"].lstrip("=")


def applies(requirement, python):
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    return requirement.marker is None or requirement.marker.evaluate(environment)


NEEDED = {r.name: r for r in requirements("lab") if applies(r, conda_python())}


def test_only_conda_forge_serves_packages():
    assert ENVIRONMENT["name"] == "snnkit"
    assert ENVIRONMENT["channels"] == ["conda-forge", "nodefaults"]
    assert not any("::" in line for line in ENVIRONMENT["dependencies"] if isinstance(line, str))


@pytest.mark.parametrize("name", NEEDED)
def test_conda_takes_the_range_of_pyproject(name):
    specs = conda_specs()
    conda_name = CONDA_NAMES.get(name, name)
    assert conda_name in specs
    assert SpecifierSet(specs[conda_name]) == NEEDED[name].specifier


def test_the_environment_holds_nothing_that_nobody_asked_for():
    assert set(conda_specs()) == {CONDA_NAMES.get(name, name) for name in NEEDED} | TOOLS


def test_its_python_is_one_that_the_kit_runs_on():
    assert Version(conda_python()) in SpecifierSet(PROJECT["requires-python"])


def test_pip_adds_the_kit_itself_and_nothing_else():
    (pip,) = [line for line in ENVIRONMENT["dependencies"] if isinstance(line, dict)]
    assert pip == {"pip": ["-e ."]}


# --- constraints/lock.txt ---------------------------------------------------------------------------------------------

PINS = [Requirement(line) for line in LOCK if line.strip() and not line.startswith("#")]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
ALL = requirements(*PROJECT["optional-dependencies"])


def pinned(name, python):
    """The versions that the lock gives `name` on this Python (on Linux): one, if all is well."""
    found = [p for p in PINS if canonicalize_name(p.name) == canonicalize_name(name) and applies(p, python)]
    return [next(iter(pin.specifier)).version for pin in found]


def test_every_line_pins_one_version_and_names_no_address():
    assert not [line for line in LOCK if "://" in line or "@" in line or line.startswith("-")]
    for pin in PINS:
        assert [clause.operator for clause in pin.specifier] == ["=="], f"{pin} is no pin"
        assert "*" not in str(pin.specifier), f"{pin} leaves a digit open"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("requirement", ALL, ids=lambda r: r.name)
def test_every_requirement_is_pinned_inside_its_range(requirement, python):
    versions = pinned(requirement.name, python)
    assert len(versions) == applies(requirement, python), f"{requirement.name} on Python {python}: {versions}"
    assert all(requirement.specifier.contains(version) for version in versions)


@pytest.mark.parametrize("python", PYTHONS)
def test_torch_is_the_one_that_everything_was_measured_with(python):
    assert pinned("torch", python) == ["2.13.0"]


def test_the_lock_is_for_the_extra_that_has_all():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    asked = Requirement(everything)
    assert asked.extras == set(PROJECT["optional-dependencies"]) - {"all"}
