"""One neuron layer over time, engine against engine and against the peers that are installed.

    python -m snnkit.bench.neurons --neurons 262144 --steps 32

Every contestant gets the same input; spikes are compared with ours before anything is timed. Each peer has its own
neuron, so each row also gives the ratio to our neuron of the same equation.
"""

from __future__ import annotations

import os
import sys

import click
import torch
from torch import Tensor

from .peers import Forward, peers
from .timing import Timing, race

# glibc hands tensors of more than 32 MiB back to the kernel as soon as they are freed; faulting their pages in again
# takes longer than the arithmetic. These settings keep them, for us and for the peers alike.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}


@click.command()
@click.option("--neurons", default=2**18, show_default=True, type=click.IntRange(1), help="N, neurons in the layer.")
@click.option("--steps", default=32, show_default=True, type=click.IntRange(1), help="T, time steps.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="CPU threads.")
@click.option(
    "--repeats", default=11, show_default=True, type=click.IntRange(3), help="Rounds of which the median is taken."
)
@click.option(
    "--keep-memory/--no-keep-memory", default=True, help="Let the allocator keep large tensors (see ALLOCATOR)."
)
def main(neurons: int, steps: int, threads: int, repeats: int, keep_memory: bool) -> None:
    """Time forward and forward+backward of a LIF layer beside the peers; prints ratios."""
    wanted = {**ALLOCATOR, "OMP_NUM_THREADS": str(threads)}
    if keep_memory and any(os.environ.get(name) != value for name, value in wanted.items()):
        # The C library reads these when the process starts.
        os.execve(
            sys.executable, [sys.executable, "-m", "snnkit.bench.neurons", *sys.argv[1:]], {**os.environ, **wanted}
        )
    torch.set_num_threads(threads)
    found = peers()
    if not found:
        click.echo("no peers are installed; `make peers` brings them", err=True)
    x = torch.rand(steps, 1, neurons) * 1.5
    forwards: dict[str, Forward] = {}
    pairs = {}
    for peer in found:
        ours = f"snnkit as {peer.name}"
        neuron = peer.ours("block")
        forwards[peer.name], forwards[ours] = peer.forward, lambda x, neuron=neuron: neuron(x)[0]
        pairs[peer.name] = ours
        _check_equal(peer.name, peer.forward(x), forwards[ours](x))
    if not found:
        from ..neuron import LIF

        neuron, eager = LIF(engine="block"), LIF(engine="eager")
        forwards = {"eager": lambda x: eager(x)[0], "snnkit": lambda x: neuron(x)[0]}
        pairs = {"eager": "snnkit"}
    click.echo(f"T={steps} N={neurons} float32, {threads} thread(s), torch {torch.__version__}, median of {repeats}")
    destination = torch.empty_like(x)
    copy = race({"copy": lambda: destination.copy_(x)}, repeats)["copy"]
    click.echo(f"copy of x: {copy.median * 1e3:.2f} ms")
    for title, backward in (("forward", False), ("forward+backward", True)):
        results = race({name: _pass(f, x, backward) for name, f in forwards.items()}, repeats)
        _table(title, results, pairs)


def _pass(forward: Forward, x: Tensor, backward: bool):
    if not backward:

        def run() -> None:
            with torch.no_grad():
                forward(x)

        return run
    leaf = x.clone().requires_grad_()
    gradient = torch.rand_like(x)

    def run_both() -> None:
        leaf.grad = None
        forward(leaf).backward(gradient)

    return run_both


def _check_equal(name: str, theirs: Tensor, ours: Tensor) -> None:
    different = (theirs.to(ours.dtype) != ours).float().mean().item()
    # Another order of float32 operations may move a membrane across the threshold now and then.
    if different > 1e-3:
        raise click.ClickException(f"{name} computes something else: {different:.2%} of spikes differ; it is not timed")


def _table(title: str, results: dict[str, Timing], pairs: dict[str, str]) -> None:
    click.echo(f"\n{title:24s}{'ms':>10s}{'10-90 %':>18s}{'first call s':>14s}{'times ours':>12s}")
    for name, timing in results.items():
        low, high = timing.spread
        ratio = f"{timing.median / results[pairs[name]].median:.1f}" if name in pairs else ""
        spread = f"{low * 1e3:.2f}-{high * 1e3:.2f}"
        click.echo(f"{name:24s}{timing.median * 1e3:10.2f}{spread:>18s}{timing.first:14.2f}{ratio:>12s}")
    fastest = min(pairs, key=lambda name: results[name].median)
    slowest_of_ours = max(results[name].median for name in pairs.values())
    click.echo(f"fastest other ({fastest}) / our slowest: {results[fastest].median / slowest_of_ours:.1f}")


if __name__ == "__main__":
    main()
