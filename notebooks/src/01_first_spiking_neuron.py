# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/01_first_spiking_neuron.ipynb)

# %% [markdown] tags=["slide"]
# # 01 · Your first spiking neuron
#
# **After this notebook you can**
#
# - turn the membrane equation of a neuron into one line of PyTorch, and say what the time step does to it;
# - make that neuron charge, fire and reset, and predict from a formula how often it fires;
# - run thousands of neurons at once, and stop and resume them, because you know where their memory is;
# - write a neuron of your own that the kit runs like any of its own.
#
# **Time:** 35 minutes in class · **GPU minutes:** 0 · **You need:** Python, a little PyTorch (tensors, `+`, `*`), and the
# idea of a derivative. No biology.
#
# Each block goes *predict, run, explain*: make up your mind before you run the cell. Being wrong is the useful part.

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

from snnkit import course, engine, neuron, surrogate, train, viz
from snnkit.course import attempt, hint, quiz, scorecard, solution
from snnkit.viz import figures

train.seed_everything(SEED)
course.start("01", solve=SOLVE)
best = "cuda" if torch.cuda.is_available() else "cpu"
device = torch.device(best if DEVICE == "auto" else DEVICE)

# %% [markdown]
# ## 1. A leaky bucket
#
# A neuron's membrane is a thin wall between two salt solutions. It holds charge like a capacitor, and it leaks like a
# resistor. Pour current in and the voltage rises; stop, and it drains away. A bucket with a hole behaves the same.
#
# With $C$ the capacitance, $R$ the resistance and $v_\text{rest}$ the voltage of the undisturbed cell, charge balance
# says $C\,\frac{dv}{dt} = -\frac{v - v_\text{rest}}{R} + I$. Multiply by $R$ and call $\tau = RC$ the **membrane time
# constant**:
#
# $$\tau\,\frac{dv}{dt} = -(v - v_\text{rest}) + R\,I(t) \tag{1}$$
#
# | symbol | meaning | unit | typical of a cortical cell |
# |---|---|---|---|
# | $v$ | membrane potential | mV | |
# | $v_\text{rest}$ | where it rests | mV | −70 |
# | $\theta$ | where it fires | mV | −50 |
# | $\tau$ | how long it remembers | ms | 20 |
# | $R$ | input resistance | MΩ | 100 |
# | $I$ | input current | nA | 0 to 1 |
#
# Nobody wants to carry millivolts around. Count the potential from rest in units of the distance to threshold, that is,
# replace $v$ by $(v - v_\text{rest})/(\theta - v_\text{rest})$, and do the same to the drive: $x = R\,I/(\theta - v_\text{rest})$.
# Now rest is 0, threshold is 1, and nothing but $\tau$ is left:
#
# $$\tau\,\frac{dv}{dt} = -v + x \tag{2}$$
#
# For the cell in the table $x = 1$ is a current of $20\,\text{mV} / 100\,\text{MΩ} = 0.2\,\text{nA}$. Remember that number:
# it comes back in section 4.
#
# Equation (2) has a solution you can read aloud: *the distance to $x$ shrinks by the factor $e^{-t/\tau}$*.
#
# $$v(t) = x + (v_0 - x)\,e^{-t/\tau} \tag{3}$$
#
# ## 2. From an equation to a step
#
# A computer moves in steps of length $\Delta t$. There are two honest ways to step:
#
# $$\text{Euler:}\quad v \leftarrow v + \frac{\Delta t}{\tau}\,(x - v) \qquad\qquad
# \text{exact:}\quad v \leftarrow x + (v - x)\,e^{-\Delta t/\tau}$$
#
# Euler follows the tangent for a whole step. The exact step is equation (3) with $t = \Delta t$, right as long as $x$ does
# not change within the step. Write $\beta = e^{-\Delta t/\tau}$ for the **decay** per step. Euler's is
# $\beta = 1 - \Delta t/\tau$, the beginning of the same series.
#
# **Predict first.** With $\Delta t \ll \tau$ the two agree. What will Euler's method do at $\Delta t = 1.5\,\tau$?
# And beyond $2\,\tau$? Decide, then move the slider. (No slider? Point at the picture: JupyterLab wakes it then.)


