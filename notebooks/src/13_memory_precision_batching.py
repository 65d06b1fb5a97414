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
# *CUDA out of memory* ends more experiments than any other error, and the usual answer is to make the batch smaller
# until the error disappears. A spiking network reaches this limit early: backpropagation through time stores every
# layer of every time step. In this notebook you predict the bytes of a training step before it runs, you measure them
# (on a CPU, too), and then you save most of them, with the same gradients.
#
# **Afterwards you can**
#
# - list the memory use of a training step: weights, gradients, optimizer, activity, and say which entry to reduce;
# - recompute instead of storing, over layers and over time, and truncate backpropagation knowing what it costs;
# - train with a batch that does not fit, by accumulating gradients, and know when that is not the same;
# - say where float32, bfloat16 and float16 break, and what mixed precision saves;
# - measure from which batch size on a GPU pays, and handle out-of-memory errors;
# - turn words into sparse spikes, a *vector engine*, and compare the ways to store them;
# - say how few spikes a product needs to be faster without its zeros, on your own machine.
#
# | | |
# |---|---|
# | Time | 80 minutes |
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
QUICK: bool = True  # False: longer sequences, a wider network, the whole text
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights, inputs and the text
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import gc
import tempfile
import warnings

import torch

from snnkit import data, device, encode, loss, measure, models, neuron, nn, records, train
from snnkit.lab import course, text, viz
from snnkit.lab.bench import demo, heading
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("memory_precision_batching", solve=SOLVE)
where = data.resolve_device(DEVICE)
clock = measure.clock_for(where)
torch.set_num_threads(1)  # one core, so that we time the work and not the start of threads
MB = 1e6
print(f"on {where}: {device.get_gpu_memory_usage(where)}")

# %% [markdown] tags=["slide"]
# ## 1 · The memory bill
#
# Four things are in memory while a network learns:
#
# | | how many numbers |
# |---|---|
# | weights | $W$ |
# | their gradients | $W$ |
# | what the optimizer stores | $c\,W$: $c = 0$ for plain SGD, 1 with momentum, 2 for Adam |
# | **activity**, stored for backward | $T \cdot B \cdot K$: steps × batch × numbers per sample and step |
#
# What is in $K$? **Each layer stores its input.** A linear layer or a convolution needs it for the gradient of its
# weights. A fused neuron needs it to run forward again (notebook 11). So the network 784-1000-10 stores, per sample and
# step, 784 pixels, the 1000 currents of its hidden neurons, their 1000 spikes, and 10 currents more: $K = 2794$.
#
# **Predict first.** This network has 0.8 million weights. It learns with Adam, $T = 25$ steps, in float32. Which needs
# more memory, the model or its activity: for a batch of 32? And of 128?

# %%
predict("memory_precision_batching.a")

# %% [markdown]
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

# %% [markdown]
# Now compare with a measurement. `device.explain_memory` runs one training step and measures with autograd what each
# layer stores. (The input changes from step to step here. A static image is stored once, not $T$ times.)

# %%
T, B = 25, 32
net = models.mlp((784, 1000, 10)).to(where)
spikes_in = (torch.rand(T, B, 784, device=where) < 0.15).float()
weights, larger = sum(p.numel() for p in net.parameters()), []
for batch in (B, 128):
    model_bytes, activity = training_bytes(weights, 2794, T, batch, copies=2)
    larger.append("the model" if model_bytes > activity else "the activity")
    print(f"training_bytes, batch {batch:3}: model {model_bytes / MB:5.1f} MB, activity {activity / MB:5.1f} MB")
outcome("memory_precision_batching.a", "{} at 32, {} at 128".format(*larger))
table = device.explain_memory(net, spikes_in, optimizer="adam")
table

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The measured activity is what you predicted, exactly or nearly: the shapes determine it.
# - Memory use is not a property of the network alone. The model's part is constant. The activity grows with $T \cdot B$,
#   and from a batch of 46 on it is the larger part here. In a convolutional network, which has few weights for many
#   neurons, this happens much earlier.
# - The peak is higher than what is stored: backward needs working memory, and the gradients are added.
#
# </details>
#
# **Explorer: formula and measurement.** The upper bar is your formula for 784-neurons-10 with Adam. The lower one is a
# training step, which runs and is measured at each change of a slider (so it needs the kernel).
#
# 1. Double `steps`, then double `batch`: which costs more?
# 2. `bfloat16` at the largest sizes: which parts are halved, which are not? At `batch = 1`, measured: why does it get
#    *worse*?
# 3. Which slider changes all four parts?

# %%
viz.explore(
    viz.explorers.beside_measured(training_bytes, where),
    steps=(4, 32, 4),
    batch=(1, 32),
    neurons=(100, 1000, 100),
    numbers=["float32", "bfloat16"],
)

# %% [markdown] tags=["slide"]
# (In mixed precision, each layer also stores a 16-bit *copy of its weights*: this is what you see at batch 1.)
#
# ## 2 · Memory over one training step
#
# When is all this in memory? `timeline` records, after each operation, how many bytes of tensors are alive. It works on
# any device. The network is that of notebook 12, with fewer channels: two convolutions with batch norm,
# integrate-and-fire neurons and pooling, then two linear layers.
#
# **Predict first.** Imagine memory over one training step, forward and backward, for $T = 4$ and $T = 16$. (a) Where is
# the peak? (b) How many times higher is it for $T = 16$?

