"""Converted networks: rates are the clipped activations, whatever the layers; what can't be converted is named."""

import copy
import importlib.util

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snnkit import data, encode, export, loss, quantize
from snnkit.interop import CountMaxPool, Graph, PrechargedIF, ann_to_snn, to_nir
from snnkit.neuron import LIF
from snnkit.nn import Sequential

IMAGES = torch.rand(70, 2, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)  # a batch and a part
ROWS = IMAGES.flatten(1)[:, :12]


def prepared(model):
    """In float64, with weights of this test, and batch norms that change something."""
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.uniform_(-0.3, 0.3)
            module.running_var.uniform_(0.5, 2.0)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.2, 0.5)
    return model.double().eval()


def dense():
    return prepared(
        nn.Sequential(*[part for n in (12, 12) for part in (nn.Linear(12, n), nn.ReLU())], nn.Linear(12, 3))
    )


@torch.no_grad()
def logits(snn, images, steps):
    return snn(encode.repeat(images, steps))[0].mean(0)


# --- rates ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("v_init, error", [(0.5, 0.5), (0.0, 1.0)])
def test_the_rate_of_the_first_layer_is_its_clipped_activation_to_a_spike(v_init, error):
    ann = dense()
    active = ann[1](ann[0](ROWS))
    scale = active.flatten().kthvalue(round(0.9 * active.numel())).values
    assert 0.05 < (active > scale).double().mean() < 0.11  # some are clipped
    wanted = (active / scale).clamp(max=1)
    snn = ann_to_snn(ann, ROWS, 90, v_init=v_init)
    for steps in (1, 2, 7, 32, 75):
        rates = snn.record(encode.repeat(ROWS, steps)).layers[1].mean(0)
        assert (rates - wanted).abs().max() <= (error + 1e-6) / steps


@torch.no_grad()
@pytest.mark.parametrize("percentile", [100, 99, 80])
def test_the_rates_of_all_layers_are_the_clipped_activations_in_the_limit(percentile):
    ann = dense()
    snn = ann_to_snn(ann, ROWS, percentile)
    clipped, real, wanted = ROWS, ROWS, []
    for linear in (ann[0], ann[2]):
        real = linear(real).relu()  # scales are those of the network as it is
        values = real.flatten().sort().values
        scale = values[-(-percentile * len(values) // 100) - 1]
        clipped = linear(clipped).relu().clamp(max=scale)
        wanted.append(clipped / scale)
    for steps in (100, 1000):
        layers = snn.record(encode.repeat(ROWS[:5], steps)).layers
        for rates, want in zip((layers[1], layers[3]), wanted, strict=True):
            assert (rates.mean(0) - want[:5]).abs().max() <= 3 / steps
        assert (layers[4].mean(0) - ann[4](clipped[:5])).abs().max() <= 3 / steps


@torch.no_grad()
def test_a_soft_reset_loses_no_charge():
    """What came in is what was fired and what is left, at any T, for each layer: its rate is drive - (v - v_init) / T.

    The drive is the mean of its input (Rueckauer et al. 2017, equation 4).
    """
    snn = ann_to_snn(dense(), ROWS, 95, v_init=0.25)
    for steps in (3, 50):
        out, state, layers = snn.record(encode.repeat(ROWS, steps))
        for i in (1, 3):
            left = (state[i].v - 0.25) / steps
            assert torch.allclose(layers[i].mean(0), layers[i - 1].mean(0) - left, rtol=0, atol=1e-12)
            assert set(layers[i].unique().tolist()) == {0.0, 1.0}
        assert torch.equal(out, layers[-1])


@torch.no_grad()
def test_time_goes_on_with_the_state():
    snn = ann_to_snn(prepared(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), *head(27))), IMAGES)
    x = encode.repeat(IMAGES[:3], 9)
    whole, _ = snn(x)
    first, state = snn(x[:4])
    assert torch.equal(torch.cat([first, snn(x[4:], state)[0]]), whole)


# --- layers -----------------------------------------------------------------------------------------------------------


def head(inputs):
    return nn.Flatten(), nn.Linear(inputs, 5), nn.ReLU(), nn.Linear(5, 3)


class Forward(nn.Module):
    """A convolution, what a function makes of its output, and a head."""

    def __init__(self, function, inputs=4 * 6 * 6):
        super().__init__()
        self.function = function
        self.conv, self.side, self.drop = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3, padding=1), nn.Dropout(0.5)
        self.norm = nn.BatchNorm2d(4)
        self.first, self.last = nn.Linear(inputs, 5), nn.Linear(5, 3)

    def forward(self, x):
        x = self.function(self, self.conv(x))
        return self.last(F.relu(self.first(torch.flatten(x, 1))))


