"""What this machine has for snnkit, line by line, each green, amber or red with its fix. Never raises."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from snnkit.measure import machine

GREEN, AMBER, RED = "green", "amber", "red"
MARKS = {GREEN: "ok", AMBER: "!!", RED: "XX"}


@dataclass(frozen=True)
class Line:
    """One finding; `fix` is empty where nothing needs to be done."""

    name: str
    status: str
    value: str
    fix: str = ""


def report() -> list[Line]:
    """All findings. A check that fails itself becomes an amber line."""
    lines: list[Line] = []
    for check in CHECKS:
        try:
            lines += check()
        except Exception as error:
            name = check.__name__.strip("_").replace("_", " ")
            lines.append(Line(name, AMBER, f"check failed: {type(error).__name__}: {error}"))
    return lines


class Card:
    """The findings as a card in a notebook; as plain text elsewhere."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def __repr__(self) -> str:
        return as_text(self.lines)

    def _repr_html_(self) -> str:
        rows = "".join(_html_row(line) for line in self.lines)
        return f'<table style="border-collapse:collapse;text-align:left;min-width:32em"><tbody>{rows}</tbody></table>'


def card() -> Card:
    """What notebook 00 shows: a table with one row per finding."""
    return Card(report())


def as_text(lines: list[Line]) -> str:
    width = max((len(line.name) for line in lines), default=0)
    text = []
    for line in lines:
        text.append(f"[{MARKS[line.status]}] {line.name:<{width}}  {line.value}")
        if line.fix:
            text.append(f"     {'':<{width}}  -> {line.fix}")
    return "\n".join(text)


def as_dict(lines: list[Line]) -> list[dict[str, Any]]:
    return [asdict(line) for line in lines]


def print_report(lines: list[Line]) -> None:
    """On the terminal, in colour where rich is installed."""
    try:
        from rich.console import Console
        from rich.markup import escape as literal
        from rich.table import Table
    except ImportError:
        print(as_text(lines))
        return
    colours = {GREEN: "green", AMBER: "yellow", RED: "red"}
    table = Table(show_header=False, box=None, pad_edge=False)
    for line in lines:
        colour = colours[line.status]
        value = literal(line.value) + (f"\n[dim]-> {literal(line.fix)}[/dim]" if line.fix else "")
        table.add_row(f"[{colour}]●[/{colour}]", f"[{colour}]{line.status}[/{colour}]", line.name, value)
    Console(highlight=False).print(table)


def _html_row(line: Line) -> str:
    colour = {GREEN: "#1a9e5c", AMBER: "#d08a00", RED: "#d33a2f"}[line.status]
    fix = f'<div style="opacity:.75">&rarr; {escape(line.fix)}</div>' if line.fix else ""
    cell = "padding:.35em .8em;text-align:left;vertical-align:top"
    return (
        f'<tr><td style="{cell};white-space:nowrap"><span style="color:{colour}">&#9679;</span> {line.status}</td>'
        f'<td style="{cell}"><b>{escape(line.name)}</b></td><td style="{cell}">{escape(line.value)}{fix}</td></tr>'
    )


# --- the checks ------------------------------------------------------------------------------------------------------


def _python() -> Iterator[Line]:
    good = sys.version_info >= (3, 10)
    place = "Colab" if machine.in_colab() else platform.system()
    value = f"{platform.python_version()} on {place} ({sys.executable})"
    yield Line("Python", GREEN if good else RED, value, "" if good else "snnkit needs Python 3.10 or newer")


def _packages() -> Iterator[Line]:
    import snnkit

    yield Line("snnkit", GREEN, f"{snnkit.__version__} in {Path(snnkit.__file__).parent}")
    groups = {
        "Jupyter": ("jupyterlab", "ipykernel", "nbclient", "papermill", "jupytext"),
        "pictures": ("plotly", "ipywidgets", "matplotlib"),
    }
    for name, packages in groups.items():
        versions = {package: machine.version(package) for package in packages}
        # Colab has its own front end and runs nothing headless.
        lacking = [p for p, v in versions.items() if v is None and not (machine.in_colab() and name == "Jupyter")]
        value = ", ".join(f"{package} {version}" for package, version in versions.items() if version)
        if lacking:
            yield Line(name, AMBER, f"{value or 'nothing'}; missing: {', '.join(lacking)}", _install_lab())
        else:
            yield Line(name, GREEN, value)


