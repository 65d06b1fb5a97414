# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/07_conv_snn.ipynb)

# %% [markdown] tags=["slide"]
# # 07 · A 128-channel conv SNN with AMP
#
# SpikingJelly's tutorial has a network that is many people's first step beyond toy problems: two convolutions, two
# linear layers, 13 million weights and 127 498 spiking neurons, which classify small images of clothes [1]. In this
# notebook you analyse it, measure its costs and where the time goes, make each part fast, and train it. You can use
# every technique again with larger networks. Most of them do not change the result; you will see exactly which ones do,
# and how. (On a CPU, a quick run trains a version with 16 channels on small digits, in seconds; at full size, a GPU
# trains the whole network.)
#
# **Afterwards you can**
#
# - count parameters and operations of a convolutional SNN on paper, and know when the count is misleading;
# - compute what does not depend on time only once, and everything else for all time steps together;
# - train in mixed precision: which numbers may be 16 bits wide, which must not, and why you need a gradient scaler;
# - read a trained network layer by layer: rates, dead neurons, feature maps over time, and the milliseconds of each layer;
# - recognise a network that ignores its input by the value of its loss.
#
# | | |
# |---|---|
# | Time | 75 minutes |
# | GPU minutes | 0 with `QUICK = True`. At full size (`QUICK = False`) a GPU trains all 128 channels |
# | Before this | 04 training, 06 fused neurons. You have seen a convolution |

# %% tags=["bootstrap"] cellView="form"
# @title Setup: run this cell first
import importlib.util
import os
import sys

_snnkit = "snnkit @ git+https://github.com/snnkit/snnkit@main"

if importlib.util.find_spec("snnkit") is None:
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        # Colab ships all that snnkit needs; --no-deps leaves every package there as it is.
        _wanted = f"'{_snnkit}'"
        get_ipython().run_line_magic("pip", f"install -q --no-deps {_wanted}")  # noqa: F821
        importlib.invalidate_caches()
    else:
        raise ModuleNotFoundError(
            "The kernel of this notebook has no snnkit. Start Jupyter by `make lab` in a clone of the repository, "
            f"or install it here: %pip install '{_snnkit}'"
        )

import snnkit

print("snnkit", snnkit.__version__)

# %% tags=["parameters"]
QUICK: bool = True  # False: 128 channels on a GPU (32 on a CPU), the whole data set, minutes
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights, inputs and the order of the images
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
DATASET: str = "auto"  # "auto", "digits", "mnist" or "fashion" (the last two are downloaded once if need be)
EPOCHS: int = 0  # passes through the training set; 0: as many as the size needs

# %%
import itertools
import warnings
from functools import partial

import torch

from snnkit import course, data, encode, loss, measure, models, neuron, nn, records, train, viz
from snnkit.bench import heading, places
from snnkit.course import attempt, hint, quiz, scorecard, solution
from snnkit.train import recipes
from snnkit.device import Precision
from snnkit.viz import figures

train.seed_everything(SEED)
course.start("07", solve=SOLVE)
device = data.resolve_device(DEVICE)
gpu = device.type == "cuda"
clock = measure.clock_for(device)
if not gpu and QUICK:
    torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work

STEPS = 4  # T, as published
CHANNELS, BATCH = (128, 128) if gpu else (16, 16) if QUICK else (32, 64)  # size of the nets that are only timed
show = partial(encode.repeat, steps=STEPS)  # an image at every step
print(f"on {device}: timings use {CHANNELS} channels and batches of {BATCH} images")

# %% [markdown] tags=["slide"]
# ## 1 · The network on paper
#
# $$\text{image} \;\to\; \underbrace{\text{conv} \to \text{norm} \to \text{IF} \to \text{pool}}_{28 \times 28 \,\to\, 14 \times 14}
# \;\to\; \underbrace{\text{conv} \to \text{norm} \to \text{IF} \to \text{pool}}_{14 \times 14 \,\to\, 7 \times 7}$$
# $$\to\; \underbrace{\text{linear} \to \text{IF}}_{2048} \;\to\; \underbrace{\text{linear} \to \text{IF}}_{10} \;\to\; \text{mean over } T$$
#
# ![An image of 28 by 28 pixels becomes 128 maps of spikes of the same size, which are pooled to 14 by 14; a second convolution gives 128 maps of 14 by 14, pooled to 7 by 7; then a layer of 2048 neurons and one of 10. This is done at each of four time steps, and the mean of the ten outputs is the answer.](drawings/conv_net.svg)
#
# Notice where the numbers are many: neurons at the left, connections at the right.
#
# The same image is shown at each of $T = 4$ steps, and the neurons are the simplest possible: they add up their input,
# spike at 1 and start again at 0 (*integrate and fire*, without a leak). A *batch norm* brings each channel to mean 0
# and variance 1 before the neurons, so that they are neither silent nor fire all the time. No layer has a bias.
#
# > **Predict first.** Which layer has most of the 13 million parameters? Which does most of the multiplications? And
# > which has most of the neurons? (Each answer is a different layer.)
#
# You can answer this without computing anything. On PyTorch's `meta` device tensors have shapes but no numbers; there
# the whole network costs nothing, and PyTorch's FLOP counter still counts. One FLOP is one multiplication *or* one
# addition.

# %%
with torch.device("meta"):
    published = models.FashionConvNet(channels=128, hidden=2048)
    one_image = torch.zeros(1, 1, 28, 28)
costs = viz.layer_costs(published, show(one_image))
costs

# %% [markdown]
# **Notice**
#
# - Nearly all parameters are in the first linear layer, two thirds of the operations in the second convolution, and
#   most neurons follow the first convolution. A convolution reuses its few weights at each pixel; a linear layer uses
#   each of its many weights once.
# - *runs* says for how many of the four steps a layer is computed. For the first two it is **one**: the image does not
#   change, so their output does not change either. Section 2 explains this column.
# - Neurons and pooling have no cost in this table, because they do almost no multiplications. Remember this until
#   section 7.
#
# ### Exercise 07.1 · The price of a convolution (5 minutes, ●○○)
#
# Each output value of a convolution is a sum of products: one for every input channel and every pixel of the
# $k \times k$ kernel. A product with its addition is 2 FLOPs. How many FLOPs does **one image** cost in a network that
# shows it for `steps` steps? If the layer's input is `static`, the layer is computed once. Stuck? `hint("07.1")`.


