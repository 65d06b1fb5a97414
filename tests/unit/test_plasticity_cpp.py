"""The C++ of the plasticity rules: equal to PyTorch at every size, and where it steps aside."""

import warnings

import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit.engine import CompilationFailed
from snnkit.plasticity import PairSTDP, TripletSTDP, cpp_kernels
from snnkit.plasticity.connection import Convolution

F64 = torch.float64
RULES = {
    "pair": PairSTDP(0.03, 0.04, 5e-3, 8e-3, w_min=0.1, w_max=0.8, engine="cpp"),
    "depression only": PairSTDP(0.0, 0.04, engine="cpp"),
    "potentiation only": PairSTDP(0.03, 0.0, engine="cpp"),
    "triplet": TripletSTDP(0.03, 0.04, 0.05, 0.02, bound="soft", engine="cpp"),
}


def with_(rule, **changes):
    return type(rule)(**{**rule.__dict__, **changes})


def random_spikes(seed, steps, batch, pre, post, rate, dtype=F64):
    draw = torch.Generator().manual_seed(seed)
    spikes = [(torch.rand(steps, batch, n, generator=draw) < rate).to(dtype) for n in (pre, post)]
    return *spikes, torch.rand(post, pre, generator=draw, dtype=dtype) * 1.4 - 0.2  # some beyond the bounds


def stepwise(rule, pre, post, weight):
    state, weight = None, weight.clone()
    for pre_t, post_t in zip(pre, post, strict=True):
        _, state = rule.step(pre_t, post_t, weight, state, out=weight)
    return weight


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(*(st.integers(1, most) for most in (6, 5, 150, 21))),
    rate=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    name=st.sampled_from(sorted(RULES)),
    bound=st.sampled_from(["hard", "soft", None]),
    cached=st.sampled_from([1, 10_000, 2**18]),
    dtype=st.sampled_from([torch.float32, F64]),
)
def test_it_does_what_pytorch_does(seed, shape, rate, name, bound, cached, dtype):
    pre, post, weight = random_spikes(seed, *shape, rate, dtype)
    rule = with_(RULES[name], bound=bound)
    expected, last = with_(rule, engine="eager").run(pre, post, weight)
    near = {"rtol": 1e-12, "atol": 1e-12} if dtype == F64 else {"rtol": 1e-5, "atol": 1e-5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpp_kernels, "_CACHED", cached)  # steps that are taken at once
        whole, state = rule.run(pre, post, weight)
    torch.testing.assert_close(whole, expected, **near)
    torch.testing.assert_close(stepwise(rule, pre, post, weight), expected, **near)
    for one, other in zip(state, last, strict=True):
        torch.testing.assert_close(one, other, **near)


@pytest.fixture
def three_threads(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    monkeypatch.setattr(cpp_kernels, "threads_for", lambda tensor: 3)  # as for larger layers
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_threads_share_the_rows():
    pre, post, weight = random_spikes(1, 4, 2, 130, 37, 0.1)
    rule = RULES["pair"]
    same = with_(rule, engine="eager").run(pre, post, weight)[0]
    torch.testing.assert_close(rule.run(pre, post, weight)[0], same, rtol=1e-12, atol=1e-12)
    images = [(torch.rand(3, 2, *shape) < 0.2).to(F64) for shape in ((3, 9, 8), (5, 7, 6))]
    conv, weight = with_(rule, connection=Convolution()), torch.rand(5, 3, 3, 3, dtype=F64)
    same = with_(conv, engine="eager").run(*images, weight)[0]
    torch.testing.assert_close(conv.run(*images, weight)[0], same, rtol=1e-12, atol=1e-12)


def test_auto_takes_it_from_some_size_on():
    large, small = torch.zeros(64, 64), torch.zeros(63, 64)
    dense = RULES["pair"].connection
    assert cpp_kernels.takes("auto", dense, large, large) and not cpp_kernels.takes("auto", dense, small, small)
    assert cpp_kernels.takes("cpp", dense, small, small) and not cpp_kernels.takes("eager", dense, large, large)
    assert not cpp_kernels.takes("block", dense, large, large)


def test_it_steps_aside_for_what_it_does_not_know():
    dense, weight = RULES["pair"].connection, torch.zeros(64, 128)
    assert not cpp_kernels.takes("cpp", dense, weight.T, weight.T)
    assert not cpp_kernels.takes("cpp", dense, weight, weight[:, ::2])
    assert not cpp_kernels.takes("cpp", dense, weight.to("meta"), weight.to("meta"))
    assert not cpp_kernels.takes("cpp", dense, weight[1:], weight[:-1])
    assert cpp_kernels.takes("cpp", dense, weight, weight[:])
    with torch.inference_mode():
        frozen = torch.zeros(64, 64)
        assert cpp_kernels.takes("cpp", dense, frozen, frozen)
    assert not cpp_kernels.takes("cpp", dense, frozen, frozen)
    pre, post, weight = random_spikes(2, 1, 2, 70, 60, 0.2)
    strided = torch.empty(70, 60, dtype=F64).T
    rule = RULES["pair"]
    expected = rule.step(pre[0], post[0], weight)[0]
    got, _ = rule.step(pre[0], post[0], weight, out=strided)
    assert got is strided and not strided.is_contiguous()
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


def test_autograd_learns_that_a_weight_it_kept_has_changed():
    pre, post, _ = random_spikes(4, 1, 2, 70, 60, 0.2)
    layer = torch.nn.Linear(70, 60, dtype=F64)
    out = layer(pre[0].requires_grad_())
    RULES["pair"].step(pre[0], post[0], layer.weight, out=layer.weight)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.refused
@pytest.mark.parametrize("why", ["compiler", "setting"])
def test_without_a_compiler_pytorch_does_it_and_says_so_once(why, monkeypatch):
    def load(source):
        raise CompilationFailed("no compiler here")

    monkeypatch.setattr(cpp_kernels, "load", load)
    if why == "setting":
        monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    pre, post, weight = random_spikes(5, 3, 2, 70, 60, 0.2)
    rule = RULES["pair"]
    cpp_kernels._library.cache_clear()
    try:
        match = "no compiler here" if why == "compiler" else "TORCH_COMPILE_DISABLE=1 forbids compiling"
        with pytest.warns(UserWarning, match=match):
            got, state = rule.step(pre[0], post[0], weight)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rule.step(pre[1], post[1], got, state)
    finally:
        cpp_kernels._library.cache_clear()
    torch.testing.assert_close(got, with_(rule, engine="eager").step(pre[0], post[0], weight)[0])


@pytest.mark.parametrize("bound", ["hard", "soft"])
def test_weights_beyond_the_bounds_come_back_with_a_step_without_spikes(bound):
    """Where all are within, nothing is written; one anywhere that is not must be found."""
    rule, quiet = with_(RULES["pair"], bound=bound), torch.zeros(1, 150, dtype=F64)
    for place in (0, 63, 64, 149, 150 * 40 - 1):
        weight = torch.full((40, 150), 0.5, dtype=F64)
        weight.view(-1)[place] = 0.9
        rule.step(quiet, torch.zeros(1, 40, dtype=F64), weight, out=weight)
        assert weight.view(-1)[place] == 0.8 and (weight == 0.5).sum() == weight.numel() - 1
