# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/12_conv_snn.ipynb)

# %% [markdown] tags=["slide"]
# # 12 · A 128-channel conv SNN with AMP
#
# The network of this notebook has 13 million weights and 127 498 spiking neurons, and it classifies small images of
# clothes [1]. You count what it costs, find where the time goes, make each part fast, and train it. Most of this does not
# change the result. You will see what does.
#
# **Afterwards you can**
#
# - count parameters and operations on paper, and know when the count is misleading;
# - compute once what does not depend on time, and everything else for all time steps together;
# - train with 16-bit numbers: know which may be that narrow, and which must not;
# - recognise a network that ignores its input by the value of its loss.
#
# | | |
# |---|---|
# | Time | 80 minutes, and 15 more for the optional parts |
# | GPU minutes | 0 with `QUICK = True`. At full size (`QUICK = False`) a GPU trains all 128 channels |
# | Before this | 04 training, 11 fused neurons |
# | Sizes | training: 16 channels and images of 8 × 8 pixels; timings: 16 channels on a CPU, all 128 on a GPU |

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
            "The kernel of this notebook has no snnkit. Start Jupyter by `snnkit lab` (in a clone: `make lab`), "
            f'or install it here: %pip install "{_snnkit}"'
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
import warnings
from textwrap import fill

import torch

from snnkit import data, device, encode, loss, measure, models, neuron, nn, records, train
from snnkit.lab import bench, course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
where = data.resolve_device(DEVICE)
gpu = where.type == "cuda"
clock = measure.clock_for(where)
if not gpu and QUICK:
    torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work

STEPS = 4  # T, as published
CHANNELS, BATCH = (128, 128) if gpu else (16, 16) if QUICK else (32, 64)  # size of the nets that are only timed


def show(image):
    """An image at every step: a static input [T, B, 1, H, W]."""
    return encode.repeat(image, STEPS)


def training_pass(net, x):
    """Forward and backward, without an update."""
    net.zero_grad()
    loss.rate_mse(net(x)[0], labels).backward()


def saved(net):
    """Shares of FLOPs (forward) and of bytes (of all operations, both ways) that a static input saves."""
    flops, moved = [], []
    training_pass(net, static)  # compiles, if need be
    for x in (static, copied):
        with measure.Traffic() as traffic:
            training_pass(net, x)
        flops.append(sum(layer.flops for layer in viz.layer_costs(net, x)))
        moved.append(traffic.bytes)
    return 1 - flops[0] / flops[1], 1 - moved[0] / moved[1]


def recipe_for(dataset):
    """The published recipe on a GPU at full size, else a smaller one."""
    if gpu and not QUICK and dataset != "digits":
        return train.recipes.get("mnist" if dataset == "mnist" else "fashion", epochs=EPOCHS or 10, seed=SEED)
    small, epochs = {}, EPOCHS or (6 if dataset == "digits" else 1)
    if QUICK or dataset == "digits":
        small = {"channels": 16, "hidden": 256, "lr": 8e-3, "samples": None if dataset == "digits" else 6000}
        small["amp"] = device.Precision.choose(where, amp="auto").dtype is not None  # where it is faster
    return train.recipes.get("mnist-small", dataset=dataset, epochs=epochs, seed=SEED, **small)


print(f"on {where}: timings use {CHANNELS} channels and batches of {BATCH} images")
course.start("conv_snn", solve=SOLVE)

digits, their_classes = data.load("digits", "test")
tiny = {"dataset": "digits", "channels": 16, "hidden": 256, "lr": 8e-3, "samples": None, "epochs": 3, "seed": SEED}
trained = train.recipes.run(train.recipes.get("mnist-small", **tiny), device="cpu").model.eval()
with torch.no_grad():
    guesses = trained(show(data.to_unit(digits)))[0].sum(0).argmax(1)
shown = {"encode": show, "layers": {"conv 1": 2, "conv 2": 6}, "classes": data.CLASSES["digits"]}
print(f"trained a small network of 16 channels on digits: {(guesses == their_classes).float().mean():.0%} right")