# %% tags=["exercise"]
def conv_flops(inputs, outputs, kernel, height, width, steps=1, static=False):
    """FLOPs of a convolution for one image: channels in and out, kernel size, pixels of its output, time steps."""
    return ...


conv_flops = attempt("07.1", conv_flops)

# %%
first = conv_flops(1, 128, 3, 28, 28, steps=4, static=True)
second = conv_flops(128, 128, 3, 14, 14, steps=4)
print(f"conv 1: {first:12,} FLOPs; counted {costs[0].flops:12,}")
print(f"conv 2: {second:12,} FLOPs; counted {costs[4].flops:12,}")

# %% [markdown]
# **Explorer.** How the cost of the whole network changes with its width and with the number of steps. The lower bar is
# the same net with an image that is *not* known to be static, so that everything is computed at each step.
#
# 1. How does the total depend on $T$ and on the number of channels? With twice the channels, how many times the FLOPs?
# 2. At which setting does "once" save most? Is that a setting you would use?
# 3. How would an input of 3 or 64 channels change the first convolution? (`in_channels`)


# %%
def price(channels=128, steps=4, in_channels=1):
    """FLOPs of the net, image computed once or at each step."""
    with torch.device("meta"):
        net = models.FashionConvNet(channels, 16 * channels, in_channels=in_channels)
        image = torch.zeros(1, in_channels, 28, 28)
    ways = {
        "static: once": encode.repeat(image, steps),
        f"computed {steps} ×": encode.repeat(image, steps).contiguous(),
    }
    bars = {}
    for way, x in ways.items():
        bars[way] = {"conv 1": 0.0, "conv 2": 0.0, "linear": 0.0}
        for i, layer in enumerate(viz.layer_costs(net, x)):
            part = {0: "conv 1", 4: "conv 2"}.get(i, "linear")
            bars[way][part] += layer.flops / 1e6
    each, once = (sum(bar.values()) for bar in reversed(bars.values()))
    title = f"One image through {channels} channels, T = {steps}: once saves {1 - once / each:.1%}"
    return figures.shares(bars, "MFLOP", title=title)


viz.explore(price, channels=(8, 256, 8), steps=(1, 16), in_channels=[1, 3, 16, 64])

# %% [markdown] tags=["slide"]
# ## 2 · Once instead of T times
#
# The first version of the tutorial moved the static part out of the loop over time by hand [2]; the current one repeats
# the image and computes everything $T$ times [1]. In snnkit you need no extra code. `encode.repeat` gives a *view* with
# a stride of 0 in time (notebook 04); each layer without state detects this, computes one step, and returns a view of
# the same kind. The first layer with state ends this: from the first IF on, every step is different.
#
# One layer needs care: a batch norm *in training* depends on the number of samples. The wrapper `nn.Once` states that
# $T$ copies give the same result as one: copies have the same mean and the same variance.
#
# > **Predict first.** The FLOPs of the whole forward pass fall by 1.6 % at the published size, and by more in the
# > narrow net of a quick run (explorer). By what factor does the *time* of the first two layers fall? By how many per
# > cent does the time of a whole training step fall, forward and backward? Write both down.

# %%
torch.manual_seed(SEED)
net = models.FashionConvNet(CHANNELS, 16 * CHANNELS).to(device)
images = torch.rand(BATCH, 1, 28, 28, device=device)
labels = torch.randint(10, (BATCH,), device=device)
static, copied = show(images), show(images).contiguous()  # the same numbers, once and four times in memory


def front_of(x):
    return lambda: net[:2](x)[0]


def training_pass(net, x):
    """Forward and backward, without an update."""

    def run():
        net.zero_grad()
        loss.rate_mse(net(x)[0], labels).backward()

    return run


repeats = 9 if QUICK else 15
fronts = measure.race({"once": front_of(static), "T times": front_of(copied)}, repeats, clock=clock)
whole = measure.race({"once": training_pass(net, static), "T times": training_pass(net, copied)}, repeats, clock=clock)
for name, times in {"conv 1 and norm, forward": fronts, "whole training pass": whole}.items():
    once, often = times["once"].median, times["T times"].median
    print(
        f"{name:25} {often * 1e3:7.2f} ms → {once * 1e3:7.2f} ms: {often / once:.2f} times, {1 - once / often:.0%} saved"
    )


def counted(net, x):
    """FLOPs of forward, and bytes that the kernels of a training pass move (those inside the fused neurons excepted)."""
    with measure.Traffic() as moved:
        loss.rate_mse(net(x)[0], labels[: x.shape[1]]).backward()
    return sum(layer.flops for layer in viz.layer_costs(net, x)), moved.bytes


for name, counted_net in {"this net": net, "published size": models.FashionConvNet(128, 2048).to(device)}.items():
    flops, moved = (
        1 - once / often
        for once, often in zip(*(counted(counted_net, x[:, :4]) for x in (static, copied)), strict=True)
    )
    print(f"counted, {name}: {flops:.1%} of the FLOPs saved, {moved:.0%} of the bytes")
with torch.no_grad():
    net.eval()
    print(f"the same spikes: {(net(static)[0] == net(copied)[0]).float().mean():.2%}")
    net.train()

