"""Where no thread can be started, and where the system is no Unix: every room imports, and every neuron trains."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NEURONS = """
import torch
from snnkit.engine import explain
from snnkit.neuron import IF, LI, LIF, PLIF, ALIF, CubaLIF, Izhikevich, Leaky
from tests.engine.zoo import ZOO, drive
from snnkit.nn import Sequential

def engines(model, x):
    return {row.engine for row in explain(model, x)}
"""

# What is active when a thread is missing can't be set aside: then a call is eager, and the next one is compiled.
THREADS = """
import warnings
lif, x = LIF(3.3, engine=ENGINE), torch.rand(4, 5, 6, dtype=torch.float64) * 3
for context in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu"), torch.enable_grad()):
    with context:
        out, _ = LIF(3.3 + torch.rand(()).item(), engine=ENGINE)(x)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        mapped = torch.vmap(lambda one: lif(one)[0], 1, 1)(x)
text = [str(one.message) for one in seen if "engine" in str(one.message)]
assert len(text) == 1 and "no thread can be started" in text[0] and "torch.func" in text[0], text
leaf, other = (x.clone().requires_grad_() for _ in range(2))
out, _ = lif(leaf)
(out * 0.3).sum().backward()
assert engines(lif, x) == {ENGINE}
right, _ = LIF(3.3, engine="eager")(other)
(right * 0.3).sum().backward()
assert 0 < out.mean() < 1 and torch.equal(out, right) and torch.equal(mapped, right)
torch.testing.assert_close(leaf.grad, other.grad)
"""

UNIX = """
for name, make in ZOO.items():
    net = Sequential(torch.nn.Linear(5, 5), make())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    before = [p.clone() for p in net.parameters()]
    out, state = net(drive(net[1], 30, 3, 5).float())
    (out.mean() + sum(part.mean() for part in state[1])).backward()
    optimizer.step()
    assert not all(map(torch.equal, before, net.parameters())), name
"""

FIT = """
from snnkit import data, encode, loss, models, train
images, labels = data.load("digits")
torch.manual_seed(0)
history = train.fit(
    models.mlp((64, 16, 10)), (images[:128], labels[:128]), encode=lambda x: encode.repeat(x, 5), epochs=2, seed=0,
    loss=loss.count_cross_entropy, device="cpu", progress=False, lr=0.01,
)
assert history.train_loss[1] < history.train_loss[0]
"""

ROOMS = """
import importlib, pkgutil, pooch, snnkit
for room in pkgutil.walk_packages(snnkit.__path__, "snnkit."):
    # Programs, and what is for another environment.
    if not room.name.endswith(".__main__") and room.name != "snnkit.lab.bench.jax_worker":
        importlib.import_module(room.name)
"""

# What needs a thread or a process by its nature, and says so.
NEEDS = """
    sweep.failures sweep.results sweep.run tools.runner.in_parallel train.TensorBoard.__call__ train.launch
    workshop.handouts.solutions
"""

CALLS = """
import os, tempfile, warnings
import pooch
from tests.fuzz import valid_calls
warnings.simplefilter("ignore")
failed = {}
for name, function in valid_calls.callables():
    if valid_calls.called(name):
        os.chdir(tempfile.mkdtemp(dir=PLACE))
        try:
            function, arguments = valid_calls.valid(name, function)
            valid_calls.call(function, arguments)
        except Exception as error:
            failed[name] = repr(error)
print(failed)
"""


def run(kind, code, **environment):
    """What ``code`` prints in such a process; it must succeed, and no engine may fall back."""
    command = [sys.executable, "-W", "error:.*runs in the:UserWarning", "-m", "tests.unit.bare", kind, code]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ["cpp", pytest.param("block", marks=pytest.mark.slow)])
def test_without_threads_a_step_is_traced_in_this_one(engine):
    run("threads", f"ENGINE = {engine!r}\n" + NEURONS + THREADS + FIT)


def test_on_a_bare_system_every_neuron_trains_in_eager():
    # No compiler: on Windows there is none of Unix, on WebAssembly none at all.
    run("unix", NEURONS + UNIX + FIT, PATH="", CXX="")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "unix"])
def test_every_room_and_every_valid_call(kind, tmp_path):
    code = f"PLACE = {str(tmp_path)!r}\n" + ROOMS + CALLS
    bare = {"PATH": "", "CXX": ""} if kind == "unix" else {}  # or every neuron would try a compiler that can't start
    failed = ast.literal_eval(run(kind, code, **bare).splitlines()[-1])
    assert set(failed) <= set(NEEDS.split()), failed
