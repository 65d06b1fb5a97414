"""The parts of this machine that snnkit needs: each line is green, amber or red, with its fix. Never raises."""

from __future__ import annotations

import functools
import html
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from snnkit.measure import machine
from snnkit.tables import count_of

GREEN, AMBER, RED = "green", "amber", "red"
PACKAGES = {
    "Jupyter": ("jupyterlab", "ipykernel", "nbclient", "jupytext"),
    "pictures": ("plotly", "ipywidgets", "matplotlib"),
}


@dataclass(frozen=True)
class Line:
    """One finding; `fix` is empty if nothing needs to be done."""

    name: str
    status: str
    value: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f"\n{'':22}-> {self.fix}" if self.fix else ""
        return f"{self.status:<6}  {self.name:<14}{self.value}{fix}"


def _line(name: str, good: bool, value: str, fix: str, otherwise: str = AMBER) -> Line:
    """Green and without the fix if it is good."""
    return Line(name, GREEN, value) if good else Line(name, otherwise, value, fix)


def _typed(*words: str) -> str:
    """A command as one types it into the shell of this system."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


class Report(list[Line]):
    """The findings, a line for each where it is shown."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str | None:
        """A card in a notebook; None, so the lines as text, where too little is installed for cards."""
        try:
            from snnkit.lab.course.card import TONES, framed
        except Exception:
            return None
        tones = {GREEN: "good", AMBER: "fair", RED: "bad"}
        rows = []
        for line in self:
            sign, colour = TONES[tones[line.status]]
            mark = f'<b role="img" aria-label="{line.status}" style="color:{colour};flex:0 0 1em">{sign}</b>'
            name = f'<b style="flex:0 0 8.5em;font-weight:600">{html.escape(line.name)}</b>'
            fix = f'<div style="color:{colour}">→ {html.escape(line.fix)}</div>' if line.fix else ""
            value = f'<div style="flex:1 1 16em;overflow-wrap:anywhere">{html.escape(line.value)}{fix}</div>'
            rows.append(f'<div style="display:flex;flex-wrap:wrap;gap:0 10px;margin-top:4px">{mark}{name}{value}</div>')
        bad, fair = (sum(line.status == status for line in self) for status in (RED, AMBER))
        word = (
            f"{bad} to fix" if bad else "everything is there" if not fair else f"works, with {count_of(fair, 'limit')}"
        )
        return framed("bad" if bad else "fair" if fair else "good", "This machine", word, "".join(rows))


def report() -> Report:
    """All findings. A check that fails itself becomes an amber line."""
    lines = Report()
    for check in CHECKS:
        try:
            lines += check()
        except Exception as error:
            name = check.__name__.strip("_").replace("_", " ")
            lines.append(Line(name, AMBER, f"check failed: {type(error).__name__}: {error}"))
    return lines


# --- the checks ------------------------------------------------------------------------------------------------------


def _python() -> Iterator[Line]:
    import snnkit

    place = "Colab" if machine.in_colab() else platform.system()
    value = f"{platform.python_version()} on {place} ({sys.executable})"
    yield _line("Python", sys.version_info >= (3, 10), value, "snnkit needs Python 3.10 or newer", RED)
    yield Line("snnkit", GREEN, f"{snnkit.__version__} in {Path(snnkit.__file__).parent}")


def _packages() -> Iterator[Line]:
    for name, packages in PACKAGES.items():
        versions = {package: machine.version(package) for package in packages}
        # Colab has its own front end.
        missing = [p for p, v in versions.items() if v is None and not (machine.in_colab() and name == "Jupyter")]
        value = ", ".join(f"{package} {version or 'missing'}" for package, version in versions.items())
        yield _line(name, not missing, value, _typed(sys.executable, "-m", "pip", "install", *missing))


def _torch() -> Iterator[Line]:
    try:
        import torch
    except Exception as error:  # a broken wheel raises OSError
        yield Line("torch", RED, f"{type(error).__name__}: {error}", "pip install torch")
        return
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    value = f"{torch.__version__} ({built}, {count_of(torch.get_num_threads(), 'thread')})"
    yield _line("torch", release >= (2, 8), value, 'pip install "torch>=2.8"', RED)


