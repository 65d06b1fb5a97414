"""What importing costs: torch, NumPy and nothing heavy besides; checked in a fresh process."""

import subprocess
import sys

import pytest

import snnkit

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
    assert not modules_after("import snnkit, snnkit.cli") & {"torch", "snnkit.viz"}
    assert "torch" not in modules_after("import snnkit.hardware.chips, snnkit.hardware.scaling")


def test_rooms_are_loaded_when_named():
    loaded = modules_after("import snnkit; snnkit.encode, snnkit.loss, snnkit.models, snnkit.data, snnkit.train")
    assert "snnkit.train.loop" in loaded and not loaded & set(HEAVY.split())


def test_unknown_room():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        snnkit.nothing  # noqa: B018
    assert "viz" in dir(snnkit)