# %% [markdown] tags=["slide"]
# ## 1 · The network at work and on paper
#
# A *convolution* slides small filters over an image. Each filter gives one *channel*: an image of its responses. Here
# each pixel of a channel drives a neuron.
#
# **Explorer: watch the feature maps.** You see a small version of the network, just trained on digits. A coloured
# pixel is a spike. Each column is one channel, each row a time step, and the last row is the mean over time.
#
# 1. Compare the first step with the others. Which pixels fire first, and why those? (The input is the same at each step.)
# 2. Which channels respond to edges, which to the stroke itself, and which to the background?
# 3. Go to the second layer: how much of the image can you still recognise?

# %%
viz.explorers.feature_maps(trained, digits, their_classes, guesses, **shown)

# %% [markdown] tags=["slide"]
# ![An image of 28 by 28 pixels becomes 128 maps of spikes of the same size, which are pooled to 14 by 14; a second convolution gives 128 maps of 14 by 14, pooled to 7 by 7; then a layer of 2048 neurons and one of 10. This is done at each of four time steps, and the mean of each of the ten outputs over the steps gives the answer.](drawings/conv_net.svg)
#
# This is the full network. The same image is shown at each of $T = 4$ steps. The neurons *integrate and fire* without a
# leak. The membrane $v$ adds up the input $x$. The neuron spikes at $\theta = 1$, and $v$ starts again at 0. A *batch
# norm* [5] brings each channel to mean 0 and variance 1 before the neurons, so that they are neither silent nor fire all
# the time. *Pooling* keeps the largest value of each 2 × 2 pixels.

# %% [markdown]
# **Predict first.** Which layer has most of the 13 million parameters? Which does most of the multiplications?

# %%
predict("conv_snn.a")
predict("conv_snn.b")

# %% [markdown]
# On PyTorch's `meta` device the whole network costs nothing, and PyTorch's FLOP counter still counts. One FLOP is one
# multiplication *or* one addition.

# %%
with torch.device("meta"):
    published = models.FashionConvNet(channels=128, hidden=2048)
    one_image = torch.zeros(1, 1, 28, 28)
costs = viz.layer_costs(published, show(one_image))
costs

# %%
LAYERS = {"conv 1": 0, "conv 2": 4, "linear 1": 9, "linear 2": 11}
outcome("conv_snn.a", max(LAYERS, key=lambda name: costs[LAYERS[name]].parameters))
outcome("conv_snn.b", max(LAYERS, key=lambda name: costs[LAYERS[name]].flops))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Nearly all parameters are in the first linear layer. Two thirds of the operations are in the second convolution. A
#   convolution uses its few weights again at each pixel; a linear layer uses each of its many weights once. Most
#   neurons follow the first convolution.
# - *runs* says for how many of the four steps a layer is computed. For the first two it is **one**: the image does not
#   change (section 2).
# - Neurons and pooling have no cost in this table. Remember this until section 7.
#
# </details>
#
# ### Exercise 12.1 · The price of a convolution (5 minutes, ●○○)
#
# Each output value of a convolution is a sum of products: one for every input channel and every pixel of the
# $k \times k$ kernel. A product with its addition is 2 FLOPs. How many FLOPs does **one image** cost in a network that
# shows it for `steps` steps? If the layer's input is `static`, the layer is computed once. Stuck? `hint("conv_snn.1")`.


# %% tags=["exercise"]
def conv_flops(inputs, outputs, kernel, height, width, steps=1, static=False):
    """FLOPs of a convolution for one image: channels in and out, kernel size, pixels of its output, time steps."""
    return ...


conv_flops = attempt("conv_snn.1", conv_flops)

# %%
first = conv_flops(1, 128, 3, 28, 28, steps=4, static=True)
second = conv_flops(128, 128, 3, 14, 14, steps=4)
print(f"conv 1: {first:12,} FLOPs; counted {costs[0].flops:12,}")
print(f"conv 2: {second:12,} FLOPs; counted {costs[4].flops:12,}")

# %% [markdown]
# ### Explorer: the price (optional)
#
# How does the cost of the whole network change with its width and with the number of steps? The lower bar is the same
# net with an image that is *not* known to be static: everything is computed at each step.
#
# 1. With twice the channels, how many times the FLOPs? And with twice the steps?
# 2. How would an input of 3 or 64 channels change the first convolution? (`in_channels`)

# %%
viz.explorers.conv_costs()

