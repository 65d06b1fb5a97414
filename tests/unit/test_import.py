"""What importing costs: torch, NumPy and nothing heavy besides; checked in a fresh process."""

import ast
import functools
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import snnkit
from snnkit import lazy

HEAVY = """
    nir h5py plotly matplotlib ipywidgets IPython sklearn pooch papermill jupytext lightning tensorboard pandas
"""


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_library_adds_only_its_own_modules_to_torch():
    new = modules_after("import snnkit, snnkit.neuron, snnkit.nn, snnkit.engine") - modules_after("import torch, numpy")
    # make_fx brings torch's own tracing modules along; nothing of any other package may come.
    packages = {name.partition(".")[0] for name in new}
    assert packages <= {"snnkit", "torch", *sys.stdlib_module_names} | {"sympy", "mpmath"}


def test_the_package_alone_brings_not_even_torch():
    # So the command line answers at once, and Ctrl-C is obeyed from the start.
    assert not modules_after("import snnkit, snnkit.lab.cli") & {"torch", "snnkit.lab.viz"}
    assert "torch" not in modules_after("import snnkit.lab.hardware.chips, snnkit.lab.hardware.scaling")


def test_rooms_are_loaded_when_named():
    loaded = modules_after("import snnkit; snnkit.encode, snnkit.loss, snnkit.models, snnkit.data, snnkit.train")
    assert "snnkit.train.loop" in loaded and not loaded & set(HEAVY.split())


def test_unknown_room():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        snnkit.nothing  # noqa: B018
    assert "train" in dir(snnkit) and "viz" in dir(snnkit.lab)


@pytest.mark.parametrize("old", sorted(lazy.MOVED))
def test_an_old_name_says_where_it_is(old):
    home, _, name = old.rpartition(".")
    said = rf"^{re.escape(old)} is now {re.escape(lazy.MOVED[old])}$"
    with pytest.raises(AttributeError, match=said):
        getattr(importlib.import_module(home), name)
    with pytest.raises(ImportError, match=said if home == "snnkit" else name):
        exec(f"from {home} import {name}")
    if home == "snnkit":
        for line in (f"import {old}", f"from {old}.part import thing"):
            with pytest.raises(ModuleNotFoundError, match=said):
                exec(line)
    # It is there: a package, or a name of one.
    new_home, _, new = lazy.MOVED[old].rpartition(".")
    assert (
        importlib.util.find_spec(lazy.MOVED[old])
        if home == "snnkit"
        else hasattr(importlib.import_module(new_home), new)
    )


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("workshop/**/*.md")]
ROOMS = {"snnkit", *(m.name for m in pkgutil.walk_packages(snnkit.__path__, "snnkit.") if m.ispkg)}


def names_in_code(text: str) -> set[str]:
    """What a piece of code imports from the package, and the attributes that it reads of that."""
    tree = ast.parse(re.sub(r"^[%!].*$", "pass", text, flags=re.M))
    known, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "snnkit":
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            known |= {a.asname or "snnkit": a.name if a.asname else "snnkit" for a in node.names if "snnkit" in a.name}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            known.pop(node.id, None)  # a variable of the same name
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts, node = [node.attr, *parts], node.value
        if isinstance(node, ast.Name) and node.id in known:
            found.add(".".join([known[node.id], *parts]))
    return found


def names_in_prose(text: str) -> set[str]:
    """Dotted names in backticks that begin with a room, but for methods of variables that are named as a room is."""
    found = set()
    for name in re.findall(r"`(?:snnkit\.)?([a-z_]+(?:\.[A-Za-z_]\w*)+)(?=[`(\s,=\[])", text):
        room, _, last = name.replace("snnkit.", "").partition(".")
        of_variable = hasattr(torch.Tensor, last) or hasattr(torch.nn, last) or hasattr(snnkit.surrogate.ATan, last)
        if room in snnkit.__all__ and not of_variable and last not in ("py", "md", "json", "js", "yaml", "pt"):
            found.add("snnkit." + name.removeprefix("snnkit."))
    return found


@functools.cache
def names_written() -> dict[str, str]:
    """Every name of the package that pages and notebooks write, and where."""
    found: dict[str, str] = {}
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        blocks = [block for block in re.findall(r"```python\n(.*?)```", text, flags=re.S) if ">>>" not in block]
        names = names_in_prose(text).union(*map(names_in_code, blocks))
        found |= dict.fromkeys(names, path.name)
    for path in ROOT.glob("notebooks/src/*.py"):
        text = path.read_text(encoding="utf-8")
        cells = [cell.partition("\n")[2] for cell in text.split("\n# %%")[1:] if not cell.startswith(" [markdown]")]
        found |= dict.fromkeys(names_in_prose(text) | names_in_code("\n".join(cells)), path.name)
    return found


RESOLVE = """
import importlib, os, sys
# Once for all: what is not ours, and slow to import.
import IPython, ipywidgets, lightning.pytorch, nbformat, numpy, plotly.graph_objects, torch._dynamo
for group in sys.stdin.read().splitlines():
    sys.stdout.flush()
    if os.fork() == 0:
        for name in group.split():
            try:
                value = importlib.import_module("snnkit")
                for part in name.split(".")[1:]:
                    value = getattr(value, part)
            except BaseException as error:
                print(name, repr(error), flush=True)
        os._exit(0)
    os.wait()
"""


def test_every_name_that_a_page_writes_can_be_read_in_a_fresh_process():
    """In one process for each module: an import of another could make it an attribute of its room."""
    names = names_written() | {"snnkit.engine.js": "CHANGELOG.md"}  # which could be a file
    assert {"snnkit.lab.hardware.energy", "snnkit.train.lit.SpikingModule", "snnkit.engine.explain"} <= names.keys()
    modules = {m.name for m in pkgutil.walk_packages(snnkit.__path__, "snnkit.")}
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        parts = name.split(".")
        within = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
        groups.setdefault(next((one for one in within if one in modules), "snnkit"), []).append(name)
    assert len(groups) > 30
    command, lines = [sys.executable, "-c", RESOLVE], "\n".join(map(" ".join, groups.values()))
    failed = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
    assert not failed, "\n".join(f"{line} ({names[line.split()[0]]})" for line in failed.splitlines())


@pytest.mark.parametrize("room", sorted(ROOMS - {"snnkit.lab.cli", "snnkit.lab.sweep.workers"}))
def test_every_room_says_what_is_public(room):
    module = importlib.import_module(room)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        home = getattr(getattr(module, name), "__module__", "snnkit")
        assert home.partition(".")[0] in ("snnkit", "torch", "types", "typing"), name
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing  # noqa: B018
