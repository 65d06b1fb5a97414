"""What PopTorch's guide lists as supported must pass, however this PyTorch takes it apart; what it lacks must not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snnkit.hardware.ipu import graph_recording as recording
from snnkit.hardware.ipu.operations import SIZE_FROM_VALUES, SUPPORTED, is_supported

IMAGE, LINE, CUBE, FLAT = (2, 3, 8, 8), (2, 3, 8), (2, 3, 4, 4, 4), (2, 6)

# Layers of the guide, and a shape they take.
LAYERS = [
    (nn.Conv1d(3, 4, 3), LINE),
    (nn.Conv2d(3, 4, 3), IMAGE),
    (nn.Conv3d(3, 4, 3), CUBE),
    (nn.ConvTranspose1d(3, 4, 3), LINE),
    (nn.ConvTranspose2d(3, 4, 3), IMAGE),
    (nn.ConvTranspose3d(3, 4, 3), CUBE),
    *((layer(2), shape) for layer, shape in ((nn.MaxPool1d, LINE), (nn.MaxPool2d, IMAGE), (nn.MaxPool3d, CUBE))),
    *((layer(2), shape) for layer, shape in ((nn.AvgPool1d, LINE), (nn.AvgPool2d, IMAGE), (nn.AvgPool3d, CUBE))),
    (nn.AdaptiveAvgPool1d(2), LINE),
    (nn.AdaptiveAvgPool2d(2), IMAGE),
    (nn.AdaptiveAvgPool3d(2), CUBE),
    (nn.ReflectionPad1d(1), LINE),
    (nn.ReflectionPad2d(1), IMAGE),
    (nn.ReplicationPad1d(1), LINE),
    (nn.ReplicationPad2d(1), IMAGE),
    (nn.ReplicationPad3d(1), CUBE),
    (nn.ZeroPad2d(1), IMAGE),
    (nn.ConstantPad1d(1, 0.5), LINE),
    *(
        (layer, FLAT)
        for layer in (
            *(nn.ELU(), nn.CELU(), nn.GELU(), nn.Hardshrink(), nn.LeakyReLU(), nn.LogSoftmax(1), nn.ReLU(), nn.SELU()),
            *(nn.SiLU(), nn.Sigmoid(), nn.Softmax(1), nn.Softplus(), nn.Softsign(), nn.Softshrink(), nn.Tanh()),
            *(nn.PReLU(), nn.RReLU(), nn.Hardtanh(), nn.GLU(), nn.Threshold(0.1, 0.0)),
            *(nn.BatchNorm1d(6), nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.Identity(), nn.Linear(6, 4), nn.Dropout(0.3)),
            *(nn.RNN(6, 4), nn.GRU(6, 4), nn.LSTM(6, 4)),
        )
    ),
    (nn.BatchNorm2d(3), IMAGE),
    (nn.BatchNorm3d(3), CUBE),
    (nn.InstanceNorm2d(3, affine=True), IMAGE),
    (nn.Upsample(scale_factor=2), IMAGE),
    (nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
]


def unsupported(module, *shapes, integers=False):
    """The operations of a call without values that are not in the list."""
    inputs = [torch.zeros(s, dtype=torch.int64 if integers else torch.float32, device="meta") for s in shapes]
    module = module.to("meta")
    record = recording.record(module, inputs, meta=True)
    assert record.error is None, record.error
    assert record.operations or isinstance(module, nn.Identity)
    return {op.name for op in record.operations if not is_supported(op.name) and not op.part}


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda part: type(part).__name__)
def test_layers_of_the_guide(layer, shape):
    assert not unsupported(layer, shape)


def test_embeddings_of_the_guide():
    assert not unsupported(nn.Embedding(5, 4), (2, 3), integers=True)
    assert not unsupported(nn.EmbeddingBag(5, 4), (2, 3), integers=True)


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor frac log log10 log1p log2 neg reciprocal round
    rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc all any argmax argmin mean median prod std sum var max min
    isnan argsort sort amax amin erf logsumexp std_mean var_mean count_nonzero zeros_like ones_like t relu
"""
BINARY = """
    add div floor_divide fmod mul pow remainder sub true_divide eq ge gt le lt ne max min maximum minimum matmul
    logical_and logical_or cdist tensordot bucketize expand_as
"""