# %% [markdown] tags=["slide"]
# ## 2 · Once instead of T times
#
# SpikingJelly's tutorial repeats the image and computes everything $T$ times [1]; its first version moved the static part
# out of the loop by hand [2]. Here `encode.repeat` gives a *view* with a stride of 0 in time (notebook 04). Each layer
# here without state notices this, computes one step, and returns a view of the same kind. The first layer with state ends
# this: from there on, every step is different.

# %% [markdown]
# **Predict first.** At the published size this saves 1.6 % of the FLOPs. A training step, forward and backward, also
# moves bytes to and from memory. How many per cent of the *bytes* does it save? (`saved`, in the cell of the imports,
# counts both.)

# %%
predict("conv_snn.d")

# %%
torch.manual_seed(SEED)
net = models.FashionConvNet(CHANNELS, 16 * CHANNELS).to(where)
images = torch.rand(BATCH, 1, 28, 28, device=where)
labels = torch.randint(10, (BATCH,), device=where)
static, copied = show(images), show(images).contiguous()  # the same numbers, once and four times in memory

for name, counted in {"this net": net, "published size": models.FashionConvNet(128, 2048).to(where)}.items():
    flops, moved = saved(counted)
    print(f"counted, {name:15} {flops:5.1%} of the FLOPs saved, {moved:4.0%} of the bytes")
outcome("conv_snn.d", 100 * moved)

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# At the published size 1.6 % of the FLOPs are saved, and about a quarter of the bytes. The first convolution has one
# input channel, so it multiplies little. But it writes the largest tensor of the network, and the batch norm reads and
# writes this tensor again, forward and backward. The saved time is often somewhere between the two shares. FLOPs tell you what
# a processor computes, not what it waits for (the roofline of notebook 11 [7]).
#
# </details>

# %% [markdown]
# ## 3 · All steps at once
#
# The rest of the network must be computed for each step, in one of the two orders of notebook 11. Layer by layer, the
# layers without state process $T$ steps of $B$ images as one batch of $T \cdot B$.
#
# ### Exercise 12.2 · Fold time into the batch (8 minutes, ●●○)
#
# Write what `nn.Sequential` does with a layer without state. `x` is $[T, B, \dots]$; the layer accepts only
# $[B, \dots]$ and may change the shape after $B$. Call it **once**. If `x` is static (`nn.is_static(x)`), give it one
# step only. Then return a view with stride 0 in time, so that the next layers can save, too. Use `flatten(0, 1)`,
# `unflatten(0, (T, B))` and `expand`. Stuck? `hint("conv_snn.2")`.


# %% tags=["exercise"]
def all_steps(layer, x):
    """Apply a layer without state to each step of x [T, B, ...]: [T, B, ...]."""
    return ...


all_steps = attempt("conv_snn.2", all_steps)

# %% [markdown]
# **Predict first.** The same network, the same input, step by step or layer by layer: when do the output *spikes*
# differ? In training mode, in evaluation mode, in both, or never?

# %%
predict("conv_snn.e")

# %%
loops = models.FashionConvNet(CHANNELS, 16 * CHANNELS, engine="eager").to(where)
loops.load_state_dict(net.state_dict())


def step_by_step():
    state, outs = None, []
    for x_t in static:
        out, state = loops(x_t.unsqueeze(0), state)  # a sequence of one step
        outs.append(out)
    return torch.cat(outs)


def layer_by_layer():
    x = static
    for layer in loops:
        x = layer(x)[0] if nn.is_stateful(layer) else all_steps(getattr(layer, "module", layer), x)
    return x


with torch.no_grad():
    agree = {}
    for mode in ("training", "evaluation"):
        loops.train(mode == "training")
        agree[mode] = (step_by_step() == layer_by_layer()).float().mean().item()
        print(f"in {mode} mode the two orders agree in {agree[mode]:.2%} of the output spikes")
outcome("conv_snn.e", "in training" if agree["training"] < 0.999 < agree["evaluation"] else "never")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - In evaluation the order makes no difference, apart from a rounding error in one spike of thousands.
# - *In training it does*, because of the second batch norm. Step by step, it normalises each step with the statistics of
#   that step. Layer by layer, it uses those of all steps together. Remember it when you move weights between frameworks.
# - The price of layer by layer is memory: the outputs of all steps of a layer exist at the same time (notebook 13).
#
# </details>