def _install_lab() -> str:
    """How to get the packages of the group `lab`, from where the setting says that the kit lives."""
    from snnkit.tools.project import ProjectError, find

    try:
        project = find()
    except ProjectError:  # installed without its repository
        return f"in a clone of the repository: {sys.executable} -m pip install -e '.[lab]'"
    return f"pip install 'snnkit[lab] @ git+{project.repository}@{project.branch}'"


def _torch() -> Iterator[Line]:
    try:
        import torch
    except Exception as error:  # a broken wheel raises OSError
        yield Line("torch", RED, f"{type(error).__name__}: {error}", "pip install torch")
        return
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    good = release >= (2, 8)
    value = f"{torch.__version__} ({built}, {torch.get_num_threads()} threads)"
    yield Line("torch", GREEN if good else RED, value, "" if good else "pip install 'torch>=2.8'")


def _gpu() -> Iterator[Line]:
    import torch

    if not torch.cuda.is_available():
        listed = machine.gpus()
        if listed:
            driver = "update the NVIDIA driver, or restart"
            fix = driver if torch.version.cuda else "install a torch built for CUDA"
            yield Line("GPU", AMBER, f"{listed[0].name} is there, but this torch can't use it", fix)
        elif machine.in_colab():
            fix = "menu Runtime > Change runtime type > T4 GPU, then run again from the top"
            yield Line("GPU", AMBER, "none: everything runs on the CPU, at small sizes", fix)
        else:
            yield Line("GPU", AMBER, "none: everything runs on the CPU, at small sizes")
        return
    drivers = {gpu.driver for gpu in machine.gpus()}
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        driver = f", driver {', '.join(sorted(drivers))}" if drivers else ""
        value = f"{device.name}, {device.total_memory / machine.GIB:.0f} GiB, sm_{device.major}{device.minor}{driver}"
        if (device.major, device.minor) >= (7, 0):
            yield Line(f"GPU {index}", GREEN, value)
        else:
            yield Line(f"GPU {index}", AMBER, value, "older than sm_70: Triton kernels can't run; engine='eager' works")
    real = torch.cuda.is_bf16_supported(including_emulation=False)
    yield Line("bfloat16", GREEN if real else AMBER, "in hardware" if real else "emulated, slow: use float16")


def _compiler() -> Iterator[Line]:
    if compiler := machine.compiler():
        path, version = compiler
        yield Line("C++ compiler", GREEN, f"{version} ({path})")
    else:
        fix = "sudo apt-get install g++ (Debian, Ubuntu) or xcode-select --install (macOS)"
        yield Line("C++ compiler", AMBER, "none: torch.compile can't make CPU kernels", fix)


def _triton() -> Iterator[Line]:
    import torch

    version = machine.version("triton") or machine.version("pytorch-triton") or machine.version("triton-windows")
    if version:
        yield Line("Triton", GREEN, version)
    elif torch.cuda.is_available():
        yield Line("Triton", AMBER, "not installed: no fused CUDA kernels", "pip install triton")
    else:
        yield Line("Triton", GREEN, "not installed, and not needed without a GPU")


def _processor_and_memory() -> Iterator[Line]:
    cores = machine.cores()
    name = f"{machine.processor()}, {cores} core{'s' if cores > 1 else ''}"
    yield Line("processor", GREEN if cores >= 2 else AMBER, name)
    total, free = machine.memory_gib()
    good = free >= 2
    fix = "" if good else "close other programs: a notebook needs about 2 GiB"
    yield Line("memory", GREEN if good else AMBER, f"{free:.1f} of {total:.1f} GiB free", fix)


def _disk() -> Iterator[Line]:
    free = shutil.disk_usage(Path.cwd()).free / machine.GIB
    good = free >= 1
    fix = "" if good else "make room: 1 GiB is needed"
    yield Line("disk", GREEN if good else RED, f"{free:.1f} GiB free here", fix)


def _data_sets() -> Iterator[Line]:
    from snnkit import data

    for name in ("digits", "mnist", "fashion"):
        if data.available(name):
            yield Line(f"data: {name}", GREEN, "here")
        else:
            fix = f'snnkit.data.load("{name}") downloads it; offline: point SNNKIT_DATA at a folder that holds {name}/'
            yield Line(f"data: {name}", RED if name == "digits" else AMBER, "not here yet", fix)


CHECKS: tuple[Callable[[], Iterator[Line]], ...] = (
    _python,
    _packages,
    _torch,
    _gpu,
    _compiler,
    _triton,
    _processor_and_memory,
    _disk,
    _data_sets,
)