def residual(self, x):
    x = F.relu(x)
    y = self.side(x)
    y += x
    return torch.relu_(y)


def two_branches(self, x):
    x = x.relu()
    y = F.relu(self.side(F.avg_pool2d(x, 3, 1, 1)))
    return (y + x).relu() + F.max_pool2d(x, 3, 1, 1)


def sum_of_currents(self, x):
    y = self.side(x)
    return F.relu(x + self.norm(y) + y)  # so the norm can't be folded into y


class AddedToImages(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x):
        return torch.add(self.conv(x), x)


FORWARDS = {
    "functions": Forward(lambda self, x: F.dropout(F.relu(x), 0.5, self.training).contiguous()),
    "methods": Forward(lambda self, x: self.drop(x.relu()).view(x.size(0), -1).reshape(x.shape[0], 4, -1).flatten(1)),
    "unsqueezed": Forward(lambda self, x: F.relu(x).unsqueeze(1).squeeze(1)),
    "ReLU after pooling": Forward(lambda self, x: F.relu(F.max_pool2d(x, 2)), 36),
    "global average": Forward(lambda self, x: F.adaptive_avg_pool2d(F.relu(x), 1), 4),
    "size of the input": Forward(lambda self, x: F.avg_pool2d(F.relu6(x), x.shape[2:]), 4),
    "residual": Forward(residual),
    "two branches": Forward(two_branches),
    "sums of currents": Forward(sum_of_currents),
    "log-softmax": nn.Sequential(Forward(lambda self, x: F.relu(x)), nn.LogSoftmax(1)),
}
CHAINS = {
    "bias and norm": (nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), *head(108)),
    "no bias, norm": (nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), *head(108)),
    "norm without weights": (nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3, affine=False), nn.ReLU(), *head(108)),
    "no bias, no norm": (nn.Conv2d(2, 3, 3, bias=False), nn.ReLU(inplace=True), *head(108)),
    "norm of rows": (nn.Flatten(), nn.Linear(128, 6), nn.BatchNorm1d(6), nn.ReLU(), *head(6)),
    "norm first": (nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.ReLU(), *head(108)),
    "norm of spikes": (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.BatchNorm2d(3), *head(108)),
    "norm of rows of spikes": (nn.Flatten(), nn.Linear(128, 6), nn.ReLU(), nn.BatchNorm1d(6), *head(6)),
    "norm of another axis": (nn.Linear(8, 8), nn.BatchNorm2d(2), nn.ReLU(), *head(128)),
    "groups, stride": (nn.Conv2d(2, 4, 3, 2, 1, groups=2), nn.BatchNorm2d(4), nn.ReLU6(), *head(64)),
    "one dimension": (nn.Flatten(2), nn.Conv1d(2, 3, 5), nn.BatchNorm1d(3), nn.ReLU(), nn.AvgPool1d(4), *head(45)),
    "three dimensions": (nn.Unflatten(2, (2, 4)), nn.Conv3d(2, 3, 2), nn.ReLU(), nn.MaxPool3d((1, 2, 2)), *head(9)),
    "average pooling": (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout2d(), nn.Identity(), *head(27)),
    "maximum pooling": (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *head(27)),
    "to one": (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Sequential(nn.Sequential(nn.AdaptiveAvgPool2d(1)), *head(3))),
    "sum with the images": (AddedToImages(), nn.Conv2d(2, 3, 3), nn.ReLU(), *head(108)),
    "maximum of all": (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), *head(3)),
    "no ReLU between": (nn.Flatten(), nn.Linear(128, 9), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 9), nn.Linear(9, 3)),
    "pooling at the end": (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Softmax(1)),
}
MODELS = FORWARDS | {name: nn.Sequential(*layers) for name, layers in CHAINS.items()}


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_logits_come_as_close_as_there_are_steps(name):
    ann = prepared(copy.deepcopy(MODELS[name]))
    wanted, before = ann(IMAGES), copy.deepcopy(ann.state_dict())
    snn = ann_to_snn(ann, IMAGES, 100)
    ends = {"log-softmax": lambda y: y.log_softmax(1), "pooling at the end": lambda y: y.softmax(1)}
    for steps in (20, 120):  # 120 steps of 3 images are too little to compile
        got = ends.get(name, lambda y: y)(logits(snn, IMAGES[:3], steps))
        assert (got - wanted[:3]).abs().max() <= 1 / steps
    assert not any(isinstance(module, (nn.ReLU, nn.ReLU6, nn.Dropout)) for module in snn.modules())
    assert all(parameter.dtype == torch.float64 for parameter in snn.parameters()) and not snn.training
    assert all(torch.equal(value, before[key]) for key, value in ann.state_dict().items())


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in CHAINS if "norm" in name])
def test_batch_norms_are_folded_exactly(name):
    """What is in front of the first neurons, and behind their rates, is what the network has there."""
    ann = prepared(copy.deepcopy(MODELS[name]))
    first = next(i for i, layer in enumerate(ann) if isinstance(layer, nn.ReLU))
    currents = ann[:first](IMAGES)
    scale = currents.max()
    snn = ann_to_snn(ann, IMAGES, 100)
    layers = snn.record(encode.repeat(IMAGES, 5)).layers
    spiking = next(i for i, layer in enumerate(snn) if isinstance(layer, PrechargedIF))
    assert torch.allclose(layers[spiking - 1][0] * scale, currents, rtol=0, atol=1e-12)
    second = next(i for i in range(first + 1, len(ann)) if isinstance(ann[i], nn.ReLU))
    wanted = ann[first + 1 : second](layers[spiking].mean(0) * scale)
    later = next(i for i in range(spiking + 1, len(snn)) if isinstance(snn[i], PrechargedIF))
    ratio = ann[: second + 1](IMAGES).max()
    assert torch.allclose(layers[later - 1].mean(0) * ratio, wanted, rtol=0, atol=1e-12)
    alone = name in ("norm first", "norm of spikes", "norm of rows of spikes", "norm of another axis")
    assert sum(hasattr(layer, "weight") for layer in snn) == 3 + alone


