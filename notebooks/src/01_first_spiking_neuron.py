# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/01_first_spiking_neuron.ipynb)

# %% [markdown] tags=["slide"]
# # 01 · Your first spiking neuron
#
# **Afterwards you can**
#
# - turn the membrane equation of a neuron into one line of PyTorch, and say how the time step changes it;
# - make that neuron charge, fire and reset, and predict from a formula how often it fires;
# - run thousands of neurons at once, and stop and resume them, because you know where their state is;
# - write your own neuron, which the kit runs like its built-in ones.
#
# | | |
# |---|---|
# | Time | 45 minutes, and 15 more for the optional part |
# | GPU minutes | 0 |
# | Before this | 00 pre-flight; Python, a little PyTorch (tensors, `+`, `*`), and the idea of a derivative. No biology |
#
# For the reasons to spike at all, read [Why spikes?](https://github.com/snnkit/snnkit/blob/main/docs/why_spikes.md)
# first, one page.
#
# Each block follows the pattern *predict, run, compare*. Lock your guess, and the result appears: wrong predictions
# teach the most.

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
QUICK: bool = True  # False: finer sweeps, and your own neuron is compiled and timed (a minute more)
SOLVE: bool = False  # True: use the reference solutions instead of your answers
SEED: int = 0  # seed of every random number
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"; this notebook needs no GPU
TAU: float = 20.0  # membrane time constant of the examples, in time steps

# %%
import math
import time
from typing import NamedTuple

import torch

from snnkit import engine, neuron, nn, surrogate, train
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("first_spiking_neuron", solve=SOLVE)
best = "cuda" if torch.cuda.is_available() else "cpu"
device = torch.device(best if DEVICE == "auto" else DEVICE)

# %% [markdown]
# ## 1 · A leaky bucket
#
# A neuron's membrane is a thin wall between two salt solutions. It stores charge like a capacitor, and it leaks like a
# resistor. When current flows in, the voltage rises. When the current stops, the voltage decays. A bucket with a hole
# behaves the same.
#
# ![Left, a bucket with a hole: water flows in from a tap (the current I), its level is the potential v, the width of the bucket is the capacitance C, water leaks out through the hole (the resistance R), and the rim is the threshold. Right, the same as a circuit: a current source, a resistor and a capacitor side by side between inside and outside.](drawings/membrane.svg)
#
# Both halves have this in common: one thing fills, one thing leaks, and the fuller it is, the faster it leaks.
#
# Let $C$ be the capacitance, $R$ the resistance, and $v_\text{rest}$ the voltage of the undisturbed cell. Charge balance
# says $C\,\frac{dv}{dt} = -\frac{v - v_\text{rest}}{R} + I$. Multiply by $R$ and call $\tau = RC$ the **membrane time
# constant**:
#
# $$\tau\,\frac{dv}{dt} = -(v - v_\text{rest}) + R\,I(t) \tag{1}$$
#
# | symbol | meaning | unit | typical of a cortical cell |
# |---|---|---|---|
# | $v$ | membrane potential | mV | |
# | $v_\text{rest}$ | resting potential | mV | −70 |
# | $\theta$ | firing threshold | mV | −50 |
# | $\tau$ | membrane time constant | ms | 20 |
# | $R$ | input resistance | MΩ | 100 |
# | $I$ | input current | nA | 0 to 1 |
#
# Millivolts are a burden. So measure the potential from rest, in units of the distance to the threshold: replace $v$ by
# $(v - v_\text{rest})/(\theta - v_\text{rest})$. Scale the input in the same way: $x = R\,I/(\theta - v_\text{rest})$.
# Now rest is 0, the threshold is 1, and $\tau$ is the only parameter left:
#
# $$\tau\,\frac{dv}{dt} = -v + x \tag{2}$$
#
# For the cell in the table, $x = 1$ is a current of $20\,\text{mV} / 100\,\text{MΩ} = 0.2\,\text{nA}$.
#
# Equation (2) has a solution that you can say in words: *the distance to $x$ shrinks by the factor $e^{-t/\tau}$*.
#
# $$v(t) = x + (v_0 - x)\,e^{-t/\tau} \tag{3}$$
#
# ## 2 · From an equation to a step
#
# A computer advances time in steps of length $\Delta t$. There are two ways to compute a step:
#
# $$\text{Euler:}\quad v \leftarrow v + \frac{\Delta t}{\tau}\,(x - v) \qquad\qquad
# \text{exact:}\quad v \leftarrow x + (v - x)\,e^{-\Delta t/\tau}$$
#
# Euler follows the tangent for a whole step. The exact step is equation (3) with $t = \Delta t$; it is correct as long
# as $x$ does not change within the step. The **decay** per step is $\beta = e^{-\Delta t/\tau}$. Euler's decay,
# $\beta = 1 - \Delta t/\tau$, is the first two terms of the same series.
#
# **Predict first.** With $\Delta t \ll \tau$ the two agree. What will Euler's method do at $\Delta t = 1.5\,\tau$? Lock
# your guess, then run the next cell and move the slider, also beyond 2.

