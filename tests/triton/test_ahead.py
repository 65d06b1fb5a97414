"""Every kernel compiles for the GPUs of today, reads memory in wide pieces, and keeps what it needs in registers."""

import re

import pytest
import torch
from torch import nn

from snnkit.engine import equation_of
from snnkit.engine.triton import launch
from snnkit.engine.triton.triton_source import backward_source, forward_source
from tests.engine.zoo import ZOO

from .ahead import KINDS, build, compiled
from .flat import equation_named
from .test_source import OPERATIONS, equation

# Of each kind one: a plain neuron, parameters per neuron and shared, two states, no state in backward, much arithmetic.
FEW = ["LIF", "LIF-buffers", "CubaLIF-learnable", "LI", "Izhikevich"]
# Whose values four neurons a thread are held to have no room for, backward.
LARGE = {"AdEx-learnable", "Alpha-subtract-learnable", "Refractory", *(name for name in ZOO if "Izhikevich" in name)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in ZOO if n not in FEW)])
def test_every_neuron_in_float32(name, kind):
    built = build(name, kind, torch.float32, 90)
    # Of 104 registers ptxas puts two into memory, so that a fifth block finds room (IF-soft, backward).
    assert built.spilled <= (8 if built.registers == 96 else 0)
    width = "v2" if kind == "backward" and name in LARGE else "v4"
    assert sequence_loads(built.ptx) == {f"{width}.b32"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FEW)
def test_bfloat16(name, kind):
    built = build(name, kind, torch.bfloat16, 90)
    assert built.spilled == 0
    # Eight neurons a thread forward, four backward (Izhikevich: two), and two in a register.
    width = "v4.b32" if kind != "backward" else "b32" if name == "Izhikevich" else "v2.b32"
    assert width in sequence_loads(built.ptx)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", [75, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["LIF", "CubaLIF-learnable"])
def test_older_architectures(name, architecture, kind):
    built = build(name, kind, torch.float32, architecture)
    assert built.spilled == 0 and sequence_loads(built.ptx) == {"v4.b32"}
    assert build(name, kind, torch.float16, architecture).spilled == 0
    # Turing has no instructions for bfloat16: it converts with those for integers, for which it needs more registers.
    assert build(name, kind, torch.bfloat16, architecture).spilled <= (8 if architecture == 75 else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_few_neurons_and_float64(kind):
    assert build("Izhikevich-learnable", kind, torch.float32, 90, neurons=2**12).spilled == 0
    for name in ("LIF-learnable-tau", "Izhikevich-learnable"):
        assert build(name, kind, torch.float64, 90).spilled == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["LIF", "CubaLIF-learnable", "Izhikevich"])
def test_states_after_every_step(name, kind):
    built = build(name, kind, torch.float32, 90, every=True)
    assert built.spilled == 0 and sequence_loads(built.ptx) <= {"v4.b32", "v2.b32"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_that_a_step_may_have(name, dtype):
    # The interpreter runs NumPy's functions; the compiler may lack one for a dtype.
    def step(x, state):
        return OPERATIONS[name](x), (state[0] + x,)

    one, kind = equation(step, 1, dtype), {torch.float32: "fp32", torch.float64: "fp64"}[dtype]
    for source in (forward_source(one, (), True), backward_source(one, (), (True,))):
        built = compiled(source, {"x_ptr": kind}, kind, 90, launch.THREADS)
        # sin and cos take large angles apart in memory.
        assert built.registers < 255 and (built.spilled == 0 or name in ("sin", "cos"))


@pytest.mark.parametrize("sizes", [["T"], ["N"], ["x_step"], ["T", "N", "x_step"]])
@pytest.mark.parametrize("kind", ["inference", "backward"])
def test_sizes_that_a_compiler_takes_for_constants(kind, sizes):
    # torch.compile hands over an argument that is 1 as a constant.
    one, dims = equation_named("CubaLIF-learnable")
    source = forward_source(one, dims, False) if kind == "inference" else backward_source(one, dims, (True,) * 3)
    constants = {"UNIT": launch.UNIT, "BLOCK": launch.THREADS} | dict.fromkeys(sizes, 1)
    assert compiled(source, {}, "fp32", 90, constants).spilled == 0


def test_uint8_spikes():
    built = build("LIF", "inference", torch.float32, 90, out=torch.uint8)
    assert built.spilled == 0 and re.search(r"st\.global(\.\w+)*\.b32", built.ptx)


class Rest(nn.Module):
    """Its state after a step is one number for all neurons."""

    def __init__(self):
        super().__init__()
        self.rest = nn.Parameter(torch.tensor(0.3))

    def step(self, x, state):
        return x * state[0], (torch.zeros_like(x) + self.rest,)


def test_a_state_that_is_shared_by_all_neurons_is_still_one_per_neuron():
    # A kernel's loop can't turn a block of numbers into a single one; the interpreter does not mind.
    equation = equation_of(Rest(), (torch.zeros(3),), torch.float32, torch.device("cpu"))
    for source in (forward_source(equation, (0,), True), backward_source(equation, (0,), (True, True))):
        assert compiled(source, {}, "fp32", 90, 512).spilled == 0


def test_forward_rounds_every_operation_by_itself():
    # 0.9 * v + x: fused, the product would not be rounded, and spikes would not be those of PyTorch.
    ptx = build("Leaky", "inference", torch.float32, 90).ptx
    numbers = re.findall(r"ld\.param\.b32\s+(%\w+), \[neuron_forward_param_\d+\];", ptx)
    added = {line.rsplit(",", 1)[1].strip(" ;") for line in re.findall(r"fma\.rn\.f32.*", ptx)}
    (nil,) = added  # -0.0: a number handed over, times -1
    assert re.search(rf"neg\.f32\s+{nil}, (%\w+)", ptx)[1] in numbers
    # Division, too; in gradients it may be off by two units in the last place.
    forward, backward = (build("LIF-buffers", kind, torch.float32, 90).ptx for kind in ("inference", "backward"))
    assert set(re.findall(r"div\.\w+\.f32", forward)) == {"div.rn.f32"}
    assert set(re.findall(r"div\.\w+\.f32", backward)) == {"div.rn.f32", "div.full.f32"}


def sequence_loads(ptx: str) -> set[str]:
    """Widths of the loads inside of the loop over blocks, as in "v4.b32"."""
    loop = ptx[ptx.index("$L__BB0_") :]
    return set(re.findall(r"ld\.global\.((?:v\d\.)?b\d+)", loop))