def test_branches_are_graphs_in_a_sequential():
    snn = ann_to_snn(prepared(copy.deepcopy(MODELS["residual"])), IMAGES)
    assert [type(module).__name__ for module in snn] == [
        "Conv2d", "PrechargedIF", "Graph", "PrechargedIF", "Flatten", "Linear", "PrechargedIF", "Linear",
    ]  # fmt: skip
    assert isinstance(snn[2], Graph) and ("input", "1") in snn[2].edges  # the skip is scaled to the unit of the sum


def test_reused_layers_and_unused_ones():
    relu = nn.ReLU()
    ann = dense()
    ann[1], ann[3] = relu, relu
    ann.train()
    ann[2].eval()
    modes = [module.training for module in ann.modules()]
    images = ROWS.clone().requires_grad_()
    snn = ann_to_snn(ann, images)
    assert sum(isinstance(module, PrechargedIF) for module in snn) == 2
    assert [module.training for module in ann.modules()] == modes

    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.aside = dense(), nn.Sequential(nn.Linear(12, 7), nn.ReLU())

        def forward(self, x):
            self.aside(x)
            return self.body(x)

    snn = ann_to_snn(Extra().double(), ROWS)
    assert all(module.out_features != 7 for module in snn.modules() if isinstance(module, nn.Linear))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtypes_are_kept(dtype):
    ann = dense().to(dtype)
    snn = ann_to_snn(ann, ROWS.to(dtype), 100)
    rows = ROWS[:5].to(dtype)
    out, state = snn(encode.repeat(rows, 200))
    assert out.dtype == dtype and state[1].v.dtype == torch.float32
    assert (out.float().mean(0) - ann(rows).float()).abs().max() < (0.05 if dtype == torch.float32 else 0.2)


# --- maximum pooling of counts ----------------------------------------------------------------------------------------

POOLS = [
    (nn.MaxPool2d(2), (3, 6, 6)), (nn.MaxPool2d(3, 2, 1), (3, 7, 6)), (nn.MaxPool2d(2, ceil_mode=True), (1, 5, 5)),
    (nn.MaxPool2d(2, 1, dilation=2), (1, 5, 5)), (nn.AdaptiveMaxPool2d(2), (2, 5, 5)), (nn.MaxPool1d(2), (3, 6)),
    (nn.MaxPool3d(2), (1, 4, 4, 4)), (nn.AdaptiveMaxPool1d(1), (3, 6)),
]  # fmt: skip


