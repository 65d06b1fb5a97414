"""The compiled engines equal the eager one: outputs exactly, gradients of input, state and parameters closely."""

import itertools
import math
import os
import signal
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from snnkit import engine as engines
from snnkit.engine import block, cpp, unroll
from snnkit.neuron import IF, LI, LIF, PLIF, CubaLIF, Leaky, MembraneState, Neuron

from .zoo import FEATURES, ZOO, drive, results

# A fallback would compare another engine with itself.
pytestmark = pytest.mark.filterwarnings("error:.*runs in the .* engine:UserWarning")

# 4 + 4 + 1: every block size and the seams between blocks, forward and backward.
EVERY_BLOCK = 2 * block.BLOCKS["cpu"][0] + 1


@pytest.fixture(params=["block", "cpp"])
def compiled(request):
    """A compiled engine that runs on this machine's CPU."""
    return request.param


def assert_same(compiled, neuron, x, with_state=True, gradient_rtol=1e-9):
    out_e, state_e, grads_e = results(neuron, x, "eager", with_state)
    out_b, state_b, grads_b = results(neuron, x, compiled, with_state)
    assert out_b.dtype == x.dtype
    torch.testing.assert_close(out_b, out_e, rtol=0, atol=0)
    for a, b in zip(state_b, state_e, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12 if x.dtype == torch.float64 else 1e-5, atol=1e-6)
    for a, b in zip(grads_b, grads_e, strict=True):
        scale = b.abs().max().clamp_min(1e-6).item()
        torch.testing.assert_close(a, b, rtol=gradient_rtol, atol=gradient_rtol * scale)


@pytest.mark.parametrize("name", ZOO)
def test_every_neuron_in_float64(name, compiled, plain_blocks):
    neuron = ZOO[name]().double()
    assert_same(compiled, neuron, drive(neuron, EVERY_BLOCK, 3, FEATURES))


# Inductor takes seconds for each equation.
QUICK = ("LIF", "PLIF-soft-per-neuron", "Izhikevich-learnable")
OTHERS = ("IF-reset-negative", "Leaky-learnable", "Leaky-zero-now", "CubaLIF-learnable", "ALIF-hard-learnable", "LI")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in OTHERS]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_neurons_compiled_by_inductor(name):
    neuron = ZOO[name]().double()
    steps = EVERY_BLOCK if name == "LIF" else EVERY_BLOCK - 1  # one block's kernels to compile
    assert_same("block", neuron, drive(neuron, steps, 3, FEATURES))


LOWER = ("LIF-learnable-tau", "Leaky", "CubaLIF", "PLIF")
LOWER_QUICK = {("CubaLIF", torch.bfloat16)}


@pytest.mark.parametrize(
    ("compiled", "name", "dtype"),
    [
        pytest.param(e, n, d, marks=[] if e == "cpp" or (n, d) in LOWER_QUICK else pytest.mark.slow)
        for e in ("block", "cpp")
        for n in (LOWER if e == "cpp" else LOWER[2:])
        for d in (torch.float32, torch.bfloat16)
    ],
)
def test_lower_precision(compiled, name, dtype):
    # Arithmetic is float32 in both engines; only its order of operations may differ, so spikes agree here, too.
    neuron = ZOO[name]()
    x = drive(neuron, EVERY_BLOCK - (compiled == "block"), 3, FEATURES, dtype=dtype)
    assert_same(compiled, neuron, x, gradient_rtol=1e-2 if dtype == torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 64, 130])
def test_every_length(steps, compiled):
    neuron = LIF().double()
    assert_same(compiled, neuron, drive(neuron, steps, 3, FEATURES))


@pytest.mark.parametrize("neurons", [1, 2, 63, 500, 1000])
def test_every_size(neurons, compiled):
    neuron = LIF().double()
    assert_same(compiled, neuron, drive(neuron, 9, 1, neurons))


