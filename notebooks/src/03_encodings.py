# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/03_encodings.ipynb)

# %% [markdown] tags=["slide"]
# # 03 · Turning the world into spikes
#
# Cameras, microphones and spreadsheets deliver numbers. A spiking neuron understands only events in time. So you must
# choose how a number becomes a few spikes, and that fixes how long you wait and how many spikes you pay.
#
# **Afterwards you can**
#
# - turn images into spikes in four ways, and decode them again;
# - predict how the error of each code shrinks with the number of time steps $T$, and what that costs in spikes;
# - code a signal by its changes;
# - recognise three mistakes that ruin a spiking network before its first layer.
#
# | | |
# |---|---|
# | Time | 65 minutes, and 10 more for the optional part |
# | GPU minutes | 0 |
# | Before this | 01 neuron |

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
QUICK: bool = True  # small sizes: seconds on a laptop
SOLVE: bool = False  # use the reference solutions of the exercises
SEED: int = 0  # the seed of every random number
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
DATASET: str = "digits"  # always available, and what the text is about; "mnist" and "fashion" if you have them

# %%
import torch

from snnkit import data, encode, neuron, nn, train
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.data import events
from snnkit.lab.viz import figures


def ten_images(name):
    """Of each class the image nearest to the mean of its class [10, N], the mean images [10, N], the side of an image."""
    images, labels = data.load(name)
    flat = data.to_unit(images).flatten(1)
    means = torch.stack([flat[labels == digit].mean(0) for digit in range(10)])
    distance = torch.cdist(means, flat).masked_fill(labels != torch.arange(10).unsqueeze(1), torch.inf)
    return flat[distance.argmin(1)], means, images.shape[-1]


def look(code, read, digit, title):
    """A figure of a digit, its spikes, and the decoded image."""
    spikes = code(x)[:, digit]
    return figures.coded_image(x[digit].view(side, side), spikes, read(spikes).view(side, side), title)


def heartbeat(time):
    """The waves P, Q, R, S and T of two beats, and the breath."""

    def bump(height, centre, width):
        return sum(height * torch.exp(-(((time - beat - centre) / width) ** 2) / 2) for beat in (0.4, 1.2))

    waves = bump(0.12, -0.18, 0.025) + bump(-0.12, -0.03, 0.010) + bump(1.0, 0.0, 0.012)
    return waves + bump(-0.22, 0.032, 0.012) + bump(0.28, 0.24, 0.045) + 0.15 * torch.sin(2 * torch.pi * 0.6 * time)


train.seed_everything(SEED)
course.start("encodings", solve=SOLVE)
device = data.resolve_device(DEVICE)

# %% [markdown] tags=["slide"]
# ## Four codes
#
# ![Three pixels, bright, medium and dark, in four codes. Latency: one spike each, the brighter the earlier. Rate: many random spikes, the brighter the more. A neuron per pixel: a membrane that charges and fires at even times, the brighter the more often. Direct: a constant number.](drawings/encodings.svg)
#
# A *latency code* puts the brightness of a pixel into the time of its one spike. A *rate code* puts it into the number of
# spikes: random ones, or the even ones of a neuron per pixel. *Direct coding* sends the number itself.
#
# How many steps until *you* can read the digits from random spikes: 2, 8, 32 or 128? Decide, then move the slider. (The
# decoded latency code is beside it.)

# %% tags=["slide"]
x, means, side = ten_images(DATASET)  # x: [10, N], brightness in [0, 1], one typical image of each class
generator = torch.Generator().manual_seed(SEED)
some = x[[0, 3, 4, 8]]
random_spikes, timed = encode.poisson(some, 128, generator=generator), encode.latency


def after(steps):
    """The four images, each with what two codes have sent of it after so many steps."""
    early = timed(some, steps, linear=True)
    latency = torch.where(early.any(0), 1 - early.argmax(0) / max(steps - 1, 1), 0.0)
    decoded = torch.stack([some, random_spikes[:steps].mean(0), latency], dim=1).view(12, side, side)
    title = f"T = {steps}: {random_spikes[:steps].sum((0, 2)).mean():.0f} random spikes per image"
    return figures.image_grid(decoded, labels=["image", "random", "latency"] * 4, columns=6, title=title)