@pytest.mark.parametrize("pool, shape", POOLS)
def test_what_was_given_is_the_largest_count(pool, shape):
    spikes = (torch.rand(30, 2, *shape) < torch.rand(2, *shape)).float()
    layer = CountMaxPool(pool)
    out, state = layer(spikes)
    assert torch.equal(out.cumsum(0), torch.stack([pool(count) for count in spikes.cumsum(0)]))
    assert set(out.unique().tolist()) == {0.0, 1.0}
    first, half = layer(spikes[:11])
    assert torch.equal(torch.cat([first, layer(spikes[11:], half)[0]]), out)
    assert torch.equal(state.count, spikes.sum(0)) and torch.equal(state.largest, pool(spikes.sum(0)))
    # The maximum of each step fires more, and a gate that follows the leader, too.
    assert out.sum() < torch.stack([pool(x) for x in spikes]).sum()


def test_counts_of_currents_and_of_half_precision():
    currents = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    out, _ = CountMaxPool(nn.MaxPool2d(2))(encode.repeat(currents, 6))
    assert torch.allclose(out, F.max_pool2d(currents, 2).expand(6, 2, 1, 2, 2))  # of negative ones, too
    many, state = CountMaxPool(nn.MaxPool2d(2))(torch.ones(700, 1, 1, 2, 2, dtype=torch.bfloat16))
    assert many.dtype == torch.bfloat16 and many.sum(dtype=torch.float32) == 700 and state.count.dtype == torch.float32
    x = torch.rand(4, 2, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: CountMaxPool(nn.MaxPool2d(2))(x)[0], x)


def test_what_a_pool_refuses():
    with pytest.raises(TypeError, match=r"pool must be a maximum pooling such as .*, but it is AvgPool2d"):
        CountMaxPool(nn.AvgPool2d(2))
    pool = CountMaxPool(nn.MaxPool2d(2))
    with pytest.raises(ValueError, match=r"MaxPool2d of CountMaxPool can't pool x, of which a step .* is \[4, 4\] of"):
        pool(torch.zeros(2, 4, 4))
    with pytest.raises(TypeError, match="x of CountMaxPool must be a tensor"):
        pool.initial_state(None)
    with pytest.raises(TypeError, match="state of CountMaxPool must be a PooledState or None"):
        pool(torch.zeros(2, 1, 1, 4, 4), (torch.zeros(1, 1, 4, 4),))
    _, state = pool(torch.zeros(2, 1, 1, 4, 4))
    with pytest.raises(ValueError, match=r"state.* has shape \[1, 1, 4, 4\], but a step of x has shape \[3, 1, 4, 4\]"):
        pool(torch.zeros(2, 3, 1, 4, 4), state)


# --- what is refused --------------------------------------------------------------------------------------------------


class Odd(nn.Module):
    """A network whose forward is given."""

    def __init__(self, function):
        super().__init__()
        self.function, self.body = function, dense()
        self.shift = nn.Parameter(torch.ones(12, dtype=torch.float64))

    def forward(self, x):
        return self.function(self, x)


def hooked():
    ann = dense()
    ann[2].register_forward_hook(lambda module, x, out: 2 * out)
    return ann


def with_layer(layer, at=3):
    ann = dense()
    ann[at] = layer
    return ann.double()


def dead():
    ann = dense()
    nn.init.constant_(ann[2].bias, -100.0)
    return ann


def twice(x):
    y = F.relu_(x)
    return x + y