# %% [markdown] tags=["slide"]
# **What to notice.** The first two layers gain most of the factor $T$ (not all of it: on small tensors fixed costs
# remain). And the share of the FLOPs does not predict the gain of the whole step: the last lines *count* both. At the
# published size 1.6 % of the FLOPs are saved, but nearly half of the bytes. The first convolution multiplies little
# because it has one input channel, but it writes the largest tensor of the network, and the batch norm reads and writes
# this tensor again, forward and backward. The time is somewhere between the two: FLOPs tell you what a processor
# computes, not what it waits for (see the roofline of notebook 06).
#
# ## 3 · All steps at once
#
# The rest of the network must be computed for each step. There are two orders (notebook 06): *step by step* passes one
# step after the other through all layers, *layer by layer* passes all steps through one layer after the other. Layers
# without state do not depend on time, so they process $T$ steps of $B$ images as one batch of $T \cdot B$.
#
# ### Exercise 07.2 · Fold time into the batch (8 minutes, ●●○)
#
# Write what `nn.Sequential` does with a layer without state. `x` is $[T, B, \dots]$; the layer accepts only
# $[B, \dots]$ and may change the shape after $B$. Call it **once**. If `x` is static (`nn.is_static(x)`), give it one
# step only, and return a view with stride 0 in time, so that the following layers can save, too. Use `flatten(0, 1)`,
# `unflatten(0, (T, B))` and `expand`.


# %% tags=["exercise"]
def all_steps(layer, x):
    """Apply a layer without state to each step of x [T, B, ...]: [T, B, ...]."""
    return ...


all_steps = attempt("07.2", all_steps)

# %% [markdown] tags=["slide"]
# With this function, the layers of our net can be run in three ways. State is an argument and a return value, so step
# by step needs no special mode of the network: it is a loop over sequences of length one.
#
# > **Predict first.** Sort these by time: step by step, layer by layer with the eager loop in each neuron, layer by
# > layer with fused neurons. Where is the larger gain here, where convolutions do real work?

# %%
loops = models.FashionConvNet(CHANNELS, 16 * CHANNELS, engine="eager").to(device).eval()
loops.load_state_dict(net.state_dict())
net.eval()


@torch.no_grad()
def step_by_step():
    state, outs = None, []
    for x_t in static:
        out, state = loops(x_t.unsqueeze(0), state)  # a sequence of one step
        outs.append(out)
    return torch.cat(outs)


@torch.no_grad()
def layer_by_layer():
    x = static
    for layer in loops:
        x = layer(x)[0] if nn.is_stateful(layer) else all_steps(getattr(layer, "module", layer), x)
    return x


@torch.no_grad()
def layer_by_layer_fused():
    return net(static)[0]


candidates = [step_by_step, layer_by_layer, layer_by_layer_fused]
results = [candidate() for candidate in candidates]
times = measure.race({c.__name__: c for c in candidates}, repeats, clock=clock)
for (name, measured), out in zip(times.items(), results, strict=True):
    share = (out == results[0]).float().mean().item()
    print(f"{name:21} {measured.median * 1e3:7.2f} ms    the same output spikes: {share:.2%}")

with torch.no_grad():
    loops.train()
    spikes = [way() for way in (step_by_step, layer_by_layer)]
    loops.eval()
print(f"in training mode the two orders agree in {(spikes[0] == spikes[1]).float().mean():.2%} of the output spikes")

# %% [markdown]
# **What to notice**
#
# - In evaluation the order makes no difference to the result. (One spike in thousands may differ: a product of another
#   size may add in another order, and then a membrane within rounding error of 1 may fire or not.)
# - *In training it does*, because of the second batch norm: step by step it normalises each step with the statistics of
#   that step; layer by layer with those of all steps together. SpikingJelly's layer-by-layer mode does the second,
#   which also matches the running averages that are used later in evaluation. Remember this when you move weights
#   between frameworks.
# - Step by step, the network cannot know that the next image will be the same, so the first convolution is again
#   computed four times.
# - The price of layer by layer is memory: the outputs of all steps of a layer exist at the same time. Notebook 08 is
#   about that.
#
# ## 4 · Mixed precision
#
# A float32 has 24 binary digits, more than a network needs in most places. With 16 bits there are half as many bytes to
# move, and the matrix units of GPUs (and of newer CPUs) are made for them. There are two formats with 16 bits:
#
# | | digits (binary) | largest | smallest normal | smallest at all |
# |---|---|---|---|---|
# | float32 | 24 | $3.4 \cdot 10^{38}$ | $2^{-126}$ | $2^{-149}$ |
# | bfloat16 | 8 | $3.4 \cdot 10^{38}$ | $2^{-126}$ | $2^{-133}$ |
# | float16 | 11 | 65 504 | $2^{-14} \approx 6 \cdot 10^{-5}$ | $2^{-24} \approx 6 \cdot 10^{-8}$ |
#
# Spikes are 0 and 1: exact in all of them. *Automatic mixed precision* (AMP) leaves the weights in float32 and converts
# each operation according to a list: convolutions and matrix products use 16 bits, sums that need more digits stay in
# float32.
#
# > **Predict first.** Under autocast, which of these have 16 bits: the output of a convolution, the output of a linear
# > layer, the spikes, the membranes, the weights, the loss?

# %%
half = Precision.choose(device, amp=True)
with torch.no_grad(), half.autocast():
    recording = net.record(static)
for layer, out, state in zip(net, recording.layers, recording.state, strict=True):
    held = "" if state is None else f"   membrane {state.v.dtype}"
    weights = "".join(f"   weights {p.dtype}" for p in list(layer.parameters())[:1])
    print(f"{type(layer).__name__:12} gives {out.dtype}{held}{weights}".replace("torch.", ""))
print(f"loss: {loss.rate_mse(recording.out, labels).dtype}".replace("torch.", ""))

if gpu:
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    print(
        f"bfloat16: computed by this GPU: {native}; or emulated: {torch.cuda.is_bf16_supported()}. chosen: {half.dtype}"
    )
else:
    print(f"on a CPU: {half.dtype}")