# %%
def euler_against_exact(ratio):
    """The two ways to step, for one time step dt given as a fraction of tau."""
    count = int(6 / ratio) + 1
    at = [ratio * n for n in range(count)]
    euler, v = [], 0.0
    for _ in at:
        euler.append(v)
        v = v + ratio * (1 - v)
    fine = torch.linspace(0, 6, 121)
    exact = 1 - torch.exp(-fine)
    off = max(abs(value - (1 - math.exp(-t))) for t, value in zip(at, euler, strict=True))
    title = f"A constant input x = 1, dt = {ratio:g} tau: largest error {off:.2g}"
    axes = {"x_title": "time in units of tau", "y_title": "potential v"}
    both = {"exact, eq. (3)": (fine, exact), "Euler": (at, euler)}
    figure = figures.lines(both, title=title, faint=["exact, eq. (3)"], **axes)
    return figure.update_xaxes(range=[-0.1, 6.1]).update_yaxes(range=[-0.6, 2.6])


ratios = [0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.2]
viz.show(viz.frames(euler_against_exact, "dt / tau", ratios, start=3))

# %% [markdown]
# **What to notice.**
#
# - At $\Delta t = \tau/20$, the usual choice, Euler is off by about 1 %. Nobody's membrane is known that well.
# - At $\Delta t = \tau$ Euler jumps to $x$ in one step and forgets everything: the neuron has no memory left.
# - Above $\tau$ it overshoots, and above $2\tau$ it oscillates with growing amplitude. That is not the neuron, that is the
#   method. The exact step is well behaved at any $\Delta t$.
#
# From here on we count time in steps: $\Delta t = 1$, so `tau = 20` means *20 steps*. If a step stands for 1 ms, that is
# 20 ms. A trained network doesn't care what a step is in milliseconds; you have to, the day you feed it real recordings.
#
# ### Exercise 01.1: charge the membrane
#
# One line. `x` and `v` are tensors of the same shape (one number per neuron), `tau` is a number of steps. Return the
# membrane one step later. Euler or exact: both pass.
#
# The card below says what is missing. As long as yours doesn't pass, the notebook goes on with the reference, so you can
# read ahead and come back. Stuck? `hint("01.1")`, several times if need be; then `solution("01.1")`.


# %% tags=["exercise"]
def lif_step(x, v, tau):
    """The membrane one time step later, by tau dv/dt = -v + x. Shapes: x, v and the result [...]."""
    return ...


lif_step = attempt("01.1", lif_step)

# %% [markdown] tags=["slide"]
# ## 3. Fire and reset
#
# Real neurons do something violent at threshold: channels snap open and the voltage shoots up by 100 mV and back within
# 2 ms. The spikes of one cell all look alike, so their shape carries no news; *when* they come does. The **leaky
# integrate-and-fire** neuron (LIF) keeps just that: at threshold it notes a spike and puts the membrane back.
#
# 1. **charge**: $v \leftarrow v + (x - v)/\tau$
# 2. **fire**: $s = 1$ if $v \ge \theta$, else $0$
# 3. **reset**: *hard*, $v \leftarrow v_\text{reset}$ where $s = 1$; or *soft*, $v \leftarrow v - s\,\theta$
#
# A hard reset forgets by how much the threshold was passed. A soft reset ("reset by subtraction") keeps the surplus.
#
# **Predict first.** Under a strong input, say $x = 4$, which of the two fires more often?
#
# ### Exercise 01.2: fire and reset
#
# Two lines will do. Return the spikes, 0 or 1 *in the dtype of* `v`, and the membrane after the reset. `v_reset` is a
# number (hard) or `None` (soft). Neurons that don't fire must not change.


# %% tags=["exercise"]
def fire(v, threshold, v_reset):
    """Spikes and membrane after the reset, both of the shape and dtype of v [...]."""
    spike = ...
    v = ...
    return spike, v


fire = attempt("01.2", fire)

# %% [markdown]
# Your two functions make a neuron. All that's left is a loop over time. The first axis is always **time**: `x` is
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
# **What to notice.** The first push comes close to the threshold and nothing happens; the second makes it fire at even
# intervals (triangles). The line never touches the threshold, because it is drawn *after* the reset: in the very step in
# which the membrane arrives, it is put back.
#
# ### Play
#
# Thirty neurons get the same mean input; each has noise of its own. Above you see the membrane of neuron 0, below the spikes
# of all. Try to find, in this order:
#
# 1. the smallest `current` at which they fire without noise;
# 2. a setting in which they fire *only because of* the noise: how does the raster look then, even or ragged?
# 3. what `tau` does to the first spike, and to the rhythm;
# 4. hard against soft reset at `current = 4`.


