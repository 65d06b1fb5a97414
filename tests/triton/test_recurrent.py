"""Kernels of recurrent layers: run by the interpreter beside the loop, and compiled for GPUs that are not here."""

import re
from subprocess import CalledProcessError

import pytest
import torch
from triton.errors import TritonError
from triton.runtime.errors import InterpreterError

from snnkit.engine import plan
from snnkit.engine.triton import launch
from snnkit.engine.triton.recurrent import ROWS, backward_source, forward_source, warps
from snnkit.neuron import LIF, Recurrent
from tests.engine.test_recurrent import (
    assert_equal,
    calls,  # noqa: F401
    gradient_where_the_last_output_is_not_looked_at,
    layer,
    passed,
    with_engine,
)
from tests.engine.zoo import FEATURES, ZOO

from .ahead import compiled
from .flat import equation_named

# Of each kind one: a plain neuron, parameters per neuron and shared, two states, flags, no state in backward.
FEW = ["LIF", "LIF-buffers", "CubaLIF-learnable", "AdEx-learnable", "LI", "Refractory"]


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", [*FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in ZOO if n not in FEW)])
def test_every_neuron_beside_the_loop(name, calls):  # noqa: F811
    made = layer(ZOO[name](), bias=len(name) % 2 == 0)
    x = torch.randn(4, 3, FEATURES, dtype=torch.float64) * 2
    state = made(torch.randn(2, 3, FEATURES, dtype=torch.float64))[1]
    calls.clear()
    for start in (None, state):
        assert_equal(passed(with_engine(made, "triton"), x, start), passed(with_engine(made, "eager"), x, start))
    assert [call[0] for call in calls] == ["triton"] * 2


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("features", "batch", "steps"), [(1, 1, 1), (16, 8, 2), (40, 7, 3)])
@pytest.mark.parametrize("offset", [-9.0, 0.0, 9.0])
def test_any_size_and_any_number_of_spikes(features, batch, steps, offset):
    made, x = layer(LIF(), features, bias=True), torch.randn(steps, batch, features, dtype=torch.float64) + offset
    wanted = passed(with_engine(made, "eager"), x)
    assert abs(wanted[0].mean().item() - float(offset > 0)) < 0.01 or offset == 0
    assert_equal(passed(with_engine(made, "triton"), x), wanted)