def _gpu() -> Iterator[Line]:
    import torch

    listed = machine.gpus()
    if not torch.cuda.is_available():
        if listed:
            fix = "update the NVIDIA driver, or restart" if torch.version.cuda else "install a torch built for CUDA"
            yield Line("GPU", AMBER, f"{listed[0].name} is there, but this torch can't use it", fix)
        elif torch.backends.mps.is_available():
            what = "Apple's, for which no engine compiles: device='auto' is the CPU; with 'mps', neurons run in eager"
            yield Line("GPU", AMBER, what)
        else:
            colab = "menu Runtime > Change runtime type > T4 GPU, then run again from the top"
            fix = colab if machine.in_colab() else ""
            yield Line("GPU", AMBER, "none: everything runs on the CPU, at small sizes", fix)
        return
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        driver = f", driver {listed[0].driver}" if listed else ""
        value = f"{device.name}, {device.total_memory / machine.GB:.0f} GB, sm_{device.major}{device.minor}{driver}"
        fix = "older than sm_70: Triton kernels can't run; engine='eager' works"
        yield _line(f"GPU {index}", (device.major, device.minor) >= (7, 0), value, fix)
    real = torch.cuda.is_bf16_supported(including_emulation=False)
    yield Line("bfloat16", GREEN if real else AMBER, "in hardware" if real else "emulated, slow: use float16")
    triton = machine.version("triton") or machine.version("pytorch-triton") or machine.version("triton-windows")
    yield _line("Triton", bool(triton), triton or "not installed: no fused CUDA kernels", "pip install triton")


def _compiler() -> Iterator[Line]:
    if compiler := machine.compiler():
        path, version = compiler
        yield Line("C++ compiler", GREEN, f"{version} ({path})")
    else:
        fix = "sudo apt-get install g++ (Debian, Ubuntu) or xcode-select --install (macOS); on Windows: WSL"
        yield Line("C++ compiler", AMBER, "none: neurons run in the eager engine, more slowly", fix)


def warm() -> Line:
    """Compile the kernels of all neurons of the kit and of pooling, side by side, so that no later process has to."""
    import torch

    from snnkit import engine, neuron, pooling

    device = "cuda" if torch.cuda.is_available() else "cpu"
    leaky = (neuron.Leaky(0.9, reset_mechanism=reset) for reset in ("subtract", "zero", "none"))
    neurons = [kind() for kind in (neuron.IF, neuron.LIF, neuron.PLIF, neuron.QIF, neuron.CubaLIF, neuron.LI)]
    neurons += [neuron.ALIF(), neuron.AdEx(), neuron.Izhikevich(), *leaky]
    neurons += [neuron.Synaptic(0.9, 0.8), neuron.Alpha(0.9, 0.8), neuron.Readout(0.9)]
    size = min(least for _, least in engine.AUTO[device])  # from it on, all are compiled

    def compile_both(layer: neuron.Neuron) -> None:
        x = torch.zeros(16, 1, size // 16, device=device, requires_grad=True)
        out, _ = layer.to(device)(x)
        out.sum().backward()

    start = time.monotonic()
    jobs = [pooling.kernels, *(functools.partial(compile_both, layer) for layer in neurons)]  # pooling: for a CPU
    try:
        with ThreadPoolExecutor(machine.cores()) as pool:
            every = [pool.submit(job) for job in jobs]
    except RuntimeError:  # no thread can be started
        for job in jobs:
            job()
    else:
        for one in every:
            one.result()
    return Line("kernels", GREEN, f"{len(neurons)} neurons compiled for {device} in {time.monotonic() - start:.1f} s")


def _resources() -> Iterator[Line]:
    cores = machine.cores()
    yield Line("processor", GREEN if cores >= 2 else AMBER, f"{machine.processor()}, {cores} cores")
    free = shutil.disk_usage(Path.cwd()).free / machine.GB
    yield _line("disk", free >= 1, f"{free:.1f} GB free here", "make room: 1 GB is needed", RED)
    total, free = machine.memory_gb()
    fix = "close other programs: a notebook needs about 2 GB"
    yield _line("memory", free >= 2, f"{free:.1f} of {total:.1f} GB free", fix)


def _data_sets() -> Iterator[Line]:
    from snnkit import data

    for name in ("digits", "mnist", "fashion"):
        here = data.available(name)
        fix = f'snnkit.data.load("{name}") downloads it; offline: point SNNKIT_DATA at a folder that holds {name}/'
        yield _line(f"data: {name}", here, "here" if here else "not here yet", fix, RED if name == "digits" else AMBER)


CHECKS: tuple[Callable[[], Iterator[Line]], ...] = (_python, _packages, _torch, _gpu, _compiler, _resources, _data_sets)