# %% [markdown] tags=["slide"]
# **Notice.** The tensors between layers have 16 bits; everything that *accumulates* stays in float32: membranes,
# weights, the loss, the running statistics. `Precision.choose` takes bfloat16 where the chip supports it natively. Pass
# `including_emulation=False` to the check: on a T4, the GPU of Colab, it otherwise returns True, because the T4 can
# *emulate* bfloat16, slowly.
#
# Why does the membrane need float32? Let one integrate-and-fire neuron add up a small input, 0.001 per step. After 1000
# steps it should spike.
#
# > **Predict first.** bfloat16 has 8 binary digits. At which potential does a membrane in bfloat16 stop moving when 0.001 is added?

# %% tags=["slide"]
x = torch.full((1300, 1), 0.001)


def summed(dtype):
    """The membrane, if everything has this dtype."""
    v, trace = torch.zeros(1, dtype=dtype), []
    for x_t in x.to(dtype):
        v = v + x_t
        trace.append(v.item())
        v = v * (v < 1)
    return trace


def of_the_kit(dtype, chunk=10):
    """The membrane of neuron.IF with input and spikes of this dtype."""
    cell, state, trace = neuron.IF(engine="eager"), None, []
    for x_t in x.to(dtype).split(chunk):
        _, state = cell(x_t, state)
        trace.append(state.v.item())
    return torch.arange(chunk, len(x) + 1, chunk), torch.tensor(trace)


narrow = torch.bfloat16
membranes = {
    "all in float32": summed(torch.float32),
    "all in bfloat16": summed(narrow),
    "snnkit, input in bfloat16": of_the_kit(narrow),
}
figure = figures.lines(
    membranes, x_title="time step", y_title="membrane", levels={"threshold": 1.0}, title="Adding 0.001 a thousand times"
)
viz.show(figure)

# %% [markdown]
# **Notice.** The bfloat16 membrane first rises too *fast* and then stays at 0.5 for ever. Above 0.25 the numbers of
# bfloat16 are $2^{-9} \approx 0.002$ apart, so 0.001 is rounded up to 0.002; above 0.5 they are $2^{-8} \approx 0.004$
# apart, and 0.001 is rounded to zero. A neuron that should spike never does. So the engines take their input in 16
# bits, keep the state in float32 from the first step to the last (where it costs no memory traffic, notebook 06), and
# return spikes in 16 bits.
#
# ### Backward: gradients are small
#
# float16 has more digits than bfloat16, but a much smaller range. Activations fit into it. But gradients are multiplied
# by many factors below 1: a mean over the batch, over ten classes, over $T$ steps, then weights and surrogate slopes,
# layer after layer.
#
# > **Predict first.** The smallest number of float16 is $6 \cdot 10^{-8}$. What share of the gradients at the output of
# > the first convolution is below half of it, and would become exactly 0?
#
# For gradients we need real images. We use the images on which the net will be trained later.

# %%
if DATASET == "auto":
    there = [name for name in ("fashion", "mnist") if not QUICK and data.available(name)]
    DATASET = (there or ["digits"])[0]
    if not QUICK and not there:
        print(
            'Neither Fashion-MNIST nor MNIST is on this machine, so this run uses the digits. DATASET = "fashion" downloads it.'
        )
train_images, train_labels = data.to_device(*data.load(DATASET, "train"), device)
test_images, test_labels = data.to_device(*data.load(DATASET, "test"), device)
classes, size = data.CLASSES[DATASET], train_images.shape[-1]
print(f"data: {DATASET}, {len(train_images)} training images of {size} × {size}, {len(test_images)} test images")


# %%
def fresh(channels=CHANNELS, seed=SEED):
    """The same weights for the same seed."""
    torch.manual_seed(seed)
    return models.FashionConvNet(channels, 16 * channels, size=size).to(device)


some, their_labels = train_images[:64], train_labels[:64]
learner = fresh()
after_conv1 = all_steps(learner[0], show(data.to_unit(some)))
recording = learner[1:].record(after_conv1)
watched = {"after conv 1": after_conv1, "after conv 2": recording.layers[3], "after linear 1": recording.layers[8]}
gradients = torch.autograd.grad(loss.rate_mse(recording.out, their_labels), list(watched.values()))
gradients = {name: g.cpu() for name, g in zip(watched, gradients, strict=True)}
viz.show(figures.magnitudes(gradients, title="Gradients of an untrained net, and what float16 can hold"))

# %% [markdown]
# **Notice.** The gradients are in the pale band, where float16 loses its digits one by one, or beyond its end: below half of
# the smallest number they become zero. Those of the convolutions, far from the output, are the smallest. And this is the start of training:
# as the loss shrinks, the gradients shrink as well.
#
# The remedy costs one multiplication. Gradients are linear in the loss: **multiply the loss by a large number $s$, and
# all gradients are $s$ times larger.** Divide by $s$ in float32, before the optimizer uses them. bfloat16 has the range
# of float32 and needs none of this.
#
# **Explorer.** Change the scale.
#
# 1. From which scale on is (nearly) nothing lost? At which does the first gradient become infinite? How wide is the
#    range between them?
# 2. PyTorch's scaler starts at $2^{16}$. Is this a good choice here?
# 3. Choose bfloat16. What effect does the scale have now?

# %%
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def scaled(log2_scale=0, held_in="float16", gradients=gradients):
    """The gradients times a power of two, in a format."""
    title = f"Gradients times 2^{log2_scale}, held in {held_in}"
    return figures.magnitudes(gradients, DTYPES[held_in], scale=2.0**log2_scale, span=(-48, 20), title=title)


viz.explore(scaled, log2_scale=(0, 40), held_in=list(DTYPES))

# %% [markdown]
# How does this affect the *weights*? Their gradients are sums over many images and pixels, so a few lost terms may not
# matter. Here is a real backward pass in float16, at several scales, compared with one at $2^{12}$. A scale below 1
# represents a later time, when the loss and all gradients have become that much smaller.


# %%
def weight_gradients(scale):
    """Gradients of conv 1, conv 2 and linear 1, computed in float16."""
    learner.zero_grad()
    with torch.autocast(device.type, dtype=torch.float16):
        out, _ = learner(show(data.to_unit(some)))
    (scale * loss.rate_mse(out.float(), their_labels)).backward()
    return [learner[i].weight.grad / scale for i in (0, 4, 9)]