# %%
predict("first_spiking_neuron.a")


# %%
def euler_against_exact(ratio):
    """Both kinds of step towards x = 1, for a time step dt given as a fraction of tau."""
    at = torch.arange(0, 6.01, ratio)  # in units of tau
    euler = 1 - (1 - ratio) ** torch.arange(len(at))  # one Euler step multiplies the distance by 1 - dt / tau
    fine = torch.linspace(0, 6, 121)
    off = (euler - (1 - torch.exp(-at))).abs().max()
    both = {"exact, eq. (3)": (fine, 1 - torch.exp(-fine)), "Euler": (at, euler)}
    axes = {"x_title": "time in units of tau", "y_title": "potential v", "faint": ["exact, eq. (3)"]}
    figure = figures.lines(both, title=f"Input x = 1, dt = {ratio:g} tau: largest error {off:.2g}", **axes)
    return figure.update_xaxes(range=[-0.1, 6.1]).update_yaxes(range=[-0.6, 2.6])


ratios = [0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.2]
viz.show(viz.frames(euler_against_exact, "dt / tau", ratios, start=3))
outcome("first_spiking_neuron.a")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - At $\Delta t = \tau/20$, the usual choice, Euler's error is about 1 %. No membrane is known that precisely.
# - At $\Delta t = \tau$ Euler jumps to $x$ in one step, whatever $v$ was: the neuron has no memory left.
# - Above $\tau$ it jumps past $x$. Above $2\tau$ it swings with growing size. The neuron does not do this; the numerical
#   method does. The exact step is well behaved at any $\Delta t$.
#
# </details>
#
# From here on we count time in steps: $\Delta t = 1$, so `tau = 20` means *20 steps*. If a step means 1 ms, that
# is 20 ms. A trained network works without this knowledge; you need it for real recordings.
#
# ### Exercise 01.1 · Charge the membrane (6 minutes, ●○○)
#
# Write one line. `x` and `v` are tensors of the same shape (one number per neuron), and `tau` is a number of steps.
# Return the membrane one step later. Both Euler and the exact step pass.
#
# The card below says what is missing. Until your answer passes, the notebook uses the reference solution, so you can
# read on and come back. Stuck? Call `hint("first_spiking_neuron.1")`, several times if you need to; then `solution("first_spiking_neuron.1")`.


# %% tags=["exercise"]
def lif_step(x, v, tau):
    """The membrane one time step later, by tau dv/dt = -v + x. Shapes: x, v and the result [...]."""
    return ...


lif_step = attempt("first_spiking_neuron.1", lif_step)

# %% [markdown] tags=["slide"]
# ## 3 · Fire and reset
#
# At the threshold, a real neuron does something drastic: ion channels open, and within 2 ms the voltage shoots up by 100
# mV and falls back. All spikes of one cell look alike, so their shape carries no information; their *timing* does. The
# **leaky integrate-and-fire** neuron (LIF) models only that. At the threshold it records a spike and resets the membrane:
#
# 1. **charge**: $v \leftarrow v + (x - v)/\tau$
# 2. **fire**: $s = 1$ if $v \ge \theta$, else $0$
# 3. **reset**: *hard*, $v \leftarrow v_\text{reset}$ where $s = 1$; or *soft*, $v \leftarrow v - s\,\theta$
#
# A hard reset discards what the membrane had above the threshold. A soft reset ("reset by subtraction") keeps it.