CANNOT = "can't become spikes: "
REFUSED = {
    "sigmoid": (with_layer(nn.Sigmoid()), TypeError, r"^layer 3 \(Sigmoid\) can't become spikes: only Linear, Conv1d"),
    "nested": (nn.Sequential(with_layer(nn.Sequential(nn.GELU()))), TypeError, r"^layer 0\.3\.0 \(GELU\) " + CANNOT),
    "function": (Odd(lambda m, x: m.body(x.tanh())), TypeError, "^tanh in the forward of Odd " + CANNOT),
    "a constant": (Odd(lambda m, x: m.body(x + m.shift)), TypeError, "^add in the forward of Odd " + CANNOT),
    "a product": (Odd(lambda m, x: m.body(x) * 2), TypeError, "^mul in the forward of Odd " + CANNOT),
    "a sum of one": (Odd(lambda m, x: m.body(x + x)), TypeError, "^add in the forward of Odd .* sums of two layers"),
    "parts": (Odd(lambda m, x: m.body(x.chunk(1, 1)[0])), TypeError, "^chunk in the forward of Odd " + CANNOT),
    "softmax inside": (with_layer(nn.Softmax(1)), TypeError, r"^layer 3 \(Softmax\) .* and a softmax at the end$"),
    "dropped axis": (Odd(lambda m, x: m.body(x)[:, 0]), TypeError, "^getitem in the forward of Odd " + CANNOT),
    "neurons": (nn.Sequential(dense(), LIF()), TypeError, r"^layer 1 \(LIF\) can't become spikes: it keeps a state"),
    "our network": (Sequential(nn.Linear(12, 3)), TypeError, r"^model \(Sequential\) .*: it keeps a state"),
    "LSTM": (with_layer(nn.LSTM(12, 12)), TypeError, r"^layer 3 \(LSTM\) can't become spikes: it keeps a state"),
    "a cell": (with_layer(nn.GRUCell(12, 12)), TypeError, r"^layer 3 \(GRUCell\) .* keeps a state"),
    "attention": (
        Odd(lambda m, x: m.body(nn.MultiheadAttention(12, 1).double()(x, x, x)[0])), TypeError,
        "torch.fx can trace|" + CANNOT,
    ),
    "decisions": (Odd(lambda m, x: m.body(x) if x.sum() > 0 else x), TypeError, "torch.fx can trace, without deci"),
    "two results": (Odd(lambda m, x: (m.body(x), x)), TypeError, "^model must return a tensor of logits, but it ret"),
    "no result": (Odd(lambda m, x: None), TypeError, "^model must return a tensor of logits, but it returned None"),
    "ends in ReLU": (dense()[:4], ValueError, r"^the last layer of model must give logits, but it is layer 3 \(ReLU\)"),
    "and softmax": (nn.Sequential(*dense()[:4], nn.Softmax(1)), ValueError, r"must give logits, .* layer 3 \(ReLU\)"),
    "no ReLU": (dense()[:1], ValueError, "^model must have a ReLU, whose activations become rates, but it has none"),
    "dead layer": (dead(), ValueError, r"^layer 3 \(ReLU\) must be active for some of images, but all .* are 0"),
    "hooks": (hooked(), ValueError, "what its layers do, .* of Sequential gives other outputs: it has ho"),
    "random": (Odd(lambda m, x: m.body(F.dropout(x))), ValueError, "of Odd gives other outputs: .* is random in eval"),
    "in place": (Odd(lambda m, x: m.body[4](twice(m.body[0](x)))), ValueError, "changes a tensor in place"),
    "no statistics": (
        with_layer(nn.BatchNorm1d(12, track_running_stats=False), 1), ValueError,
        r"^layer 1 \(BatchNorm1d\) must have the statistics of its training",
    ),
    "no batch": (Odd(lambda m, x: m.body(x).view(-1, 1)), ValueError, r"^view .* must keep the batch .* \[192, 1\]"),
    "NaN": (with_layer(nn.Linear(12, 3).requires_grad_(False), 4), ValueError, "model must give finite outputs"),
    "lazy": (nn.Sequential(nn.LazyLinear(3)), ValueError, "^model must have values"),
    "pruned": (
        with_layer(nn.utils.parametrizations.weight_norm(nn.Linear(12, 3)), 4), TypeError,
        r"^layer 4 \(ParametrizedLinear\) " + CANNOT,
    ),
    "no network": (F.relu, TypeError, "^model must be a torch.nn.Module"),
}  # fmt: skip
REFUSED["NaN"][0][4].weight.data.fill_(float("nan"))