reference = weight_gradients(2.0**12)
print("relative error    conv 1   conv 2   linear 1")
for power in (-10, -6, 0, 5, 16):
    errors = [(a - b).norm() / b.norm() for a, b in zip(weight_gradients(2.0**power), reference, strict=True)]
    print(f"scale 2^{power:<4}    " + "".join(f"{error:9.1%}" for error in errors))

# %% [markdown]
# **Notice.** Early in training, float16 without a scaler is only slightly wrong, and the loss falls as it should. This
# makes the mistake hard to see: later, the first layers get gradients of mostly noise, and then no gradients at all.
#
# The best scale is not known in advance, and it changes while the network learns. `torch.amp.GradScaler` searches for
# it: if a gradient is infinite or not a number, *skip this update* and halve the scale; after 2000 good updates in a
# row, double it.
#
# ### Exercise 07.3 · A scaled update (8 minutes, ●●●)
#
# The forward pass is done, `loss` is float32. Write the rest of the step, with gradients clipped to a norm of `clip`.
# The calls you need: `optimizer.zero_grad()`, `scaler.scale(loss)`, `.backward()`, `scaler.unscale_(optimizer)`,
# `torch.nn.utils.clip_grad_norm_(weights, clip)` (which returns the norm before), `scaler.step(optimizer)`,
# `scaler.update()`. The order matters. Return the norm of the true gradients, before clipping. Stuck? `hint("07.3")`.


# %% tags=["exercise"]
def scaled_update(loss, weights, optimizer, scaler, clip):
    """One update of weights (a list) from a loss, by a GradScaler; the norm of the gradients before clipping."""
    return ...


scaled_update = attempt("07.3", scaled_update)

# %% [markdown]
# Now use it in training, in float16 on your device. The scale starts far too high, at $2^{32}$, and may double after
# ten good updates (not 2000), so that you can watch the search.


# %%
def train_float16(update, scaler, lr=0.3, count=40, batch=32):
    """Losses and scales of a fresh net, trained for some batches in float16 by `update`."""
    net = fresh(16)
    weights = list(net.parameters())
    optimizer = torch.optim.SGD(weights, lr=lr, momentum=0.9)
    losses, scales = [], []
    order = torch.Generator().manual_seed(SEED)
    while len(losses) < count:
        for rows in torch.randperm(len(train_labels), generator=order).split(batch)[: count - len(losses)]:
            x, y = show(data.to_unit(train_images[rows.to(device)])), train_labels[rows.to(device)]
            scales.append(scaler.get_scale())
            with torch.autocast(device.type, dtype=torch.float16):
                out, _ = net(x)
            value = loss.rate_mse(out.float(), y)
            update(value, weights, optimizer, scaler, 1.0)
            losses.append(value.item())
    return losses, scales


searching = torch.amp.GradScaler(device.type, init_scale=2.0**32, growth_interval=10)
losses, scales = train_float16(scaled_update, searching)
title = "A scaler searches for its scale"
viz.show(figures.lines({"scale": scales}, x_title="update", y_title="scale", log="y", shape="hv", title=title))
skipped = sum(after < before for before, after in itertools.pairwise(scales))
print(f"{skipped} of {len(losses)} updates skipped; the loss fell from {losses[0]:.4f} to {losses[-1]:.4f}")

# %% [markdown] tags=["slide"]
# **Notice.** The scale halves once per update until nothing overflows; the network learns nothing meanwhile. Then the
# scaler tries the next power of two from time to time, which costs one skipped update each time. No update with an
# infinity ever reaches the weights.
#
# ## 5 · Train it
#
# A *recipe* is a network, a data set and every hyperparameter, as plain values: everything that a paper must state so
# that others get the same weights. The published recipe is in the kit (`channels_last` is ours, the tutorial has none),
# and so is the one that runs now:


# %%
def chosen_recipe():
    if gpu and not QUICK and DATASET != "digits":
        return recipes.get("mnist" if DATASET == "mnist" else "fashion", epochs=EPOCHS or 10, seed=SEED)
    if QUICK or DATASET == "digits":
        small = {
            "channels": 16,
            "hidden": 256,
            "epochs": EPOCHS or (6 if DATASET == "digits" else 1),
            "lr": 8e-3,
            "amp": True,
        }
        few = None if DATASET == "digits" else 6000
        return recipes.get("mnist-small", dataset=DATASET, samples=few, seed=SEED, **small)
    return recipes.get("mnist-small", dataset=DATASET, epochs=EPOCHS or 1, seed=SEED)


recipe, as_published = chosen_recipe(), recipes.get("fashion")
print(f"{'':14} {'published':>14} {'this run':>14}")
for name, value in as_published.settings().items():
    mine = recipe.settings()[name]
    if name not in ("name", "about") and (value or mine):
        print(f"{name:14} {value!s:>14} {mine!s:>14}{'' if value == mine else '   *'}")

# %% [markdown] tags=["slide"]
# The loss is that of the source [1]: the mean squared error between the *firing rates* of the ten output neurons and
# their targets, 1 for the right class and 0 for the others,
#
# $$L = \frac{1}{10\,B} \sum_{b,k} \Big( \frac{1}{T} \sum_t S_{bk}[t] - [k = y_b] \Big)^2 .$$
#
# > **Predict first.** What is the loss if no output neuron ever fires? And if all ten fire at every step? You will need
# > both numbers in section 8. How quickly will the loss fall below the first number?
#
# (The panel's button ends the training after the current update; the net keeps the weights that it has by then.)