# %%
def population(current=1.2, tau=20.0, noise=0.0, reset="hard"):
    """Thirty LIF neurons for 150 steps."""
    own = torch.randn(150, 30, generator=torch.Generator().manual_seed(0))
    v_reset = 0.0 if reset == "hard" else None
    spikes, membrane = simulate(current + noise * own, tau, v_reset=v_reset)
    rate = spikes.mean().item()
    title = f"{rate:.3f} spikes per step, one in {1 / rate:.1f} steps" if rate else "Silence"
    return figures.membrane_and_raster(membrane[:, 0], spikes, 1.0, title=title)


viz.explore(
    population,
    current=(0.0, 4.0, 0.05),
    tau=(2.0, 60.0, 1.0),
    noise=(0.0, 3.0, 0.1),
    reset=["hard", "soft"],
)

# %% [markdown] tags=["slide"]
# ## 4. How often? A formula, and its check
#
# Put a constant $x$ in. After a hard reset to 0, equation (3) says $v(t) = x\,(1 - e^{-t/\tau})$. It reaches $\theta$ when
# $e^{-t/\tau} = 1 - \theta/x$, so the **interspike interval** is
#
# $$T = -\tau\,\ln\!\left(1 - \frac{\theta}{x}\right) \tag{4}$$
#
# and the rate is $1/T$. For $x \le \theta$ the logarithm has no value: the membrane levels off at $x$, below the threshold,
# and the neuron never fires. The smallest current that makes it fire is its **rheobase**. Here it's $x = \theta = 1$, and in
# the cell of section 1 it is 0.2 nA.
#
# Rate against input is the neuron's **f-I curve**, the first thing a physiologist measures of a new cell.
#
# **Predict first.** Does the rate double when $x$ goes from 1.5 to 3? And what happens to (4) for very large $x$: where does
# the curve end up if a neuron can fire at most once per step?

# %% tags=["slide"]
currents = torch.linspace(0, 6, 61 if QUICK else 241, dtype=torch.float64)
steps = 1000 if QUICK else 4000
constant = currents.expand(steps, -1)  # [T, currents]: one neuron per current, all at once, no copy

with torch.no_grad():
    hard, _ = simulate(constant, tau=TAU, v_reset=0.0)
    soft, _ = simulate(constant, tau=TAU, v_reset=None)
above = currents > 1
formula = torch.zeros_like(currents)
formula[above] = 1 / (-TAU * torch.log(1 - 1 / currents[above]))
rates = {"equation (4)": formula, "hard reset": hard.mean(0), "soft reset": soft.mean(0)}
title = f"f-I curve of a LIF neuron, tau = {TAU:g} steps"
viz.show(figures.f_i_curve(currents, rates, faint=["equation (4)"], title=title))

# %% [markdown]
# **What to notice.**
#
# - Silence up to the rheobase, then a steep rise: from $x = 1$ on, small changes of the input matter most. From 1.5 to 3
#   the rate goes up 2.7-fold, not twice.
# - The *hard* reset climbs in stairs. At $x = 4$ the formula asks for an interval of 5.75 steps; a simulation that fires on
#   whole steps rounds that **up** to 6 and throws the surplus away. That is the price of $\Delta t$, and it grows with the rate.
# - The *soft* reset keeps the surplus: after some intervals of 6 comes one of 5, and on average it is right. Its curve is
#   the formula's, up to the strongest input. When ordinary networks are converted to spiking ones, whose rates must stand for
#   numbers, this is the reset they get.

# %% [markdown] tags=["slide"]
# ## 5. The state is yours
#
# You need not write the loop yourself. The kit's `neuron.LIF` is the neuron you have just built, with the same
# charge, fire, reset:
#
# ```python
# out, state = neuron.LIF(tau=20.0)(x, state=None)      # x and out: [T, B, ...]
# ```
#
# The one thing that may look odd is `state`. A neuron remembers: its membrane. That memory has to live somewhere. In the kit
# it lives **in your hands**: handed in, handed out, never hidden in the module. `None` means *start at rest*.
#
# Why so pedantic? Because a state you can see is one you can save, cut, move to a GPU, or forget on purpose. Let's stop a
# neuron in the middle of a sequence and resume it.