@pytest.mark.parametrize("name", UNARY.split())
def test_functions_of_one_argument(name):
    needs_dim = name in ("logsumexp", "softmax")
    function = getattr(torch, name)
    assert not unsupported(Calls(lambda x: function(x, 0) if needs_dim else function(x)), (4, 4))


@pytest.mark.parametrize("name", BINARY.split())
def test_functions_of_two_arguments(name):
    function = getattr(torch, name, None) or getattr(torch.Tensor, name)
    second = (4,) if name == "bucketize" else (4, 4)
    if name == "tensordot":
        assert not unsupported(Calls(lambda a, b: torch.tensordot(a, b, dims=1)), (4, 4), second)
    else:
        assert not unsupported(Calls(function), (4, 4), second)


def test_other_functions_of_the_guide():
    def index(x):
        return x[:, 0].long()

    for function in (
        lambda x: torch.cat([x, x]).chunk(2)[0] + torch.stack([x, x])[0] + torch.where(x > 0, x, 0.0),
        lambda x: (
            x.reshape(2, 8)
            .roll(1)
            .transpose(0, 1)
            .unsqueeze(0)
            .squeeze(0)
            .expand(8, 2)
            .masked_fill(torch.zeros(8, 2, dtype=torch.bool), 0.0)
        ),
        lambda x: x.gather(1, index(x).unsqueeze(1)) + x.index_select(0, index(x)),
        lambda x: x.scatter(1, index(x).unsqueeze(1), 1.0) + x.scatter_add(0, index(x).unsqueeze(1), x),
        lambda x: torch.bernoulli(x) + torch.randn(4, 4) + torch.rand(4) + torch.normal(x, 1.0) + torch.randperm(4),
        lambda x: torch.addcdiv(x, x, x) + torch.addcmul(x, x, x) + x.clamp(0, 1) + x.clamp_min(0) + x.clamp_max(1),
        lambda x: torch.topk(x, 2).values.sum() + x.cumsum(0) + torch.meshgrid(x[0], x[1], indexing="ij")[0],
        lambda x: torch.addmm(x, x, x) + torch.bmm(x[None], x[None])[0] + torch.einsum("ij,jk->ik", x, x),
        lambda x: torch.linalg.norm(x) + torch.linalg.vector_norm(x) + torch.norm(x) + 1 - x + x.flip(0).repeat(1, 1),
        lambda x: F.one_hot(index(x), 4) + torch.arange(4) + torch.full((4,), 2.0) + x.new_zeros(4) + x.new_ones(4),
        lambda x: x.unbind(0)[0] + x.split(2)[0][0] + x.flatten()[:4] + x.permute(1, 0)[0] + x.to(torch.float16)[0],
        lambda x: x.add_(1).mul_(2).sub_(x).clamp_(0, 1).relu_().sigmoid_(),
    ):
        assert not unsupported(Calls(function), (4, 4))


def test_losses_of_the_guide():
    def classes(x):
        return x.sum(1).long()

    for function in (
        lambda a, b: F.l1_loss(a, b) + F.mse_loss(a, b) + F.smooth_l1_loss(a, b) + F.binary_cross_entropy(a, b),
        lambda a, b: F.cross_entropy(a, classes(b)) + F.nll_loss(F.log_softmax(a, 1), classes(b)),
        lambda a, b: F.kl_div(a, b) + F.poisson_nll_loss(a, b) + F.binary_cross_entropy_with_logits(a, b),
        lambda a, b: F.soft_margin_loss(a, b) + F.hinge_embedding_loss(a, b),
        lambda a, b: F.cosine_embedding_loss(a, b, classes(b)) + F.triplet_margin_loss(a, b, a + b),
    ):
        assert not unsupported(Calls(function), (4, 4), (4, 4))


ABSENT = """
    heaviside lerp nan_to_num sinc rand_like bernoulli_ nonzero masked_select fft_fft svd histc erfinv
"""


@pytest.mark.parametrize("name", ABSENT.split())
def test_what_is_absent(name):
    assert not is_supported(name) or name in SIZE_FROM_VALUES
    assert name not in SUPPORTED
