"""Which engine is taken and why, what a step may be, and what is said when it can't be compiled."""

import html
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from snnkit import engine
from snnkit.engine import plan
from snnkit.engine.cpp import toolchain as missing
from snnkit.neuron import ALIF, LIF, PLIF, Leaky, MembraneState, Neuron, Recurrent
from snnkit.nn import Sequential

REST = (torch.zeros(()).expand(2, 3),)
x = torch.rand(5, 2, 3)


@pytest.fixture(autouse=True)
def forget_warnings():
    plan._warn_once.cache_clear()


class Mixing(Neuron):
    """Not elementwise: subtracts the mean over neurons."""

    def step(self, x, state):
        v = state.v + x - x.mean()
        return (v > 1).to(v.dtype), MembraneState(v)


class Branching(Neuron):
    """Decides in Python from the data."""

    def step(self, x, state):
        v = state.v + x
        if v.max() > 1:
            v = v * 0
        return v, MembraneState(v)


class Hoarding(Neuron):
    """Keeps a tensor that is neither parameter nor buffer."""

    def __init__(self):
        super().__init__(engine="block")
        self.bias = torch.tensor([0.1, 0.2, 0.3])

    def step(self, x, state):
        v = state.v + x + self.bias
        return v, MembraneState(v)


class Making(Neuron):
    """Makes a tensor of a number in each step."""

    def step(self, x, state):
        v = state.v + x * torch.tensor(0.5)
        return v, MembraneState(v)


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda: Mixing(engine="block"), "not elementwise"),
        (lambda: Branching(engine="block"), "torch.where"),
        (Hoarding, "'bias' is a tensor but neither parameter nor buffer"),
        (lambda: Making(engine="block"), "it reads or makes a tensor"),
    ],
)
def test_what_cannot_be_compiled_runs_in_eager_and_says_so_once(make, reason):
    neuron = make()
    with pytest.warns(UserWarning, match=reason):
        out, _ = neuron(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        neuron(x)
    neuron.engine = "eager"
    assert torch.equal(out, neuron(x)[0])


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(missing.shutil, "which", lambda name: None)
    missing.cpp_compiler.cache_clear()
    missing.missing_compiler.cache_clear()
    yield
    missing.cpp_compiler.cache_clear()
    missing.missing_compiler.cache_clear()


@pytest.mark.parametrize("name, what", [("block", "torch.compile"), ("cpp", r"the C\+\+ engine")])
def test_no_compiler_is_said_once_and_runs_in_eager(no_compiler, name, what):
    plan._warn_once.cache_clear()
    told = rf"Every neuron runs in the eager engine: {what} needs a C\+\+ compiler, and there is none \("
    with pytest.warns(UserWarning, match=told):
        out, _ = LIF(engine=name)(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LIF(engine=name)(x)
        ALIF(engine=name)(x)  # nor for another kind
    assert torch.equal(out, LIF(engine="eager")(x)[0])


@pytest.mark.parametrize("name", ["block", "cpp"])
def test_compiling_can_be_forbidden(monkeypatch, name):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    missing.missing_compiler.cache_clear()
    with pytest.warns(UserWarning, match="TORCH_COMPILE_DISABLE=1 forbids compiling"):
        LIF(engine=name)(x)
    missing.missing_compiler.cache_clear()


@pytest.mark.parametrize("read", ["numpy", "tolist", "item"])
def test_what_reads_values_past_pytorch_is_not_taken_for_a_constant(read):
    def step(x, state):
        value = getattr(x.detach().flatten()[:1], read)()
        return (x * 2 if value > 10 else x), state

    with pytest.raises(engine.NotElementwise, match="it decides something from the values of a tensor"):
        engine.equation_of(step, (torch.zeros(1, 7),), torch.float32, torch.device("cpu"))


def test_a_first_call_does_not_wait_for_the_import_of_pytorchs_compiler():
    code = "import torch, snnkit.neuron as n; n.LIF(engine='cpp')(torch.rand(9, 1, 5, requires_grad=True))[0].sum()\n"
    code += "import sys; print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", ["cpp", "block"])
def test_numbers_that_are_stored_with_the_other_sign_are_read_right(name):
    """As those of ``z.conj().imag``, which shares the memory of z."""
    x, g = (torch._neg_view(torch.randn(8, 2, 300)) for _ in range(2))
    results = []
    for each in (name, "eager"):
        leaf = x.detach().requires_grad_()
        out, _ = LIF(engine=each)(leaf)
        results.append((out, torch.autograd.grad(out, leaf, g)[0]))
    assert x.is_neg() and results[1][0].sum() > 0
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def test_empty_batches_run_in_eager():
    out, _ = LIF(engine="block")(torch.rand(5, 0, 3))
    assert out.shape == (5, 0, 3)


@pytest.mark.filterwarnings("ignore:Mixing runs in the eager engine")
def test_explain_names_layers_shapes_engines_and_reasons(plain_blocks):
    net = Sequential(nn.Linear(3, 4), PLIF(3.142), nn.Linear(4, 2), Leaky(0.9, engine="block"), Mixing(engine="block"))
    rows = engine.explain(net, x)
    assert [(r.layer, r.neuron, r.shape, r.engine) for r in rows] == [
        ("1", "PLIF", (5, 2, 4), "eager"),
        ("3", "Leaky", (5, 2, 2), "block"),
        ("4", "Mixing", (5, 2, 2), "eager"),
    ]
    text = str(rows)
    assert "fewer than 65,536 neuron-steps" in text and "requested" in text and "not elementwise" in text
    assert not any(module._forward_pre_hooks for module in net.modules())
    page = rows._repr_html_()  # in a notebook, where lines of text would be broken within words
    assert page.count("<table>") == 2 and all(html.escape(row.reason) in page for row in (*rows, *rows.products))
    none = engine.explain(nn.Sequential(nn.Linear(3, 4)), x)
    assert str(none) == "no neurons in this model" and "no neurons in this model" in none._repr_html_()


def test_explain_takes_a_neuron_itself():
    (row,) = engine.explain(LIF(engine="eager"), x)
    assert row.layer == "(model)" and row.reason == "requested"
    assert len(engine.explain(Recurrent(LIF(), 3), x)) == 1


def bad_steps():
    yield lambda x, s: x, TypeError, r"must return \(out, state\)"
    yield lambda x, s: (x.sum(), s), ValueError, r"return out of the shape of its input, \[2, 3\], but it returned \[\]"
    yield lambda x, s: (x, x), TypeError, "must return a state like the one it was given"
    yield lambda x, s: (x, (s[0], s[0])), TypeError, "must return a state like the one it was given"
    yield lambda x, s: (x, (1.0,)), TypeError, "returned state.0 as a float"
    yield lambda x, s: (x, (s[0].sum(),)), ValueError, r"changed the shape of state.0 from \[2, 3\] to \[\]"
    yield lambda x, s: (x, (s[0].double(),)), TypeError, "changed the dtype of state.0"
    yield lambda x, s: (x if x > 0.5 else -x, s), TypeError, "must decide with torch.where: `if`, `and` and `while`"
    yield lambda x, s: (s[0].add_(x), s), TypeError, "must return new tensors, and not change x or the state in place"


@pytest.mark.parametrize("step, error, message", list(bad_steps()))
@pytest.mark.parametrize("name", ["eager", "block"])
@pytest.mark.filterwarnings("ignore:.*eager engine")
def test_a_wrong_step_is_named_in_every_engine(step, error, message, name):
    with pytest.raises(error, match=message):
        engine.unroll(step, x, REST, engine=name)


class Settings:
    """Knows names that are keys only."""

    def __getattr__(self, name):
        return {"gain": 2.0}[name]


class Twice(Neuron):
    """A number under two names."""

    State = MembraneState

    def __init__(self):
        super().__init__(engine="cpp")
        self.a = self.b = nn.Parameter(torch.tensor(0.5))

    def step(self, x, state):
        return self.a * x + self.b * state.v, MembraneState(x)


def long_chain(x, state):
    v = state[0]
    for _ in range(300):
        v = v + 0.01 * (x - v)
    return v / (1 + v * v), (v,)


settings = Settings()
STEPS = {
    "a class that answers every name": lambda x, s: (x * settings.gain, s),
    "a long chain": long_chain,
    "more decimals than there are": lambda x, s: (torch.nan_to_num(torch.round(x, decimals=309)), s),
    "values through DLPack": lambda x, s: (x * float(np.from_dlpack(x.detach()).mean()), s),
    "a number under two names": Twice().step,
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.refused] if "decimals" in name else []) for name in STEPS]
)
@pytest.mark.filterwarnings("ignore:.*eager engine")
def test_steps_that_are_hard_to_trace_give_what_eager_gives(name):
    results = []
    for chosen in ("eager", "cpp"):
        leaf = (x + 1).requires_grad_()
        rest = MembraneState(*REST) if "names" in name else REST
        out, _ = engine.unroll(STEPS[name], leaf, rest, engine=chosen)
        results.append((out.detach(), torch.autograd.grad(out.sum(), leaf, allow_unused=True)[0]))
    torch.testing.assert_close(*results)


FORK = """
import os, threading, time, torch
from snnkit.engine import unroll
x, rest, begun = torch.rand(4, 5), (torch.zeros(5),), threading.Event()
def slow(x, s):
    begun.set()
    time.sleep(5)
    return x * 1.7 + s[0], s
threading.Thread(target=lambda: unroll(slow, x, rest, engine="cpp"), daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    unroll(lambda x, s: (x * 3.3 + s[0], s), x, rest, engine="cpp")
    os._exit(7)
for _ in range(600):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        os._exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.1)
os.kill(child, 9)
os._exit(1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_that_was_forked_while_another_thread_traced_has_locks_of_its_own():
    assert subprocess.run([sys.executable, "-c", FORK]).returncode == 7
