# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/13_memory_precision_batching.ipynb)

# %% [markdown] tags=["slide"]
# # 13 · Memory, precision, batching
#
# *CUDA out of memory* ends more experiments than any other error. A spiking network reaches this limit early, because
# training stores every layer of every time step. In this notebook you predict the bytes of a training step, measure them
# (on a CPU, too), and then save most of them, with the same gradients.
#
# **Afterwards you can**
#
# - list the memory use of a training step, and say which entry to reduce;
# - recompute instead of storing, over layers and over time, and cut backpropagation short knowing what it costs;
# - train with a batch that does not fit, in parts, and know when that is not the same;
# - say where float32, bfloat16 and float16 break, and what 16 bits save;
# - measure from which batch size on a GPU pays, and handle out-of-memory errors.
#
# | | |
# |---|---|
# | Time | 80 minutes, and 10 more for the optional parts |
# | GPU minutes | 0. Everything runs on a CPU; where there is a GPU the same cells use it |
# | Before this | 04 training, 11 fused neurons (what *recompute* means); 12 helps |

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
QUICK: bool = True  # False: longer sequences, a wider network
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights and inputs
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import gc
import warnings
from textwrap import fill

import torch

from snnkit import data, device, encode, loss, measure, models, neuron, nn, records, train
from snnkit.lab import course, viz
from snnkit.lab.bench import demo
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("memory_precision_batching", solve=SOLVE)
where = data.resolve_device(DEVICE)
clock = measure.clock_for(where)
torch.set_num_threads(1)  # one core, so that we time the work and not the start of threads
MB = 1e6
print(device.get_gpu_memory_usage(where))


def memory_curve(model, steps):
    """Places in a training step (forward from 0 to 1, backward from 1 to 2) and MB alive, where that changes."""
    begins = len(device.timeline(lambda: forward(model, steps)))  # operations before the first of backward
    alive = torch.tensor(device.timeline(lambda: learn(model, steps))) / MB
    done = torch.arange(1, len(alive) + 1)
    place = torch.where(done <= begins, done / begins, 1 + (done - begins) / (len(alive) - begins))
    kept = [0]
    for i, now in enumerate(alive):
        if abs(now - alive[kept[-1]]) > alive.max() / 100 or now == alive.max():
            kept.append(i)
    return place[[*kept, -1]], alive[[*kept, -1]]


# %% [markdown] tags=["slide"]
# ## 1 · The memory bill
#
# Two things fill the memory while a network learns. The *model* is its weights, their gradients, and what the optimizer
# stores. The *activity* is what the forward pass stores for the way back.
#
# **Predict first.** The network 784-1000-10 has 0.8 million weights. It learns with Adam, $T = 25$ steps, in float32.
# Which needs more memory, the model or its activity: for a batch of 32? And of 128?

# %%
predict("memory_precision_batching.a")

# %% tags=["slide"]
T, B = 25, 32
net, larger = models.mlp((784, 1000, 10)).to(where), []
weights = sum(p.numel() for p in net.parameters())
for batch in (B, 128):
    spikes_in = (torch.rand(T, batch, 784, device=where) < 0.15).float()
    model, activity = 4 * 4 * weights, device.training_step(net, spikes_in).held + spikes_in.nbytes
    larger.append("the model" if model > activity else "the activity")
    print(f"batch {batch:3}: model {model / MB:5.1f} MB, activity {activity / MB:5.1f} MB")
held = viz.explorers.beside_measured(where=where)
viz.explore(held, steps=(4, 32, 4), batch=(1, 32), neurons=(100, 1000, 100), numbers=["float32", "bfloat16"])
outcome("memory_precision_batching.a", "{} at 32, {} at 128".format(*larger))