# %%
SPIKING = {"conv 1": 2, "conv 2": 6, "linear 1": 10, "output": 12}  # where the neurons are
probe = show(data.to_unit(test_images[:100]))
panel = viz.LivePanel(recipe.epochs, layers=SPIKING, probe=probe)
run = recipes.run(recipe, device=device, on_epoch=panel, on_batch=panel.on_batch)
net, history = run.model.eval(), run.history
seconds = sum(history.seconds)
if history.epochs:
    took = f"{history.epochs} epoch{'s' * (history.epochs > 1)} in {seconds:.1f} s"
    print(f"{took}, {history.samples_per_second[-1]:,.0f} images per second on {device}")
    print(f"test accuracy: {history.test_accuracy[-1]:.4f}")
else:
    print("stopped before the end of the first epoch")

# %% [markdown]
# **What to notice.** A silent output costs exactly 1/10: one of ten rates is wrong by 1. The loss starts there, because
# with PyTorch's initial weights the last layer is (nearly) silent, and the net first learns to fire at all. If all ten
# fired all the time, the loss would be 9/10. Look at the output rate: it rises towards 0.1, the rate of an output that
# is confident and right: one neuron of ten, at every step.
#
# The authors report 93.1 % [1] and 93.5 % [3] on Fashion-MNIST, each the best of 64 epochs (their logs say batches of 256
# and of 128). In a shell,
# `snnkit train fashion` runs this training, with checkpoints and a TensorBoard log if you like; on a GPU this notebook
# does it with `QUICK = False`.
#
# ### Which classes does it confuse?

# %% tags=["slide"]
with torch.no_grad():
    votes = torch.cat([net(show(data.to_unit(part)))[0].sum(0) for part in test_images.split(500)])  # [N, 10]
answers = votes.argmax(1)
wrong = answers != test_labels
tied = (votes == votes.amax(1, keepdim=True)).sum(1) > 1
confused = torch.zeros(10, 10, dtype=torch.int64)
confused.index_put_((test_labels.cpu(), answers.cpu()), torch.tensor(1), accumulate=True)
viz.show(figures.confusion(confused, classes, title=f"Test images of {DATASET}"))
print(f"{int(wrong.sum())} mistakes; in {int((wrong & tied).sum())} of them two or more classes had equally many votes")

# %% [markdown] tags=["slide"]
# With $T = 4$ steps there are only five possible votes per class, 0 to 4, so ties happen, and `argmax` then takes the
# first. Mistakes at ties come from the small number of steps; the others come from the network.
#
# ## 6 · Look inside
#
# > **Predict first.** Sort the four spiking layers by firing rate. And how many neurons of each layer do not fire for
# > any of the test images?

# %%
spikes = {}
with torch.no_grad():
    for part in test_images.split(500):
        layers = net.record(show(data.to_unit(part))).layers
        for name, i in SPIKING.items():
            total = layers[i].sum((0, 1))  # of each neuron
            spikes[name] = spikes.get(name, 0) + total
for name, total in spikes.items():
    rates = total / (STEPS * len(test_images))
    dead = (total == 0).float().mean()
    bar = "█" * round(40 * rates.mean().item())
    print(f"{name:9} {total.numel():7,} neurons   {rates.mean():.3f} spikes per step   {dead:6.1%} never fire   {bar}")

# %% [markdown]
# A dead neuron costs as much as an active one and contributes nothing. After a convolution it is often a *pixel* that
# no stroke ever reaches, such as the corners of the image, not a failed feature. In the linear layer each neuron is a
# separate feature, so a dead neuron is a lost feature.
#
# ### Explorer: watch the feature maps
#
# A spike is a pixel. Each column is one channel, each row a time step, and the last row is the mean over time, the
# *rate*. You see the eight most active channels for the image; the label over each map has its step and its channel.
#
# 1. Compare the first step with the others. Which pixels fire first, and why those? (The input is the same at each step.)
# 2. Which channels respond to edges, which to the stroke itself, and which to the background?
# 3. Go to the second layer: how much of the image can you still recognise?


# %%
def explorer(net, images, labels, answers):
    """The function behind the sliders; it depends on its arguments, not on the notebook's globals."""

    def look(image=0, layer="conv 1"):
        with torch.no_grad():
            maps = net.record(show(data.to_unit(images[image : image + 1]))).layers[SPIKING[layer]][:, 0]
        busiest = maps.sum((0, 2, 3)).argsort(descending=True)[:8]
        names = f"{classes[int(labels[image])]},  answer {classes[int(answers[image])]}"
        title = f"{layer} neurons for image {image} ({names})"
        rows = torch.cat([maps, maps.mean(0, keepdim=True)])[:, busiest]
        steps = [*(f"step {t + 1}" for t in range(len(maps))), "mean"]
        captions = [f"{step}, {channel}" for step in steps for channel in busiest.tolist()]
        return figures.image_grid(rows.flatten(0, 1), captions, columns=len(busiest), title=title)

    return look


viz.explore(explorer(net, test_images, test_labels, answers), image=(0, 99), layer=["conv 1", "conv 2"])

# %% [markdown] tags=["slide"]
# ## 7 · Where the time goes
#
# Notebook 06 ended with a question: how much of a real training step do the neurons still take? Now we can answer it.
# `layer_times` runs each layer separately, forward and backward, with the input that it has in the network.
#
# > **Predict first.** Convolutions do 69 % of the FLOPs, linear layers 31 %, neurons and pooling none. What are the
# > shares of *time*, with neurons as a loop (`eager`) and fused? Which layer would you optimise first?

# %% tags=["slide"]
PARTS = {
    "Conv2d": "convolutions",
    "Once(BatchNorm2d)": "batch norm",
    "BatchNorm2d": "batch norm",
    "IF": "neurons",
    "MaxPool2d": "pooling",
    "Flatten": "linear",
    "Linear": "linear",
}
names = [PARTS[layer.name.split()[0]] for layer in costs]


def both_ways(layer, given, precision, first):
    """Forward and backward through one layer. The input of the first layer needs no gradient."""
    once = nn.is_static(given)
    leaf = (given[0] if once else given).detach().requires_grad_(not first)
    wanted = [leaf] * (not first) + list(layer.parameters())

    def forward():
        with precision.autocast():
            return layer(leaf.expand(given.shape) if once else leaf)[0]

    gradient = torch.rand_like(forward())

    def run():
        out = forward()
        if out.requires_grad:
            torch.autograd.grad(out, wanted, gradient, allow_unused=True)

    return run