# %%
predict("memory_precision_batching.b")
predict("memory_precision_batching.c")

# %% tags=["slide"]
CHANNELS, IMAGES = (32, 16) if QUICK else (64, 32) if where.type == "cpu" else (128, 128)
conv = models.FashionConvNet(CHANNELS, hidden=8 * CHANNELS).to(where)
pictures, classes = torch.rand(IMAGES, 1, 28, 28, device=where), torch.arange(IMAGES, device=where) % 10


def forward(model, steps):
    """The loss of one batch."""
    out, _ = model(encode.repeat(pictures, steps))
    return loss.rate_mse(out, classes)


def learn(model, steps):
    """One training step without the optimizer's part; returns the gradients."""
    return torch.autograd.grad(forward(model, steps), model.parameters())


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


# %% tags=["slide-more"]
learn(conv, 16)  # compiles what it needs
memory_curves = {f"T = {steps}": memory_curve(conv, steps) for steps in (4, 8, 16)}
for name, (_, curve) in memory_curves.items():
    print(f"{name:6}: peak {curve.max():5.1f} MB, at the end {curve[-1]:.1f} MB")
axes = {"x_title": "share of forward, then of backward", "y_title": "alive (MB)", "shape": "hv"}
axes["marks"] = {"backward begins": 1}
viz.show(figures.lines(memory_curves, title="Memory peaks soon after backward begins", **axes))
outcome("memory_precision_batching.b")
outcome("memory_precision_batching.c", memory_curves["T = 16"][1].max() / memory_curves["T = 4"][1].max())

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# In the forward pass memory grows: each layer adds what it stores. The peak is where backward
# begins, or a little later, when the first gradients exist together with all the activity. Then memory falls, layer by
# layer in reverse, with a small peak wherever a gradient at full resolution is computed. At the end only the gradients
# of the weights remain. With four times the steps, the peak is more than three times as high. (The image is static, so
# the output of the first convolution is stored once.) Only the peak counts: memory that is free at other times does not
# help.
#
# </details>
#
# ## 3 · Recompute
#
# Two ideas lower the peak, and neither changes the result:
#
# - **Recompute.** Between two convolutions there are neurons and pooling. Neurons need almost no arithmetic. Yet
#   training saves their spikes at full resolution and, for each maximum of the pooling, its index in 8 bytes. Save the
#   input of the neurons and one byte per index (a window of 2 × 2 has four positions). Compute the spikes again in
#   backward, a few samples at a time [1]. (On a CPU this kit's pooling keeps one byte and no spikes from the start, for
#   32 channels and more in channels-last memory, which `fit` uses.)
# - **Spikes are bits.** The next convolution stores its input, spikes, as float32. One bit per spike is enough.
#
# **Predict first.** Bits shrink the stored input of the second convolution 32 times. By what factor do both ideas
# together lower the peak?

# %%
predict("memory_precision_batching.d")

# %%
LONG = 16
x = encode.repeat(pictures, LONG)
reference = learn(conv, LONG)
plain_curve = memory_curves[f"T = {LONG}"][1]
report = device.optimize_memory_usage(conv, x)
recomputed = learn(conv, LONG)
off = max(((a - b).norm() / b.norm()).item() for a, b in zip(recomputed, reference, strict=True))
print(f"the same gradients, up to {off:.0e} of their length")
report

# %% tags=["slide"]
curves = {"plain": memory_curves[f"T = {LONG}"], "recomputed": memory_curve(conv, LONG)}
both = {name: alive for name, (_, alive) in curves.items()}
economical_curve = both["recomputed"]
lower = plain_curve.max() / economical_curve.max()
viz.show(figures.lines(curves, title=f"Recomputing: a {lower:.1f} times lower peak", **axes))

plain = models.FashionConvNet(CHANNELS, hidden=8 * CHANNELS).to(where)
candidates = {"plain": lambda: learn(plain, LONG), "recomputed": lambda: learn(conv, LONG)}
times = measure.race(candidates, repeats=3 if QUICK else 11, warmup=1, clock=clock)
slower = times["recomputed"].median / times["plain"].median
for name, measured in times.items():
    print(f"{name:14} {measured.median * 1e3:7.1f} ms, peak {both[name].max():5.1f} MB")
print(f"{plain_curve.max() / economical_curve.max():.2f} times less memory for {slower - 1:+.0%} time")
outcome("memory_precision_batching.d", plain_curve.max() / economical_curve.max())

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The curve is now low, with small peaks. Each of these is a layer that runs again in backward, a few samples at a
#   time.
# - Look at the report. The *held* memory has shrunk far more than the peak. Savings of the peak depend on each other:
#   once one part is smaller, another part determines the peak. So an item may save nothing by itself, or even cost
#   memory, until the next one is added.
# - The recomputed layers are limited by memory, not by arithmetic (notebook 11). So this costs from nothing to about
#   half of the time, depending on machine and size. It may even be faster: what is not stored need not be written and
#   read back.
#
# </details>
#
# Bits work for any PyTorch model: `with device.packed_spikes():` around forward stores every tensor of zeros and ones
# as bits.