# %% [markdown]
# ### Exercise 01.2 · Fire and reset (8 minutes, ●●○)
#
# Two lines are enough. Return the spikes, 0 or 1 *in the dtype of* `v`, and the membrane after the reset. `v_reset` is
# a number (hard) or `None` (soft). The membrane of a neuron that does not fire must not change.


# %% tags=["exercise"]
def fire(v, threshold, v_reset):
    """Spikes and membrane after the reset, both of the shape and dtype of v [...]."""
    spike = ...
    v = ...
    return spike, v


fire = attempt("first_spiking_neuron.2", fire)

# %% [markdown]
# Your two functions make a neuron. Only the loop over time is missing. The first axis is always **time**: `x` is
# `[T, ...]`.


# %% tags=["slide"]
def simulate(x, tau=TAU, threshold=1.0, v_reset=0.0):
    """x [T, ...] -> spikes [T, ...] and the membrane after each step [T, ...]."""
    v = torch.zeros_like(x[0])
    spikes, membrane = [], []
    for x_t in x:
        v = lif_step(x_t, v, tau)
        spike, v = fire(v, threshold, v_reset)
        spikes.append(spike)
        membrane.append(v)
    return torch.stack(spikes), torch.stack(membrane)


x = torch.zeros(160)
x[10:60] = 0.9  # not enough
x[80:150] = 1.5  # enough
spikes, membrane = simulate(x)
title = f"A LIF neuron, tau = {TAU:g} steps"
viz.show(figures.traces(membrane, spikes, threshold=1.0, current=x, title=title))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The first pulse brings the membrane close to the threshold, and nothing happens. The second makes
# the neuron fire at even intervals (triangles). The line never touches the threshold, because it is drawn *after* the
# reset, which comes in the same step.
#
# </details>
#
# **Predict first.** Under a strong input, $x = 4$, which neuron fires more often: hard or soft reset?

# %%
predict("first_spiking_neuron.b")

# %%
strong = torch.full((1000,), 4.0)
hard, soft = (int(simulate(strong, v_reset=v)[0].sum()) for v in (0.0, None))
print("spikes in 1000 steps at x = 4: hard reset", hard, "and soft reset", soft)
outcome("first_spiking_neuron.b", int(soft > hard))

# %% [markdown]
# ### Play
#
# Thirty neurons get the same mean input, each with noise of its own. Above is the membrane of neuron 0, below are the
# spikes of all. The title gives the mean **interspike interval**: the number of steps from one spike of a neuron to its
# next. (Steps divided by spikes would be something else: it counts the wait for the first spike and what is left after
# the last.) The neurons run for 1000 steps, of which you see 150. Try to find, in this order:
#
# 1. the smallest `current` at which they fire without noise;
# 2. a setting in which they fire *only because of* the noise: is the raster then regular or irregular?
# 3. what `tau` does to the first spike, and to the firing rate;
# 4. the difference between hard and soft reset at `current = 4`.

# %%
viz.explorers.population()

# %% [markdown] tags=["slide"]
# ## 4 · The firing rate: a formula and a test
#
# Apply a constant input $x$. From a hard reset to 0 the membrane rises as $v(t) = x\,(1 - e^{-t/\tau})$. It reaches
# $\theta$ when $e^{-t/\tau} = 1 - \theta/x$. So the **interspike interval**, in steps, is
#
# $$\text{interval} = -\tau\,\ln\!\left(1 - \frac{\theta}{x}\right) \tag{4}$$
#
# and the rate is one divided by that. For $x \le \theta$ there is no such logarithm: the membrane levels off at $x$ and
# the neuron never fires. The smallest input that makes it fire is its **rheobase**. Here it is $x = \theta = 1$, in a
# typical cortical cell 0.2 nA.
#
# The rate as a function of the input is the neuron's **f-I curve**. It is the first thing that a physiologist measures
# in a new cell.
#
# **Predict first.** (c) By what factor does the rate grow when $x$ goes from 1.5 to 3? (d) At $x = 100$, equation (4)
# gives an interval of 0.2 steps: five spikes per step. What will the simulated neuron do?

# %%
predict("first_spiking_neuron.c")
predict("first_spiking_neuron.d")