# %% [markdown] tags=["slide"]
# ## 4 · Mixed precision
#
# A float32 has 24 binary digits, more than a network needs in most places. 16 bits are half as many bytes to move, and
# the matrix units of GPUs are made for them. There are two formats with 16 bits:
#
# | | digits (binary) | largest | smallest normal | smallest at all |
# |---|---|---|---|---|
# | float32 | 24 | $3.4 \cdot 10^{38}$ | $2^{-126}$ | $2^{-149}$ |
# | bfloat16 | 8 | $3.4 \cdot 10^{38}$ | $2^{-126}$ | $2^{-133}$ |
# | float16 | 11 | 65 504 | $2^{-14} \approx 6 \cdot 10^{-5}$ | $2^{-24} \approx 6 \cdot 10^{-8}$ |
#
# Below the smallest *normal* number, more and more digits are lost. Spikes are 0 and 1: exact in all of them. *Mixed
# precision* uses 16 bits for some operations and 32 for others. PyTorch's automatic one (AMP) leaves the weights in
# float32, and computes convolutions and matrix products in 16 bits.

# %% [markdown]
# **Predict first.** Under AMP, which of these still has 32 bits: the output of a convolution, the spikes, the
# membranes, the output of a linear layer?

# %%
predict("conv_snn.f")

# %%
half = device.Precision.choose(where, amp=True)  # 16 bits in the format that suits the device
with torch.no_grad(), half.autocast():
    recording = net.record(static)
for layer, out, state in zip(net, recording.layers, recording.state, strict=True):
    held = "" if state is None else f"   membrane {state.v.dtype}"
    weights = "".join(f"   weights {p.dtype}" for p in list(layer.parameters())[:1])
    print(f"{type(layer).__name__:12} gives {out.dtype}{held}{weights}".replace("torch.", ""))
print(f"loss: {loss.rate_mse(recording.out, labels).dtype}".replace("torch.", ""))
spikes, membrane = recording.layers[2], recording.state[2].v
dtypes = [recording.layers[0].dtype, spikes.dtype, membrane.dtype, recording.layers[9].dtype]
outcome("conv_snn.f", dtypes.index(torch.float32))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The tensors between layers have 16 bits. Everything that *accumulates* stays in float32: membranes, weights, the loss,
# the running statistics. ([Notebook 10](10_moving_house.ipynb), section 8, shows what a bfloat16 membrane does.)
# `Precision.choose` takes bfloat16 on CPUs and on GPUs that compute in it, and float16 on older GPUs.
#
# </details>
#
# ### Backward: gradients are small
#
# float16 has more digits than bfloat16, but a much smaller range. Activations fit into it. But gradients are multiplied
# by many factors below 1: means over batch, classes and steps, then weights and slopes $\sigma'$ of the surrogate, layer
# after layer. We look at them with the images on which the net will be trained.

# %%
if DATASET == "auto":
    there = [name for name in ("fashion", "mnist") if not QUICK and data.available(name)]
    DATASET = (there or ["digits"])[0]
train_images, train_labels = data.to_device(*data.load(DATASET, "train"), where)
test_images, test_labels = data.to_device(*data.load(DATASET, "test"), where)
size = train_images.shape[-1]
print(f"data: {DATASET}, {len(train_images)} training images of {size} × {size}, {len(test_images)} test images")

# %% [markdown]
# **Predict first.** The smallest number of float16 is $6 \cdot 10^{-8}$. How many per cent of the gradients at the
# output of the first convolution are below half of it, and would become exactly 0?

# %%
predict("conv_snn.g")


# %% tags=["slide"]
def fresh(channels=CHANNELS):
    """The same weights every time."""
    torch.manual_seed(SEED)
    return models.FashionConvNet(channels, 16 * channels, size=size).to(where)


some, their_labels = train_images[:64], train_labels[:64]
learner = fresh()
after_conv1 = all_steps(learner[0], show(data.to_unit(some)))
recording = learner[1:].record(after_conv1)
watched = {"after conv 1": after_conv1, "after conv 2": recording.layers[3], "after linear 1": recording.layers[8]}
gradients = torch.autograd.grad(loss.rate_mse(recording.out, their_labels), list(watched.values()))
gradients = {name: g.cpu() for name, g in zip(watched, gradients, strict=True)}
viz.explorers.gradient_scales(gradients)

