"""The command ``snnkit bench neurons``. PyTorch is imported when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

NEURONS = {"cpu": (2**12, 2**16, 2**18), "cuda": (2**12, 2**16, 2**20)}
STEPS = (8, 16, 32, 64, 128)
DTYPES = ("float32", "bfloat16", "float16")
MODES = ("inference", "training")
QUICK = {"neurons": (2**10,), "steps": (8,), "repeats": 3}


@click.command()
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option(
    "--neurons",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Neurons in the layer; repeat for more sizes. Default: 4096, 65536, and 2^18 on a CPU or 2^20 on CUDA.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    multiple=True,
    metavar="T",
    help="Time steps; repeat for more. Default: 8, 16, 32, 64, 128.",
)
@click.option(
    "--dtype",
    "dtypes",
    type=click.Choice(DTYPES),
    multiple=True,
    help="Of the input; repeatable. Default: float32 and bfloat16.",
)
@click.option("--mode", "modes", type=click.Choice(MODES), multiple=True, help="Repeatable. Default: both.")
@click.option(
    "--engines",
    multiple=True,
    metavar="NAME",
    help="Of ours, or torch.compile (the loop as it stands); repeatable. Default: every one made for the device.",
)
@click.option("--peers/--no-peers", default=True, help="Time the other libraries that are installed (`make peers`).")
@click.option("--repeats", type=click.IntRange(3), default=None, help="Rounds of which the median is taken.  [11]")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [on a CPU: 1]")
@click.option(
    "--keep-memory/--no-keep-memory",
    default=True,
    help="Let the C library keep large tensors that are freed, instead of handing their pages back to the kernel "
    "(Linux, CPU). The process starts itself anew for that, as the settings are read when it starts.",
)
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE.json", help="Write a record.")
@click.option("--quick", is_flag=True, help="One tiny size: shows that everything runs, its times mean nothing.")
def neurons(
    device: str,
    neurons: tuple[int, ...],
    steps: tuple[int, ...],
    dtypes: tuple[str, ...],
    modes: tuple[str, ...],
    engines: tuple[str, ...],
    peers: bool,
    repeats: int | None,
    threads: int | None,
    keep_memory: bool,
    out: str | None,
    quick: bool,
) -> None:
    """Time a layer of neurons over time: our engines and the installed peers, inference and training.

    Spikes and gradients are compared before anything is timed. "x floor" is the time over that of the bytes that have
    to be moved at the bandwidth of a copy, measured in the same rounds. "first s" is the first call, which may find
    kernels on disk: point TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR and SNNKIT_KERNELS at empty folders to see them
    compiled. "held B" are the bytes per neuron and step that are kept for backward, "x ours" is the time over that of
    our fastest compiled engine.
    """
    import torch

    from .contestants import engine_names
    from .neurons import Arguments, benchmark

    where = chosen_device(device, torch.cuda.is_available())
    unknown = [name for name in engines if name not in engine_names()]
    if unknown:
        raise click.UsageError(f"--engines must be one of {', '.join(engine_names())}, was {unknown[0]!r}")
    small: dict[str, Any] = QUICK if quick else {}
    prepare_process(where, threads, keep_memory)
    arguments = Arguments(
        device=where,
        neurons=neurons or small.get("neurons") or NEURONS[where],
        steps=steps or small.get("steps") or STEPS,
        dtypes=dtypes or DTYPES[:2],
        modes=modes or MODES,
        engines=engines or None,
        peers=peers,
        repeats=repeats or small.get("repeats") or 11,
    )
    measured(benchmark, arguments, out)


def measured(benchmark: Callable[..., dict[str, Any]], arguments: Any, out: str | None) -> dict[str, Any]:
    """The record that ``benchmark`` makes, telling the user how it goes; ClickException where nobody could be timed."""
    from .record import RecordError

    try:
        result = benchmark(arguments, click.echo, out)
    except (OSError, RecordError) as error:
        raise click.ClickException(str(error)) from None
    if out:
        click.echo(f"\nrecord: {out}")
    if not result["rows"]:
        raise click.ClickException("nobody could be timed; the lines above say why")
    return result


def prepare_process(device: str, threads: int | None, keep_memory: bool) -> None:
    """Threads (one on a CPU, unless asked) and allocator of this process, which may start itself anew for them."""
    import torch

    from ..measure.memory import MALLOC_SETTINGS

    if device == "cpu":
        threads = threads or 1
        if keep_memory:
            # For us and for the peers alike.
            start_anew_with(MALLOC_SETTINGS | {"OMP_NUM_THREADS": str(threads)})
    if threads is not None:
        torch.set_num_threads(threads)


def chosen_device(asked: str, has_cuda: bool) -> str:
    if asked == "cuda" and not has_cuda:
        raise click.UsageError("--device cuda: PyTorch finds no CUDA device here (`snnkit doctor` says why)")
    return ("cuda" if has_cuda else "cpu") if asked == "auto" else asked


def start_anew_with(settings: dict[str, str]) -> None:
    """Replace this process by itself with ``settings`` in its environment, unless it has them."""
    if not sys.platform.startswith("linux") or all(os.environ.get(name) == value for name, value in settings.items()):
        return
    # The arguments as the interpreter got them: they are the same for the command, `python -m` and a script.
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **settings})