# %% tags=["slide"]
currents = torch.linspace(0, 6, 61 if QUICK else 241, dtype=torch.float64)
constant = currents.expand(1000 if QUICK else 4000, -1)  # [T, currents]: one neuron per current, all at once, no copy


def rate(spikes):
    """One divided by the mean interval between spikes, for each neuron; 0 where there is no interval. spikes [T, N]"""
    intervals = [one.nonzero().flatten().diff().double().mean() for one in spikes.T]
    return torch.nan_to_num(1 / torch.stack(intervals))


formula = torch.nan_to_num(1 / (-TAU * torch.log(1 - 1 / currents)))  # no logarithm: rate 0
rates = {"equation (4)": formula}
rates["hard reset"] = rate(simulate(constant, v_reset=0.0)[0])
rates["soft reset"] = rate(simulate(constant, v_reset=None)[0])
title = f"f-I curve of a LIF neuron, tau = {TAU:g} steps"
axes = {"x_title": "input x", "y_title": "firing rate (spikes per step)", "title": title}
viz.show(figures.lines(rates, x=currents, faint=["equation (4)"], **axes))

# %%
shown = [1.2, 1.5, 3.0, 4.0, 6.0]
at = [int((currents - x).abs().argmin()) for x in shown]
print("mean interval in steps at x =", *(f"{x:6g}" for x in shown))
for name, one in rates.items():
    print(f"{name:28s}", *(f"{1 / one[i]:6.2f}" for i in at))
outcome("first_spiking_neuron.c", formula[at[2]] / formula[at[1]])
most = simulate(torch.full((50,), 100.0))[0].mean()
print(f"at x = 100: {most:g} spikes per step")
outcome("first_spiking_neuron.d", int(most == 1))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The neuron is silent up to the rheobase; then the rate rises steeply. Just above $x = 1$, small changes of the input
#   matter most. From 1.5 to 3 the rate grows 2.7-fold, not twofold.
# - With a *hard* reset the curve is a staircase. At $x = 4$ the formula gives an interval of 5.75 steps. A simulation
#   that fires on whole steps rounds this **up** to 6, and discards the surplus. This is the price of a finite
#   $\Delta t$, and it grows with the rate.
# - The *soft* reset keeps the surplus: after some intervals of 6 comes one of 5, and the average is right. Its curve
#   follows the formula up to the strongest input. Networks that were converted to spikes use this reset, because there
#   the rates must stand for numbers.
# - At weak inputs both simulations fire slightly *early*: at $x = 1.2$ after 35 steps, where (4) gives 35.8. That is
#   Euler's step: it decays by $1 - 1/\tau$ instead of $e^{-1/\tau}$, so a little faster. (If your `lif_step` uses the
#   exact step, the hard reset waits 36 steps.)
#
# </details>

# %% [markdown] tags=["slide"]
# ## 5 · You hold the state
#
# You need not write the loop yourself. The kit's `neuron.LIF` is the neuron that you have just built, with the same
# charge, fire and reset:
#
# ```python
# out, state = neuron.LIF(tau=20.0)(x, state=None)      # x and out: [T, B, ...]
# ```
#
# Only `state` may look odd. A neuron remembers its membrane potential, and this memory must be stored somewhere. In the
# kit **you hold it**: the state is an argument and a return value, and the module hides nothing. `None` means *start at
# rest*.
#
# Why so strict? A state that you can see is one that you can save, cut, move to a GPU, or discard on purpose. Let's
# stop a neuron in the middle of a sequence and resume it.

# %%
cell = neuron.LIF(tau=TAU)
x = 1.2 + 0.5 * torch.randn(200, 4, 3)  # [T, B, N]: 200 steps, 4 samples, 3 neurons

whole, last = cell(x)
first, state = cell(x[:70])
second, state = cell(x[70:], state)

print("shapes: spikes", tuple(whole.shape), "and state v", tuple(state.v.shape))
print("in two pieces the same spikes:", torch.equal(whole, torch.cat([first, second])))
print("as `simulate`, the same spikes:", torch.equal(simulate(x)[0], whole))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The state has the shape of *one step*, `[B, N]`: time is not in it. It holds everything about the
# past that the future depends on. So one run of 200 steps, runs of 70 and 130, or 200 runs of 1 step give the same
# result. (The last line compares `simulate` with the kit's Euler step. If your `lif_step` uses the exact step, a few spikes
# shift and the line prints `False`. Both are good approximations.)
#
# </details>
#
# The state that comes back is that after the last step. To look inside at every step, `nn.recording` keeps the spikes
# and the membranes of a neuron, or of a whole network, while it runs:

# %%
with nn.recording(cell, states=True) as rec:
    cell(x)
viz.show(figures.recording(rec, title="Three neurons at every step: spikes, and the membranes of two"))

# %% [markdown] tags=["slide"]
# ## What broke?
#
# A colleague reads a sensor that delivers 25 samples at a time, and runs the neuron on each packet. The input of 1.3 is
# well above the rheobase, and equation (4) promises a spike every 29 steps. In 1000 steps there is not one spike. The
# hardware is fine. **Find the faulty line before you read on.**

# %% tags=["slide-more", "slide-code"]
stream = torch.full((1000, 1), 1.3)
count = 0.0
for packet in stream.split(25):
    out, _ = cell(packet)
    count += out.sum().item()
print("spikes counted:", int(count))

# %% [markdown]
# `out, _ = cell(packet)` discards the state, so each packet starts at rest. From rest, 25 steps are too few to reach
# the threshold, so the neuron never fires. There is no error, no warning, and the shapes are plausible; the sensor
# seems dead. Pass the state on, and the neuron fires. The next figure shows both.


# %% tags=["slide"]
def in_packets(carry):
    """Membrane and spikes, each [T], of the stream in packets of 25 steps."""
    state, membrane, spikes = cell.initial_state(stream[0]), [], []
    for packet in stream.split(25):
        if not carry:
            state = cell.initial_state(stream[0])  # the mistake: at rest again for every packet
        for x_t in packet:
            spike, state = cell.step(x_t, state)
            membrane.append(state.v)
            spikes.append(spike)
    return torch.cat(membrane), torch.cat(spikes)


carried, spikes = in_packets(carry=True)
forgotten, _ = in_packets(carry=False)
print("spikes counted:", int(spikes.sum()))
both = {"state carried": carried[:150], "state forgotten": forgotten[:150]}
marks = {"state carried": spikes[:150]}
viz.show(
    figures.traces(both, marks, threshold=1.0, title="In packets of 25 steps: only a neuron that keeps its state fires")
)

# %% [markdown]
# A related mistake: **the batch came first.** Most of PyTorch puts the batch first, `[B, T, N]`; here time is first,
# `[T, B, N]`. If you mix them up, the shapes fit and everything runs. But the membrane is carried from one *sample* to
# the next, instead of from one time step to the next. Here is a test that you can run on any model: change one sample,
# and see whether the output of another one changes.

# %%
batch_first = 1.0 + torch.randn(8, 200, 3)  # 8 samples, 200 steps, 3 neurons
changed = batch_first.clone()
changed[0] += 20.0  # only sample 0 is touched

wrong = (cell(batch_first)[0] != cell(changed)[0])[1:]  # samples 1 to 7
right = (cell(batch_first.transpose(0, 1))[0] != cell(changed.transpose(0, 1))[0])[:, 1:]
print("as delivered, [B, T, N]:          other samples changed at", int(wrong.sum()), "places")
print("x.transpose(0, 1), so [T, B, N]:  other samples changed at", int(right.sum()), "places")

# %% [markdown] tags=["slide"]
# ## 6 · Many neurons at once
#
# A step is elementwise arithmetic, so it works for any number of neurons. `[T, B, N]` runs `B × N` of them in parallel,
# and `[T, B, C, H, W]` a whole stack of images. The parameters may be tensors, too. Give `tau` one value per neuron, and
# no two neurons of the population are alike.
#
# **Predict first.** Sixty neurons with `tau` from 2 (bottom) to 100 (top) get the *same* input: a weak start, a pulse
# (shaded), and noise. Which of them show the pulse most clearly?

# %%
predict("first_spiking_neuron.e")

# %% tags=["slide"]
taus = torch.logspace(math.log10(2), math.log10(100), 60)
x = 0.7 + 0.9 * torch.randn(400, 1, 1)
x[100:300] += 1.5  # the pulse
spikes, state = neuron.LIF(tau=taus).to(device)(x.expand(-1, 1, 60).to(device))  # one input for all: no copy