# %%
nonzero = gradients["after conv 1"][gradients["after conv 1"] != 0].abs()
outcome("conv_snn.g", 100 * (nonzero < 2.0**-25).float().mean().item())

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The gradients are in the band of *fewer digits*, where float16 loses them one by one, or beyond its end, where they become
# zero. And this is the start of training: as the loss shrinks, the gradients shrink as well.
#
# </details>

# %% [markdown]
# The remedy is *loss scaling*, and costs next to nothing [4]. Gradients are linear in the loss: **multiply the loss by
# a large number, and all gradients become larger by the same factor.** Divide by it in float32, before the optimizer uses
# them. bfloat16 has the range of float32 and needs none of this.
#
# **Explorer.** Change the scale, in the picture above.
#
# 1. From which scale on is (nearly) nothing lost? At which does the first gradient become infinite?
# 2. PyTorch's scaler starts at $2^{16}$. Is this a good choice here?
# 3. Choose bfloat16. What effect does the scale have now?
#
# The best scale is not known in advance, and it changes while the network learns. `torch.amp.GradScaler` searches for
# it. If a gradient is infinite or not a number, it *skips this update* and halves the scale. After 2000 good updates in
# a row, it doubles the scale.
#
# ### Exercise 12.3 · A scaled update (8 minutes, ●●●)
#
# The forward pass is done, `loss` is float32. Write the rest of the step, with gradients *clipped*: where
# their norm is above `clip`, they are shortened to it.
# The calls you need: `optimizer.zero_grad()`, `scaler.scale(loss)`, `.backward()`, `scaler.unscale_(optimizer)`,
# `torch.nn.utils.clip_grad_norm_(weights, clip)` (which returns the norm before), `scaler.step(optimizer)`,
# `scaler.update()`. The order matters. Return the norm of the true gradients, before clipping. Stuck? `hint("conv_snn.3")`.


# %% tags=["exercise"]
def scaled_update(loss, weights, optimizer, scaler, clip):
    """One update of weights (a list) from a loss, by a GradScaler; the norm of the gradients before clipping."""
    return ...


scaled_update = attempt("conv_snn.3", scaled_update)

# %% [markdown]
# ### The search for the scale
#
# Now use it in training, in float16 on your device. The scale starts far too high, at $2^{32}$, and may double after
# ten good updates (not 2000), so that you can watch the search.


# %% tags=["slide"]
def train_float16(update, scaler, count=40, batch=32):
    """Losses and scales of a fresh net, trained for some batches in float16 by `update`."""
    net = fresh(16)
    weights = list(net.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.3, momentum=0.9)
    losses, scales = [], []
    for rows in torch.randperm(len(train_labels)).split(batch)[:count]:
        rows = rows.to(where)
        scales.append(scaler.get_scale())
        with torch.autocast(where.type, dtype=torch.float16):
            out, _ = net(show(data.to_unit(train_images[rows])))
        value = loss.rate_mse(out.float(), train_labels[rows])
        update(value, weights, optimizer, scaler, 1.0)
        losses.append(value.item())
    return losses, scales


searching = torch.amp.GradScaler(where.type, init_scale=2.0**32, growth_interval=10)
losses, scales = train_float16(scaled_update, searching)
skipped = int((torch.tensor(scales).diff() < 0).sum())
title = f"A scaler searches for its scale: {skipped} of {len(losses)} updates skipped"
powers = torch.tensor(scales).log2()
viz.show(figures.lines({"scale": powers}, x_title="update", y_title="scale: the power of two", shape="hv", title=title))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The scale halves once per update until nothing overflows. Then the scaler tries the next power of two from time to time,
# which may cost one skipped update. No update with an infinity ever reaches the weights.
#
# </details>

# %% [markdown]
# ### Without a scaler (optional)
#
# Gradients of *weights* are sums over many images and pixels, so a few lost terms may not matter. Here is a backward pass
# in float16, at several scales, compared with one at $2^{12}$. A scale below 1 stands for a later time, when the loss and
# all gradients have become that much smaller.


