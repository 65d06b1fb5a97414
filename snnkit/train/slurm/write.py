"""The sbatch script of a request."""

from __future__ import annotations

import re
import shlex

from .formats import clock
from .request import Request
from .training import flag, is_training, option

# Ports below those that Linux hands out by itself (32768 on), and other ones for jobs that share a node.
PORT = "$((20000 + SLURM_JOB_ID % 10000))"

# Containers have no scontrol. `snnkit train` ends with this code when it has saved, and wants to be requeued.
REQUEUE = ['if [ "${status:-0}" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi', 'exit "${status:-0}"']


def script(request: Request) -> str:
    """The script that ``sbatch`` takes: what is asked of the cluster, how the processes meet, and one ``srun``.

    ``explain`` says what each line is for, and ``check`` finds nothing wrong with it.

    Raises:
        TypeError: request is no Request.
    """
    if not isinstance(request, Request):
        raise TypeError(f"request must be a slurm.Request; got {type(request).__name__}")
    parts = [["#!/bin/bash", *_directives(request)], ["set -e", *_software(request)], _meeting(request)]
    parts.append(_start(request))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _directives(request: Request) -> list[str]:
    options: list[tuple[str, object]] = [
        ("job-name", request.name),
        ("account", request.account),
        ("partition", request.partition),
        ("nodes", request.nodes),
        ("ntasks-per-node", request.tasks),
        ("gpus-per-node", request.gpus_per_node or None),
        ("cpus-per-task", request.cpus_per_task),
        ("mem", request.memory),
        ("time", clock(request.limit)),
    ]
    if request.requeue:
        options += [("signal", f"{request.signal}@{request.signal_seconds}"), ("requeue", "")]
        options += [("open-mode", "append")]
    else:
        options += [("no-requeue", "")]
    options += [("output", request.output), ("chdir", request.workdir)]
    return [f"#SBATCH --{name}{_value(value)}" for name, value in options if value is not None]


def _value(value: object) -> str:
    text = str(value)
    if text == "":
        return ""
    return f"={text}" if re.fullmatch(r"[\w%@:./+,=\[\]-]+", text) else f'="{text}"'


def _software(request: Request) -> list[str]:
    lines = [f"module load {shlex.join(request.modules)}"] if request.modules else []
    if request.venv is not None:
        lines.append(f"source {shlex.quote(request.venv.rstrip('/') + '/bin/activate')}")
    return lines


def _meeting(request: Request) -> list[str]:
    lines = [
        f'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1){request.address_suffix}',
        f"export MASTER_PORT={PORT}",
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
    ]
    if request.address_suffix:  # or names of nodes lead into the slow network all the same
        lines += [f"export {name}_SOCKET_IFNAME=ib0" for name in ("NCCL", "GLOO")]
    return lines + [f"export {name}={shlex.quote(value)}" for name, value in request.environment.items()]


def _start(request: Request) -> list[str]:
    lines = ['srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"']
    if request.container is not None:
        nv = ["--nv"] if request.gpus_per_node else []
        lines.append(shlex.join(["apptainer", "exec", *nv, request.container]))
    lines.append(shlex.join(request.words))
    if added := _added(request):
        lines.append(shlex.join(added))
    inside = request.container is not None and request.requeue and is_training(request.words)
    if inside:
        lines[-1] += " || status=$?"
    step = [f"{'  ' if number else ''}{line}" + " \\" * (line is not lines[-1]) for number, line in enumerate(lines)]
    return step + REQUEUE if inside else step


def _added(request: Request) -> list[str]:
    """What the job decides for ``snnkit train``, where the command doesn't say it already."""
    words = request.words
    if not is_training(words):
        return []
    added = {"--nodes": str(request.nodes), "--devices": str(request.tasks)}
    if request.requeue:
        added["--requeue-signal"] = request.signal
    options = [word for name, value in added.items() if option(words, name) is None for word in (name, value)]
    resumes = option(words, "--checkpoint") is not None and not flag(words, "--resume")
    return options + ["--resume"] * resumes