figure = figures.raster(spikes[:, 0], title="One input, 60 neurons: tau from 2 steps (bottom) to 100 (top)")
figure.add_vrect(x0=100, x1=300, fillcolor=viz.theme.faint(viz.theme.ORANGE, 0.15), line_width=0)
viz.show(figure)
inside = spikes[100:300, 0].sum(0) / spikes[:, 0].sum(0).clamp(min=1)
print(f"spikes within the pulse: {inside[:15].mean():.0%} for short tau, {inside[-15:].mean():.0%} for long tau")
outcome("first_spiking_neuron.e", int(inside[-15:].mean() > inside[:15].mean()))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Neurons with a short memory (bottom) fire at every large fluctuation, pulse or no pulse. Neurons
# with a long memory (top) average the noise away. They are silent until the mean input is above the rheobase, respond
# late even then, fire at nearly even intervals, and stop when the pulse ends. `tau` is a choice between fast and
# reliable. Networks can learn it (`neuron.PLIF`).
#
# </details>

# %% [markdown] tags=["slide"]
# ## 7 · Other neurons of the catalogue
#
# The LIF is the simplest member of a family. All members have the same form, `step(x, state) -> (spike, state)`. Only
# the equations differ:
#
# | neuron | what it adds | state |
# |---|---|---|
# | `Leaky` | the LIF of snnTorch: $v \leftarrow \beta v + x$ (there `mem`). It fires strictly above $\theta$, and the reset comes one step after the spike | `mem` |
# | `CubaLIF` | a synapse that smooths the input before the membrane does (the LIF of Norse) | `v, i` |
# | `ALIF` | each spike raises the threshold for a while: the neuron adapts | `v, a` |
# | `Izhikevich` | two equations that reproduce the firing patterns of many kinds of cortical cells [2] | `v, u` |
#
# **Predict first.** The six neurons below get a constant current, switched on and off again. How many of them will *not*
# fire at even intervals? (One step more or less counts as even.)

# %%
predict("first_spiking_neuron.f")


# %% tags=["slide"]
def watch(cell, x):
    """Run a neuron step by step over x [T]: its first state variable [T] (the membrane), spikes [T]."""
    state, membrane, spikes = cell.initial_state(x[:1]), [], []
    for x_t in x:
        spike, state = cell.step(x_t.reshape(1), state)
        membrane.append(state[0])
        spikes.append(spike)
    v, spikes = torch.cat(membrane).detach(), torch.cat(spikes).detach()
    # A neuron with an upstroke is cut off at its peak. The state holds the reset already, so the peak is drawn here.
    return (torch.where(spikes > 0, cell.v_peak, v) if hasattr(cell, "v_peak") else v), spikes


on = torch.zeros(300)
on[20:280] = 1.0
cells = {
    "LIF, hard reset": (neuron.LIF(tau=20.0), 1.5),
    "Leaky, soft reset one step late": (neuron.Leaky(beta=0.95), 0.075),
    "CubaLIF: a synapse in front": (neuron.CubaLIF(tau_mem_inv=50.0, tau_syn_inv=100.0), 0.15),
    "ALIF: threshold rises with each spike": (neuron.ALIF(tau=20.0, tau_adapt=100.0, beta=0.3), 0.12),
    "Izhikevich, regular spiking (mV)": (neuron.Izhikevich(), 10.0),
    "Izhikevich, chattering (mV)": (neuron.Izhikevich(c=-50.0, d=2.0), 10.0),
}
runs = {name: watch(cell, current * on) for name, (cell, current) in cells.items()}
viz.show(figures.gallery(runs, title="One step of current, six neurons"))

# %%
uneven = 0
for name, (_, spikes) in runs.items():
    gaps = spikes.nonzero().flatten().diff()
    uneven += int(gaps.max() - gaps.min() > 1)
    print(f"{name:38s} intervals {gaps[:6].tolist()}")
