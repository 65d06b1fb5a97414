"""Calls every public callable with one argument bad at a time, and judges the answers.

    python -m tests.fuzz.fuzzer                       # every bad call; minutes
    python -m tests.fuzz.fuzzer --calls 500 --seed 7  # some, drawn at random
    python -m tests.fuzz.fuzzer --only encode train.fit

An answer is

- ``fine``: the call returns (the value may be a valid one);
- ``clear``: an error raised by the kit that names the argument or the value, an OSError that names its file, or what
  a module or function that was handed over says of its own input;
- ``obscure``: any other error, such as an AttributeError, or a message of PyTorch about something else;
- ``assertion``, ``crash``, ``hang``, ``memory``, ``half-written``: what must never happen.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import functools
import inspect
import json
import math  # noqa: F401  used in BAD
import os
import random
import re
import resource
import select
import signal
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, empty, full, nn, tensor, zeros  # noqa: F401

import snnkit
from snnkit import checks
from snnkit.neuron import Neuron
from snnkit.surrogate import Surrogate

from . import valid_calls

SECONDS = 20  # for one call
MEMORY = 1 << 30  # bytes that one call may add to the process
SPACE = 6 << 30  # bytes of address space that it may reserve
CHUNK = 200  # calls of one process
NEVER = ("assertion", "crash", "hang", "memory", "half-written")
PACKAGE = str(Path(snnkit.__file__).parent)


class Case(NamedTuple):
    """One bad call. ``bad`` is an expression of ``BAD``, or the number of a change of the valid value."""

    name: str
    argument: str
    bad: str | int


class Answer(NamedTuple):
    case: Case
    kind: str
    message: str


# --- bad values -------------------------------------------------------------------------------------------------------


def takes_nothing() -> None:
    return None


def returns_one(*_: Any, **__: Any) -> int:
    return 1


def rubbish() -> str:
    """The path of a file of no format."""
    return str(valid_calls.written("rubbish", bytes(range(256))))


BAD = """
None True "nonsense" "" b"x" -1 0 1 0.5 math.nan math.inf -math.inf 1e308 1e-320 2**63 10**30 -10**30 1j [] [None] () {}
{1:2} {1,2} object() int takes_nothing returns_one iter([1,2]) iter([]) empty(0) zeros(3) zeros(2,1,2,1,2) tensor(0.5)
full((2,),math.nan) ["a","b"] [1,2.5] "missing/file" rubbish() Path(".") nn.Linear(2,2) ValueError("x")
torch.device("meta") torch.int8
""".split()  # noqa: SIM905  expressions


EACH = (None, "x", -1, 0, float("nan"), 10**30, torch.zeros(2))  # in place of a part of a valid value
HOSTILE = (" ", "é" * 300, "../../x", "a\nb", "$(x)", "<b>")  # in place of a text


def changes(valid: Any) -> list[Any]:
    """Values near a valid one, most of them bad."""
    if isinstance(valid, Tensor):
        return _tensors(valid.detach())
    if isinstance(valid, nn.Module):
        return [type(valid), nn.Identity(), nn.Sequential(), valid.half(), nn.Module()]
    if isinstance(valid, Mapping):
        first, given = next(iter(valid), "a"), dict(valid)
        fewer = {key: value for key, value in given.items() if key != first}
        return [fewer, given | {"unknown": 1}, given | {1: 1}, [*given.items()], *({**given, first: v} for v in EACH)]
    if isinstance(valid, str):
        return [f"{valid}\0", valid.upper(), f"{valid}x", valid * 10_000, valid.encode(), *HOSTILE]
    if isinstance(valid, (list, tuple)):
        each = [type(valid)([v] * len(valid)) for v in EACH] if type(valid) in (list, tuple) else []
        more = [[*valid, None], [*valid, "x"], list(valid)[:-1], list(valid)[::-1], iter(valid), dict.fromkeys("ab")]
        return each + more
    if isinstance(valid, Path):
        half = valid.read_bytes()[: valid.stat().st_size // 2] if valid.is_file() else b""
        hurt = valid_calls.written("hurt", half) if half else valid
        return [hurt, str(valid) + "/", valid_calls.written("empty", b""), valid / "below"]
    if isinstance(valid, (int, float)):
        tensors = [torch.tensor(valid), torch.full((2,), float(valid))]
        return [-valid, valid + 0.5, str(valid), valid * 1000, [valid], *tensors]
    if isinstance(valid, types.FunctionType):
        return [lambda *_: None, lambda *_: "x", lambda *_: torch.zeros(2), lambda *_: torch.full((2, 3), float("nan"))]
    return []


def _tensors(valid: Tensor) -> list[Any]:
    number = valid.float()
    kinds = (torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64, torch.uint8)
    shapes = [valid[None], valid.flatten(), number.sum()]
    if valid.ndim:
        shapes += [valid[:0], valid[..., :0], valid[:1], valid[0], torch.cat([valid, valid]), valid.transpose(0, -1)]
    values = [number * float("nan"), number + float("inf"), -number - 1, number * 1e38, valid.long() + 2**40]
    others = [valid.tolist(), valid.numpy(), valid.to("meta"), valid.to_sparse(), number.clone().requires_grad_()]
    return [*map(number.to, kinds), *shapes, *values, *others]


MOST_CHANGES = 25


# --- judging ----------------------------------------------------------------------------------------------------------


@functools.cache
def raises(path: str) -> set[int]:
    """The lines of a file of the kit that belong to ``raise`` statements."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None)
    return {line for node in found for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def parts(value: Any) -> list[Any]:
    return [*value, *(value.values() if isinstance(value, Mapping) else ())] if isinstance(value, Collection) else []


def names_it(message: str, argument: str, value: Any) -> bool:
    """Whether a message names an argument, or shows its value, shape or kind, or a part of it."""
    if re.search(rf"\b{re.escape(argument.removesuffix('s'))}s?\b", message):
        return True
    with contextlib.suppress(Exception):
        if any(f"but it is {checks.shown(part)}" in message for part in parts(value)):
            return True
        shape = getattr(value, "shape", None)
        shown = [checks.shown(value)[:60], getattr(value, "__name__", ""), type(value).__name__, str(value)[:60]]
        shown += [str(list(shape)), str(value.dtype)] if shape is not None else []
        return any(text and text in message for text in shown)
    return False


def judge(error: BaseException, argument: str, value: Any) -> str:
    if isinstance(error, AssertionError):
        return "assertion"
    if isinstance(error, OSError) and error.filename is not None:
        return "clear"
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    usual = not isinstance(
        error, (AttributeError, LookupError, ArithmeticError, MemoryError, StopIteration, SystemExit)
    )
    ours = last.filename.startswith(PACKAGE) and last.lineno in raises(last.filename)
    if usual and ours and names_it(str(error), argument, value):
        return "clear"
    # What was handed over fails in its own code.
    within = any(os.sep + os.path.join("torch", "nn", "modules", "") in frame.filename for frame in frames[-2:])
    theirs = last.filename == __file__ or f"{getattr(value, '__name__', '')}() " in str(error)
    return "clear" if theirs or (within and not last.filename.startswith(PACKAGE)) else "obscure"


def use(result: Any) -> None:
    """What a bad argument does may show only then."""
    if inspect.isgenerator(result):
        next(result, None)
        result.close()
    elif isinstance(result, contextlib._GeneratorContextManager):
        with result:
            pass
    elif isinstance(result, Neuron) and type(result) is not Neuron:
        result(torch.rand(5, 2, 8))
    elif isinstance(result, Surrogate) and type(result) is not Surrogate:
        result(torch.randn(4, requires_grad=True)).sum().backward()


def files() -> set[Path]:
    return {path for path in Path().rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def answer(case: Case, function: Callable[..., Any]) -> tuple[str, str]:
    """What the kit says to one bad call: the kind of answer, and the message. "" where there is no such call."""
    torch.manual_seed(0)
    bound, arguments = valid_calls.valid(case.name, function)
    if isinstance(case.bad, str):
        value = eval(case.bad, globals())
    else:
        default = inspect.signature(function).parameters.get(case.argument)
        near = changes(arguments.get(case.argument, default.default if default else None))
        if case.bad >= len(near):
            return "", ""
        value = near[case.bad]
    before, used = files(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kind, message = "fine", ""
    try:
        use(valid_calls.call(bound, {**arguments, case.argument: value}))
    except BaseException as error:
        kind, message = judge(error, case.argument, value), f"{type(error).__name__}: {error}"
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{message[:300]} ({Path(place.filename).name}:{place.lineno})"
        # Files are written whole: beside their place at first, then put there in one step.
        left = [path for path in files() - before if not path.stat().st_size or path.name.startswith(".")]
        kind, message = ("half-written", f"{left}: {message}") if left else (kind, message)
    if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) * 1024 > MEMORY:
        kind = "memory"
    return kind, message


# --- running ----------------------------------------------------------------------------------------------------------


def cases(only: Iterable[str] = ()) -> Iterator[Case]:
    for name, function in valid_calls.callables():
        if not valid_calls.called(name) or (only and not name.startswith(tuple(only))):
            continue
        for parameter in valid_calls.parameters(function, name):
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            endless = parameter.name in valid_calls.ENDLESS
            words = [word for word in BAD if not (endless and word in ("2**63", "10**30"))]
            changed = range(0 if endless else MOST_CHANGES)
            yield from (Case(name, parameter.name, bad) for bad in (*words, *changed))


def answers(wanted: list[Case]) -> Iterator[Answer]:
    """In processes of their own, so that a crash or a hang costs one call."""
    functions = dict(valid_calls.callables())
    while wanted:
        chunk = wanted[:CHUNK]
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            _work(chunk, functions, writer)
        os.close(writer)
        done, rest, silent = 0, b"", False
        while done < len(chunk):
            silent = not select.select([reader], [], [], SECONDS)[0]
            part = b"" if silent else os.read(reader, 1 << 16)
            if not part:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield Answer(chunk[done], *json.loads(line))
                done += 1
        os.close(reader)
        if done < len(chunk):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if done < len(chunk):
            yield Answer(chunk[done], "hang" if silent else "crash", f"status {status}")
            done += 1
        wanted = wanted[done:]


def _work(chunk: list[Case], functions: dict[str, Callable[..., Any]], writer: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPACE, used + SPACE))
    warnings.simplefilter("ignore")
    for case in chunk:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                kind, message = answer(case, functions[case.name])
            except BaseException as error:
                kind, message = "invalid", f"{type(error).__name__}: {error}"
            os.chdir(os.sep)
        os.write(writer, json.dumps([kind, message]).encode() + b"\n")
    os._exit(0)


def report(found: Iterable[Answer]) -> collections.Counter[str]:
    """Print what is not fine, and count the answers of each kind."""
    counts: collections.Counter[str] = collections.Counter()
    for case, kind, message in found:
        if kind:
            counts[kind] += 1
            if kind not in ("fine", "clear"):
                print(kind, *case, message.replace("\n", " "), sep=" | ", flush=True)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    # Nothing reaches a network, a user's files or a screen.
    os.environ |= {"SNNKIT_HEADLESS": "1", "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(PACKAGE).parent), os.environ.get("PYTHONPATH", "")])
    torch.set_num_threads(1)
    wanted = list(cases(given.only))
    if given.calls is not None:
        # A change that a value does not have is not counted: draw more.
        random.Random(given.seed).shuffle(wanted)
    rank, world = map(int, given.share.split("/"))
    mine = wanted[rank::world]
    limit = len(mine) if given.calls is None else given.calls // world
    print(f"seed {given.seed}, {limit} of {len(wanted)} calls", flush=True)
    counts: collections.Counter[str] = collections.Counter()
    found = answers(mine)
    counted = (one for one in found if one.kind)
    counts = report(one for one, _ in zip(counted, range(limit), strict=False))
    print(json.dumps(counts), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