def layer_times(net, precision):
    """Median seconds of each layer; they take turns."""
    with torch.no_grad(), precision.autocast():
        outputs = net.record(static).layers
    passes = {}
    for i, (given, out) in enumerate(zip([static, *outputs], outputs, strict=False)):
        given = given[:1] if nn.is_static(given) and nn.is_static(out) else given  # what stays static is computed once
        passes[str(i)] = both_ways(net[i : i + 1], given, precision, first=i == 0)
    return [timing.median for timing in measure.race(passes, repeats, clock=clock).values()]


def time_parts(engine, precision):
    """Milliseconds of each kind of layer."""
    torch.manual_seed(SEED)
    timed = models.FashionConvNet(CHANNELS, 16 * CHANNELS, engine=engine).to(device)
    milliseconds = dict.fromkeys(dict.fromkeys(names), 0.0)
    for name, seconds in zip(names, layer_times(timed, precision), strict=True):
        milliseconds[name] += seconds * 1e3
    return milliseconds


plain = Precision.choose(device, amp=False)
bars = {
    "neurons as a loop": time_parts("eager", plain),
    "fused neurons": time_parts("auto", plain),
    f"fused, {half.dtype}".replace("torch.", ""): time_parts("auto", half),
}
viz.show(figures.shares(bars, "ms", title=f"Forward and backward, {CHANNELS} channels, {BATCH} images, on {device}"))
for bar, parts in bars.items():
    print(
        f"{bar:18} neurons {parts['neurons'] / sum(parts.values()):4.0%}, pooling {parts['pooling'] / sum(parts.values()):4.0%}"
    )

# %% [markdown]
# **What to notice**
#
# - As loops, the neurons can take more than both convolutions together. Fused, they need much less, and *other* parts
#   become the largest. Optimisation always works like this: improve the largest part, measure again, and stop when most
#   of the time is spent on the work that you really want.
# - Parts without any FLOPs, batch norm and pooling, take a large share. They wait for memory, as neurons do. With more
#   channels, the convolutions take a larger share of the time: their work grows with the square of the width, the work
#   of the other parts in proportion to it.
# - bfloat16 helps where the device has instructions for it and where bytes count. If the bar did not shrink, your
#   processor has no such instructions and converts back and forth.
#
# ### One launch: CUDA graphs
#
# On a GPU there is one more cost that no GPU profile shows: Python. Every operation is a kernel that the CPU must look
# up, check and launch, which takes a few microseconds each. Let us count them for one training step.

# %%
small = models.FashionConvNet(CHANNELS, 16 * CHANNELS).to(device)
optimizer = torch.optim.SGD(small.parameters(), lr=0.1, momentum=0.9)
training_pass(small, static)()  # compiles, if need be
with measure.Traffic() as seen:
    training_pass(small, static)()
    optimizer.step()
print(
    f"{len(seen.kernels)} operations in one update of {BATCH} images; at 5 µs each, {5e-3 * len(seen.kernels):.1f} ms of launching"
)

# %% [markdown]
# If the GPU finishes the work of an update in less time, it waits for Python. A **CUDA graph** avoids this: the
# operations of one whole update, from gathering the batch to the optimizer, are *recorded* once, with the addresses of
# all their tensors, and from then on *replayed* by a single launch. The recording contains the list of kernels, not
# your code. This has three consequences:
#
# - same shapes, same addresses: new images are copied into the old tensor (a smaller last batch runs as usual);
# - no reading of values: `loss.item()`, `if x.max() > 1` and printing a value all need a result from the GPU during the
#   update, and cannot be recorded;
# - a Python number, such as a learning rate that is not a tensor, is a constant in the recording, so the graph is
#   recorded again when it changes.
#
# `train.fit(..., graphed=True)` does this. Where it cannot, it says why and trains as usual:

# %%
way = {"encode": show, "loss": loss.rate_mse, "epochs": 2, "batch_size": BATCH, "device": device, "progress": False}
few = images.repeat(40 if gpu else 5, 1, 1, 1), labels.repeat(40 if gpu else 5)


def speed(**more):
    """Images per second in the second of two short epochs."""
    net = models.FashionConvNet(CHANNELS, 16 * CHANNELS).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True if gpu else None)
    return train.fit(net, few, optimizer=optimizer, **way, **more).samples_per_second[-1]


contiguous = {"channels_last": False}  # the default is True for convolutions
settings = {"plain": contiguous, "amp": {"amp": True, **contiguous}, "amp, channels_last": {"amp": True}}
if gpu:
    settings["amp, channels_last, graphed"] = {"amp": True, "channels_last": True, "graphed": True}
if not QUICK:
    settings["amp, channels_last, compile"] = {"amp": True, "channels_last": True, "compile": True}
measured = {name: speed(**more) for name, more in settings.items()}
for name, rate in measured.items():
    print(f"{name:28} {rate:9,.0f} images/s   {rate / measured['plain']:5.2f} times")

if not gpu:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train.fit(fresh(4), (train_images[:64], train_labels[:64]), **way | {"epochs": 1}, graphed=True)
    print(f"Warning: {caught[0].message}")

# %% [markdown]
# **Notice.** None of these is faster everywhere. `channels_last` stores the channels of a pixel next to each other,
# which suits the matrix units of GPUs; on a CPU it may be faster or slower. `compile` merges neighbouring operations,
# and the compilation takes time. These few batches are enough to choose a setting, but not to publish a number:
# `snnkit bench training` measures properly, together with other libraries, and says where its numbers come from. The
# records that came with your version of the kit:

# %%
for kind, figure in {"training": figures.training_rates, "demo": figures.device_rates}.items():
    loaded = [records.load(name) for name in records.names(kind)]
    if not loaded:
        print(f"none of kind {kind!r}; `snnkit bench {kind} --out FILE.json` writes yours")
        continue
    viz.show(figure(loaded))
    print("\n\n".join(heading(record) for record in loaded))