outcome("first_spiking_neuron.f", uneven)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The synapse of `CubaLIF` rounds the onset: its first spike comes late. `ALIF` and the
# regular-spiking Izhikevich cell **adapt**: fast at first, then slower, as most excitatory cells of the cortex do. A
# constant input carries no news, so the neuron signals it less and less. The chattering cell answers the same current
# with bursts.
#
# </details>
#
# The last two neurons differ only in the reset potential (`c`) and in the jump of the recovery variable (`d`). They are
# also the only two whose equations contain the upstroke of a spike: above some −50 mV the membrane rises faster and
# faster by itself. At 30 mV the spike is cut off and the membrane set to `c`, so all spikes look alike here, too.
#
# Your ear is better at time than your eye. Listen to four of them, 10 ms a step (ten times slower than life):

# %%
listed = ("LIF, hard reset", *list(runs)[3:])
viz.listen({name: runs[name][1] for name in listed}, seconds_per_step=0.01)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The LIF ticks like a clock. `ALIF` and the regular-spiking cell slow down: that is what adaptation
# sounds like. The chattering cell drums. At a quarter of the speed you can count the spikes of a burst.
#
# </details>
#
# ### The neuron explorer
#
# Here you can compare them all, with the same controls and with the f-I curve beside the traces. The diamond marks your
# setting: drag it along the curve. Drag the dashed threshold, too, or draw an input of your own into the upper panel.
# `current` is the level at which a leaky membrane without a threshold would settle. The line under the title gives the
# neuron in code and the `x` that it gets.
#
# **Predict first.** (g) Which neuron of the catalogue has *no* rheobase? (h) The f-I curve of the LIF has a sharp
# corner at 1. What does noise do to the corner? (i) `current` goes from 1.5 to 3, and the LIF fires 2.7 times as often.
# And `ALIF`?

# %%
predict("first_spiking_neuron.g")
predict("first_spiking_neuron.h")
predict("first_spiking_neuron.i")

# %%
viz.explorers.neuron()

# %%
levels = torch.tensor([1.5, 3.0]) * (1 - math.exp(-1 / 20))  # the x that lets v settle at 1.5 and 3
spikes, _ = neuron.ALIF(tau=20.0, beta=0.2, v_reset=0.0)(levels.expand(4000, 2))
growth = spikes[1000:, 1].sum() / spikes[1000:, 0].sum()  # after 1000 steps the threshold has risen
print(f"ALIF fires {growth:.1f} times as often")
outcome("first_spiking_neuron.g")
outcome("first_spiking_neuron.h")
outcome("first_spiking_neuron.i", 0 if growth < 2.7 else 2)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - `IF` has no leak, so no input is too weak if you wait long enough. Its f-I curve is a straight line from 0. The
#   corner comes from the leak.
# - Noise rounds the corner off. At `current = 0.9` with some noise the LIF fires now and then, irregularly: the mean is
#   below the rheobase, and only large fluctuations carry the membrane over the threshold. Many cells of the cortex are
#   believed to work like this.
# - In the long run `ALIF` fires 2.5 times as often: each spike raises its (dashed) threshold, so a strong input partly
#   cancels its own effect.
# - `LI` never fires. It is a readout: its membrane is the output.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 8 · Your own neuron (stretch)
#
# Adaptation takes three lines. Let $a$ be the amount by which the threshold is raised:
#
# $$s = H\big(v - (1 + a)\big) \qquad v \leftarrow 0 \ \text{ where it fired} \qquad
# a \leftarrow a - \frac{a}{\tau_a} + \text{jump}\cdot s$$
#
# ($H$ is the step function: 1 from 0 upwards. `self.spike(u)` computes it, and also provides what notebook 02 needs for
# learning.)
#
# ### Exercise 01.3 · A neuron of your own (10 minutes, ●●●)
#
# Fill in three blanks. Do not use `if`: use `spike`, which is 0 or 1, as a factor. Then the same line works
# for one neuron or a million.


# %% tags=["exercise"]
class AdaptiveState(NamedTuple):
    v: torch.Tensor  # membrane [B, ...]
    a: torch.Tensor  # by how much the threshold is raised [B, ...]