def strided_inputs():
    base = torch.rand(9, 4, 6, 5, 5, dtype=torch.float64) * 1.4
    yield "channels-last", base.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (9, 4))
    yield "batch-first", base.transpose(0, 1).contiguous().transpose(0, 1)
    yield "every-second", torch.rand(9, 4, 12, dtype=torch.float64)[..., ::2] * 1.4
    yield "slice-of-wider", torch.rand(9, 4, 12, dtype=torch.float64)[..., 3:9] * 1.4
    yield "static", (torch.rand(4, 6, dtype=torch.float64) * 1.4).expand(9, 4, 6)
    yield "transposed-step", torch.rand(9, 6, 4, dtype=torch.float64).mT * 1.4
    yield "one-column", torch.rand(9, 4, 1, dtype=torch.float64) * 1.4


@pytest.mark.parametrize("name, x", list(strided_inputs()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_layout(name, x, compiled):
    neuron = LIF().double()
    out_e, _, _ = results(neuron, x, "eager", False)
    out_b, _, _ = results(neuron, x, compiled, False)
    torch.testing.assert_close(out_b, out_e, rtol=0, atol=0)
    # As the tensor itself, not a clone of it: the engine must read it in place.
    neuron.engine = compiled
    torch.testing.assert_close(neuron(x)[0], out_e, rtol=0, atol=0)


@pytest.mark.parametrize("name, x", list(strided_inputs()), ids=lambda value: value if isinstance(value, str) else "")
def test_learnable_numbers_in_every_layout(name, x, compiled, plain_blocks):
    neuron = PLIF().double()

    def gradients(engine):
        neuron.engine = engine
        given = x.detach().requires_grad_()  # the same strides
        out, _ = neuron(given)
        return torch.autograd.grad((out * torch.linspace(0, 1, out.numel()).view_as(out)).sum(), [given, neuron.w])

    for ours, theirs in zip(gradients(compiled), gradients("eager"), strict=True):
        torch.testing.assert_close(ours, theirs, check_dtype=False)


def test_channels_last_is_read_and_written_in_place(compiled):
    from snnkit.engine.autograd import Layout

    x = torch.rand(3, 2, 4, 5, 5).flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (3, 2))
    layout = Layout.of(x)
    flat = layout.flatten_sequence(x)
    assert flat.data_ptr() == x.data_ptr()
    assert layout.restore_sequence(flat).stride() == x.stride()
    static = x[:1].expand(3, *x.shape[1:])
    assert Layout.of(static).flatten_sequence(static).data_ptr() == x.data_ptr()
    out, state = LIF(engine=compiled)(x)
    assert out.stride() == x.stride() and state.v.stride() == x[0].stride()


def test_chunks_of_time_equal_the_whole_and_gradients_flow_between_them(compiled):
    x = (torch.rand(12, 3, FEATURES, dtype=torch.float64) * 1.4).requires_grad_()
    whole, last = LIF(engine=compiled)(x)
    gradients = []
    for name in ("eager", compiled):
        neuron = LIF(engine=name)
        first, state = neuron(x[:5])
        out, end = neuron(x[5:], state)
        gradients.append(torch.autograd.grad(out.sum(), x)[0])
        assert torch.equal(torch.cat([first, out]), whole)
        torch.testing.assert_close(end.v, last.v, rtol=1e-12, atol=1e-15)
    assert gradients[0][:5].abs().sum() > 0
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-12)


class Smooth(nn.Module):
    """A spike function that is its own surrogate, so that the whole unrolled neuron is differentiable."""

    def forward(self, u):
        return torch.sigmoid(3 * u)


@pytest.mark.parametrize("make", [LIF, lambda **kw: LIF(nn.Parameter(torch.tensor(2.0)), v_reset=None, **kw)])
@pytest.mark.parametrize("name", ["eager", "block", "cpp"])
def test_gradcheck_with_a_smooth_spike(make, name, plain_blocks):
    neuron = make(surrogate=Smooth(), engine=name).double()
    x = torch.rand(9, 2, 3, dtype=torch.float64, requires_grad=True)
    v = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)

    def run(x, v, *parameters):
        out, last = neuron(x, MembraneState(v))
        return out, last.v

    assert torch.autograd.gradcheck(run, (x, v, *neuron.parameters()))