# %%
with device.packed_spikes() as packed:
    out, _ = net(spikes_in)
print(f"stored as bits: {packed.saved / MB:.2f} MB of {table.measured / MB:.2f} MB saved")
del out

# %% [markdown] tags=["slide"]
# ### Checkpoints in time
#
# A classic method [1] divides time. Forward stores only the state at every $k$-th step. Backward takes the last $k$
# steps, runs them again from their checkpoint, and goes back through them. Then come the $k$ steps before, and so on.
# With $m_1$ bytes for one state and $m_2$ for what one step stores,
#
# $$\text{held} \approx \frac{T}{k}\,m_1 + k\,m_2, \tag{1}$$
#
# which is smallest at $k = \sqrt{T m_1 / m_2}$. Memory grows with the square root of $T$, for one more forward pass.
# (Chunks within chunks, run again and again, need only the logarithm of $T$ [2].)
#
# **Predict first.** Few steps per chunk, many, or something between: which $k$ of 1, 2, 4, 8, … needs the least memory?

# %%
predict("memory_precision_batching.e")

# %% tags=["slide"]
T = 32 if QUICK else 128
small = models.mlp((64, 400, 10)).to(where)
x = (torch.rand(T, B, 64, device=where) < 0.15).float()
state_bytes, step_bytes = 4 * B * (400 + 10), 4 * B * (400 + 400 + 10)  # bytes; the pixels are in memory anyway
chunks = [k for k in (1, 2, 4, 8, 16, 32, 64) if k < T]
peaks = []
for k in chunks:
    device.optimize_memory_usage(small, steps=k)
    peaks.append(device.training_step(small, x).peak / MB)
device.restore_memory_usage(small)
at_once = device.training_step(small, x).peak / MB  # all steps are one chunk, and nothing is recomputed
best = min(peaks)
print(f"all {T} steps at once: {at_once:.1f} MB; chunks of {chunks[peaks.index(best)]}: {best:.1f} MB")
formula = [(T / k * state_bytes + k * step_bytes) / MB for k in [*chunks, T]]
curves = {"formula (1)": formula, "measured peak": [*peaks, at_once]}
higher = [peak / bound for peak, bound in zip(peaks, formula, strict=False)]
print(f"the measured peaks of the chunks are {min(higher):.2f} to {max(higher):.2f} times the formula")
look = {"x_title": "k, steps per chunk", "y_title": "MB", "log": "x", "faint": ["formula (1)"]}
viz.show(
    figures.lines(
        curves,
        x=[*chunks, T],
        title=f"Checkpoints in time: chunks of {chunks[peaks.index(best)]} of {T} steps need least",
        **look,
    )
)
outcome("memory_precision_batching.e", chunks[peaks.index(best)])

# %% [markdown] tags=["slide"]
# The measured line is higher: backward through one chunk needs working memory, and the gradients of the weights are
# added. (Batch norm takes its mean over all steps, so a network with a batch norm in training cannot be
# divided in time. Recomputing layers has no such limit.)
#
# ### Explorer: the memory calculator
#
# Now without running anything: the memory use by formula, for networks and batches far beyond this machine, beside the
# memory of your device. `recompute and pack` are the first ideas of this section. `checkpoints in time` is the last,
# with $k = \sqrt T$. Below is the largest batch that fits, for each $T$: drag the diamond.
#
# **Predict first.** How large a batch fits in 8 GB? (a) From $T = 16$ to 64: how does it change with `nothing` saved,
# and with `checkpoints in time`? (b) bfloat16, `nothing` saved: twice the batch? (c) A `dense` network of 6 layers,
# width 128, batch 8, at $T = 16$: which method helps most? And at $T = 64$? (The card asks for (a).)

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
# (a) With nothing saved, four times the steps leave a quarter of the batch; with checkpoints in
# time, half: $\sqrt T$ at work. (b) Only 1.7 times. The indices that max-pooling stores have 8 bytes in any precision.
# Once they have one byte (`recompute and pack`) it is 1.9. (c) None at $T = 16$: nearly all of the memory is weights,
# gradients and Adam's numbers, and no method here reduces those. At $T = 64$ a fifth is activity, of which checkpoints
# in time save most. Look which part is largest before you choose a method.
#
# </details>
#
# ## 4 · Truncated backpropagation
#
# Checkpoints compute the exact gradient. *Truncated* backpropagation does not: it carries the state from chunk to
# chunk, but cuts the graph between them. Then memory holds $k$ steps, however long the sequence is, and no gradient
# reaches more than $k$ steps back. `device.truncated` implements this (`nn.detach(state)` is the cut).
#
# **Predict first.** The membrane leaks by the factor $\beta$ per step. We cut after every 8 steps. For which neurons is
# this less harmful: $\beta = 0.5$ or $\beta = 0.99$?
#
# Below is the gradient $g_k$ of a small network for each $k$, against the exact one: $\lVert g_k - g \rVert / \lVert g
# \rVert$. Move the slider.

# %%
predict("memory_precision_batching.g")