viz.show(viz.frames(after, "T", [1, 2, 4, 8, 16, 32, 64, 128], start=3))

# %% [markdown]
# Images arrive as whole numbers from 0 to 255. Every encoder here wants **brightness in [0, 1]** (0 is
# black, 1 is white). So divide once, right after loading: `data.to_unit`.

# %% [markdown] tags=["slide"]
# ## 1 · The time of a spike: the latency code
#
# **The brighter, the earlier**, with one spike each. Of $T$ steps, a pixel of brightness $x$ spikes at step
#
# $$ t(x) = \mathrm{round}\big((1 - x)\,(T - 1)\big), \qquad x \ge \theta, $$
#
# counted from 0. Pixels darker than the threshold $\theta = 0.01$ stay silent. Cells of the retina do something similar:
# the time of their first spike carries much of the information about the image (Gollisch & Meister 2008).

# %% [markdown] tags=["slide-more"]
# **Predict first.** Half of a digit's 64 pixels are 0. How many spikes does it cost with $T = 16$? And with $T = 64$?

# %%
predict("encodings.a")
predict("encodings.b")

# %% [markdown]
# ### Exercise 03.1 · Latency: the brighter, the earlier (8 minutes, ●●○)
#
# Write the encoder. Which step does $x = 1$ get, which step the weakest pixel? What shape does the result have? Does it
# still work if `x` is float64, has five axes, or is on a GPU? (`hint("encodings.1")` and `solution("encodings.1")` help.)


# %% tags=["exercise"]
def latency_encode(x, steps, threshold=0.01):
    """At most one spike per pixel, the brighter the earlier.

    x: [B, ...] in [0, 1]. Returns spikes [steps, B, ...] of 0 and 1, in the dtype and on the device of x.
    """
    return ...


latency_encode = attempt("encodings.1", latency_encode)

# %% [markdown]
# A code is as good as what a decoder can recover. A spike at step $t$ means $\hat x = 1 - t/(T-1)$, no spike means
# $\hat x = 0$.


# %% tags=["slide"]
def read_latency(spikes):
    """Spikes [T, ...] with at most one per pixel -> brightness [...]."""
    steps = spikes.shape[0]
    when = spikes.argmax(0).float()
    return torch.where(spikes.any(0), 1 - when / max(steps - 1, 1), 0.0)


viz.show(
    look(lambda x: latency_encode(x, 16), read_latency, 3, "Latency: one spike per lit pixel, the bright ones first")
)
lit, short, long = int((x[3] >= 0.01).sum()), latency_encode(x, 16)[:, 3], latency_encode(x, 64)[:, 3]
print(f"{lit} of {x.shape[1]} pixels are lit; spikes: {short.sum():.0f} with T = 16, {long.sum():.0f} with T = 64")
outcome("encodings.a", 1 if short.sum() == lit else 0)
outcome("encodings.b", 1 if long.sum() == short.sum() else 0)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The raster has one row per pixel, from the top left corner of the image downwards. The strokes, white, spike first and
# their grey edges last. The number of spikes is the number of pixels that are not blank, and **it does not depend on
# $T$**. The only error is the rounding to the nearest step, at most $\tfrac{1}{2(T-1)}$.
#
# </details>

# %% [markdown] tags=["slide"]
# ### A pitfall: the logarithm
#
# The linear formula is a simplification. A leaky membrane, charged by a constant input $x$, crosses its threshold at
#
# $$ t(x) = \tau \ln \frac{x}{x - \theta} \qquad (\tau \text{ in steps}). $$
#
# `encode.latency` uses this logarithm unless you pass `linear=True`. It stretches the times so that the weakest pixel that
# can spike does so at the last step.

# %% [markdown] tags=["slide-more"]
# **Predict first.** With this formula, $\theta = 0.01$ and $T = 16$: at which steps do the digit's pixels spike?

# %%
predict("encodings.c")