# %%
cell = neuron.LIF(tau=TAU)
x = 1.2 + 0.5 * torch.randn(200, 4, 3)  # [T, B, N]: 200 steps, 4 samples, 3 neurons

whole, last = cell(x)
first, state = cell(x[:70])
second, state = cell(x[70:], state)

print("shapes: spikes", tuple(whole.shape), "and state v", tuple(state.v.shape))
print("in two pieces the same spikes:", torch.equal(whole, torch.cat([first, second])))
print("your neuron, the same spikes: ", torch.equal(simulate(x)[0], whole))

# %% [markdown] tags=["slide"]
# **What to notice.** The state has the shape of *one step*, `[B, N]`: time is not in it. It is all that the future needs to
# know of the past, so 200 steps, or 70 and 130, or 200 times 1, are the same thing.
# (The last line compares your neuron with the kit's, which steps as Euler did. If yours steps exactly, a few spikes fall
# elsewhere and it says `False`: two good approximations, no mistake.)
#
# ## What broke?
#
# A colleague reads a sensor that delivers 25 samples at a time, and runs the neuron on each packet. The input of 1.3 is well
# above the rheobase; equation (4) promises a spike every 29 steps. In a minute of data: not one spike. The hardware is fine.
# **Find the line before you read on.**

# %%
stream = torch.full((1000, 1), 1.3)
count = 0.0
for packet in stream.split(25):
    out, _ = cell(packet)
    count += out.sum().item()
print("spikes found:", int(count))

# %% [markdown]
# `out, _ = cell(packet)`: the state goes to the bin, so each packet starts at rest. 25 steps are too few to reach the
# threshold from there, and so it never does. No error, no warning, plausible shapes: just a dead sensor. Carry the state
# and it lives. Underneath you see both.

# %% tags=["slide"]
state = cell.initial_state(stream[0])
carried, forgotten, spikes = [], [], []
for packet in stream.split(25):
    lost = cell.initial_state(packet[0])  # the mistake: at rest again, every time
    for x_t in packet:
        spike, state = cell.step(x_t, state)
        carried.append(state.v)
        spikes.append(spike)
        _, lost = cell.step(x_t, lost)
        forgotten.append(lost.v)
print("spikes found:", int(torch.cat(spikes).sum()))
show = slice(0, 150)
viz.show(
    figures.traces(
        {"state carried": torch.cat(carried)[show], "state forgotten": torch.cat(forgotten)[show]},
        {"state carried": torch.cat(spikes)[show]},
        threshold=1.0,
        title="The same input in packets of 25 steps",
    )
)

# %% [markdown]
# And its twin: **the batch came first.** Most of PyTorch puts the batch in front, `[B, T, N]`; here time is in front,
# `[T, B, N]`. If you mix them up, the shapes fit, everything runs, and the membrane is carried from one *sample* to the next
# instead of from one moment to the next. Here is a test you can run on any model: change one sample and look whether
# another one's output changes.

# %%
batch_first = 1.0 + torch.randn(8, 200, 3)  # 8 samples, 200 steps, 3 neurons
changed = batch_first.clone()
changed[0] += 20.0  # only sample 0 is touched

wrong = (cell(batch_first)[0] != cell(changed)[0])[1:]  # samples 1 to 7
right = (cell(batch_first.transpose(0, 1))[0] != cell(changed.transpose(0, 1))[0])[:, 1:]
print("as it came, [B, T, N]:            other samples changed at", int(wrong.sum()), "places")
print("x.transpose(0, 1), so [T, B, N]:  other samples changed at", int(right.sum()), "places")

# %% [markdown] tags=["slide"]
# ## 6. Many neurons at once
#
# A step is elementwise arithmetic, so it doesn't care how many neurons there are: `[T, B, N]` runs `B × N` of them side by
# side, and `[T, B, C, H, W]` a whole stack of images. Numbers of the neuron may be tensors, too. Give `tau` one value per
# neuron and you have a population in which no two are alike.
#
# **Predict first.** Sixty neurons with `tau` from 2 (bottom) to 100 (top) get the *same* input: a weak start, a
# pulse (shaded), and noise. Which of them follow the noise? Which tell you most cleanly that there was a pulse?