# %%
def weight_gradients(scale):
    """Gradients of conv 1, conv 2 and linear 1, computed in float16."""
    learner.zero_grad()
    with torch.autocast(where.type, dtype=torch.float16):
        out, _ = learner(show(data.to_unit(some)))
    (scale * loss.rate_mse(out.float(), their_labels)).backward()
    return [learner[i].weight.grad / scale for i in (0, 4, 9)]


reference = weight_gradients(2.0**12)
print("relative error    conv 1   conv 2   linear 1")
for power in (-10, -6, 0, 5, 16):
    errors = [(a - b).norm() / b.norm() for a, b in zip(weight_gradients(2.0**power), reference, strict=True)]
    print(f"scale 2^{power:<4}    " + "".join(f"{error:9.1%}" for error in errors))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Early in training, float16 without a scaler is only slightly wrong, and the loss falls as it should. This makes the
# mistake hard to see. Later, the first layers get gradients of mostly noise, and then no gradients at all.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 5 · Train it
#
# The loss is that of the source [1], a mean squared error. It compares the firing rates (spikes per step) of the ten output
# neurons with their targets: 1 for the right class $y_b$ and 0 for the others,
#
# $$L = \frac{1}{10\,B} \sum_{b,k} \Big( \frac{1}{T} \sum_t s_{bk}[t] - [k = y_b] \Big)^2 .$$

# %% [markdown]
# **Predict first.** What is the loss if no output neuron ever fires? And if all ten fire at every step?

# %%
predict("conv_snn.h")
predict("conv_snn.i")

# %%
silent, busy = torch.zeros(STEPS, 1, 10), torch.ones(STEPS, 1, 10)
outcome("conv_snn.h", loss.rate_mse(silent, torch.tensor([3])).item())
outcome("conv_snn.i", loss.rate_mse(busy, torch.tensor([3])).item())

# %% [markdown]
# A *recipe* is a network, a data set and every hyperparameter, as plain values. The published one is in the kit. At full
# size a GPU runs ten epochs of it; otherwise the network is smaller:

# %%
recipe = recipe_for(DATASET)
mine, theirs = recipe.settings(), train.recipes.get("fashion").settings()
for name in theirs:
    if name not in ("name", "about") and mine[name] != theirs[name]:
        print(f"{name}: {mine[name]} here, {theirs[name]} published")

# %% [markdown]
# (The panel's button ends the training after the current update; the net keeps the weights that it has by then.)

# %% tags=["slide"]
SPIKING = {"conv 1": 2, "conv 2": 6, "linear 1": 10, "output": 12}  # where the neurons are
probe = show(data.to_unit(test_images[:100]))
panel = viz.LivePanel(recipe.epochs, layers={"output": SPIKING["output"]}, probe=probe)
run = train.recipes.run(recipe, device=where, on_epoch=panel, on_batch=panel.on_batch)
net, history = run.model.eval(), run.history
seconds = sum(history.seconds)
if history.epochs:
    took = f"{history.epochs} epoch{'s' * (history.epochs > 1)} in {seconds:.1f} s"
    print(f"{took}, {history.samples_per_second[-1]:,.0f} images per second on {where}")
    print(f"test accuracy: {history.test_accuracy[-1]:.4f}")
else:
    print("stopped before the end of the first epoch")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A silent output costs exactly 1/10: one of ten rates is wrong by 1. The loss starts near there, because with PyTorch's
# initial weights the last layer is nearly silent. The net first learns to fire at all. Look at the output rate: it rises
# towards 0.1. Then one neuron of ten fires, at every step.
#
# </details>

# %% [markdown]
# The authors report 93.1 % [1] and 93.5 % [3] on Fashion-MNIST, each the best of 64 epochs. In a shell,
# `snnkit train fashion` runs this training; on a GPU this notebook runs ten epochs of it with `QUICK = False`.

# %% [markdown]
# ## 6 · Look inside
#
# **Predict first.** Which of the four spiking layers fires most, per neuron and step?

# %%
predict("conv_snn.j")

# %% tags=["slide"]
totals = dict.fromkeys(SPIKING, 0)
with torch.no_grad():
    for part in test_images.split(500):
        layers = net.record(show(data.to_unit(part))).layers
        totals = {name: totals[name] + layers[i].sum((0, 1)).cpu() for name, i in SPIKING.items()}