# %% [markdown]
# **What runs where, and why.** `DEVICE = "auto"` takes the GPU if there is one. A convolution does much arithmetic with
# each byte, which is what a GPU is good at. The bars are one update of this network with 32 channels, as in the record.


# %%
def update_on(place):
    """A function that does one update on this device, with random images."""
    net = models.FashionConvNet(32, 512).to(place, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.rand(128, 1, 28, 28, device=place), torch.arange(128, device=place) % 10

    def update():
        optimizer.zero_grad()
        loss.rate_mse(net(show(x))[0], y).backward()
        optimizer.step()

    return update


bars = places(update_on, "training", repeats=3, net="conv", dtype="float32", library="snnkit")
viz.show(figures.shares(bars, "ms", title="One update of the conv net: 32 channels, 4 steps, 128 images"))

# %% [markdown] tags=["slide"]
# ## 8 · What broke?
#
# Three colleagues trained in float16 with a scaler and clipping. Two of the losses below are values that you predicted
# in section 5.
#
# > **Find the mistakes before you read on.** What is wrong in `anna` and in `ben`? One of them learns *nothing at all*,
# > the other diverges, and neither gets an error message.


# %% tags=["slide"]
def anna(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(weights, clip)
    scaler.step(optimizer)
    scaler.update()


def ben(loss, weights, optimizer, scaler, clip):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()


updates = {"anna": anna, "ben": ben, "correct": scaled_update}
curves = {}
for name, update in updates.items():
    scaler = torch.amp.GradScaler(device.type, init_scale=2.0**12)  # at 2^16 Ben's weights would soon be infinite
    curves[name], _ = train_float16(update, scaler, count=25)
known = {"silence: 0.1": 0.1, "all fire: 0.9": 0.9}
viz.show(figures.lines(curves, x_title="batch", y_title="loss", levels=known, log="y", title="Three colleagues"))
for name, losses in curves.items():
    print(f"{name:7} first {losses[0]:.4f}   last {losses[-1]:.4f}")

# %% [markdown]
# - **Anna** clips while the gradients are still scaled. Their norm is 4096 times too large, so they are shortened to 1;
#   then `scaler.step` divides by 4096. What remains is $1/4096$ of the allowed update: the loss stays at 0.1, silence.
#   Clip *after* `unscale_`.
# - **Ben** calls the optimizer himself. The gradients are never divided, so his first step is 4096 times too large.
#   After that nearly all outputs fire nearly all the time, whatever the input: the loss is close to 0.9. (With Adam,
#   which does not depend on the size of gradients, he would not even have noticed, until the first infinity.)
#
# Both mistakes are common, and no error message will show them. The values of the loss for "all silent" and "all fire"
# do: compute them for your loss *before* you train.

# %% [markdown]
# ## Quiz

# %%
quiz("07")

# %%
scorecard("07")

# %%
print(
    f"data set: {DATASET}, {recipe.channels} channels, {history.epochs} epoch{'s' * (history.epochs > 1)}, {seconds:.1f} s of training on {device}"
)

# %% [markdown]
# ## Where next
#
# **[08 · Memory, precision, batching](08_memory_precision_batching.ipynb)**: layer by layer keeps all steps of all
# layers in memory until the backward pass is finished. Which tensors use the memory, and which of them can you avoid?
#
# Meanwhile: `snnkit train fashion` trains the published network, `snnkit train mnist` the same with augmented digits, and
# every setting is an option: `snnkit train mnist --channels 64 --epochs 3`. What would you change first to beat 93.5 %?
# [14 · Taking a network home](14_taking_a_network_home.ipynb) stops such a run and continues it, makes its weights
# smaller, and exports the network as a page that reads what you draw.
#
# **Worth reading**
#
# 1. SpikingJelly, *Convolutional SNN to classify FMNIST*:
#    [tutorial](https://github.com/fangwei123456/spikingjelly/blob/381c52d787e930b8cc7b7d12ab84e4062286d2e2/docs/source/tutorials/en/conv_fashion_mnist.rst).
#    W. Fang et al., *SpikingJelly: an open-source machine learning infrastructure platform for spike-based intelligence*, Science Advances 9 (2023).
#    [doi:10.1126/sciadv.adi1480](https://doi.org/10.1126/sciadv.adi1480)
# 2. SpikingJelly, *Use convolutional SNN to identify Fashion-MNIST*:
#    [earlier tutorial](https://github.com/fangwei123456/spikingjelly/blob/36291d49e25e5fec24acd62bfb387f7fc938a332/docs/source/legacy_tutorials/en/4_conv_fashion_mnist.rst)
# 3. SpikingJelly, *Accelerate with CUDA-enhanced neuron and layer-by-layer propagation*:
#    [earlier tutorial](https://github.com/fangwei123456/spikingjelly/blob/95676af14965e3cd765e55d931db87a737205b5d/docs/source/legacy_tutorials/en/11_cext_neuron_with_lbl.rst)
# 4. P. Micikevicius et al., *Mixed precision training*, ICLR (2018), on why the loss is scaled. [arXiv:1710.03740](https://arxiv.org/abs/1710.03740)
# 5. S. Ioffe, C. Szegedy, *Batch normalization: accelerating deep network training by reducing internal covariate shift*, ICML (2015).
#    [arXiv:1502.03167](https://arxiv.org/abs/1502.03167)
# 6. H. Xiao, K. Rasul, R. Vollgraf, *Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms* (2017).
#    [arXiv:1708.07747](https://arxiv.org/abs/1708.07747)
# 7. S. Williams, A. Waterman, D. Patterson, *Roofline: an insightful visual performance model for multicore architectures*, Communications of the
#    ACM 52 (2009), on operations and bytes. [doi:10.1145/1498765.1498785](https://doi.org/10.1145/1498765.1498785)