# %% tags=["slide"]
count, steps = 60, 400
taus = torch.logspace(math.log10(2), math.log10(100), count)
drive = 0.7 + 0.9 * torch.randn(steps, 1, 1)
drive[100:300] += 1.5  # the pulse
x = drive.expand(steps, 1, count).to(device)  # one input for all: a view, nothing is copied

spikes, state = neuron.LIF(tau=taus).to(device)(x)
figure = figures.raster(spikes[:, 0], title="tau from 2 (bottom) to 100 (top)")
figure.add_vrect(x0=100, x1=300, fillcolor=viz.theme.faint(viz.theme.ORANGE, 0.15), line_width=0)
viz.show(figure)

# %% [markdown]
# **What to notice.** A short memory (bottom) fires at every lucky fluctuation, pulse or no pulse. A long memory (top) averages
# the noise away: it is silent until the mean itself is above the rheobase, takes its time even then, fires at nearly even
# intervals, and stops when the pulse does.
# Fast or reliable: `tau` is that choice. Networks can learn it (`neuron.PLIF`).

# %% [markdown] tags=["slide"]
# ## 7. Neighbours in the catalogue
#
# The LIF is the simplest member of a family. Every one has the same form, `step(x, state) -> (spike, state)`. Only the
# equations differ:
#
# | neuron | what it adds | state |
# |---|---|---|
# | `Leaky` | the LIF of snnTorch: `v ← beta v + x`, and the reset comes one step after the spike | `mem` |
# | `CubaLIF` | a synapse that smooths the input before the membrane does (Norse) | `v, i` |
# | `ALIF` | each spike raises the threshold for a while: it gets used to things | `v, a` |
# | `Izhikevich` | two equations that reproduce twenty kinds of real cells [2] | `v, u` |
#
# **Predict first.** All get a step of constant current. Which of them will *not* fire at even intervals?


# %% tags=["slide"]
def watch(cell, x):
    """Run a neuron step by step over x [T]: its first state variable [T] (the membrane), spikes [T]."""
    state, membrane, spikes = cell.initial_state(x[:1]), [], []
    for x_t in x:
        spike, state = cell.step(x_t.reshape(1), state)
        membrane.append(state[0])
        spikes.append(spike)
    return torch.cat(membrane).detach(), torch.cat(spikes).detach()


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

# %% [markdown]
# **What to notice.** The synapse of `CubaLIF` rounds the onset: its first spike comes late. `ALIF` and the regular-spiking
# Izhikevich cell **adapt**: fast at first, then slower, as most excitatory cells of the cortex do. A constant input is no news,
# so it is reported less and less. The chattering cell answers the same current in bursts. All that changed between the last two
# is the point where the membrane starts again (`c`) and the size of the kick to the recovery variable (`d`).
#
# ### The neuron lab
#
# Here they all are on one bench, with the same knobs, and their f-I curve beside them (the diamond is where you are). `current` is the level at
# which a leaky membrane without a threshold would settle; the line under the title says which neuron that makes, and which `x` it gets.
#
# **Predict first.** (a) Which neuron of the catalogue has *no* rheobase? (b) The f-I curve of the LIF has a sharp corner at 1. What
# does noise make of the corner? (c) `current` goes from 1.5 to 3, and the LIF fires nearly three times as often. What does `ALIF` do?

# %%
viz.labs.neuron_lab()

# %% [markdown]
# **What to notice.**
#
# - `IF` has no leak, so no input is too weak if you wait long enough: its f-I curve is a straight line from 0. The leak makes the corner.
# - Noise rounds the corner off. At `current = 0.9` with some noise the LIF fires now and then, raggedly: the mean is below the
#   rheobase, and only lucky fluctuations carry the membrane over. Many cells of the cortex are believed to live there.
# - `ALIF` fires only 2.3 times as often: each spike lifts its (dashed) threshold, so a strong input works against itself.
# - Two odd ones out: `LI` never fires. It is a readout: its membrane is its answer. And the neurons of `Recurrent` hear each other, each spike
#   a little inhibition for all others; without noise nobody is early, and all fire at once.

