"""What a step may be: shapes it looks at, functions it uses, and how errors inside it, or in its compiler, are told."""

import threading
import warnings
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.torch_version import TorchVersion

from snnkit import engine
from snnkit.engine import block, plan, trace as trace_module
from snnkit.engine.trace import trace
from snnkit.neuron import LIF, PLIF, Leaky, MembraneState, Neuron

REST = (torch.zeros(2, 3),)
x = torch.rand(5, 2, 3)


@pytest.fixture(autouse=True)
def forget_warnings():
    plan._warn_once.cache_clear()


LOOKS_AT_SHAPES = [lambda x: x / x.shape[-1], lambda x: x if x.dim() == 2 else 0 * x, lambda x: x * x.numel()]


class Counting(Neuron):
    def __init__(self):
        super().__init__(engine="block")
        self.register_buffer("count", torch.tensor(2))

    def step(self, x, state):
        return x * self.count, MembraneState(state.v)


@pytest.mark.parametrize("function", LOOKS_AT_SHAPES, ids=["size", "rank", "count"])
def test_an_equation_that_looks_at_shapes_is_not_compiled(function):
    def step(x, state):
        return function(x), state

    with pytest.warns(UserWarning, match="shape of its input|other tensors may have another"):
        out, _ = engine.unroll(step, x, REST, engine="block")
    assert torch.equal(out, engine.unroll(step, x, REST, engine="eager")[0])


def test_whole_number_buffers_are_named():
    with pytest.warns(UserWarning, match="buffer 'count' is torch.int64"):
        Counting()(x)