# %% tags=["slide"]
T = 64 if QUICK else 128
events = (torch.rand(T, 32, 20, device=where) < 0.2).float()
targets = torch.randint(3, (32,), device=where)


def gradient(net, k):
    """Gradient of the mean loss over all steps, by chunks of k steps; as one vector."""
    net.zero_grad()
    for out, _ in device.truncated(net, events, steps=k):
        answers = targets.repeat(len(out))
        total = torch.nn.functional.cross_entropy(out.flatten(0, 1), answers, reduction="sum")
        (total / (T * 32)).backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


chunks = [2**i for i in range(T.bit_length())]


def errors(beta):
    """Error of the gradient for each length of a chunk."""
    train.seed_everything(SEED)
    readout = neuron.Leaky(beta, threshold=1e9, reset_mechanism="none")  # it never fires: a leaky sum
    net = nn.Sequential(torch.nn.Linear(20, 48), neuron.Leaky(beta), torch.nn.Linear(48, 3), readout).to(where)
    grads = [gradient(net, k) for k in chunks]
    return [((g - grads[-1]).norm() / grads[-1].norm()).item() for g in grads]


# %% tags=["slide-more"]
off = {beta: errors(beta) for beta in (0.5, 0.8, 0.9, 0.95, 0.99)}


def forgetful(beta):
    """Error of the gradient and share of the memory against the length of a chunk."""
    curves = {"error of the gradient": off[beta], "memory": [k / T for k in chunks]}
    marks = {"1 / (1 - β)": 1 / (1 - beta)} if beta < 0.98 else {}
    look = {"x_title": "k, steps per chunk", "y_title": "share of the whole", "log": "x", "marks": marks}
    title = f"β = {beta}: with chunks of 8 steps, the gradient is off by {off[beta][3]:.0%}"
    return figures.lines(curves, x=chunks, title=title, **look)


viz.show(viz.frames(forgetful, "β", list(off), start=1))
outcome("memory_precision_batching.g", f"for β = {min((0.5, 0.99), key=lambda beta: off[beta][3])}")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# A membrane remembers about $1/(1-\beta)$ steps. A chunk must be ten times as long or more before
# the gradient is nearly exact. The error is not noise that averages out. It is a *bias*: in every batch, only late causes
# contribute to the gradient. For a sequence that is too long for any other method it is still the only way. For a
# stream that never ends it is the right one.
#
# </details>
#
# ## 5 · A large batch in small parts
#
# Suppose that a batch of 128 does not fit, but 32 do. Gradients add up by themselves (`backward()` adds to `.grad`). So
# four times forward and backward give the gradient of 128, before one step of the optimizer, if each part has the right
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
images, labels = data.to_device(*(part[:128] for part in data.load("digits")), where)  # they come with the kit
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
        grads = []
        alive = device.timeline(lambda size=size, norm=norm, out=grads: out.append(accumulated(size, norm)))
        error = ((grads[0] - whole).norm() / whole.norm()).item()
        kind = "with" if norm else "no"
        print(f"{kind:4} batch norm, {size:3} at a time: peak {max(alive) / MB:5.2f} MB, gradient off by {error:.0e}")

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
# Halving the bytes per number is the oldest way to save memory. A floating-point number is a sign, an exponent, and
# binary digits, of which the first is always 1 and not stored:
#
# | | bits: sign + exponent + digits | digits with the first | largest | distance of neighbours at 1 |
# |---|---|---|---|---|
# | float32 | 1 + 8 + 23 | 24 | $3 \cdot 10^{38}$ | $1.2 \cdot 10^{-7}$ |
# | bfloat16 | 1 + 8 + 7 | 8 | $3 \cdot 10^{38}$ | $7.8 \cdot 10^{-3}$ |
# | float16 | 1 + 5 + 10 | 11 | 65504 | $9.8 \cdot 10^{-4}$ |
#
# **Explorer: three number lines.** The dashed line is your number. A tick is a number that the format can represent
# (more than 200 of them are a bar). The diamond is the value to which yours is rounded. Start near 1, then go with
# `power` to 10⁻⁸ and to 10⁵.
#
# 1. Which format has finer ticks near 1, and which still has ticks at 10⁻⁸?
# 2. Set `digits` to 1.0 and `power` to 0. The ticks on the left are closer than those on the right. Why?

# %%
viz.explorers.number_lines()

# %% [markdown] tags=["slide"]
# **Predict first.** Four small programs in three formats. Where does each fail? The card asks for the last: 0.001, added
# up a thousand times.

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
print(" " * 25 + "".join(f"{str(dtype).removeprefix('torch.'):>12}" for dtype in FORMATS))
for name, program in programs.items():
    print(f"{name:25}" + "".join(f"{program(dtype).item():12.5g}" for dtype in FORMATS))
worst = max(FORMATS, key=lambda dtype: abs(added_up(dtype).item() - 1))
outcome("memory_precision_batching.h", str(worst).removeprefix("torch."))

# %% tags=["slide"]
magnitude = 2.0 ** torch.arange(-40, 27, dtype=torch.float64).numpy()
relative = {}
for dtype in FORMATS:
    gap = figures.spacing(magnitude, dtype)
    fits = gap <= magnitude
    relative[str(dtype).removeprefix("torch.")] = (magnitude[fits], gap[fits] / magnitude[fits])