@pytest.mark.usefixtures("interpreter")
def test_inputs_and_gradients_of_any_layout(calls):  # noqa: F811
    made, dense = layer(LIF(), 6, bias=True), torch.randn(4, 5, 6, dtype=torch.float64) * 2
    inputs = [
        dense[:1].expand(4, 5, 6),
        dense.transpose(0, 1).contiguous().transpose(0, 1),
        dense.repeat(1, 1, 2)[..., ::2],
    ]
    for x in inputs:
        assert_equal(passed(with_engine(made, "triton"), x), passed(with_engine(made, "eager"), x))
    made.weight.weight = torch.nn.Parameter(made.weight.weight.detach().t().contiguous().t())
    sums = []
    for name in ("triton", "eager"):
        net, x = with_engine(made, name), dense.clone().requires_grad_()
        out = net(x)[0]
        first = torch.randn(5, 6, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
        for loss in (out.sum(), (out[:1].expand_as(out) * first + out * first).sum(), out[..., ::2].sum()):
            sums += torch.autograd.grad(loss, [x, *net.parameters()], retain_graph=True)
    assert_equal(sums[: len(sums) // 2], sums[len(sums) // 2 :])
    assert [call[0] for call in calls] == ["triton"] * 4


@pytest.mark.usefixtures("interpreter")
def test_the_last_output_may_be_without_a_gradient(calls):  # noqa: F811
    found, wanted = map(gradient_where_the_last_output_is_not_looked_at, ("triton", "eager"))
    assert_equal(found, wanted)
    assert [call[0] for call in calls] == ["triton"] * 2


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_shows_though_no_spike_reads_it(value):
    made = with_engine(layer(LIF(), 4, scale=0.0), "triton")
    with torch.no_grad():
        made.weight.weight[2, 1] = value
    _, last = made(torch.zeros(3, 2, 4, dtype=torch.float64))
    assert last.neuron.v.isnan().tolist() == [[False, False, True, False]] * 2


@pytest.mark.usefixtures("interpreter")
def test_more_neurons_than_a_program_holds_take_the_loop():
    plan = Recurrent(LIF(engine="triton"), 1025).whole_plan(
        torch.zeros(2, 1, 1025), LIF().initial_state(torch.zeros(1, 1025))
    )
    assert plan.engine == "eager" and "at most 1024 neurons" in plan.reason


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("features", [16, 512, 1024])
@pytest.mark.parametrize("name", ["LIF", "CubaLIF-learnable", "AdEx-learnable"])
def test_they_compile(name, features, architecture):
    equation, dims = equation_named(name, torch.float32)
    sources = {forward_source(equation, dims, save): 1 for save in (False, True)}
    sources[backward_source(equation, dims, (True,) * len(dims))] = ROWS
    for source, rows in sources.items():
        constants = {"ROWS": rows, "COLS": features}
        built = compiled(source, {}, "fp32", architecture, constants, warps(features))
        assert built.spilled <= 128  # bytes a thread
        # All threads wait between the stores of a step and the loads of the next.
        assert "store wait jump" in events_of(built.ptx) and "store jump" not in events_of(built.ptx)


def events_of(ptx: str) -> str:
    """Stores and loads of memory, waits of all threads, and jumps, in the order of the program."""
    kinds = {"st.global": "store", "ld.global": "load", "bar.sync": "wait", "bra": "jump"}
    words = (
        next((word for kind, word in kinds.items() if re.search(rf"\b{kind}", line)), "") for line in ptx.splitlines()
    )
    return " ".join(word for word in words if word)


@pytest.fixture
def failing(monkeypatch):
    """``failing(error)``: launches of the kernels of recurrent layers raise it."""

    class Kernel:
        def __init__(self, error):
            self.error = error

        def __getitem__(self, grid):
            def start(*arguments, **options):
                raise self.error

            return start

    def fail(error):
        monkeypatch.setattr(launch, "_refused", {})
        known = launch.kernel
        monkeypatch.setattr(launch, "kernel", lambda s: Kernel(error) if s.name == "recurrent_forward" else known(s))

    return fail


REFUSALS = {
    "the compiler": TritonError("no such operation"),
    "one of its passes": RuntimeError("PassManager::run failed"),
    "no C compiler": RuntimeError("Failed to find C compiler. Please specify via CC environment variable"),
    "no headers of Python": CalledProcessError(1, ["gcc"]),
    "no driver": AssertionError("libcuda.so cannot found!"),
}


@pytest.mark.usefixtures("interpreter")
@pytest.mark.refused
@pytest.mark.parametrize("name", REFUSALS)
def test_a_kernel_that_is_refused_is_said_and_left_to_the_loop(name, failing):
    failing(REFUSALS[name])
    made, x = layer(LIF()), torch.randn(4, 3, FEATURES, dtype=torch.float64)
    for _ in range(2):
        with pytest.warns(UserWarning, match="Recurrent runs in the eager engine: triton failed .*so the loop runs it"):
            found = passed(with_engine(made, "triton"), x)
        assert_equal(found, passed(with_engine(made, "eager"), x))
        plan._warn_once.cache_clear()


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (InterpreterError("a fault of the kernel"), InterpreterError),
        (RuntimeError("Triton Error [CUDA]: an illegal memory access"), RuntimeError),
        (RuntimeError("Triton Error [CUDA]: out of memory"), MemoryError),
    ],
)
def test_an_error_of_the_launch_is_no_refusal(error, raised, failing):
    failing(error)
    with pytest.raises(raised, match=re.escape(str(error))):
        with_engine(layer(LIF()), "triton")(torch.randn(4, 3, FEATURES, dtype=torch.float64))
