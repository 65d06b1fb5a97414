"""Pages of the API reference: what each room of the library offers, for Sphinx to fill with docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# A page each, in this order; a page may hold several modules. A test asks that every room of the kit is on one.
PAGES: dict[str, tuple[str, ...]] = {
    "Neurons": ("snnkit.neuron",),
    "Surrogate gradients": ("snnkit.surrogate",),
    "Engines": ("snnkit.engine",),
    "Networks": ("snnkit.nn", "snnkit.models"),
    "Encodings and losses": ("snnkit.encode", "snnkit.loss"),
    "Data": ("snnkit.data", "snnkit.data.augment"),
    "Events": ("snnkit.data.events",),
    "Training": ("snnkit.train", "snnkit.train.recipes"),
    "Training through Lightning": ("snnkit.train.lit",),
    "Batch scripts for SLURM": ("snnkit.train.slurm",),
    "Local learning": ("snnkit.plasticity",),
    "Sweeps and the open challenge": ("snnkit.sweep", "snnkit.challenge"),
    "Devices and memory": ("snnkit.device",),
    "Text": ("snnkit.text",),
    "Exchange and export": ("snnkit.interop", "snnkit.export", "snnkit.quantize"),
    "Machines as numbers": (
        "snnkit.hardware.chips",
        "snnkit.hardware.roofline",
        "snnkit.hardware.ipu",
        "snnkit.hardware.energy",
        "snnkit.hardware.scaling",
    ),
    "Figures and explorers": ("snnkit.viz", "snnkit.viz.figures", "snnkit.viz.labs"),
    "Exercises": ("snnkit.course",),
}


def public(module: ModuleType) -> list[str]:
    """Names of the classes, functions and values that ``module`` offers, in the order in which it names them.

    They are those of ``__all__``; without it those that it imports ``as`` themselves, and those it defines itself and
    that begin without an underscore. Modules are left out: they have a section of their own, or are no user's concern.
    """
    names = getattr(module, "__all__", None)
    if names is None:
        names = dict.fromkeys(_offered(ast.parse(inspect.getsource(module))))
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def page(title: str, modules: tuple[str, ...], shown: dict[int, str]) -> str:
    """The page as MyST Markdown: each module's docstring, and a directive for each of its names.

    ``shown`` has the names of what stood on pages before, by id: such things are linked to, and the page's own added.
    """
    parts = [f"# {title}\n"]
    for name in modules:
        module = importlib.import_module(name)
        parts.append(f"## `{name}`\n")
        parts.append(_directive("automodule", name, "no-members"))
        for entry in public(module):
            value = getattr(module, entry)
            if id(value) in shown and _kind(value) != "autodata":
                parts.append(f"`{entry}`: see {{py:obj}}`{shown[id(value)]}`.\n")
            else:
                shown[id(value)] = f"{name}.{entry}"
                parts.append(_directive(_kind(value), f"{name}.{entry}"))
    return "\n".join(parts)


def file_name(title: str) -> str:
    return title.lower().replace(" ", "_") + ".md"


def write(folder: Path) -> list[str]:
    """Write all pages into ``folder``; their names without the suffix, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    shown: dict[int, str] = {}
    for title, modules in PAGES.items():
        (folder / file_name(title)).write_text(page(title, modules, shown), encoding="utf-8")
    return [file_name(title).removesuffix(".md") for title in PAGES]


def _offered(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.asname for alias in node.names if alias.asname and alias.asname == alias.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def _kind(value: object) -> str:
    if inspect.isclass(value):
        return "autoclass"
    return "autofunction" if inspect.isroutine(value) else "autodata"


def _directive(kind: str, name: str, *options: str) -> str:
    """A directive of reStructuredText: docstrings are written in it."""
    options = (*options, *(("members", "show-inheritance") if kind == "autoclass" else ()))
    lines = [f".. {kind}:: {name}", *(f"   :{option}:" for option in options)]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"