rates = {name: total / (STEPS * len(test_images)) for name, total in totals.items()}
bars = {name: {"spikes per neuron and step": rate.mean().item()} for name, rate in rates.items()}
busiest = max(rates, key=lambda name: rates[name].mean())
viz.show(figures.shares(bars, "", title=f"Over all test images, {busiest} fires most"))
for name, rate in rates.items():
    print(f"{name:9} {rate.numel():7,} neurons, {(rate == 0).float().mean():6.1%} of them never fire")

# %%
outcome("conv_snn.j", busiest)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A dead neuron costs as much as an active one and contributes nothing. After a convolution it is often a *pixel* that
# no stroke ever reaches, such as the corners of the image, not a failed feature. In the linear layer each neuron is a
# separate feature, so a dead neuron is a lost feature.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 7 · Where the time goes
#
# Notebook 11 ended with a question: how much of a real training step do the neurons still take?
# `bench.layer_times` runs each layer separately, forward and backward, with the input that it has in the network.

# %% [markdown]
# **Predict first.** At the published size convolutions do 69 % of the FLOPs, linear layers 31 %, neurons and pooling
# none. How many per cent of the *time* do the neurons take if they run as a loop over the steps?

# %%
predict("conv_snn.k")

# %% tags=["slide"]
PARTS = {"Conv2d": "convolutions", "BatchNorm2d": "batch norm", "IF": "neurons", "MaxPool2d": "pooling"}


def time_parts(engine, amp=False):
    """Milliseconds of each kind of layer."""
    torch.manual_seed(SEED)
    timed = models.FashionConvNet(CHANNELS, 16 * CHANNELS, engine=engine).to(where)
    parts = {}
    for kind, seconds in bench.layer_times(timed, static, amp=amp).items():
        part = PARTS.get(kind, "linear")
        parts[part] = parts.get(part, 0) + seconds * 1e3
    return parts


bars = {
    "neurons as a loop": time_parts("eager"),
    "fused neurons": time_parts("auto"),
    f"fused, {half.dtype}".replace("torch.", ""): time_parts("auto", amp=True),
}
part, fused, _ = (100 * one["neurons"] / sum(one.values()) for one in bars.values())
title = f"As loops, neurons take {part:.0f} % of an update; fused, {fused:.0f} % ({where}, {CHANNELS} channels)"
viz.show(figures.shares(bars, "ms", title=title))

# %%
outcome("conv_snn.k", part)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - As loops, the neurons can take more than both convolutions together. Fused, they need much less, and *other* parts
#   become the largest. Optimisation always works like this: improve the largest part and measure again.
# - Pooling and batch norm have hardly any FLOPs, and yet take their share: both wait for memory, as neurons do. (On a CPU
#   the kit's own pooling runs here, where layers are large. PyTorch's can take as long as a convolution.)
# - 16 bits help where the device has instructions for them. If the bar did not shrink, your processor converts back and
#   forth.
#
# </details>
#
# ### One launch: CUDA graphs (optional)
#
# On a GPU there is one more cost: the launches, a few microseconds each. Let us count them for one training step.

# %%
small = models.FashionConvNet(CHANNELS, 16 * CHANNELS).to(where)
optimizer = torch.optim.SGD(small.parameters(), lr=0.1, momentum=0.9)
training_pass(small, static)  # compiles, if need be
with measure.Traffic() as seen:
    training_pass(small, static)
    optimizer.step()
launching = 5e-3 * len(seen.kernels)
print(f"{len(seen.kernels)} operations in one update; at 5 µs each, {launching:.1f} ms of launching")

# %% [markdown]
# If the GPU finishes the work of an update in less time, it waits for Python. A *CUDA graph* avoids this. The operations
# of one whole update are *recorded* once, with the addresses of all their tensors. From then on they are *replayed* by a
# single launch. So shapes must stay the same, and nothing may read a value during the update (`loss.item()`,
# `if x.max() > 1`). `train.fit(..., graphed=True)` does this. Where it cannot, it says why and trains as usual:

# %%
few = images.repeat(40 if gpu else 5, 1, 1, 1), labels.repeat(40 if gpu else 5)