def test_inference_mode_and_no_grad(compiled):
    x = torch.rand(9, 3, FEATURES) * 1.5
    expected = LIF(engine="eager")(x)[0]
    with torch.no_grad():
        torch.testing.assert_close(LIF(engine=compiled)(x)[0], expected, rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(LIF(engine=compiled)(x)[0], expected, rtol=0, atol=0)


def test_under_autocast_state_stays_float32(compiled):
    linear = nn.Linear(4, FEATURES)
    x = torch.rand(8, 3, 4) * 3
    with torch.autocast("cpu", torch.bfloat16):
        current = linear(x)
        out_e, state_e = LIF(engine="eager")(current)
        out_b, state_b = LIF(engine=compiled)(current)
    assert out_b.dtype == current.dtype == torch.bfloat16 and state_b.v.dtype == torch.float32
    torch.testing.assert_close(out_b, out_e, rtol=0, atol=0)
    torch.testing.assert_close(state_b.v, state_e.v)


def test_equal_layers_share_kernels_and_sizes_do_not_matter(plain_blocks):
    """Five layers, three batch sizes and many T compile one kernel per block size and direction, no more."""
    before = set(block._kernels)
    # A beta that no other test uses, so that nothing is compiled yet.
    layers = [Leaky(0.8125, engine="block") for _ in range(5)]
    for batch in (1, 3, 8):
        for layer, features in zip(layers, (4, 7, 16, 33, 1), strict=True):
            for steps in (4, 8, 25, 40, 128):
                x = torch.rand(steps, batch, features, requires_grad=True)
                layer(x)[0].sum().backward()
    new = set(block._kernels) - before
    assert len(new) == 2 * len(block.BLOCKS["cpu"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.refused
def test_block_leaves_more_neurons_than_a_gpu_can_count_in_32_bits():
    x = torch.empty(1, device="meta").expand(3, 2**31)
    one = engines.equation_of(LIF(), LIF().initial_state(torch.zeros(3)), torch.float32, torch.device("cpu"))
    with pytest.raises(engines.CompilationFailed, match=f"neurons on a GPU, but there are {2**31:,}"):
        block._kernel(one, 1, x, x.dtype, (), None)


def test_a_forked_process_computes_on_one_thread():
    """OpenMP's threads stay behind in the parent; a child that waited for them would never end."""
    threads = torch.get_num_threads()
    x, neuron = torch.rand(32, 1, 4096) * 1.5, LIF(engine="cpp")
    try:
        torch.set_num_threads(2)
        expected = neuron(x)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads of this process may hold locks
            child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if torch.equal(neuron(x)[0][:2], expected[:2]) else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_no_thread_gets_much_more_than_its_share(threads):
    for neurons, streaming in itertools.product(range(1, 20000, 37), (False, True)):
        for most in (512, 655, 2048, 131072):
            tile = cpp._tile(neurons, threads, most, streaming)
            share, tiles = math.ceil(neurons / threads), math.ceil(math.ceil(neurons / tile) / threads)
            assert tile % 16 == 0 and min(tiles * tile, neurons) <= max(1.05 * share, share + 16 * tiles)
            assert threads == 1 or tiles > 1 or share <= (1024 if streaming else 128)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_seen_in_any_tile_and_state(monkeypatch, threads, value):
    """The kernel looks at the last state of a tile before it goes on to the next one."""
    monkeypatch.setattr(cpp, "threads_for", lambda x: threads)
    neuron, x = CubaLIF(engine="cpp"), torch.rand(5, 1, 5000)
    with torch.no_grad():
        neuron(x)
        for at in (0, 127, 2047, 2048, 4991, 4999):
            x[3, 0, at] = value
            with pytest.raises(ValueError, match=rf"x of CubaLIF must be finite, but x\[3, 0, {at}\] is"):
                neuron(x)
            x[3, 0, at] = 0.5
            for part in range(2):
                state = neuron.initial_state(x[0])
                state[part][0, at] = value
                with pytest.raises(ValueError, match="of CubaLIF is not finite though x is"):
                    neuron(x, state)
        assert torch.isfinite(neuron(x * 1e9)[1].v).all()  # large, but none of them is infinite


@pytest.mark.parametrize("compiled_inside", [False, True])
def test_a_pass_inside_a_step_does_not_vouch_for_the_outer_one(compiled_inside):
    inner = LIF(engine="cpp")
    called = torch.compile(inner, backend="eager") if compiled_inside else inner

    class Outer(Neuron):
        def step(self, x, state):
            called(torch.ones_like(x).expand(40, -1))
            return x, MembraneState(state.v + x)

    x = torch.zeros(3, 4)
    x[1, 2] = math.nan
    with pytest.raises(ValueError, match=r"x\[1, 2\] is nan"):
        Outer(engine="eager")(x)


def test_a_pass_inside_a_hook_does_not_vouch_for_the_outer_one():
    def pack(tensor):
        LIF(engine="cpp")(torch.ones(2, 3))
        return tensor

    x = torch.full((3, 4), math.nan, requires_grad=True)
    for engine in ("cpp", "block"):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), pytest.raises(ValueError, match="x of LIF"):
            LIF(engine=engine)(x)


@pytest.mark.parametrize("engine", ["auto", "block", "cpp"])
def test_shapes_without_values(engine):
    with FakeTensorMode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out, last = LIF(engine=engine)(torch.rand(16, 1, 20000))
    assert out.shape == (16, 1, 20000) and last.v.shape == (1, 20000)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("neurons", [20, 100, 256, 257, 1000, 1500])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_any_number_of_tiles_gives_what_eager_gives(monkeypatch, steps, neurons, threads):
    """Tiles of at most 256 neurons, so that a thread has none, one, or several, the last of them not full."""
    for name, value in {"_CACHED_RUN": 256, "_BACKWARD_TILE": 1, "_RUN": 1, "_SHORTEST_RUN": 256}.items():
        monkeypatch.setattr(cpp, name, value)
    monkeypatch.setattr(cpp, "threads_for", lambda x: threads)
    makers = (
        lambda engine: Leaky(nn.Parameter(torch.linspace(0.5, 0.9, neurons).double()), engine=engine),
        lambda engine: PLIF(engine=engine).double(),
        lambda engine: CubaLIF(engine=engine),
        lambda engine: LI(engine=engine),  # linear: nothing is kept on the way forward
    )
    x = torch.rand(steps, 1, neurons, dtype=torch.float64) * 2
    weight = torch.rand_like(x)
    for make in makers:
        found = []
        for name in ("cpp", "eager"):
            neuron, leaf = make(name), x.clone().requires_grad_()
            out, last = neuron(leaf)
            loss = (out * weight).sum() + sum((part * weight[0]).sum() for part in last)
            found.append((out, *last, *torch.autograd.grad(loss, [leaf, *neuron.parameters()])))
        for fast, reference in zip(*found, strict=True):
            torch.testing.assert_close(fast, reference)


@pytest.mark.parametrize(
    "neuron",
    [IF(), IF(v_reset=None), LIF(v_reset=0.25), Leaky(0.9), CubaLIF(v_leak=0.5)],
    ids=lambda n: type(n).__name__,
)
def test_the_rest_of_a_layer_takes_the_memory_of_one_neuron(neuron):
    one = torch.empty(()).expand(3, 5)
    rest, dense = neuron.initial_state(one), neuron.initial_state(torch.empty(3, 5))
    for small, large in zip(rest, dense, strict=True):
        assert small.stride() == (0, 0) and large.is_contiguous()
        torch.testing.assert_close(small, large)


@pytest.mark.parametrize("kind", [LIF, CubaLIF])
def test_a_state_of_one_value_and_the_gradient_of_a_sum(kind, compiled, request):
    """Both the first state and the gradient of the last one have stride 0 here, and are not zero."""
    if kind is CubaLIF:
        request.getfixturevalue("plain_blocks")
    x = torch.rand(4, 3, 70, dtype=torch.float64, requires_grad=True)
    neuron = kind(engine=compiled)
    found = []
    for start in (torch.tensor(0.3).double().expand(3, 70), torch.full((3, 70), 0.3).double()):
        v = start.clone().requires_grad_() if start.is_contiguous() else start
        out, last = neuron(x, neuron.State(*[v] * len(neuron.initial_state(x[0]))))
        parts = sum((1 + i) * part.sum() for i, part in enumerate(last))
        gradient = torch.autograd.grad(out.square().sum() + parts, x)[0]
        found.append((out, *last, gradient))
    for one, each in zip(*found, strict=True):
        torch.testing.assert_close(one, each)
    reference = kind(engine="eager")(x, type(last)(*[v] * len(last)))
    torch.testing.assert_close(found[0][0], reference[0])


def test_more_than_64_states_and_gradients_of_one_value_or_many():
    def step(x, state):
        return x + state[-1], tuple(0.5 * part + x for part in state)

    def run(engine):
        x, state = torch.ones(2, 3, dtype=torch.float64).requires_grad_(), torch.arange(34.0, dtype=torch.float64)
        out, last = unroll(step, x, tuple(part.expand(3) for part in state.requires_grad_()), engine=engine)
        many = (last[33] * torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)).sum()
        return out, *last, *torch.autograd.grad(out.sum() + 3 * last[32].sum() + many, (x, state))

    torch.testing.assert_close(run("cpp"), run("eager"), rtol=0, atol=0)


def test_an_absent_gradient_is_not_a_gradient_of_zero(compiled, plain_blocks):
    """The square root's derivative at 0 is infinite, but the loss does not see the state that it makes."""

    def step(x, state):
        v = state[0] + 0.9 * x
        spike = torch.sigmoid(v)
        return spike, (v * (1 - spike), torch.sqrt(torch.abs(x)), state[2])

    gradients = []
    for name in (compiled, "eager"):
        x = torch.tensor([[1.0], [0.0], [0.3]], dtype=torch.float64, requires_grad=True)
        out, last = unroll(step, x, (torch.zeros(1, dtype=torch.float64),) * 3, engine=name)
        seen = torch.autograd.grad(out.sum() + last[1].sum(), x, retain_graph=True)[0]
        gradients.append((torch.autograd.grad(out.sum(), x)[0], seen))
    torch.testing.assert_close(gradients[0], gradients[1], equal_nan=True)
    assert gradients[0][0].isfinite().all()


def test_comparisons_of_constants_and_of_conditions_with_numbers(compiled):
    """No number in them has the dtype of a tensor that they meet: -1 is not True."""

    def step(x, state):
        zeros = torch.zeros(x.shape).to(x)
        return torch.where(zeros > -1, x, 5.0), (((x > 0) > -1).to(x) + 2 * ((x > 0) == 2).to(x) + torch.exp(zeros),)

    x = torch.randn(3, 5)
    expected, result = (unroll(step, x, (torch.zeros(5),), engine=name) for name in ("eager", compiled))
    assert torch.equal(result[0], expected[0]) and torch.equal(result[1][0], expected[1][0])


LAYOUTS = {
    "flat": lambda x: x.flatten(1),
    "contiguous": lambda x: x,
    "channels last": lambda x: x.permute(0, 1, 4, 2, 3),
    "batch last": lambda x: x.transpose(1, 2),
    "every other": lambda x: x.repeat_interleave(2, 3)[:, :, :, ::2],
    "static": lambda x: x[:1].expand(x.shape),
    "one step": lambda x: x[:1],
    "one neuron": lambda x: x[:, :1, 0, 0, :1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["cpp", pytest.param("block", marks=pytest.mark.slow)])
def test_results_are_the_users_own(name, layout):
    """They may be changed in place, also before ``backward``, as those of the eager engine."""
    x = LAYOUTS[layout](torch.rand(5, 2, 3, 4, 6, dtype=torch.float64)).detach()
    beta = torch.rand(x.shape[2:])
    results = []
    for engine_ in ("eager", name):
        leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
        neuron = Leaky(nn.Parameter(beta.double()), engine=engine_)
        out, state = neuron(leaf * 1.0)
        out.mul_(3.0)
        state.mem.add_(1.0)
        assert not out._is_view() and not state.mem._is_view()
        (out.sum() + state.mem.square().sum()).backward()
        with torch.no_grad():
            plain, last = neuron(leaf)
            assert not plain._is_view() and not last.mem._is_view()
        results.append((out, state.mem, plain, last.mem, leaf.grad, neuron.beta.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