@pytest.mark.parametrize("name", REFUSED)
def test_networks_that_cannot_be_converted(name):
    model, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as raised:
        ann_to_snn(model, ROWS)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "images, error, message",
    [
        ((255 * ROWS).byte(), TypeError, r"images must be floating point, but they are uint8: use data.to_unit"),
        (ROWS.float(), TypeError, "images must be torch.float64, as model is, but they are torch.float32"),
        (ROWS.long(), TypeError, "images must be torch.float64, as model is, but they are torch.int64"),
        (ROWS[:0], ValueError, r"images must be \[N, ...\] and not empty, but their shape is \[0, 12\]"),
        (ROWS[0], ValueError, r"images must be \[N, ...\] and not empty, but their shape is \[12\]"),
        (ROWS / 0, ValueError, "images must be finite"),
        (ROWS[:, :5], ValueError, r"images must fit model, but layer 0 \(Linear\) can't take them: mat1 and mat2"),
        ([1.0], TypeError, "images must be a torch.Tensor"),
        (ROWS.to("meta"), ValueError, "images must be on cpu, as model is, but they are on meta"),
    ],
)
def test_images_that_do_not_fit(images, error, message):
    with pytest.raises(error, match=message):
        ann_to_snn(dense(), images)
    unbatched = prepared(nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), *head(108)))
    with pytest.raises(ValueError, match=r"layer 0 \(Conv2d\) must keep the batch as the first dimension, but it made"):
        ann_to_snn(unbatched, IMAGES[:1, 0])


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"percentile": 0}, ValueError, "percentile must be greater than 0, but it is 0"),
        ({"percentile": 100.1}, ValueError, "percentile must be at most 100"),
        ({"percentile": "99"}, TypeError, "percentile must be a number"),
        (
            {"percentile": 1},
            ValueError,
            r"percentile must be larger, as 1 % of the activations of layer 1 \(ReLU\) are",
        ),
        ({"v_init": 1.0}, ValueError, "v_init must be less than 1"),
        ({"v_init": -0.1}, ValueError, "v_init must be at least 0"),
    ],
)
def test_options(options, error, message):
    with pytest.raises(error, match=message):
        ann_to_snn(dense(), ROWS, **options)


# --- the whole --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    """A small network that reads digits, trained in two seconds; test images, labels, and its accuracy."""
    torch.manual_seed(0)
    ann = nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    images, labels = data.load("digits")
    images = data.to_unit(images)
    optimizer = torch.optim.Adam(ann.parameters(), 5e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        for batch, targets in data.batches(images, labels, 64, generator=generator):
            F.cross_entropy(ann(batch), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
    test, answers = data.load("digits", "test")
    test = data.to_unit(test)
    with torch.no_grad():
        right = float((ann.eval()(test).argmax(1) == answers).float().mean())
    return ann, images, test, answers, right


@torch.no_grad()
def test_digits_are_read_as_well(digits):
    ann, images, test, answers, right = digits
    assert right > 0.96
    curves = {}
    for v_init in (0.5, 0.0):
        out, _ = ann_to_snn(ann, images, v_init=v_init)(encode.repeat(test, 32))
        curves[v_init] = loss.accuracy_over_time(out, answers)
        assert curves[v_init][-1] == loss.accuracy(out, answers)
    assert curves[0.5][31] >= right - 0.006 and curves[0.5][7] >= right - 0.012 and curves[0.5][3] >= right - 0.04
    assert curves[0.5][3] > curves[0.0][3]  # where half a threshold is worth most


@torch.no_grad()
def test_it_goes_on_its_way(digits):
    ann, images, test, *_ = digits
    snn = ann_to_snn(ann, images)
    x = encode.repeat(test[:3], 2)
    out, _ = snn(x)
    program = export.export(snn, x)
    again, _ = program.module()(x, export.resting_state(program, 3))
    assert torch.allclose(again, out, atol=1e-5)
    assert snn.load_state_dict(ann_to_snn(ann, images).state_dict())
    with pytest.raises(
        TypeError, match=r"2 of model: NIR has no node for CountMaxPool|1 of model: NIR .* PrechargedIF"
    ):
        pytest.importorskip("nir")
        to_nir(snn, x, 1e-3)
    if importlib.util.find_spec("torchao"):
        small, report = quantize.quantize(snn)
        assert sum(layer.done for layer in report.layers) == 2 and small(x)[0].shape == out.shape


@torch.no_grad()
@pytest.mark.parametrize("v_init", [0.0, 0.5])
def test_spikingjelly_converts_to_the_same(v_init):
    ann2snn = pytest.importorskip("spikingjelly.activation_based.ann2snn")
    from spikingjelly.activation_based import functional, neuron

    ann = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), *head(36)).eval()
    images = IMAGES[:20].float()
    # Its half_threshold=True counts with channel_wise=True only.
    node = neuron.HalfThresholdIFNode if v_init else lambda threshold: neuron.IFNode(threshold, v_reset=None)
    recipe = ann2snn.RateCodingRecipe([(images, torch.zeros(20))], mode="max", neuron_factory=node)
    theirs = ann2snn.Converter(recipe).convert(copy.deepcopy(ann))
    functional.reset_net(theirs)  # which also sets membranes to half the threshold
    ours, _ = ann_to_snn(ann, images, 100, v_init=v_init)(encode.repeat(images, 20))
    assert torch.allclose(torch.stack([theirs(images) for _ in range(20)]), ours, atol=1e-4)