@pytest.mark.refused
def test_a_broken_compiler_is_said_once_and_runs_in_eager(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("g++: command not found\nmore")

    monkeypatch.setattr(block, "_compile", broken)
    monkeypatch.setattr(block, "_kernels", OrderedDict())
    neuron = Leaky(0.123, engine="block")
    with pytest.warns(UserWarning, match=r"compiling failed \(RuntimeError: g\+\+: command not found\)"):
        out, _ = neuron(x)
    assert torch.equal(out, Leaky(0.123, engine="eager")(x)[0])


def test_anomaly_mode_does_not_keep_an_equation_from_being_compiled(monkeypatch):
    monkeypatch.setattr(block, "_kernels", OrderedDict())  # LIF is compiled again, though g++ has done it for others
    neuron = LIF(engine="block")
    with torch.autograd.set_detect_anomaly(True, check_nan=False), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        neuron(torch.rand(4, 2, 3, requires_grad=True))[0].sum().backward()
    assert engine.explain(neuron, x)[0].engine == "block"


@pytest.mark.parametrize("name", ["eager", "block"])
def test_parameters_are_taken_in_the_dtype_of_the_state(name, plain_blocks):
    data = torch.rand(4, 2, 3, dtype=torch.float64) * 2
    single, double = PLIF(3.3, engine=name), PLIF(3.3, engine=name).double()
    torch.testing.assert_close(single(data)[1].v, double(data)[1].v, rtol=0, atol=0)
    single(data)[0].sum().backward()
    assert single.w.grad.dtype == torch.float32
    half = PLIF(3.3, engine=name).bfloat16()
    rounded = PLIF(3.3, engine=name)
    with torch.no_grad():
        rounded.w.copy_(half.w)
    torch.testing.assert_close(half(x[:4])[1].v, rounded(x[:4])[1].v, rtol=0, atol=0)


class Watched(PLIF):
    """Notes, whenever its step runs, what another thread would find in the neuron at that moment."""

    live: PLIF
    found: list

    def step(self, x, state):
        Watched.found.append(Watched.live.w)
        return super().step(x, state)


def test_tracing_leaves_the_module_to_other_threads():
    neuron = Watched.live = Watched(2.0, engine="block")
    Watched.found = []
    parameter = neuron.w
    trace(neuron, neuron.initial_state(x[0]), ["w"], torch.float32, x.device)
    assert Watched.found and all(w is parameter for w in Watched.found)


@pytest.mark.filterwarnings("ignore:.*eager engine")
def test_a_step_may_call_a_layer():
    """Which has no trace of its own inside that of the step: it would wait for it forever."""

    def step(x, state):
        out, last = LIF()(x.unsqueeze(0), MembraneState(*state))
        return out[0], tuple(last)

    results: list[torch.Tensor] = []
    worker = threading.Thread(target=lambda: results.append(engine.unroll(step, x, REST)[0]), daemon=True)
    worker.start()
    worker.join(timeout=60)
    assert torch.equal(results[0], LIF(engine="eager")(x)[0])


@pytest.mark.filterwarnings("ignore:.*eager engine")
@pytest.mark.parametrize("name", ["eager", "block"])
@pytest.mark.parametrize(
    "make, state, error, message",
    [
        (lambda: PLIF(shape=(4,)), None, ValueError, r"w of PLIF has shape \[4\], which does not .* \[2, 3\]"),
        (lambda: Leaky(torch.full((4,), 0.9)), None, ValueError, r"beta of Leaky has shape \[4\]"),
        (lambda: LIF(), REST, TypeError, "state of LIF must be a MembraneState, but it is a tuple"),
        (LIF, MembraneState(torch.zeros(3)), ValueError, r"state.v of LIF has shape \[3\], but .* \[2, 3\]"),
        (LIF, MembraneState(torch.zeros(2, 3).double()), TypeError, "state.v of LIF is torch.float64, but it must be"),
    ],
)
def test_what_went_wrong_inside_a_step_is_explained(make, state, error, message, name):
    neuron = make()
    neuron.engine = name
    with pytest.raises(error, match=message):
        neuron(x, state)


@pytest.mark.refused
def test_a_backward_pass_that_cannot_be_compiled_says_what_to_do(monkeypatch, plain_blocks):
    original = block._compile

    def broken(*arguments):
        if arguments[5] is not None:
            raise RuntimeError("no such instruction")
        return original(*arguments)

    monkeypatch.setattr(block, "_compile", broken)
    out, _ = Leaky(0.321, engine="block")(torch.rand(4, 2, 3, requires_grad=True))
    with pytest.raises(RuntimeError, match=r"backward pass can't be compiled .*no such instruction.* engine='eager'"):
        out.sum().backward()
    block._kernels.clear()


def test_a_compiler_older_than_the_processor_is_asked_what_it_knows(monkeypatch):
    """Trusting the processor's word for its vectors saves seconds, and costs nothing where it fails."""
    import torch._inductor as inductor

    original, asked = inductor.standalone_compile, []

    def compile_unless_trusted(*arguments, **options):
        asked.append(inductor.config.cpp.vec_isa_ok)
        if asked[-1]:
            raise RuntimeError("unrecognized option -mavx512f")
        return original(*arguments, **options)

    monkeypatch.setattr(inductor, "standalone_compile", compile_unless_trusted)
    with warnings.catch_warnings(), inductor.config.patch({"cpp.vec_isa_ok": None}):
        warnings.simplefilter("error", UserWarning)
        out, _ = Leaky(0.7654, engine="block")(x[:4])
    assert asked == [True, None]
    assert torch.equal(out, Leaky(0.7654, engine="eager")(x[:4])[0])


@pytest.mark.parametrize("name", ["block", "cpp"])
def test_hooks_for_all_modules_do_not_see_a_step_being_traced(name, plain_blocks):
    """Profilers set them, and they are not made for it."""
    seen, leaf, neuron = [], torch.rand(4, 2, 3, requires_grad=True), PLIF(2.375, engine=name)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: seen.append(module))
    try:
        out, _ = neuron(leaf)
        out.sum().backward()
    finally:
        handle.remove()
    assert [module for module in seen if isinstance(module, PLIF)] == [neuron]
    reference = leaf.detach().clone().requires_grad_()
    PLIF(2.375, engine="eager")(reference)[0].sum().backward()
    torch.testing.assert_close(leaf.grad, reference.grad)


@pytest.mark.parametrize(("version", "needed"), [("2.11.0", True), ("2.15.0", False)])
def test_what_compilers_share_belongs_to_a_thread_that_never_ends(monkeypatch, version, needed):
    """Only PyTorch for CUDA before 2.13, on a machine without a GPU, would crash; here its part is played."""
    owners = []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch, "__version__", TorchVersion(version))
    monkeypatch.setattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: owners.append(threading.current_thread()))
    hold = trace_module._hold_device_guard.__wrapped__
    hold()
    assert len(owners) == needed and all(one.is_alive() and one.daemon for one in owners)