# %%
when = encode.latency(x, 16)[:, 3].nonzero()[:, 0]
title = f"With the logarithm, all spike by step {when.max()} of 15: few shades are left"
viz.show(look(lambda x: encode.latency(x, 16), read_latency, 3, title))
outcome("encodings.c", 0 if when.max() == 0 else 2 if when.min() > 8 else 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# All spike at step 0. The logarithm uses its steps for brightness just above the threshold: everything above
# $x \approx 0.03$ falls into the first step. The shades are gone, and there is no error message. **Look at the raster
# before you train**, and use `encode.latency(x, T, linear=True)` for images: your `latency_encode`.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 2 · The number of spikes: the rate code
#
# The stronger the stimulus, the more spikes per second (Adrian and Zotterman 1926). Each pixel spikes at each step with
# the probability $x$, its brightness:
#
# $$ s[t] \sim \mathrm{Bernoulli}(x), \qquad \hat x = \frac{1}{T}\sum_{t=1}^{T} s[t] $$
#
# $$ \text{error (RMS)} = \sqrt{\frac{x\,(1-x)}{T}} $$

# %% [markdown]
# This is the oldest code. It is called the Poisson code, because independent draws approach a Poisson process when the
# steps become short. The decoder counts spikes. (RMS is the root mean square.)
#
# ### Exercise 03.2 · Poisson: brightness as probability (5 minutes, ●○○)
#
# One line is enough. The important word is *independent*: each step, each image and each pixel needs a separate draw.
# The `generator` makes the draws repeatable: pass it on.


# %% tags=["exercise"]
def poisson_encode(x, steps, generator=None):
    """A spike at each step with probability x.

    x: [B, ...] in [0, 1]. Returns spikes [steps, B, ...] of 0 and 1, in the dtype and on the device of x.
    """
    return ...


poisson_encode = attempt("encodings.2", poisson_encode)

# %% [markdown]
# Here is the same digit in Poisson spikes.


# %% tags=["slide"]
def read_rate(spikes):
    """Spikes [T, ...] -> spikes per step [...]."""
    return spikes.float().mean(0)


viz.show(
    look(
        lambda x: poisson_encode(x, 16, generator),
        read_rate,
        3,
        "Poisson: the brighter, the more spikes, at random times",
    )
)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The image comes out of the noise, and the last noise disappears slowly: go back to the first slider.
# The error falls with $1/\sqrt T$, so each halving costs **four times** the steps. Middle values are the noisiest
# ($x(1-x)$ is largest at ½). The latency code is rough below $T = 4$, and accurate soon after.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 3 · Two more codes: a neuron per pixel, and direct coding
#
# **Constant current.** Each pixel gets its own leaky integrate-and-fire neuron with the input $g\,x$:
#
# $$ v \leftarrow v + \frac{1}{\tau}\,(g\,x - v) \qquad (\tau = 10 \text{ steps}) $$
#
# $$ s = 1 \text{ and } v \leftarrow 0 \text{ where } v > \theta = 1 $$
#
# **Direct coding.** The first layer receives $x$ itself, at every step.

# %% [markdown]
# The first is a rate code without randomness: one spike about every $\tau \ln \frac{g x}{g x - 1}$ steps, which the decoder
# inverts. The price is a dead zone: where $g\,x \le 1$, the leak wins and the pixel never spikes. With direct coding
# (`encode.repeat`) the neurons of the first layer make the spikes, and training shapes them. Most deep spiking networks
# get their input in this way today.

# %% tags=["slide"]
GAIN = 4.0  # g: pixels darker than 1 / GAIN are in the dead zone
BETA = 0.9  # 1 - 1 / tau: the part of the membrane that is left after one step


def lif_encode(x, steps):
    return encode.constant_current_lif(GAIN * x, steps)


def read_lif(spikes):
    """Invert the rate of a neuron that integrates a constant input for `period` steps before it fires."""
    rate = read_rate(spikes)
    period = 1 / rate.clamp(min=1e-9) - 0.5  # it crossed the threshold at some point within the last step
    current = 1 / (1 - BETA ** period.clamp(min=0.3))
    return torch.where(rate > 0, (current / GAIN).clamp(max=1), 0.0)


viz.show(look(lambda x: lif_encode(x, 32), read_lif, 3, "A neuron per pixel: even intervals; the darkest stay silent"))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The LIF raster is regular where the Poisson raster was random. The faint edges of the digit are
# missing: they are in the dead zone.
#
# </details>

# %% [markdown]
# **Listen** to two pixels, a medium one and a bright one, as Poisson trains and as LIF neurons, 20 ms a step.

# %%
two, chance = torch.tensor([[0.4, 0.7]]), torch.Generator().manual_seed(SEED)  # a medium and a bright pixel
poisson, regular = encode.poisson(two, 200, generator=chance, max_rate=0.25), lif_encode(two, 200)
audible = {"Poisson, medium": poisson[:, 0, 0], "Poisson, bright": poisson[:, 0, 1]}
viz.listen(audible | {"LIF, medium": regular[:, 0, 0], "LIF, bright": regular[:, 0, 1]}, seconds_per_step=0.02)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The Poisson trains crackle like rain on a roof; the LIF trains tick. In a crackle you have to wait to
# be sure which one is faster: that is the price of randomness.
#
# </details>

# %% tags=["slide"]
first_layer = nn.Sequential(torch.nn.Linear(x.shape[1], 40), neuron.Leaky(BETA))
with torch.no_grad():
    out, _ = first_layer(2 * encode.repeat(x, 32))
viz.show(figures.raster(out[:, 3], title="Direct coding: the first layer makes the spikes"))

# %% [markdown]
# Direct coding is exact at any $T$, but it sends numbers, not spikes. So the first layer must multiply (only once, because
# the image stays the same). Its neurons have random weights, and yet every image gives a different raster.

# %% [markdown] tags=["slide"]
# ## 4 · Information against time
#
# For increasing $T$ we decode test images. How large is the error of the pixels (root mean square)? And is the digit still
# *recognised*? (A simple classifier: the nearest of the ten mean images.)
#
# **Predict first.** On clean images it gets nine digits in ten right. How many from **one** step of Poisson spikes? And
# the digits have 17 grey levels: what happens to the latency code at $T = 17$?

# %%
predict("encodings.d")
predict("encodings.e")

# %%
test_images, test_labels = data.load(DATASET, "test")
count, repeats = (355, 4) if QUICK else (1000, 12)
truth = data.to_unit(test_images[:count]).flatten(1).to(device)
target = test_labels[:count].to(device)
means = means.to(device)
draw = torch.Generator(device).manual_seed(SEED)
codes = {
    "Poisson": (lambda x, steps: poisson_encode(x, steps, draw), read_rate),
    "latency": (latency_encode, read_latency),
    "LIF neuron": (lif_encode, read_lif),
    "direct": (encode.repeat, read_rate),
}


def measured(name, steps):
    """Of a code at one T, over all test images: error, share recognised, spikes per image."""
    code, read = codes[name]
    decoded, spikes = [], 0.0
    for part in truth.split(100):
        sent = code(part, steps)
        spikes += sent.count_nonzero().item()
        decoded.append(read(sent))
    decoded = torch.cat(decoded)
    right = torch.cdist(decoded, means).argmin(1) == target
    return (decoded - truth).square().mean().sqrt().item(), right.float().mean().item(), spikes / len(truth)


# %% tags=["slide"]
lengths = [1, 2, 4, 8, 16, 17, 32, 64, 128] + ([] if QUICK else [256])
results = {}
for name in codes:
    draws = repeats if name == "Poisson" else 1  # only random codes need averaging
    rows = [[measured(name, steps) for _ in range(draws)] for steps in lengths]
    results[name] = torch.tensor(rows).mean(1)  # [lengths, (error, recognised, spikes)]

theory = (truth * (1 - truth)).mean().sqrt().item() / torch.tensor(lengths).sqrt()
errors = {name: (lengths, results[name][:, 0]) for name in ("Poisson", "latency", "LIF neuron")}
errors["√(x(1−x)/T)"] = (lengths, theory)
axes = {"x_title": "time steps T", "y_title": "error (RMS)", "log": "xy"}
viz.show(
    figures.lines(
        errors,
        title="The error of latency falls twice as steeply as Poisson's",
        faint=["√(x(1−x)/T)"],
        **axes,
    )
)
at_17 = results["latency"][lengths.index(17), 0] / results["latency"][lengths.index(16), 0]
outcome("encodings.e", 1 if at_17 < 0.2 else 2 if at_17 > 1 else 0)

# %% tags=["slide"]
right = {name: (lengths, 100 * results[name][:, 1]) for name in codes}
best = 100 * results["direct"][0, 1].item()
axes = {"x_title": "time steps T", "y_title": "recognised (%)", "log": "x", "between": (best - 20, best + 3)}
title = f"One step of Poisson spikes: {100 * results['Poisson'][0, 1]:.0f} % are recognised"
viz.show(figures.lines(right, title=title, **axes))
print(f"clean images: {best:.0f} % recognised; one step of Poisson spikes: {100 * results['Poisson'][0, 1]:.0f} %")
outcome("encodings.d", 100 * results["Poisson"][0, 1])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Poisson follows its law: a straight line of slope $-\tfrac12$ in the doubly logarithmic plot.
# - Latency falls with a slope of about $-1$: twice the steps, half the rounding. At $T = 17$ every grey level has its own step,
#   and the error drops to almost zero. A code that fits its data is better than a long one.
# - The LIF code flattens out: some pixels are in the dead zone, and bright ones fire every three, four or five steps, with
#   nothing in between.
# - **Recognising needs far less than reconstructing.** One step of Poisson spikes is enough for about five digits in six:
#   the errors of 64 pixels cancel in the distance to the mean. For this reason networks on MNIST get along with $T$ = 10
#   to 25.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 5 · Information against spikes
#
# Time is one cost, energy is the other: on *neuromorphic* hardware (chips built for spikes) the number of
# spikes counts.
#
# **Predict first.** Which code gives the most accurate image for at most 100 spikes?

# %%
predict("encodings.f")

# %% tags=["slide"]
names = ("Poisson", "latency", "LIF neuron")
spent = {name: (results[name][:, 2], results[name][:, 0]) for name in names}
spent = {name: (effort[effort > 0], error[effort > 0]) for name, (effort, error) in spent.items()}
axes = {"x_title": "spikes per image", "y_title": "error (RMS)", "log": "xy"}
viz.show(figures.lines(spent, title="Latency becomes exact without more spikes", **axes))
least = [min(error[effort <= 100], default=torch.inf) for effort, error in spent.values()]
print(
    "smallest error with at most 100 spikes:", {name: round(float(e), 4) for name, e in zip(names, least, strict=True)}
)
outcome("encodings.f", least.index(min(least)))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The latency curve is a vertical line: more steps, but the same number of spikes. The Poisson curve has its slope of
# $-\tfrac12$ again, here against the number of spikes.
#
# </details>

# %% [markdown] tags=["slide"]
# Now the energy in joules, for a first layer with $M$ neurons, $N$ pixels and $S$ spikes per image:
#
# $$ E_\text{dense} = N \cdot M \cdot 4.6\,\mathrm{pJ}, \qquad E_\text{spikes} = S \cdot M \cdot 0.9\,\mathrm{pJ} $$
#
# Spikes win where $S/N < 4.6/0.9 \approx 5$ **spikes per pixel**, all steps together.

# %% [markdown]
# A dense layer *multiplies and adds* for each pixel and each neuron. For a spike a weight is only *added*. In 45 nm silicon
# a 32-bit addition takes about 0.9 pJ and a multiplication 3.7 pJ (Horowitz 2014).

# %%
ADD, MULTIPLY, NEURONS = 0.9e-12, 3.7e-12, 128  # joules per operation; neurons in the first layer
dense = truth.shape[1] * NEURONS * (ADD + MULTIPLY)

print(f"{'code':12} {'T':>4} {'spikes/pixel':>13} {'error':>7} {'recognised':>11} {'energy':>10} {'of dense':>9}")
for name, steps in [("latency", 16), ("Poisson", 4), ("Poisson", 16), ("Poisson", 64), ("LIF neuron", 64)]:
    error, share, spikes = results[name][lengths.index(steps)].tolist()
    energy = spikes * NEURONS * ADD
    row = f"{name:12} {steps:4} {spikes / truth.shape[1]:13.2f} {error:7.3f} {share:11.1%} {energy * 1e9:7.1f} nJ"
    print(f"{row} {energy / dense:9.0%}")
print(f"{'dense':12} {1:4} {'':13} {0:7.3f} {results['direct'][0, 1]:11.1%} {dense * 1e9:7.1f} nJ {1:9.0%}")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# "Spiking" does not always mean "efficient". On the digits, sixteen Poisson steps save almost
# nothing, and sixty-four cost almost four times as much as the dense layer. The latency code saves nine tenths. What this
# estimate leaves out is in [notebook 04](04_train_your_first_network.ipynb), section 6.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 6 · Signals: send only what changes
#
# A spike *up* where the signal $x[t]$ rises by a threshold $\theta$ of its own, a spike *down* where it falls. The decoder
# adds up:
#
# $$\hat x[t] = \theta \sum_{t' \le t} s[t']$$

# %% [markdown]
# The pixels of an *event camera* work like this (Lichtsteiner et al. 2008): each sends an event when its brightness changes,
# and nothing while it stays the same. Here is a synthetic heartbeat, sampled at 1 kHz, on top of the slow wave of breathing.
# It has a steep peak (R), a low wide wave after it (T), and some small waves.

# %%
time = torch.arange(0, 1.6, 1e-3)  # seconds
heart = heartbeat(time)
look = {"x_title": "time (s)", "y_title": "signal", "title": "Two heartbeats: steep peaks, slow waves between them"}
viz.show(figures.lines({"signal": heart}, x=time, **look))

# %% [markdown] tags=["slide-more"]
# **Predict first.** `encode.delta` compares each sample with the one before. What will it send of a heartbeat?

# %%
predict("encodings.g")


# %% tags=["slide"]
def send_on_delta(signal, threshold):
    """Compare with the last value *sent*, not with the last sample. signal [T, ...] -> spikes −1, 0, 1 [T, ...]."""
    sent = torch.zeros_like(signal[0])
    spikes = torch.zeros_like(signal)
    for t, value in enumerate(signal):
        spikes[t] = ((value - sent) / threshold).trunc().clamp(-1, 1)
        sent = sent + threshold * spikes[t]
    return spikes


THETA = 0.05
sample_to_sample = encode.delta(heart.unsqueeze(1), threshold=THETA, off_spikes=True).squeeze(1)
spikes = {"delta": sample_to_sample, "with memory": send_on_delta(heart, THETA)}
read_back = {name: THETA * s.cumsum(0) for name, s in spikes.items()}
title = "Delta misses the slow waves; with a memory they come back"
viz.show(figures.traces({"signal": heart} | read_back, spikes, title=title).update_yaxes(title={"text": "signal"}))
for name, back in read_back.items():
    error = (back - heart).square().mean().sqrt()
    print(f"{name:12} {int(spikes[name].abs().sum()):4} spikes for {len(heart)} samples, error {error:.3f}")
at_peak = (time % 0.8 - 0.4).abs() < 0.05  # the peak R and the dips beside it
outcome("encodings.g", 0 if not sample_to_sample[~at_peak].any() else 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The sample-to-sample code sees the steep R wave and misses everything slow. The T wave rises by
# 0.28, but in steps far below 0.05, so nothing is sent. Sample twice as fast, and *nothing* is sent any more.
#
# </details>

# %% [markdown]
# The remedy is one line: compare with **the last value that was sent**, as an event camera does. The decoded signal is
# correct to within $\theta$ as long as it changes by no more than $\theta$ per step. (Try `THETA = 0.01`: finer, and yet
# worse. Why?)
#
# ### The event player (optional, 10 minutes)
#
# Here 16 × 16 such pixels view a digit, and the camera moves once round a small triangle, as for the data set N-MNIST
# (Orchard et al. 2015). Each pixel stores the *logarithm* of its brightness at its last event. It sends an event when the
# logarithm has risen (ON) or fallen (OFF) by `threshold`.
#
# **Predict first.** Which parts of the digit cause events? The camera ends where it began. Are there more ON or more OFF
# events in total?

# %%
predict("encodings.h")
predict("encodings.i")

# %% [markdown]
# Press *Play*, turn the cloud of events by dragging it, and drag the picture to move the camera yourself.

# %%
viz.explorers.event_player()

# %% [markdown]
# **Predict first.** With twice the threshold (0.4 for 0.2), how many events are left?

# %%
predict("encodings.j")

# %%
outcome("encodings.h")
picture = torch.nn.functional.interpolate(x[3].view(1, 1, side, side), size=(16, 16), mode="bilinear")
path = events.saccades(24)
counts = {}
for threshold in (0.05, 0.1, 0.2, 0.4):
    off, on = events.events_of(picture, path, threshold=threshold)[0].sum((0, 2, 3)).tolist()
    counts[threshold] = on + off
    print(f"threshold {threshold:4}: {on:4.0f} ON, {off:4.0f} OFF events")
    if threshold == 0.2:
        outcome("encodings.i", 0 if abs(on - off) < 0.15 * (on + off) else 1 if on > off else 2)
outcome("encodings.j", 1 if counts[0.4] < 0.48 * counts[0.2] else 2 if counts[0.4] > 0.52 * counts[0.2] else 0)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# ON runs along one side of each stroke and OFF along the other. There are about as many ON as OFF events,
# since a pixel that got brighter gets darker again on the way back. From a threshold of 0.2 to 0.4 *more* than half of the
# events disappear: at a weak edge the change is now too small for an event. Notebook 06 trains on such events.
#
# </details>
#
# ## Explore: which code for which brightness?
#
# Six codes of the kit, each with its decoder. The curve below the image is the error for other $T$: drag the diamond
# along it. You can also draw on the image.
#
# **Predict first.** Three of the six codes get better with more steps, and one is exact from the first. The other two
# do not depend on time: their curves are flat and high. Which two?

# %%
predict("encodings.k")

# %% [markdown]
# Then make the image darker with `contrast`:
#
# 1. Poisson at $T = 16$: from contrast 1 down to 0.1 the error falls by two fifths, and yet the image disappears. Why?
# 2. LIF at contrast 0.25: why is the digit gone?
# 3. Latency at $T = 4$ and at $T = 64$, contrast 0.3: what does a long sequence gain for a faint image?

# %%
viz.explorers.encoder()

# %%
outcome("encodings.k")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The flat curves are the latency code with its *logarithm*, whose steps cover brightness values that this image does
#   not have, and *delta*: a static image changes once, at the first step, and by one event of 0.1 at most.
# - Poisson at low contrast: the error falls by two fifths, but the image is ten times as faint. So *relative to the image* it is
#   almost six times as large.
# - At contrast 0.25 the input of the brightest pixel, $4 \times 0.25 = 1$, just balances the leak: no LIF neuron fires.
# - Latency at contrast 0.3: the same 0.47 spikes per pixel at $T = 4$ and $T = 64$, and a twentieth of the error.
#
# </details>

# %% [markdown] tags=["slide"]
# ## What broke?
#
# Three real mistakes. None of them raises an error in home-made code.
#
# ### 1. The brightness that was not in [0, 1]
#
# `torch.rand(...) < image` compares a number from 0 to 1 with a grey level from 0 to 255. Every pixel above 0 then fires at
# every step. snnkit's encoders refuse whole numbers:

# %% tags=["slide"]
raw = (255 * x).round().to(torch.uint8)
try:
    encode.poisson(raw, 16)
except TypeError as error:
    print(error)
unscaled = (torch.rand(16, *raw.shape, generator=generator) < raw).float()
panels = torch.cat([read_rate(unscaled)[2:6], read_rate(poisson_encode(x, 16, generator))[2:6]]).view(8, side, side)
names = ["0 to 255"] * 4 + ["0 to 1"] * 4
viz.show(figures.image_grid(panels, names, columns=4, title="Unscaled (above), every pixel that is not black is white"))

# %% [markdown]
# **The fix:** `data.to_unit(images)`, once, where the data come in.
#
# ### 2. Every image stretched to its own maximum
#
# Divide each image by its own maximum, and a faint image looks like a strong one. Worse, a frame with *nothing* but a
# little sensor noise fires strongly.

# %% tags=["slide"]
noise = 0.02 * torch.rand(1, x.shape[1], generator=generator)
frames = torch.cat([x[3:4], 0.4 * x[3:4], 0.1 * x[3:4], noise])
stretched = frames / frames.amax(1, keepdim=True)
counts = [poisson_encode(each, 16, generator).sum((0, 2)) for each in (frames, stretched)]
names = [f"{int(n)} spikes" for n in torch.cat(counts)]
title = "Stretched to its maximum (below), an empty frame fires most"
viz.show(figures.image_grid(torch.cat([frames, stretched]).view(8, side, side), names, columns=4, title=title))

# %% [markdown]
# **The fix:** one scale for the whole data set (here: 255), fixed before training and used again at test time.
#
# ### 3. The same random numbers for all images
#
# *Broadcasting* repeats an array along an axis where it has only one entry. Draw the noise once and broadcast it over the
# batch: the rates are right, and every plot of a single image looks fine. But all images share the same noise, so nothing
# averages out over the batch, not even the noise in your gradient.

# %% tags=["slide"]
copies = x[3:4].expand(100, -1)
shared = (torch.rand(8, 1, x.shape[1], generator=generator) < copies).float()
independent = poisson_encode(copies, 8, generator)
panels, names = [], []
for kind, spikes in {"shared": shared, "independent": independent}.items():
    panels += [x[3], *(spikes[:, :count].mean((0, 1)) for count in (1, 10, 100))]
    names += ["image", *(f"{kind}, {count}" for count in (1, 10, 100))]
title = "Over many copies, only independent noise (below) averages out"
viz.show(figures.image_grid(torch.stack(panels).view(8, side, side), names, columns=4, title=title))

# %% [markdown]
# With independent noise, a hundred copies are about ten times as good as one. With shared noise they are no better than
# one. **The fix:** noise of the full shape `(steps, *x.shape)`. Your check in 03.2 tests exactly this.

# %% [markdown] tags=["slide"]
# ## Which code, then?
#
# | code | `snnkit.encode` | information is in | error against $T$ | spikes | use it for |
# |---|---|---|---|---|---|
# | latency | `latency(x, T, linear=True)` | the time | $1/T$ | at most 1 per pixel | fast answers with few spikes; accurate, but sensitive to shifts in time |
# | Poisson | `poisson(x, T)` | the rate | $1/\sqrt T$ | $x\,T$ | robustness, biology, comparisons |
# | LIF neuron | `constant_current_lif(g * x, T)` | the rate, regular | falls, then stays | up to $T/3$ at gain 4 | analogue sensors |
# | direct | `repeat(x, T)` | the value itself | none | none: real numbers | best accuracy in few steps |
# | delta | `delta(x_seq)` | the change | at most $\theta$, with memory | follows the motion | sound, video, sensors |

# %% [markdown]
# ## Check yourself

# %%
quiz("encodings")

# %%
scorecard("encodings")

# %% [markdown]
# ## Next
#
# **[04 · Train your first spiking network](04_train_your_first_network.ipynb)** combines the spikes of this notebook
# with the surrogate gradients of 02. To go further here: change `DATASET` to `"fashion"` or set `QUICK = False` in the
# parameters cell and run again. Which figure changes most, and why does the slope of the Poisson line not change?
#
# ## Sources
#
# - E. D. Adrian, Y. Zotterman: The impulses produced by sensory nerve-endings, part 2. *J. Physiol.* 61 (1926),
#   [10.1113/jphysiol.1926.sp002281](https://doi.org/10.1113/jphysiol.1926.sp002281)
# - S. Thorpe, A. Delorme, R. Van Rullen: Spike-based strategies for rapid processing. *Neural Networks* 14 (2001),
#   [10.1016/S0893-6080(01)00083-1](https://doi.org/10.1016/S0893-6080%2801%2900083-1)
# - T. Gollisch, M. Meister: Rapid neural coding in the retina with relative spike latencies. *Science* 319 (2008),
#   [10.1126/science.1149639](https://doi.org/10.1126/science.1149639)
# - G. Orchard et al.: Converting static image datasets to spiking neuromorphic datasets using saccades. *Front. Neurosci.* 9
#   (2015), [10.3389/fnins.2015.00437](https://doi.org/10.3389/fnins.2015.00437)
# - M. Horowitz: Computing's energy problem (and what we can do about it). *ISSCC* (2014),
#   [10.1109/ISSCC.2014.6757323](https://doi.org/10.1109/ISSCC.2014.6757323)
# - P. Lichtsteiner, C. Posch, T. Delbruck: A 128 × 128 120 dB 15 µs latency asynchronous temporal contrast vision sensor.
#   *IEEE J. Solid-State Circuits* 43 (2008), [10.1109/JSSC.2007.914337](https://doi.org/10.1109/JSSC.2007.914337)
# - J. K. Eshraghian et al.: Training spiking neural networks using lessons from deep learning. *Proc. IEEE* 111 (2023),
#   [10.1109/JPROC.2023.3308088](https://doi.org/10.1109/JPROC.2023.3308088)