class Adaptive(neuron.Neuron):
    State = AdaptiveState

    def __init__(self, tau=20.0, tau_a=200.0, jump=0.2, *, engine="auto"):
        super().__init__(surrogate=surrogate.ATan(), engine=engine)
        self.tau, self.tau_a, self.jump = tau, tau_a, jump

    def step(self, x, state):
        v = state.v + (x - state.v) / self.tau
        spike = ...  # self.spike(distance of v from the raised threshold)
        v = ...  # 0 where it fired, else as it is
        a = ...  # relaxes with tau_a, jumps where it fired
        return spike, AdaptiveState(v, a)


Adaptive = attempt("first_spiking_neuron.3", Adaptive)

# %% tags=["slide"]
mine = Adaptive(tau=TAU, tau_a=150.0, jump=0.3)
x = torch.full((400,), 2.5)
v, spikes = watch(mine, x)
gaps = spikes.nonzero().squeeze(1).diff().tolist()
print("intervals between its spikes:", gaps)
runs = {"Adaptive": (v, spikes), "LIF": watch(neuron.LIF(tau=TAU), x)}
viz.show(figures.gallery(runs, columns=1, title="A constant input: with adaptation, spikes become rarer"))

# %% [markdown]
# Your neuron has an explorer, too: its step becomes a program in the page, and each of its numbers a slider. What does
# `tau_a` do to the f-I curve, and what does `jump` do?

# %%
viz.explorers.neuron(mine)

# %% [markdown]
# You wrote one step of one neuron. You did *not* write the loop over time, the batch, the GPU version, or the gradient.
# The kit's **engines** do that: `eager` is the plain loop; `cpp` (on a CPU) and `block` (anywhere) turn many steps into
# one piece of machine code. `engine.explain` says which one your neuron gets, and why:

# %%
small, large = torch.rand(64, 1, 100) * 4, torch.rand(64, 1, 2**15) * 4
print(engine.explain(mine, small), "\n")
print(engine.explain(mine, large))

# %% [markdown]
# Compiling takes a second or two, once. `auto` compiles where that pays: for large layers, and for small ones whose
# results stay equal to those of the loop to the last bit. With `QUICK = False` the next cell compiles your neuron and
# the kit's LIF with the same engine. Notebook 11 shows how far that goes.

# %%
if not QUICK:
    large = large.to(device)
    for cell in (Adaptive(engine="block"), neuron.LIF(tau=TAU, engine="block")):
        cell.to(device)
        seconds = []
        with torch.no_grad():
            for _ in range(8):  # the first one compiles
                began = time.perf_counter()
                out, _ = cell(large)
                total = out[-1, 0, 0].item()  # waits for the device
                seconds.append(time.perf_counter() - began)
        speed = large.numel() / min(seconds) / 1e6
        print(f"{type(cell).__name__:9s} {speed:6.0f} million neuron-steps per second, best of 8")

# %% [markdown]
# ## Quiz

# %%
quiz("first_spiking_neuron")

# %%
scorecard("first_spiking_neuron")

# %% [markdown]
# ## Where next
#
# You have a neuron that computes. It cannot learn yet: the derivative of its step function is zero nearly everywhere,
# so gradient descent gets no signal. **[02 · Learning through a step](02_surrogate_gradients.ipynb)** shows the trick
# that made spiking networks trainable.
#
# **Worth reading**
#
# 1. W. Gerstner, W. M. Kistler, R. Naud, L. Paninski, *Neuronal Dynamics*, Cambridge University Press 2014, chapter 1.
#    [doi:10.1017/CBO9781107447615](https://doi.org/10.1017/CBO9781107447615). The standard textbook; free online.
# 2. E. M. Izhikevich, *Simple model of spiking neurons*, IEEE Trans. Neural Networks 14 (2003).
#    [doi:10.1109/TNN.2003.820440](https://doi.org/10.1109/TNN.2003.820440)
# 3. L. F. Abbott, *Lapicque's introduction of the integrate-and-fire model neuron (1907)*, Brain Research Bulletin 50 (1999).
#    [doi:10.1016/S0361-9230(99)00161-6](https://doi.org/10.1016/S0361-9230%2899%2900161-6)
# 4. G. Bellec et al., *A solution to the learning dilemma for recurrent networks of spiking neurons*, Nature Communications 11
#    (2020). [doi:10.1038/s41467-020-17236-y](https://doi.org/10.1038/s41467-020-17236-y). Adaptive neurons put to work.