sizes = torch.cat([g.flatten() for g in reference]).abs()
middle = {"median gradient": sizes[sizes > 0].median().item()}  # of the convolutional network of section 2
look = {"x_title": "size of a number", "y_title": "distance of neighbours, relative", "log": "xy", "marks": middle}
viz.show(figures.lines(relative, title="bfloat16 has the range of float32, float16 the finer resolution", **look))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - float16 *ends*: to the right above 65504, to the left below 6 · 10⁻⁸, and it gets coarse below 6 · 10⁻⁵. The terms
#   of a gradient are in this range (notebook 12). Summed over a batch, as here, they are larger. So with float16 the
#   loss is multiplied by a large number before backward, and the gradients are divided by it afterwards (`GradScaler`).
# - bfloat16 has the range of float32 and is coarse everywhere. It fails when you add something small to something
#   large: a weight and its update, a membrane and its input (notebook 10, section 8). Both must stay in float32.
#
# </details>
#
# This is **mixed precision** [4]: matrix products and convolutions in 16 bits; weights, optimizer, membranes and losses
# in float32. `device.accelerate` chooses what suits the device, and says why:

# %%
print("\n".join(device.accelerate(models.mlp((784, 1000, 10)), device=DEVICE).reasons), end="\n\n")
for dtype in (torch.float32, torch.bfloat16):
    with torch.autocast(where.type, dtype, enabled=dtype != torch.float32):
        taken = device.training_step(net, spikes_in.to(dtype))
    print(f"{str(dtype).removeprefix('torch.'):9} held {taken.held / MB:5.2f} MB, peak {taken.peak / MB:5.2f} MB")

# %% [markdown] tags=["slide"]
# ## 7 · When does a GPU pay?
#
# A GPU is like a factory: it makes a million pieces at a time, and each delivery takes some time, however small it is.
# The time as a function of the batch is
#
# $$t(B) = t_0 + \frac{B}{r}, \qquad \text{samples per second} = \frac{B}{t_0 + B/r}, \tag{2}$$
#
# with the *overhead* $t_0$ in seconds (Python, launching kernels; it does not depend on $B$) and the *rate* $r$ that
# the device reaches when it is fully used. Below $B = t_0 r$ you mostly wait for overhead. Two devices have two such
# curves, and the GPU pays from the point where they cross.
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
    first, last = 4, max(t)  # a smaller batch runs in another engine and is not on the line
    rate = (last - first) / (t[last] - t[first])
    overhead = max(t[first] - first / rate, 1e-6)
    fits[name] = overhead, rate
    print(f"{name}: " + ", ".join(f"batch {b}: {s * 1e3:.1f} ms" for b, s in t.items()))
    print(
        f"     overhead {overhead * 1e3:.1f} ms, rate {rate:,.0f} samples/s, half of it at batch {overhead * rate:.0f}"
    )
outcome("memory_precision_batching.i", t[64] / t[4])

# %% tags=["slide"]
others = [records.load(name) for name in records.names("demo")]
viz.show(figures.device_rates([mine, *others]))
for record in others:
    print(heading(record), end="\n\n")

# %% tags=["slide"]
batch = batches[-1]
rates = {name: {"rate": batch / (t0 + batch / r) / 1e3} for name, (t0, r) in fits.items()}
bars = {"this CPU": rates["cpu"], "this GPU": rates.get("cuda", {})}
for record in map(records.load, records.names("training")):
    rows = [row for row in record["rows"] if (row["net"], row["library"], row["dtype"]) == ("mlp", "snnkit", "float32")]
    best = max(row["batch"] / row["median_s"] for row in rows)
    bars[f"recorded: {record['provenance']['device']['name']}"] = {"rate": best / 1e3}
viz.show(figures.shares(bars, "thousand images/s", title=f"Training, 784-1000-10, batches of {batch} (recorded: 128)"))

# %% [markdown]
# **What runs where, and why.** Notebook 04 has these bars for one update. Here they are for the largest batch that the
# cell measures.
#
# <details>
# <summary><b>What to notice</b></summary>
#
# Sixteen times the samples take less than sixteen times as long: below $B = t_0 r$ you pay for
# overhead, not for arithmetic.
#
# </details>
#
# **Explorer: the crossing.** The CPU's curve is yours. The other belongs to a device of your choice. (If you have a GPU,
# it starts with the measured values.) What moves the crossing more, less overhead or a higher rate? CUDA graphs
# (notebook 12) launch a whole training step at once. What would they change?

# %%
viz.explorers.crossing(fits["cpu"], fits.get("cuda"))

# %% [markdown] tags=["slide"]
# ## 8 · Out of memory: a drill
#
# Sooner or later you run out of memory, so practise it now. `device.memory_limit` makes any device small: beyond the
# limit, new tensors raise the error that a full GPU raises. We classify all 355 test images within 2 MB.
#
# ### Exercise 13.3 · When memory runs out (7 minutes, ●●○)
#
# Two errors say that memory has run out: PyTorch's `torch.OutOfMemoryError`, and Python's `MemoryError`. The neurons of
# the kit raise the second, with advice. Catch them, halve the batch, and continue from where you were. No sample may be
# lost, done twice or out of order. When even one sample is too much, let the error pass. Stuck? `hint("memory_precision_batching.3")`.


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
tried.clear()
with device.memory_limit(2_000_000):
    counts = in_halves(read, exam, size=256)