# %% [markdown] tags=["slide"]
# ## 8. A neuron of your own (stretch)
#
# Adaptation is three lines. Let $a$ be how far the threshold is raised:
#
# $$s = H\big(v - (1 + a)\big) \qquad v \leftarrow 0 \ \text{ where it fired} \qquad
# a \leftarrow a - \frac{a}{\tau_a} + \text{jump}\cdot s$$
#
# ($H$ is the step: 1 from 0 upwards. `self.spike(u)` computes it, and brings along what notebook 02 needs for learning.)
# Fill in three blanks. No `if`: use `spike`, which is 0 or 1, as a factor. Then each line serves one neuron or a million.


# %% tags=["exercise"]
class AdaptiveState(NamedTuple):
    v: torch.Tensor  # membrane [B, ...]
    a: torch.Tensor  # how far the threshold is raised [B, ...]


class Adaptive(neuron.Neuron):
    State = AdaptiveState

    def __init__(self, tau=20.0, tau_a=200.0, jump=0.2, *, engine="auto"):
        super().__init__(surrogate=surrogate.ATan(), engine=engine)
        self.tau, self.tau_a, self.jump = tau, tau_a, jump

    def step(self, x, state):
        v = state.v + (x - state.v) / self.tau
        spike = ...  # self.spike(distance of v to the raised threshold)
        v = ...  # 0 where it fired, else as it is
        a = ...  # relaxes with tau_a, jumps where it fired
        return spike, AdaptiveState(v, a)


Adaptive = attempt("01.3", Adaptive)

# %% tags=["slide"]
mine = Adaptive(tau=TAU, tau_a=150.0, jump=0.3)
x = torch.full((400,), 2.5)
v, spikes = watch(mine, x)
gaps = spikes.nonzero().squeeze(1).diff().tolist()
print("intervals between its spikes:", gaps)
runs = {"your neuron": (v, spikes), "LIF": watch(neuron.LIF(tau=TAU), x)}
viz.show(figures.gallery(runs, columns=1, title="Used to it"))

# %% [markdown]
# You wrote one step of one neuron. You did *not* write the loop over time, the batch, the GPU version, or the gradient.
# The kit's **engines** do that: `eager` is the plain loop; `cpp` (on a CPU) and `block` (anywhere) turn many steps into
# one piece of machine code. Which one your neuron gets, and why, you can ask:

# %%
small, large = torch.rand(64, 1, 100) * 4, torch.rand(64, 1, 2**15) * 4
print(engine.explain(mine, small), "\n")
print(engine.explain(mine, large))

# %% [markdown]
# Compiling takes a second or two, once. `auto` does it where that pays: for large layers, and for small ones whose results
# stay those of the loop to the last bit. With `QUICK = False` the next cell does it for your neuron and for the kit's LIF:
# same engine, same treatment. Notebook 06 is about how far that goes.

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
quiz("01")

# %%
scorecard("01")

# %% [markdown]
# ## Where next
#
# You have a neuron that computes. It can't learn yet: the derivative of its step is zero nearly everywhere, so
# gradient descent has nothing to hold on to. **[02 · Learning through a step](02_surrogate_gradients.ipynb)** shows the trick
# that made spiking networks trainable.
#
# **Worth reading**
#
# 1. W. Gerstner, W. M. Kistler, R. Naud, L. Paninski, *Neuronal Dynamics*, Cambridge University Press 2014, chapter 1.
#    [doi:10.1017/CBO9781107447615](https://doi.org/10.1017/CBO9781107447615). The book to have; free online.
# 2. E. M. Izhikevich, *Simple model of spiking neurons*, IEEE Trans. Neural Networks 14 (2003).
#    [doi:10.1109/TNN.2003.820440](https://doi.org/10.1109/TNN.2003.820440)
# 3. L. F. Abbott, *Lapicque's introduction of the integrate-and-fire model neuron (1907)*, Brain Research Bulletin 50 (1999).
#    [doi:10.1016/S0361-9230(99)00161-6](https://doi.org/10.1016/S0361-9230%2899%2900161-6)
# 4. G. Bellec et al., *A solution to the learning dilemma for recurrent networks of spiking neurons*, Nature Communications 11
#    (2020). [doi:10.1038/s41467-020-17236-y](https://doi.org/10.1038/s41467-020-17236-y). Adaptive neurons put to work.