def speed(**more):
    """Images per second in the second of two short epochs."""
    net = models.FashionConvNet(CHANNELS, 16 * CHANNELS).to(where)
    way = {"encode": show, "loss": loss.rate_mse, "epochs": 2, "batch_size": BATCH, "device": where, "progress": False}
    return train.fit(net, few, lr=1e-3, **way, **more).samples_per_second[-1]


settings = {
    "plain": {"channels_last": False},
    "amp": {"channels_last": False, "amp": True},
    "amp, channels_last": {"amp": True},  # the default for convolutions
}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    measured = {name: speed(**more) for name, more in settings.items()}
    graphed = speed(amp=True, graphed=True)
if gpu:
    measured["amp, channels_last, graphed"] = graphed
bars = {name: {"training speed": rate} for name, rate in measured.items()}
title = f"Fastest training on this {where.type}: {max(measured, key=measured.__getitem__)}"
viz.show(figures.shares(bars, "images/s", title=title))
for message in dict.fromkeys(str(warning.message) for warning in caught):
    print(fill(f"Warning: {message}", 100))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# None of these is faster everywhere. `channels_last` stores the channels of a pixel next to each other, which suits the
# matrix units of GPUs. So few batches only hint at a good setting. `snnkit bench training` measures with repeats, beside
# other libraries. The records that came with your version of the kit:
#
# </details>

# %%
for kind, figure in {"training": figures.training_rates, "demo": figures.device_rates}.items():
    loaded = [records.load(name) for name in records.names(kind)]
    if not loaded:
        print(f"no record of kind {kind!r} yet; `snnkit bench {kind} --out FILE.json` writes yours")
        continue
    viz.show(figure(loaded))

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


bars = bench.places(update_on, "training", repeats=3, net="conv", dtype="float32", library="snnkit")
fastest = min((name for name in bars if bars[name]), key=lambda name: sum(bars[name].values()))
title = f"One update of the conv net takes least time on {fastest.removeprefix('recorded: ')}"
viz.show(figures.shares(bars, "ms", title=title))

# %% [markdown] tags=["slide"]
# ## 8 · What broke?
#
# Two colleagues trained in float16 with a scaler. One of their networks learns *nothing at all*, the other
# diverges, and neither gets an error message.

# %% [markdown]
# **Predict first.** What is wrong in `anna` and in `ben`? Whose loss will stay at 0.1, the
# value of silence?

# %%
predict("conv_snn.l")


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


curves = {}
for name, update in {"anna": anna, "ben": ben, "correct": scaled_update}.items():
    scaler = torch.amp.GradScaler(where.type, init_scale=2.0**12)  # at 2^16 Ben's loss would stay at 0.9
    curves[name], _ = train_float16(update, scaler, count=25)
known = {"silence: 0.1": 0.1, "all fire: 0.9": 0.9}
title = "Two colleagues' updates fail; the correct one learns"
viz.show(figures.lines(curves, x_title="batch", y_title="loss", levels=known, log="y", title=title))

# %%
outcome("conv_snn.l", min(("anna", "ben"), key=lambda name: abs(curves[name][-1] - 0.1)))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - **Anna** clips while the gradients are still scaled. Their norm is 4096 times too large, so they are shortened to 1;
#   then `scaler.step` divides by 4096. What remains is at most $1/4096$ of the allowed update: the loss stays at 0.1.
#   Clip *after* `unscale_`.
# - **Ben** calls the optimizer himself. The gradients are never divided, so his first step is 4096 times too large. After
#   that nearly all outputs fire nearly all the time: the loss jumps to 0.9 and comes down slowly.
#
# No error message shows these mistakes. The losses of "all silent" and "all fire" do: compute them *before* you train.
#
# </details>
#
# ## Quiz

# %%
quiz("conv_snn")

# %%
scorecard("conv_snn")

# %% [markdown]
# ## Where next
#
# **[13 · Memory, precision, batching](13_memory_precision_batching.ipynb)**: layer by layer keeps all steps of all
# layers in memory until the backward pass. Which tensors use the memory, and which of them can you avoid?
#
# Meanwhile: `snnkit train fashion` trains the published network, and every setting is an option: `--channels 64`. What
# would you change first to beat 93.5 %?
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