print("batches tried:", *tried)
print("the same counts as without a limit:", torch.equal(counts, expected_counts))

# %% [markdown]
# The library has this as `device.batch_process`, for any model, function and nested results, with a progress bar. With
# `batch_size="auto"` it looks at the free memory first. It also avoids a pitfall: an exception keeps the failed call
# alive, with all its tensors. On a full device this is exactly the memory that the next attempt needs. So it leaves the
# `except` block before it tries again, and calls `gc.collect()`.


# %%
def spike_counts(model, batch):
    return model(encode.repeat(batch, 16))[0].sum(0)


with warnings.catch_warnings(record=True) as said, device.memory_limit(2_000_000):
    counts = device.batch_process(reader, exam, spike_counts, batch_size=256)
print(*(f"warning: {one.message}" for one in said), sep="\n")
print("the same counts:", torch.equal(counts, expected_counts))
try:
    with warnings.catch_warnings(record=True), device.memory_limit(5_000):
        device.batch_process(reader, exam[:2], spike_counts, batch_size=2, progress=False)
except MemoryError as error:
    print("and in 5 kB, MemoryError:", str(error).partition(". ")[0])

# %% [markdown]
# Two more tools for everyday use. `move_tensors_to_device` moves all tensors in any nested structure (notebook 10 built
# one for states). `get_gpu_memory_usage` says how full the device is or, on a CPU, how much memory this process uses.

# %%
nested = {"net": reader, "state": reader(encode.repeat(exam[:2], 16))[1], "batches": [(exam[:2], "two images")]}
moved = device.move_tensors_to_device(nested, where)
print("moved:", {name: type(part).__name__ for name, part in moved.items()})
print(device.get_gpu_memory_usage(where))

# %% [markdown] tags=["slide"]
# ## 9 · What broke?
#
# A colleague's training runs for an hour and uses half of the memory. Then the test set causes *out of memory*,
# although nothing is trained there, the batches have the same size and each fits. Below is the loop.
#
# **Predict first.** Read the loop. What does `total` hold after ten batches?

# %%
predict("memory_precision_batching.j")


# %% tags=["slide"]
def test_loss(model, forward):
    """Mean loss over the test set, and the bytes alive after each batch."""
    test_images, test_labels = data.to_device(*data.load("digits", "test"), where)
    alive, total = [], 0.0
    with device.MemoryTracker() as tracker:
        for x, y in data.batches(test_images, test_labels, 32, shuffle=False):
            total = total + len(y) * forward(model, data.to_unit(x).flatten(1), y)
            alive.append(tracker.live / MB)
    return total.item() / len(test_labels), alive


def as_he_wrote_it(model, x, y):
    out, _ = model(encode.repeat(x, 16))
    return loss.count_cross_entropy(out, y)


repaired = torch.no_grad()(as_he_wrote_it)
curves = {}
for name, forward in {"as he wrote it": as_he_wrote_it, "with torch.no_grad()": repaired}.items():
    mean, curves[name] = test_loss(reader, forward)
    print(f"{name:21} loss {mean:.4f}, alive after the last batch: {curves[name][-1]:6.2f} MB")
look = {"x_title": "batch", "y_title": "alive (MB)"}
viz.show(figures.lines(curves, title="With a graph for each batch, memory grows without end", **look))
grows = curves["as he wrote it"][-1] > 5 * curves["as he wrote it"][0]
outcome("memory_precision_batching.j", "a number and the graphs of all ten batches" if grows else "only a number")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# `total` is a tensor with a history. Each loss holds the graph of its batch, and the graph holds everything that backward
# would need. Backward, which would free it, never runs. In training the same line does little harm, since backward
# frees the graph. The fix is `torch.no_grad()` around the loop (`train.evaluate` has it), and `float(loss)` or
# `loss.item()` wherever you only need the number. The same is true for *state* that is carried from batch to batch:
# without `nn.detach`, its history grows for ever.
#
# </details>
#
# ## 10 · A vector engine of spikes
#
# Semantic search turns words into vectors, and similar words into near vectors. Usually these vectors are dense: every
# word uses every component. Spikes can do this sparsely. In `text.SpikingEmbedding`, a word drives a row of leaky
# neurons for 16 steps, and its vector is the firing rate of each of them. Surrogate gradients teach the input currents,
# so that the rates of a word predict which words occur near it [3].
#
# A small grammar makes the text, with words of six kinds (animals, food, cities, …). The training never uses the kinds.
#
# **Predict first.** *the dog sleeps in the stable*, *the cow rests in the barn*: will the nearest neighbour of `dog` be
# a word like `cow`, or a word like `sleeps`?

# %%
predict("memory_precision_batching.k")