# %% [markdown]
# **Explorer: what a training step holds.** Each move of a slider runs a training step and measures it.
#
# 1. Double `steps`, then double `batch`: which costs more? Which slider changes all four parts?
# 2. `bfloat16` at the largest sizes: which parts are halved? At `batch = 1`, why does it get *worse*?
#
# ### Where it comes from
#
# | | how many numbers |
# |---|---|
# | weights | $W$ |
# | their gradients | $W$ |
# | what the optimizer stores | $c\,W$: $c = 0$ for SGD (a step against the gradient), 1 with *momentum* (a running sum of the gradients), 2 for Adam |
# | activity | $T \cdot B \cdot K$: steps × batch × numbers per sample and step |
#
# What is in $K$? **Each layer stores its input.** A linear layer or a convolution needs it for the gradient of its
# weights. A fused neuron needs it to run forward again (notebook 11). So 784-1000-10 stores, per sample and step, 784
# pixels, the 1000 currents of its hidden neurons, their 1000 spikes, and 10 currents more: $K = 2794$.
#
# ### Exercise 13.1 · The bill (6 minutes, ●○○)
#
# Return both in bytes. `width` is the number of bytes of one number of the activity. Weights, gradients and the
# optimizer's numbers always have 4. Stuck? `hint("memory_precision_batching.1")`.


# %% tags=["exercise"]
def training_bytes(weights, stored, steps, batch, copies=1, width=4):
    """Bytes that training holds: (of the model, of its activity)."""
    model = ...  # copies: numbers that the optimizer stores for each weight
    activity = ...  # stored: numbers that backward needs, per sample and step
    return model, activity


training_bytes = attempt("memory_precision_batching.1", training_bytes)

