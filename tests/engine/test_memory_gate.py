"""Captures and foreign tensors: kernels run only where nobody records operations, on tensors with plain memory.

What a capture records must give a plain call's result when it is replayed, on other input and after the memory that it
was recorded with has been used for something else.
"""

import copy
import io
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.func import functionalize, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from snnkit import encode, loss
from snnkit.device.spike_packing import pack, packed_spikes
from snnkit.engine import explain, unroll
from snnkit.engine.memory_gate import foreign, is_plain, recorder
from snnkit.linear import linear
from snnkit.measure import MemoryTracker, Traffic
from snnkit.models import ConvNet, mlp
from snnkit.neuron import LIF, CubaLIF, Recurrent
from snnkit.nn import Once, Sequential, TimeBatched
from snnkit.plasticity import PairSTDP, TripletSTDP
from snnkit.pooling import max_pool

from .zoo import FEATURES, ZOO, drive

pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")

STEPS, BATCH = 6, 4


class OutputOf(nn.Module):
    """The output alone, without the state."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)[0]


def saved_and_loaded(traced):
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    return torch.jit.load(file)


def jit(module, x):
    return saved_and_loaded(torch.jit.trace(module, x, check_trace=False))


def export(strict):
    return lambda module, x: torch.export.export(module, (x,), strict=strict).module()


CAPTURES = {
    "jit.trace": jit,
    "jit.trace, checked": lambda module, x: torch.jit.trace(module, x),
    "make_fx": lambda module, x: make_fx(module)(x),
    "make_fx before dispatch": lambda module, x: make_fx(module, pre_dispatch=True)(x),
    "make_fx of functionalize": lambda module, x: make_fx(functionalize(module))(x),
    "functionalize": lambda module, x: functionalize(module),
    "export": export(False),
    "strict export": export(True),
}


def check_capture(capture, module, x, other):
    """A capture of ``module`` on x gives what a plain call gives, for x and for ``other``, to the bit."""
    expected = [module(each) for each in (x, other)]
    captured = capture(module, x)
    for each, result in zip((x, other), expected, strict=True):
        # What the capture held is free by now: fill it with something else.
        rubbish = [torch.full_like(result, 7.0) for _ in range(4)]
        del rubbish
        assert torch.equal(captured(each), result)


@pytest.mark.parametrize("capture", CAPTURES.values(), ids=CAPTURES)
@pytest.mark.parametrize("engine", ["cpp", "block"])
def test_a_captured_neuron_gives_what_it_gives(capture, engine):
    kinds = (LIF, CubaLIF) if engine == "cpp" else (LIF,)  # Inductor takes seconds for each
    for neuron in (kind(engine=engine) for kind in kinds):
        x, other = drive(neuron, STEPS, BATCH, FEATURES), drive(neuron, STEPS, BATCH, FEATURES)
        for gradients in (False, True):
            with torch.set_grad_enabled(gradients):
                check_capture(capture, OutputOf(neuron).double(), x, other)


@pytest.mark.parametrize("name", ZOO)
def test_all_neurons_can_be_captured(name):
    neuron = ZOO[name]()
    neuron.engine = "cpp"
    x, other = (drive(neuron, STEPS, BATCH, FEATURES) for _ in range(2))
    with torch.no_grad():
        for capture in (jit, CAPTURES["make_fx"]):
            check_capture(capture, OutputOf(neuron).double(), x, other)


@pytest.mark.parametrize("capture", CAPTURES.values(), ids=CAPTURES)
def test_a_capture_of_a_static_sequence_takes_any_other(capture):
    """One step for all would be right for that sequence alone."""
    net = OutputOf(Sequential(mlp((6, 5, 4)), Once(nn.Linear(4, 4)), TimeBatched(nn.Linear(4, 4)), LIF())).double()
    static = (3 * torch.rand(1, 2, 6, dtype=torch.float64)).expand(9, -1, -1)
    with torch.no_grad():
        check_capture(capture, net, static, 3 * torch.rand(9, 2, 6, dtype=torch.float64))


def networks():
    torch.manual_seed(0)
    pooled = Sequential(nn.Conv2d(1, 32, 3, padding=1), LIF(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 3), LIF())
    return {
        "mlp": (mlp((64, 128, 10)), (64,)),
        "recurrent": (Recurrent(LIF(), 8), (8,)),
        "conv": (ConvNet(size=8), (1, 8, 8)),
        "pooling": (pooled.to(memory_format=torch.channels_last), (1, 16, 16)),
    }


@pytest.mark.parametrize("capture", [c for name, c in CAPTURES.items() if name in ("jit.trace", "make_fx", "export")])
@pytest.mark.parametrize("name", networks())
def test_captured_networks(name, capture):
    net, shape = networks()[name]
    x, other = (torch.rand(20, 32, *shape) for _ in range(2))
    with torch.no_grad():
        check_capture(capture, OutputOf(net).eval(), x, other)


def test_gradients_of_a_capture():
    x, w = drive(LIF(), STEPS, BATCH, FEATURES), torch.randn(STEPS, BATCH, FEATURES, dtype=torch.float64)

    def function(x):
        return (LIF(engine="cpp")(x)[0] * w).sum()

    expected = grad(function)(x)
    for way in (functionalize(grad(function)), grad(functionalize(function)), make_fx(grad(function))(x)):
        torch.testing.assert_close(way(x), expected, rtol=0, atol=0)
    leaf = x.clone().requires_grad_()
    torch.jit.trace(OutputOf(LIF(engine="cpp")), x, check_trace=False)(leaf).mul(w).sum().backward()
    torch.testing.assert_close(leaf.grad, expected, rtol=0, atol=0)


def test_a_backward_pass_that_is_captured_alone():
    """Forward ran in a kernel, and the capture begins after it."""
    x = drive(LIF(), STEPS, BATCH, FEATURES).requires_grad_()
    out, _ = LIF(engine="cpp")(x)
    first, second = torch.randn_like(out), torch.randn_like(out)
    expected = torch.autograd.grad(out, x, second, retain_graph=True)[0]
    captured = make_fx(lambda d: torch.autograd.grad(out, x, d, retain_graph=True)[0])(first)
    torch.testing.assert_close(captured(second), expected, rtol=0, atol=1e-15)


def test_several_gradients_at_once():
    x = drive(LIF(), STEPS, BATCH, FEATURES).requires_grad_()
    out = LIF(engine="cpp")(x)[0].flatten()[-5:]
    rows = torch.eye(5, dtype=torch.float64)
    one_by_one = torch.stack([torch.autograd.grad(out, x, row, retain_graph=True)[0] for row in rows])
    together = torch.autograd.grad(out, x, rows, is_grads_batched=True)[0]
    torch.testing.assert_close(together, one_by_one)


def test_learning_rules_can_be_captured():
    spikes = [(torch.rand(2, 8, 70) < 0.2).float() for _ in range(2)]
    weight = torch.rand(70, 70)

    class Step(nn.Module):
        def __init__(self, rule):
            super().__init__()
            self.rule = rule

        def forward(self, pre):
            weight_, state = self.rule.step(pre[0], pre[1], weight)
            return self.rule.step(pre[1], pre[0], weight_, state)[0]

    for rule in (PairSTDP(engine="cpp"), TripletSTDP(engine="cpp")):
        in_pytorch = copy.copy(rule)
        object.__setattr__(in_pytorch, "engine", "eager")
        expected = Step(in_pytorch)(spikes[1])
        for capture in (jit, CAPTURES["make_fx"]):
            torch.testing.assert_close(capture(Step(rule), spikes[0])(spikes[1]), expected)


def test_onnx_and_tensorboard_see_operations(tmp_path):
    """Both trace by torch.jit. A graph without the comparisons of a neuron would be the bare allocation."""
    net, x = OutputOf(LIF(engine="cpp")).eval(), torch.rand(3, 2, 4)
    file, tmp_path = tmp_path / "net.onnx", tmp_path / "events"
    try:
        torch.onnx.export(net, (x,), str(file), dynamo=False)
        assert file.read_bytes().count(b"GreaterOrEqual") >= 3
    except torch.onnx.OnnxExporterError as error:  # after all operations have been translated
        assert "onnx is not installed" in str(error)
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        writer.add_graph(net, x)
    (events,) = tmp_path.iterdir()
    assert b"aten::ge" in events.read_bytes()


def test_symbolic_tracing_is_refused_with_its_remedy():
    class Leaves(torch.fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, LIF) or super().is_leaf_module(m, module_qualified_name)

    net, x = OutputOf(LIF()), torch.rand(3, 2, 4)
    for module in (net, OutputOf(mlp((4, 3))), OutputOf(Recurrent(LIF(), 4))):
        with pytest.raises(TypeError, match=r"it is a? ?Proxy.*torch.fx must take this module as a leaf"):
            torch.fx.symbolic_trace(module)
    leaf = torch.fx.GraphModule(net, Leaves().trace(net))
    assert torch.equal(leaf(x), net(x))


def test_encoders_and_losses_look_at_no_values_in_a_capture():
    x = torch.rand(BATCH, 5)
    repeated = make_fx(lambda x: encode.repeat(x, 3))(x)
    assert torch.equal(repeated(x / 2), encode.repeat(x / 2, 3))
    latency = make_fx(lambda x: encode.latency(x, 5))(x)
    assert torch.equal(latency(x / 2), encode.latency(x / 2, 5))
    targets = torch.tensor([0, 1, 2, 3])
    spikes = (torch.rand(3, BATCH, 5) < 0.5).float()
    count = make_fx(lambda s, t: loss.rate_cross_entropy(s, t))(spikes, targets)
    assert torch.equal(count(1 - spikes, targets), loss.rate_cross_entropy(1 - spikes, targets))


def test_modes_that_only_observe_leave_the_kernels_in_place():
    x = torch.rand(STEPS, BATCH, FEATURES)
    lif = LIF(engine="cpp")
    with MemoryTracker(), Traffic(), torch.device("cpu"):
        assert recorder() == "" and explain(lif, x)[0].engine == "cpp"
    with FlopCounterMode(display=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "FlopCounterMode" in recorder()
        assert explain(lif, x)[0].engine == "eager"


def test_transforms_that_engines_know_are_no_capture():
    seen = []
    x = torch.rand(2, STEPS, BATCH, FEATURES)
    vmap(lambda one: (seen.append((recorder(), foreign(one), is_plain(one))), one)[1])(x)
    grad(lambda one: (seen.append((recorder(), foreign(one), is_plain(one))), one.sum())[1])(x)
    assert seen == [("", "", False), ("", "", False)]


# Tensors of other kinds: name -> (a function that makes one of a plain tensor, the plain tensor that it means).


class Subclass(torch.Tensor):
    pass


def negative(x):
    return torch.complex(torch.zeros_like(x), -x).conj().imag


TENSORS = {
    "two tensors": lambda x: TwoTensor(x, x.clone()),
    "subclass": lambda x: x.as_subclass(Subclass),
    "negative bit": negative,
    "zero": lambda x: torch._efficientzerotensor(x.shape, dtype=x.dtype),
    "sparse": lambda x: x.to_sparse(),
    "mkldnn": lambda x: x.to_mkldnn(),
    "nested": lambda x: torch.nested.as_nested_tensor(list(x)),
    "jagged": lambda x: torch.nested.as_nested_tensor(list(x), layout=torch.jagged),
    "meta": lambda x: x.to("meta"),
    "quantised": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "fake": lambda x: FakeTensorMode().from_tensor(x),
    "complex conjugate": lambda x: torch.complex(x, x).conj(),
}


def of_kind(kind, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TENSORS[kind](x)


def outcome(function, *args):
    """("value", what it returned) or ("error", its class): equal ways have equal outcomes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*args)
        except (TypeError, ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
            return "error", type(error)
    return "value", result


def plain_of(value):
    if isinstance(value, TwoTensor):
        return value.a
    return value.as_subclass(torch.Tensor) if isinstance(value, Subclass) else value


def same(found, expected):
    assert found[0] == expected[0], (found, expected)
    if found[0] == "value":
        a, b = plain_of(found[1]), plain_of(expected[1])
        if a.is_meta or type(a) is not torch.Tensor:
            assert a.shape == b.shape
        else:
            torch.testing.assert_close(a.to_dense() if a.is_mkldnn else a, b.to_dense() if b.is_mkldnn else b)


def rule(engine):
    return PairSTDP(engine=engine)


def step_by(engine):
    def run(x):
        def step(x, state):
            return x + state[0], (x + state[0],)

        return unroll(step, x, (torch.zeros(x.shape[1:]),), engine=engine)[0]

    return run


# Kernels: (the way with the kernel, PyTorch's own way, the shape of the tensor that it reads).
KERNELS = {
    "cpp": (lambda x: LIF(engine="cpp")(x)[0], lambda x: LIF(engine="eager")(x)[0], (4, 32, 70)),
    "auto": (lambda x: LIF()(x)[0], lambda x: LIF(engine="eager")(x)[0], (40, 32, 70)),
    "block": (lambda x: LIF(engine="block")(x)[0], lambda x: LIF(engine="eager")(x)[0], (4, 32, 70)),
    "function": (step_by("cpp"), step_by("eager"), (4, 3, 7)),
    "state": (
        lambda v: LIF(engine="cpp")(torch.ones(4, 3, 70), LIF.State(v))[0],
        lambda v: LIF(engine="eager")(torch.ones(4, 3, 70), LIF.State(v))[0],
        (3, 70),
    ),
    "linear": (lambda x: linear(LAYER, x), lambda x: LAYER(x), (256, 256)),
    "pooling": (
        lambda x: POOL(x) if (out := max_pool(POOL, x)) is None else out,
        lambda x: POOL(x),
        (16, 32, 32, 32),
    ),
    "STDP step": (
        lambda pre: rule("cpp").step(pre, torch.ones(2, 70), torch.full((70, 70), 0.5))[0],
        lambda pre: rule("eager").step(pre, torch.ones(2, 70), torch.full((70, 70), 0.5))[0],
        (2, 70),
    ),
    "STDP weight": (
        lambda w: rule("cpp").step(torch.ones(2, 70), torch.ones(2, 70), w)[0],
        lambda w: rule("eager").step(torch.ones(2, 70), torch.ones(2, 70), w)[0],
        (70, 70),
    ),
    "STDP sequence": (
        lambda pre: rule("cpp").run(pre, torch.ones(3, 2, 70), torch.full((70, 70), 0.5))[0],
        lambda pre: rule("eager").run(pre, torch.ones(3, 2, 70), torch.full((70, 70), 0.5))[0],
        (3, 2, 70),
    ),
}
LAYER, POOL = nn.Linear(256, 256).requires_grad_(False), nn.MaxPool2d(2)


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_leave_other_tensors_to_pytorch(name, kind):
    ours, theirs, shape = KERNELS[name]
    spikes = (torch.rand(shape) < 0.3).float()
    if name == "pooling":
        spikes = spikes.contiguous(memory_format=torch.channels_last)
    try:
        tensor = of_kind(kind, spikes)
    except (RuntimeError, ValueError):
        pytest.skip("PyTorch makes none of this shape")
    same(outcome(ours, tensor), outcome(theirs, tensor))


# PyTorch can't give a view a sparse gradient, and a layer is a view of flat neurons.
@pytest.mark.parametrize("kind", [kind for kind in TENSORS if kind != "sparse"])
def test_gradients_of_other_kinds(kind):
    x = torch.rand(4, 3, 70)
    tensor = of_kind(kind, torch.rand(4, 3, 70))

    def gradient(engine):
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(LIF(engine=engine)(leaf)[0], leaf, tensor)[0]

    same(outcome(gradient, "cpp"), outcome(gradient, "eager"))
    same(outcome(gradient, "block"), outcome(gradient, "eager"))


@pytest.mark.parametrize("kind", TENSORS)
def test_spikes_of_other_kinds_are_not_packed(kind):
    spikes = of_kind(kind, (torch.rand(4, 3, 700) < 0.3).float())
    assert outcome(pack, spikes)[0] == "error" or pack(spikes) is None
    if kind == "subclass":  # which autograd saves as a plain tensor, of the same memory
        return
    leaf = torch.rand(4, 3, 700, requires_grad=True)
    with packed_spikes() as packed:
        outcome(lambda: leaf * spikes)
    assert packed.saved == 0


def test_saved_values_that_come_back_in_another_dtype():
    x = drive(LIF(), STEPS, BATCH, FEATURES).float().requires_grad_()
    half = x.detach().bfloat16().float().requires_grad_()
    for engine in ("cpp", "block"):
        neuron = LIF(engine=engine)
        with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.bfloat16, lambda t: t):
            out = neuron(half)[0]
        rounded, expected = (torch.autograd.grad(o.sum(), half)[0] for o in (out, neuron(half)[0]))
        torch.testing.assert_close(rounded, expected, rtol=0.02, atol=0.002)


def test_fallbacks_are_announced_and_explained():
    class Announced(LIF):  # by its name, as each fallback warns once
        pass

    x = torch.rand(STEPS, BATCH, FEATURES)
    lif = Announced(engine="cpp")
    with pytest.warns(UserWarning, match="eager engine: no kernel can read a TwoTensor"):
        lif(TwoTensor(x, x))

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode(), pytest.warns(UserWarning, match="eager engine: Mode sees PyTorch's operations"):
        lif(x)


def test_saved_tensors_may_come_back_with_another_sign_bit():
    x = torch.randn(9, 3, 4, requires_grad=True)
    results = []
    for unpack in (lambda t: t, lambda t: torch._neg_view(-t)):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            out, _ = LIF(engine="cpp")(x)
        results.append(torch.autograd.grad(out.sum(), x)[0])
    assert torch.equal(*results)