# %% tags=["slide"]
train.seed_everything(SEED)
sentences = text.corpus(seed=SEED, sentences=2500 if QUICK else 6000)
vocabulary = text.Vocabulary.build(sentences)
embedding = text.SpikingEmbedding(vocabulary, features=32 if QUICK else 64, steps=16)
words = [word for group in text.GROUPS.values() for word in group]
before = text.agreement(embedding)
embedding.fit(sentences, epochs=4 if QUICK else 8, seed=SEED, device=where)
after = text.agreement(embedding)
print(f"{len(sentences)} sentences, {len(vocabulary)} words; for example: {sentences[0]!r}")
print(f"neighbours of the same kind: {before:.0%} before, {after:.0%} after training")
for word in ("dog", "paris", "violin", "ate"):
    print(f"{word:7}", ", ".join(f"{other} {cosine:.2f}" for other, cosine in embedding.most_similar(word, 5)))
nearest, _ = embedding.most_similar("dog", 1)[0]
kind = next((kind for kind, group in text.GROUPS.items() if nearest in group), "other")
outcome(
    "memory_precision_batching.k",
    "another animal, like cow" if "dog" in text.GROUPS.get(kind, ()) else "a word beside it, like sleeps",
)

# %% tags=["slide"]
directions = torch.nn.functional.normalize(embedding.vectors(words).cpu().float(), dim=1)
cosines = figures.panels(1, 1).add_heatmap(z=directions @ directions.T, x=words, y=words, colorscale=viz.theme.INK)
cosines.update_layout(title_text="Words that were trained as spikes: cosine of each pair", height=640)
viz.show(cosines.update_xaxes(title="word").update_yaxes(title="word"))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The blocks on the diagonal are the six kinds, which were not given in training. Words of one kind
# occur in the same *contexts*, and the model learned only that. It does not know what a dog is. A sentence gets the
# mean of its words:
#
# </details>

# %%
questions = ["the hungry wolf", "a song for flute", "the weather in tokyo"]
for question, nearest in zip(questions, embedding.nearest(embedding.sentence_vectors(questions), 4), strict=True):
    print(f"{question:22} → {', '.join(word for word, _ in nearest)}")