# %%
spikes_in = spikes_in[:, :B]
print("your formula, batch 32, in MB:", *(round(n / MB, 1) for n in training_bytes(weights, 2794, T, B, copies=2)))
table = device.explain_memory(net, spikes_in, optimizer="adam")
table

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The measured activity is nearly what you predicted: the shapes determine it. (The input is in memory anyway, so the
#   table has only the list of its spikes.)
# - The model's part is constant. The activity grows with $T \cdot B$, and from a batch of 46 on it is the larger part.
# - With bfloat16 (section 6), each layer also stores a 16-bit copy of its weights: this is what you see at batch 1.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 2 · Memory over one training step
#
# When is all this in memory? `timeline` records, after each operation, how many bytes of tensors are alive. (`memory_curve`,
# in the cell of the imports, makes a curve of it.) The network is that of notebook 12, but smaller, and PyTorch does its
# pooling. (On a CPU the kit has pooling of its own. It comes in section 3.)
#
# **Predict first.** Imagine memory over one training step, forward and backward, for $T = 4$ and $T = 16$. (a) Where is
# the peak? (b) How many times higher is it for $T = 16$?

# %%
predict("memory_precision_batching.b")
predict("memory_precision_batching.c")

# %% tags=["slide"]
CHANNELS, IMAGES = (32, 16) if QUICK else (64, 32) if where.type == "cpu" else (128, 128)


class PyTorchsPool(torch.nn.MaxPool2d):
    """Pooling by PyTorch: the kit's own is for `torch.nn.MaxPool2d` itself, not for classes derived from it."""


conv = models.FashionConvNet(CHANNELS, hidden=8 * CHANNELS).to(where)
conv[3], conv[7] = PyTorchsPool(2), PyTorchsPool(2)
pictures, classes = torch.rand(IMAGES, 1, 28, 28, device=where), torch.arange(IMAGES, device=where) % 10


def forward(model, steps):
    """The loss of one batch."""
    out, _ = model(encode.repeat(pictures, steps))
    return loss.rate_mse(out, classes)


def learn(model, steps):
    """One training step without the optimizer's part; returns the gradients."""
    return torch.autograd.grad(forward(model, steps), model.parameters())


# %% tags=["slide-more"]
learn(conv, 16)  # compiles what it needs
memory_curves = {f"T = {steps}": memory_curve(conv, steps) for steps in (4, 8, 16)}
for name, (_, curve) in memory_curves.items():
    print(f"{name:6}: peak {curve.max():5.1f} MB, at the end {curve[-1]:.1f} MB")
axes = {"x_title": "share of forward, then of backward", "y_title": "alive (MB)", "shape": "hv"}
axes["marks"] = {"backward begins": 1}
viz.show(figures.lines(memory_curves, title="Memory grows in forward, peaks in backward, then falls", **axes))
outcome("memory_precision_batching.b")
outcome("memory_precision_batching.c", memory_curves["T = 16"][1].max() / memory_curves["T = 4"][1].max())

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# In the forward pass memory grows: each layer adds what it stores. The peak is in backward, before much is freed: there
# gradients exist together with nearly all the activity. Then memory falls, layer by layer in reverse. At the end
# only the gradients of the weights remain. With four times the steps, the peak is more than three times as high. (The
# image is static, so the output of the first convolution is stored once.) Only the peak counts.
#
# </details>
#
# ## 3 · Recompute
#
# Three ideas lower the peak, and none changes the result:
#
# - **A byte for each maximum.** For backward, PyTorch's pooling saves its input, all spikes, and an index of 8 bytes for
#   each maximum. One byte says which of the four pixels it was. On a CPU the kit's pooling saves this byte alone.
# - **Recompute.** Neurons need almost no arithmetic. Save only their input, and compute the spikes again in backward [1],
#   as fused neurons do. And do it for a few samples at a time: then the spikes before the pooling, the largest tensor of
#   the network, never exist all at once.
# - **Spikes are bits.** The next convolution stores its input, spikes, as float32. One bit per spike is enough.
#
# `optimize_memory_usage` does all three, on any device.
#
# **Predict first.** Bits shrink the stored input of the second convolution 32 times. By what factor do the three ideas
# together lower the peak?

# %%
predict("memory_precision_batching.d")

# %% tags=["slide"]
LONG = 16
kits, saving = (models.FashionConvNet(CHANNELS, hidden=8 * CHANNELS).to(where) for _ in range(2))
kits.load_state_dict(conv.state_dict())
saving.load_state_dict(conv.state_dict())
nets = {"PyTorch's pooling": conv, "the kit's": kits, "all three ideas": saving}
report = device.optimize_memory_usage(saving, encode.repeat(pictures, LONG))
reference, recomputed = learn(conv, LONG), learn(saving, LONG)
off = max(((a - b).norm() / b.norm()).item() for a, b in zip(recomputed, reference, strict=True))
print(f"the same gradients, up to {off:.0e} of their length\n\nbeside the kit's pooling:\n{report}\n")

curves = {name: memory_curve(one, LONG) for name, one in nets.items()}
candidates = {name: lambda one=one: learn(one, LONG) for name, one in nets.items()}
times = measure.race(candidates, repeats=3 if QUICK else 11, warmup=1, clock=clock)
for name, (_, curve) in curves.items():
    print(f"{name:17} peak {curve.max():6.1f} MB, {times[name].median * 1e3:7.1f} ms")
peaks = {name: curve.max().item() for name, (_, curve) in curves.items()}
less = peaks["PyTorch's pooling"] / peaks["all three ideas"]
viz.show(figures.lines(curves, title=f"The same gradients: a {less:.1f} times lower peak", **axes))
outcome("memory_precision_batching.d", less)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - A byte for each maximum halves the peak by itself. Now the high places are where the spikes before the first pooling
#   exist for a moment, in forward, and where their gradient does, in backward. (On a GPU PyTorch pools in both nets, and
#   the two curves are the same.)
# - With all three ideas these places are rows of small peaks, one for each few samples.
# - In the report, bits shrink what is *held*, but hardly the peak. Once one part is smaller, another part determines
#   the peak. So an item may save nothing by itself, until the next one is added.
# - Neurons and pooling are limited by memory, not by arithmetic (notebook 11). So this usually costs at most half of the
#   time, and may even save some: what is not stored need not be written and read back.
#
# </details>

# %% [markdown]
# Bits alone work for any PyTorch model: `with device.packed_spikes():` around forward.

# %% [markdown] tags=["slide"]
# ### Checkpoints in time
#
# A *checkpoint* in time is the state after a step. A classic method [1] stores only that of every $k$-th step. Backward
# takes the last $k$ steps, runs them again from their checkpoint, and goes back through them. Then come the $k$ steps
# before, and so on. With $m_1$ bytes for one state and $m_2$ for what one step stores,
#
# $$\text{held} \approx \frac{T}{k}\,m_1 + k\,m_2, \tag{1}$$
#
# which is smallest at $k = \sqrt{T m_1 / m_2}$. Memory grows with the square root of $T$, for one more forward pass.
#
# **Predict first.** A network 64-400-10 runs for 32 steps (128 without `QUICK`). One step stores about twice the bytes of
# one state. Which $k$ of 1, 2, 4, 8, … needs the least memory?

# %%
predict("memory_precision_batching.e")

# %% tags=["slide"]
T = 32 if QUICK else 128
small = models.mlp((64, 400, 10)).to(where)
x = (torch.rand(T, B, 64, device=where) < 0.15).float()
chunks = [k for k in (1, 2, 4, 8, 16, 32, 64) if k < T]
peaks = []
for k in chunks:
    device.optimize_memory_usage(small, steps=k)
    peaks.append(device.training_step(small, x).peak / MB)
device.restore_memory_usage(small)
at_once = device.training_step(small, x).peak / MB  # all steps are one chunk, and nothing is recomputed
state, step = 4 * B * (400 + 10) / MB, 4 * B * (400 + 400 + 10) / MB  # the pixels are in memory anyway
formula = [T / k * state + k * step for k in [*chunks, T]]
curves = {"formula (1)": formula, "measured peak": [*peaks, at_once]}
look = {"x_title": "k, steps per chunk", "y_title": "MB", "log": "x", "faint": ["formula (1)"]}
best = chunks[peaks.index(min(peaks))]
title = f"Checkpoints in time: chunks of {best} of {T} steps need least"
viz.show(figures.lines(curves, x=[*chunks, T], title=title, **look))
outcome("memory_precision_batching.e", best)

# %% [markdown] tags=["slide"]
# The measured line is higher: backward through one chunk needs working memory, and the gradients of the weights are
# added. (A batch norm takes its mean over all steps, so time cannot be divided.)
#
# ### Explorer: the memory calculator
#
# The memory by formula, beyond this machine. With `nothing` saved, PyTorch pools. `recompute and pack` are the three ideas
# above. `checkpoints in time` is the last, with $k = \sqrt T$. Below is the largest batch that fits, for each $T$: drag the
# diamond.
#
# **Predict first.** From $T = 16$ to 64: how does the largest batch change with `nothing` saved, and with `checkpoints in
# time`?

# %%
predict("memory_precision_batching.f")

# %%
viz.explorers.memory_calculator()

# %%
outcome("memory_precision_batching.f")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# With nothing saved, four times the steps leave a quarter of the batch; with checkpoints in time, half (dense: less):
# $\sqrt T$ at work. Now choose a `dense` network of 6 layers, width 128, batch 8, $T = 16$: no method helps. Nearly all of the memory
# is weights, gradients and Adam's numbers. Look which part is largest before you choose a method.
#
# </details>
#
# ## 4 · Truncated backpropagation (optional, 6 minutes)
#
# Checkpoints compute the exact gradient. *Truncated* backpropagation does not: it carries the state from chunk to
# chunk, but cuts the graph between them (by `nn.detach`). Then memory holds $k$ steps, however long the
# sequence is, and no gradient reaches more than $k$ steps back. `device.truncated` implements this [4].
#
# **Predict first.** The membrane leaks by the factor $\beta$ per step. We cut after every 8 steps. For which neurons is
# this less harmful: $\beta = 0.5$ or $\beta = 0.99$?
#
# Below is how far the gradient of a small network is from the exact one, for each $k$. Move the slider.

# %%
predict("memory_precision_batching.g")

# %% tags=["slide"]
T = 64 if QUICK else 128
events = (torch.rand(T, 32, 20, device=where) < 0.2).float()
targets = torch.randint(3, (32,), device=where)


chunks = [2**i for i in range(T.bit_length())]


def gradient(net, k):
    """Gradient of the mean loss over all steps, by chunks of k steps; as one vector."""
    net.zero_grad()
    for out, _ in device.truncated(net, events, steps=k):
        total = torch.nn.functional.cross_entropy(out.flatten(0, 1), targets.repeat(len(out)), reduction="sum")
        (total / (T * 32)).backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


def errors(beta):
    """Error of the gradient for each length of a chunk."""
    train.seed_everything(SEED)
    readout = neuron.Leaky(beta, threshold=1e9, reset_mechanism="none")  # it never fires: a leaky sum
    net = nn.Sequential(torch.nn.Linear(20, 48), neuron.Leaky(beta), torch.nn.Linear(48, 3), readout).to(where)
    *grads, exact = (gradient(net, k) for k in chunks)
    return [((g - exact).norm() / exact.norm()).item() for g in [*grads, exact]]


# %% tags=["slide-more"]
off = {beta: errors(beta) for beta in (0.5, 0.8, 0.9, 0.95, 0.99)}


def forgetful(beta):
    """Error of the gradient and share of the memory against the length of a chunk."""
    curves = {"error of the gradient": off[beta], "memory": [k / T for k in chunks]}
    look = {"x_title": "k, steps per chunk", "y_title": "share of the whole", "log": "x"}
    title = f"β = {beta}: with chunks of 8 steps, the gradient is off by {off[beta][3]:.0%}"
    return figures.lines(curves, x=chunks, title=title, **look)


viz.show(viz.frames(forgetful, "β", list(off), start=1))
outcome("memory_precision_batching.g", f"for β = {min((0.5, 0.99), key=lambda beta: off[beta][3])}")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# A membrane remembers about $1/(1-\beta)$ steps. A chunk must be ten times as long or more before the gradient is nearly
# exact. The error is not noise that averages out. It is a *bias*: in every batch, only recent causes contribute. For a
# sequence that is too long for any other method here, and for a stream that never ends, it is still the usual way.
#
# </details>
#
# ## 5 · A large batch in small parts
#
# Suppose that a batch of 128 does not fit, but 32 do. `backward()` adds to `.grad`. So four times forward and backward
# give the gradient of 128, before one step of the optimizer. This is *gradient accumulation*. Each part needs the right
# weight.
#
# ### Exercise 13.2 · Accumulate (7 minutes, ●●○)
#
# `loss` is a mean over the samples that it gets. After your function, `.grad` must be what one backward pass of the
# whole batch would leave there. Return the mean loss of the whole batch, a plain number. Only one part may be in memory
# at a time. Stuck? `hint("memory_precision_batching.2")`.


# %% tags=["exercise"]
def accumulate(net, loss, x, y, size):
    """Leave the gradient of the mean loss of a batch in the weights, `size` samples at a time; return that loss."""
    total = 0.0
    for x_part, y_part in zip(x.split(size, dim=1), y.split(size), strict=True):
        out, _ = net(x_part)
        part = loss(out, y_part) * ...  # what these samples contribute to the loss of the batch
        ...  # and the next step
        total += part.item()
    return total


accumulate = attempt("memory_precision_batching.2", accumulate)

# %%
images, labels = data.to_device(*(part[:128] for part in data.load("digits")), where)
x = (torch.rand(16, 128, 64, device=where) < data.to_unit(images).flatten(1)).float()  # spikes [T, B, 64]


def dense(norm):
    """64-256-10, with or without a batch norm."""
    train.seed_everything(SEED)
    middle = [torch.nn.BatchNorm1d(256)] if norm else []
    layers = torch.nn.Linear(64, 256), *middle, neuron.Leaky(0.9), torch.nn.Linear(256, 10), neuron.Leaky(0.9)
    return nn.Sequential(*layers).to(where)


def accumulated(size, norm=False):
    """The gradient as one vector."""
    small = dense(norm)
    accumulate(small, loss.count_cross_entropy, x, labels, size)
    return torch.cat([p.grad.flatten() for p in small.parameters()])


for norm in (False, True):
    whole = accumulated(128, norm)
    for size in (128, 32, 8):
        peak = max(device.timeline(lambda size=size, norm=norm: accumulated(size, norm))) / MB
        error = ((accumulated(size, norm) - whole).norm() / whole.norm()).item()
        print(
            f"{'with' if norm else 'without':7} batch norm, {size:3} at a time: peak {peak:5.2f} MB, gradient off by {error:.0e}"
        )

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# Without batch norm the gradients agree up to rounding, in a fraction of the memory. With batch
# norm they do not. It standardises with the mean of the samples *in its input*, and the mean of 8 samples is another
# one. There is no warning: the network just learns something different. (In `train.fit` all of this is `accumulate=4`.)
#
# </details>
#
# ## 6 · Numbers with fewer bits
#
# A floating-point number is a sign, an exponent, and binary digits, of which the first is always 1 and not stored:
#
# | | bits: sign + exponent + digits | digits with the first | largest | distance of neighbours at 1 |
# |---|---|---|---|---|
# | float32 | 1 + 8 + 23 | 24 | $3 \cdot 10^{38}$ | $1.2 \cdot 10^{-7}$ |
# | bfloat16 | 1 + 8 + 7 | 8 | $3 \cdot 10^{38}$ | $7.8 \cdot 10^{-3}$ |
# | float16 | 1 + 5 + 10 | 11 | 65504 | $9.8 \cdot 10^{-4}$ |
#
# **Explorer: three number lines.** The dashed line is your number. A tick is a number that the format can represent. The
# diamond is the value to which yours is rounded.
#
# 1. Which format has finer ticks near 1, and which still has ticks at 10⁻⁸ (`power`)?
# 2. Set `digits` to 1.0 and `power` to 0. The ticks on the left are closer than those on the right. Why?

# %%
viz.explorers.number_lines()

# %% [markdown] tags=["slide"]
# **Predict first.** 0.001 is added up a thousand times. In which format is the result worst?

# %%
predict("memory_precision_batching.h")

# %% tags=["slide"]
FORMATS = (torch.float32, torch.bfloat16, torch.float16)


def added_up(dtype):
    """0.001, added a thousand times."""
    total, small = torch.zeros((), dtype=dtype), torch.tensor(1e-3, dtype=dtype)
    for _ in range(1000):
        total = total + small
    return total


programs = {
    "300²": lambda dtype: torch.tensor(300.0, dtype=dtype) ** 2,
    "a gradient of 1e-8": lambda dtype: torch.tensor(1e-8, dtype=dtype),
    "a weight of 1 + 0.001": lambda dtype: 1 + torch.tensor(1e-3, dtype=dtype),
    "0.001, added 1000 times": added_up,
}
for name, program in programs.items():
    print(f"{name:25}", *(f"{str(dtype)[6:]} {program(dtype).item():<11.5g}" for dtype in FORMATS))
worst = max(FORMATS, key=lambda dtype: abs(added_up(dtype).item() - 1))
outcome("memory_precision_batching.h", str(worst).removeprefix("torch."))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - float16 *ends*: to the right above 65504, to the left below 6 · 10⁻⁸. The terms of a gradient are that small, so
#   float16 needs the *loss scaling* of notebook 12.
# - bfloat16 has the range of float32 and is coarse everywhere. It fails when you add something small to something
#   large: a weight and its update, a membrane and its input. Both must stay in float32.
#
# </details>

# %% [markdown]
# So *mixed precision* [3] leaves weights, optimizer, membranes and losses in float32 (notebook 12). `device.accelerate`
# chooses what suits the device, and says why:

# %%
print("\n".join(device.accelerate(models.mlp((784, 1000, 10)), device=DEVICE).reasons), end="\n\n")
for dtype in (torch.float32, torch.bfloat16):
    with torch.autocast(where.type, dtype, enabled=dtype != torch.float32):
        taken = device.training_step(net, spikes_in.to(dtype))
    print(f"{str(dtype).removeprefix('torch.'):9} held {taken.held / MB:5.2f} MB, peak {taken.peak / MB:5.2f} MB")

# %% [markdown] tags=["slide"]
# ## 7 · When does a GPU pay?
#
# A GPU computes many thousands of values at a time, but each launch takes some time, however little there is to compute.
# The time as a function of the batch is
#
# $$t(B) = t_0 + \frac{B}{r}, \qquad \text{samples per second} = \frac{B}{t_0 + B/r}, \tag{2}$$
#
# with the *overhead* $t_0$ in seconds (Python, launching kernels) and the *rate* $r$ that the device reaches when it is
# fully used. Two devices have two such curves, and the GPU pays from the point where they cross.
#
# **Predict first.** The network 784-1000-10, $T = 25$, one training step. How many times longer does a batch of 64 take
# than one of 4, on your machine?

# %%
predict("memory_precision_batching.i")

# %% tags=["slide"]
devices = ("cpu", "cuda") if where.type == "cuda" else ("cpu",)
batches = (4, 16, 64) if QUICK else (1, 4, 16, 64, 256, 1024)
arguments = demo.Arguments(devices[-1], models=("mlp",), batches=batches, modes=("training",), repeats=9)
mine = demo.benchmark(arguments, say=lambda line: None)
fits = {}
for name in devices:
    rows = [row for row in mine["rows"] if (row["device"], row["dtype"]) == (name, "float32")]
    t = {row["batch"]: row["p10_s"] for row in rows}  # the moments with little other load
    first, last = min(t), max(t)
    rate = (last - first) / (t[last] - t[first])
    overhead = max(t[first] - first / rate, 1e-6)
    fits[name] = overhead, rate
    print(f"{name}: overhead {overhead * 1e3:.1f} ms, rate {rate:,.0f} samples/s")
outcome("memory_precision_batching.i", t[64] / t[4])
figure = figures.device_rates([mine, *(records.load(name) for name in records.names("demo"))])
title = f"16 times the samples take {t[64] / t[4]:.1f} times as long"
viz.show(figure.update_layout(title={"text": title}))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Sixteen times the samples take less than sixteen times as long: below $B = t_0 r$ you pay for overhead.
#
# </details>
#
# ### The crossing (optional, 5 minutes)
#
# The CPU's curve is yours. The other belongs to a device of your choice. (If you have a GPU,
# it starts with the measured values.) What moves the crossing more, less overhead or a higher rate? CUDA graphs
# (notebook 12) launch a whole training step at once. What would they change?

# %%
viz.explorers.crossing(fits["cpu"], fits.get("cuda"))

# %% [markdown] tags=["slide"]
# ## 8 · Out of memory: a drill
#
# `device.memory_limit` makes any device small: beyond the limit, new tensors raise the error that a full GPU raises. We
# classify all 355 test images within 2 MB.
#
# ### Exercise 13.3 · When memory runs out (7 minutes, ●●○)
#
# Two errors say that memory has run out: PyTorch's `torch.OutOfMemoryError`, and Python's `MemoryError`, which the
# neurons of the kit raise. Catch them, halve the batch, and continue from where you were. No sample may be lost, done
# twice or out of order. When even one sample is too much, let the error pass. Stuck?
# `hint("memory_precision_batching.3")`.


# %% tags=["exercise"]
def in_halves(fn, samples, size):
    """`fn` of at most `size` samples at a time, in order; of half as many from where memory runs out."""
    done, start = [], 0
    while start < len(samples):
        try:
            done.append(fn(samples[start : start + size]))
            start += size
        except (torch.OutOfMemoryError, MemoryError):
            return ...
    return torch.cat(done)


in_halves = attempt("memory_precision_batching.3", in_halves)

# %%
reader = dense(norm=False)
exam, _ = data.to_device(*data.load("digits", "test"), where)
exam = data.to_unit(exam).flatten(1)
tried = []


@torch.no_grad()
def read(samples):
    """Spike counts [B, 10] of images [B, 64]."""
    gc.collect()  # free what a failed call has left
    tried.append(len(samples))
    return reader(encode.repeat(samples, 16))[0].sum(0)


expected_counts = read(exam)
with device.memory_limit(2_000_000):
    counts = in_halves(read, exam, size=256)
print(f"batches tried: {tried[1:]}; the same counts as without a limit: {torch.equal(counts, expected_counts)}")

# %% [markdown]
# ### The same in the kit (optional, 2 minutes)
#
# `device.batch_process` does this for any model, function and nested results, with a progress bar. With
# `batch_size="auto"` it looks at the free memory first. (An exception keeps the failed call alive, with all its tensors, so
# it leaves the `except` block before it tries again.) Two more tools for everyday use: `move_tensors_to_device` moves all
# tensors in any nested structure, and `get_gpu_memory_usage` says how full the device is or, on a CPU, how much memory this
# process uses.


# %%
def spike_counts(model, batch):
    return model(encode.repeat(batch, 16))[0].sum(0)


with warnings.catch_warnings(record=True) as said, device.memory_limit(2_000_000):
    counts = device.batch_process(reader, exam, spike_counts, batch_size=256)
print(*(fill(f"warning: {one.message}", 100) for one in said), sep="\n")
print("the same counts:", torch.equal(counts, expected_counts))
nested = {"state": reader(encode.repeat(exam[:2], 16))[1], "batches": [(exam[:2], "two images")]}
moved = device.move_tensors_to_device(nested, where)
print("moved:", *moved)
print(device.get_gpu_memory_usage(where))

# %% [markdown] tags=["slide"]
# ## 9 · What broke?
#
# A colleague's training runs for an hour and uses half of the memory. Then the test set causes *out of memory*,
# although nothing is trained there, the batches have the same size and each fits.
#
# **Predict first.** Read the loop below. What does `total` hold after ten batches?

# %%
predict("memory_precision_batching.j")


# %% tags=["slide"]
def test_loss(model):
    """Mean loss over the test set, and the MB alive after each batch."""
    test_images, test_labels = data.to_device(*data.load("digits", "test"), where)
    alive, total = [], 0.0
    with device.MemoryTracker() as tracker:
        for x, y in data.batches(test_images, test_labels, 32, shuffle=False):
            out, _ = model(encode.repeat(data.to_unit(x).flatten(1), 16))
            total = total + len(y) * loss.count_cross_entropy(out, y)
            alive.append(tracker.live / MB)
    print(f"loss {total.item() / len(test_labels):.4f}, alive after the last batch: {alive[-1]:6.2f} MB")
    return alive


curves = {"as he wrote it": test_loss(reader), "with torch.no_grad()": torch.no_grad()(test_loss)(reader)}
axes = {"x_title": "batch", "y_title": "alive (MB)"}
viz.show(figures.lines(curves, title="With a graph for each batch, memory grows without end", **axes))
grows = curves["as he wrote it"][-1] > 5 * curves["as he wrote it"][0]
outcome("memory_precision_batching.j", "a number and the graphs of all ten batches" if grows else "only a number")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# `total` is a tensor with a history. Each loss holds the graph of its batch, and the graph holds everything that backward
# would need. Backward, which would free it, never runs. The fix is `torch.no_grad()` around the loop (`train.evaluate` has
# it), and `float(loss)` or `loss.item()` wherever you only need the number. The same is true for *state* that is carried
# from batch to batch: without `nn.detach`, its history grows for ever.
#
# </details>

# %% [markdown]
# ## Quiz

# %%
quiz("memory_precision_batching")

# %%
scorecard("memory_precision_batching")

# %% [markdown]
# ## Where next
#
# The bill so far was memory. The other bill is time.
# **[14 · Spikes that pay: event-driven layers](14_event_driven_layers.ipynb)** leaves out the work that zeros make.
#
# Meanwhile: `snnkit bench demo --model all` draws the curves of section 7 for every model of the kit, and
# `device.explain_memory` works on your own network.
#
# **Worth reading**
#
# 1. T. Chen, B. Xu, C. Zhang, C. Guestrin, *Training deep nets with sublinear memory cost* (2016).
#    [arXiv:1604.06174](https://arxiv.org/abs/1604.06174)
# 2. A. Griewank, *Achieving logarithmic growth of temporal and spatial complexity in reverse automatic differentiation*, Optimization Methods and
#    Software 1 (1992): chunks within chunks. [doi:10.1080/10556789208805505](https://doi.org/10.1080/10556789208805505)
# 3. P. Micikevicius et al., *Mixed precision training*, ICLR (2018). [arXiv:1710.03740](https://arxiv.org/abs/1710.03740)
# 4. R. J. Williams, J. Peng, *An efficient gradient-based algorithm for on-line training of recurrent network trajectories*, Neural Computation 2 (1990), on
#    truncation. [doi:10.1162/neco.1990.2.4.490](https://doi.org/10.1162/neco.1990.2.4.490)
