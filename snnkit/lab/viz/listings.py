"""Program text: listings side by side, and a batch script with what each line is for."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from textwrap import dedent, wrap
from typing import Any

import torch

from snnkit import checks
from snnkit.engine import cpp, equation_of, programs, triton
from snnkit.lab.viz import theme
from snnkit.lab.viz.explorer import explore
from snnkit.neuron import Neuron
from snnkit.train import slurm


@dataclass(frozen=True)
class Listing:
    """Result of ``listing``: text with ``print``, columns in a notebook."""

    parts: Mapping[str, str]

    def __repr__(self) -> str:
        return "\n\n".join(f"== {title}\n{text.rstrip()}" for title, text in self.parts.items())

    def _repr_html_(self) -> str:
        inside = "margin:0;padding:.2em 0;overflow:auto;max-height:30em;white-space:pre;background:none"
        inside += ";font-size:12px;line-height:1.4;font-family:var(--jp-code-font-family,monospace)"
        heading = f"opacity:.8;border-bottom:1px solid {theme.AXIS}"
        columns = "".join(
            f'<div style="flex:1 1 22em;min-width:0"><div style="{heading}">{html.escape(title)}</div>'
            f'<pre style="{inside}">{html.escape(text.rstrip())}</pre></div>'
            for title, text in self.parts.items()
        )
        box = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:.4em 1.6em;margin:.4em 0"
        return f'<div class="snnkit-listing" style="{box}">{columns}</div>'


@checks.arguments
def listing(texts: Mapping[str, str]) -> Listing:
    """Listings, title to text, side by side if the page is wide enough, otherwise one below the other."""
    if not texts:
        raise ValueError("texts must hold at least one title with its text, but it is empty")
    return Listing(texts)


@checks.arguments
def generated(cell: Neuron, *, backward: bool = False) -> Listing:
    """The code that becomes of a neuron's step: graph, program of one neuron, C++ and Triton.

    Args:
        backward: show the program and the C++ of the backward pass instead.

    Raises:
        engine.NotElementwise, engine.Untranslatable: the step cannot be compiled.
    """
    state = cell.initial_state(torch.zeros(1))
    equation = equation_of(cell, state, torch.float32, torch.device("cpu"))  # it is the same on every device
    forward, back = programs(equation)
    if backward:
        text = cpp.backward_source(equation, torch.float32, (), (True,))[0].partition("// Back in time")[2]
        title = f"backward through one step: {len(back.ops)} operations, with those of forward again"
        return Listing({title: _assignments(back), "the same in C++": _between(text, "#pragma omp simd", "flush(")})
    text, _ = cpp.forward_source(equation, torch.float32, torch.float32, ())
    return Listing(
        {
            "1 · the graph": equation.forward.code.replace("torch.ops.", "").strip(),
            f"2 · the program of one neuron: {len(forward.ops)} operations": _assignments(forward),
            "3 · C++": _between(text, "for (int64_t t = 0", "flush("),
            "4 · Triton": _between(triton.source_of(equation), "def ", "# Step 2."),
        }
    )


def inductor(function: Callable[..., Any], *args: torch.Tensor) -> Listing:
    """The kernel, without its wrapper, that ``torch.compile`` generates from a function of these tensors."""
    from torch._inductor.utils import run_and_get_code

    with torch.no_grad():
        _, (code, *_) = run_and_get_code(torch.compile(function), *args)
    kernel = re.search(r"'''\n(.*?)'''", code, re.DOTALL)
    return Listing({f"torch.compile, {getattr(function, '__name__', 'a function')}": kernel[1] if kernel else code})


def _assignments(program: Any) -> str:
    lines = [f"{op.name} = {op.kind}({', '.join(map(str, op.arguments))})" for op in program.ops]
    return "\n".join([*lines, f"return {', '.join(map(str, program.results))}"])


def _between(text: str, first: str, last: str) -> str:
    """The lines from the one that contains ``first`` to the next that contains ``last``, dedented."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i in range(start, len(lines)) if last in lines[i])
    return dedent("\n".join(lines[start : end + 1]))


@dataclass(frozen=True)
class SbatchTable:
    """Result of ``sbatch_table``: text, each line above what it is for and its problems.

    Attributes:
        lines: (line, what it is for) of each.
        problems: the result of ``slurm.check``.
    """

    lines: tuple[tuple[str, str], ...]
    problems: tuple[slurm.Problem, ...]

    def __repr__(self) -> str:
        rows = []
        for number, (line, why) in [*enumerate(self.lines, 1), (None, ("", ""))]:  # at the end problems of no line
            problems = [f"✗ {one.what} Fix: {one.fix}." for one in self.problems if one.line == number]
            rows += [line, *(f"    {row}" for text in (why, *problems) for row in wrap(text, 100))]
        return "\n".join(rows)


def sbatch_table(script: slurm.Request | str) -> SbatchTable:
    """Each line of a batch script, given as a text or a request, with what it is for, and its problems."""
    lines = tuple(slurm.explain(script))
    return SbatchTable(lines, tuple(slurm.check("\n".join(line for line, _ in lines))))


def sbatch_form(command: str, **values: Any) -> None:
    """An explorer that writes a batch script and explains each line.

    Args:
        command: what each process runs, as typed in a shell.
        values: of ``slurm.Request``, to begin with.
    """
    request = slurm.Request(command, **values)

    def written(
        nodes: int = request.nodes,
        time: str | int = request.time,
        gpus_per_node: int = request.gpus_per_node,
        cpus_per_task: int = request.cpus_per_task,
        signal_seconds: int = request.signal_seconds,
        requeue: bool = request.requeue,
    ) -> SbatchTable:
        changed = {"nodes": nodes, "time": time, "gpus_per_node": gpus_per_node, "cpus_per_task": cpus_per_task}
        try:
            return sbatch_table(replace(request, signal_seconds=signal_seconds, requeue=requeue, **changed))
        except ValueError as error:  # a mistake that the form is there to show
            return SbatchTable(((f"# {error}", "no script is written"),), ())

    limits = list(dict.fromkeys(["00:02:00", "00:30:00", request.time, "24:00:00"]))
    sliders: dict[str, Any] = {"nodes": (1, 16), "time": limits, "gpus_per_node": (0, 8), "cpus_per_task": (1, 64)}
    explore(written, **sliders, signal_seconds=(10, 600, 10), requeue=request.requeue)