# The answers are words, and a mean mixes kinds: an adjective or a verb may be nearer than the noun.
spikes = embedding.sparse("the dog ate the soup")
print(f"\n{spikes}")
numbers = torch.Size(spikes.shape).numel()
for name, count in {"float32": 4 * numbers, "bits": -(-numbers // 8), "events": spikes.bytes}.items():
    print(f"{name:8} {count:6} bytes")

# %% [markdown]
# These are three ways to store the same spikes. An *event* is the number of a neuron that fired, two bytes. Each step of
# each word costs four more, to say where its events begin. Compared with float32 this saves memory at nearly any rate.
# Compared with bits it does so only if far fewer than one in sixteen neurons fires: here the bits win. But events save
# work, too. A spike times a weight is the weight: `spikes.linear(weight)` adds up columns and needs no multiplication.
#
# It can be saved and loaded like any module:

# %%
with tempfile.TemporaryDirectory() as folder:
    path = embedding.save(f"{folder}/words.pt")
    print(f"saved: {path.stat().st_size:,} bytes")
    again = text.SpikingEmbedding.load(path, map_location=where)
print("the same neighbours:", again.most_similar("dog", 5) == embedding.most_similar("dog", 5))

# %% [markdown] tags=["slide"]
# ## 11 · Multiply only where there is a spike
#
# The bill so far was memory. The other bill is time, and most of it goes to the products between the layers. A layer of
# $O$ neurons weighs each of its $I$ inputs, for $B$ samples, at each of $T$ steps. But if a share $\rho$ of the inputs are
# spikes, the others are 0, and adding 0 times a weight changes nothing:
#
# $$\underbrace{T\,B\,I\,O}_{\text{dense: multiply and add}} \quad\text{against}\quad
# \underbrace{\rho\,T\,B\,I\,O}_{\text{by spikes: add}} \tag{3}$$
#
# What is left is not even a multiplication: a spike times a weight is the weight. So each spike adds one column of the
# weights, all $O$ of them, to the sum of its sample.
#
# ### Exercise 13.4 · The product by spikes (8 minutes, ●●○)
#
# `places` has a list for each sample: the numbers of the inputs that fired. `weight` is $[O, I]$. Return the product
# $[B, O]$, and how many additions it took. Stuck? `hint("memory_precision_batching.4")`.


# %% tags=["exercise"]
def by_spikes(places, weight):
    """The product [B, O] of spikes, given by their places, with weights [O, I]; and the number of additions."""
    out = torch.zeros(len(places), weight.shape[0])
    for sample, columns in enumerate(places):
        for i in columns:
            ...  # add to out[sample] what a spike of input i sends
    additions = ...  # of all spikes together
    return out, additions


by_spikes = attempt("memory_precision_batching.4", by_spikes)

# %%
few = (torch.rand(64, 784) < 0.05).float()
dense_weight = torch.randn(100, 784)
product, additions = by_spikes([row.nonzero().flatten().tolist() for row in few], dense_weight)
print("the same product:", torch.allclose(product, few @ dense_weight.t(), atol=1e-4))
print(f"{additions:,} additions in place of {64 * 784 * 100:,} multiplications and additions")

# %% [markdown]
# With 5 % spikes it is a twentieth of the work. Does it take a twentieth of the time? A processor is built for dense
# products: it multiplies and adds 8 or 16 numbers at once, one after the other in memory, and never has to look where
# the next one is. A list has to be made, and the columns that it names lie anywhere.
#
# The kit has your function in C++, forward and backward. Next, 1000 neurons with 1000 inputs, both ways, with more and
# more spikes.
#
# **Predict first.** Up to which share of spikes is the sum by spikes faster, on your processor?

# %%
predict("memory_precision_batching.l")

# %% tags=["slide"]
layer = nn.Sequential(torch.nn.Linear(1000, 1000))
percent = (0.5, 1, 2, 5, 10, 20, 30, 40, 50)
milliseconds = {"dense": [], "by spikes": []}
for share in percent:
    x = (torch.rand(25, 32 if QUICK else 128, 1000) < share / 100).float()
    listed = data.events.EventList.of(x)  # the places of its spikes, made before the clock starts
    with torch.no_grad(), nn.dense_products():
        ways = {"dense": lambda x=x: layer(x), "by spikes": lambda x=listed: layer(x)}
        for way, timing in measure.race(ways, repeats=5).items():
            milliseconds[way].append(timing.median * 1e3)
pairs = list(zip(percent, milliseconds["dense"], milliseconds["by spikes"], strict=True))
pays = max((share for share, dense_ms, spikes_ms in pairs if spikes_ms < dense_ms), default=0)
for share, dense_ms, spikes_ms in pairs:
    print(f"{share:4} % spikes: dense {dense_ms:5.1f} ms, by spikes {spikes_ms:5.1f} ms")
outcome("memory_precision_batching.l", pays)


# %% tags=["slide"]
def time_at(share):
    """Both curves, and what the share of spikes on the slider means in operations."""
    additions = 1000 * 1000 * share / 100 / 1e3
    axes = {"x_title": "% of the inputs that are spikes", "y_title": "ms", "log": "xy"}
    title = f"1000 → 1000: {additions:,.0f} thousand additions a sample and step, dense 1,000 thousand"
    return figures.lines(milliseconds, x=percent, title=title, marks={f"{share:g} %": share}, **axes)


viz.explore(time_at, share=(0.5, 50.0, 0.5))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The dense product takes the same time for any input: it multiplies the zeros, too. By spikes, the time grows with the
#   spikes. On a logarithmic scale the two curves cross.
# - The gain is less than $1/\rho$. At 1 % there is a hundredth of the operations, but it takes more than a hundredth of the
#   time. What is left is reading the weights and writing the sums, which do not shrink with the spikes.
# - A network like yours fires in 1 to 10 % of all places (the firing rates of notebook 04). This is where it pays.
#
# </details>
#
# So it must be decided call by call. `nn.Sequential` does: it looks at a few rows of the input, counts, and takes the
# faster way. `explain` shows what it took, and why:

# %%
easily = neuron.LIF(v_threshold=0.15)  # its weights are not trained, so its inputs are small
hidden = nn.Sequential(torch.nn.Linear(784, 1000), easily, torch.nn.Linear(1000, 1000), neuron.LIF())
sparse_input = (torch.rand(25, 128, 784) < 0.05).float()
for row in snnkit.engine.explain(hidden, sparse_input).products:
    print(f"layer {row.layer}: by {row.way}: {row.reason}")

# %% [markdown]
# **What breaks it?** Change `sparse_input` and run the cell again: counts (`* 2`), grey values
# (`torch.rand(25, 128, 784)`), a batch of one. Each time the reason changes, and the result never does, but for the last
# digits: a sum in another order is rounded differently.

# %% [markdown]
# ## Quiz

# %%
quiz("memory_precision_batching")

# %%
scorecard("memory_precision_batching")

# %% [markdown]
# ## Where next
#
# You can now use one device well. **[15 · Scaling out with Lightning](15_scaling_out.ipynb)** uses several devices, and
# a cluster with a job queue.
#
# Meanwhile: `snnkit bench demo --model all` draws the curves of section 7 for every model of the kit, and
# `device.explain_memory` works on your own network.
#
# **Worth reading**
#
# 1. T. Chen, B. Xu, C. Zhang, C. Guestrin, *Training deep nets with sublinear memory cost* (2016).
#    [arXiv:1604.06174](https://arxiv.org/abs/1604.06174)
# 2. A. Griewank, *Achieving logarithmic growth of temporal and spatial complexity in reverse automatic differentiation*, Optimization Methods and
#    Software 1 (1992). [doi:10.1080/10556789208805505](https://doi.org/10.1080/10556789208805505)
# 3. T. Mikolov, I. Sutskever, K. Chen, G. Corrado, J. Dean, *Distributed representations of words and phrases and their compositionality*, NeurIPS (2013).
#    [arXiv:1310.4546](https://arxiv.org/abs/1310.4546)
# 4. P. Micikevicius et al., *Mixed precision training*, ICLR (2018). [arXiv:1710.03740](https://arxiv.org/abs/1710.03740)
# 5. R. J. Williams, J. Peng, *An efficient gradient-based algorithm for on-line training of recurrent network trajectories*, Neural Computation 2 (1990), on
#    truncation. [doi:10.1162/neco.1990.2.4.490](https://doi.org/10.1162/neco.1990.2.4.490)
