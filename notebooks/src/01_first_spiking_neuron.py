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
# A neuron adds up its input, forgets some of it all the time, and fires when it has enough. That is three lines of Python.
# You write them, and at the end a whole population of neurons from an empty cell.
#
# **Afterwards you can**
#
# - turn the equation of a neuron into a line of PyTorch, and say how the time step changes it;
# - predict from a formula how often a neuron fires;
# - stop and resume thousands of neurons, because you know where their state is;
# - write a population of neurons from its equations, with nothing given.
#
# | | |
# |---|---|
# | Time | 85 minutes, and 10 more for the optional part |
# | GPU minutes | 0 |
# | Before this | 00 pre-flight; Python, a little PyTorch (tensors, `+`, `*`), and the idea of a derivative. No biology |

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
QUICK: bool = True  # False: finer sweeps
SOLVE: bool = False  # True: use the reference solutions instead of your answers
SEED: int = 0  # seed of every random number
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"; this notebook needs no GPU
TAU: float = 20.0  # membrane time constant of the examples, in time steps

# %%
import math
from typing import NamedTuple

import torch

from snnkit import neuron, surrogate, train
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("first_spiking_neuron", solve=SOLVE)
best = "cuda" if torch.cuda.is_available() else "cpu"
device = torch.device(best if DEVICE == "auto" else DEVICE)

# %% [markdown] tags=["slide"]
# ## Play first
#
# Thirty neurons get the same mean <span class="show-current">input</span>, each with
# <span class="show-noise">noise</span> of its own. The curve is the <span class="show-potential">membrane</span> of
# neuron 0. The dashed line is its <span class="show-threshold">*threshold*</span>: a neuron whose membrane reaches it
# fires a <span class="show-spikes">spike</span>, and the <span class="show-reset">*reset*</span> puts the membrane back
# to 0. Below is the raster of all thirty. The title gives the mean **interspike interval**: the steps from one spike of a
# neuron to its next. Try to find:
#
# 1. the smallest `current` at which they fire without noise;
# 2. a setting in which they fire *only because of* the noise: is the raster then regular or irregular?
# 3. what <span class="show-tau">`tau`</span> does to the first spike, and to the number of spikes.
#
# (Leave the switch `reset` for section 3.)

# %%
viz.explorers.population()

# %% [markdown]
# ## 1 · A leaky bucket
#
# A membrane is a thin wall between two salt solutions. It stores charge like a capacitor, and it leaks like a resistor.
# When current flows in, the voltage rises. When the current stops, the voltage falls back.
#
# ![Left, a bucket with a hole: water flows in from a tap (the current I), its level is the potential v, the width of the bucket is the capacitance C, water leaks out through the hole (the resistance R), and the rim is the threshold. Right, the same as a circuit: a current source, a resistor and a capacitor side by side between inside and outside.](drawings/membrane.svg)
#
# Let $C$ be the capacitance, $R$ the resistance, and $v_\text{rest}$ the voltage of the undisturbed cell. Charge balance
# says $C\,\frac{dv}{dt} = -\frac{v - v_\text{rest}}{R} + I$. Multiply by $R$ and call $\tau = RC$ the time constant of the
# membrane:
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
# Measure the potential from rest, in units of the distance to the threshold: replace $v$ by
# $(v - v_\text{rest})/(\theta - v_\text{rest})$, and put $x = R\,I/(\theta - v_\text{rest})$. Now rest is 0, the threshold
# is 1, and $\tau$ is the only parameter left:
#
# $$\tau\,\frac{dv}{dt} = -v + x \tag{2}$$
#
# For the cell in the table, $x = 1$ is a current of $20\,\text{mV} / 100\,\text{MΩ} = 0.2\,\text{nA}$.
#
# For a constant $x$, equation (2) has a solution that you can say in words: *the distance to $x$ shrinks by the factor $e^{-t/\tau}$*.
#
# $$v(t) = x + (v_0 - x)\,e^{-t/\tau} \tag{3}$$
#
# ## 2 · From an equation to a step
#
# A computer advances time in steps of length $\Delta t$. Here are two ways to compute a step:
#
# $$\text{Euler:}\quad v \leftarrow v + \frac{\Delta t}{\tau}\,(x - v) \qquad\qquad
# \text{exact:}\quad v \leftarrow x + (v - x)\,e^{-\Delta t/\tau}$$
#
# Euler follows the tangent for a whole step. The exact step is equation (3) with $t = \Delta t$. The *decay* $\beta$ is the part of the distance that is left after one step: here
# $\beta = e^{-\Delta t/\tau}$. Euler's decay, $\beta = 1 - \Delta t/\tau$, is the first two terms of the same series.
#
# **Predict first.** With $\Delta t \ll \tau$ the two agree. What will Euler's method do at $\Delta t = 1.5\,\tau$? (Then
# move the slider, also beyond 2.)

# %%
predict("first_spiking_neuron.a")


# %%
def euler_against_exact(ratio):
    at, fine = torch.arange(0, 6.01, ratio), torch.linspace(0, 6, 121)  # in units of tau
    euler = 1 - (1 - ratio) ** torch.arange(len(at))  # one Euler step multiplies the distance by 1 - dt / tau
    off = (euler - (1 - torch.exp(-at))).abs().max()
    both = {"exact, eq. (3)": (fine, 1 - torch.exp(-fine)), "Euler": (at, euler)}
    axes = {"x_title": "time in units of τ", "y_title": "potential v", "faint": ["exact, eq. (3)"]}
    figure = figures.lines(both, title=f"Input x = 1, Δt = {ratio:g} τ: largest error {off:.2g}", **axes)
    return figure.update_xaxes(range=[-0.1, 6.1]).update_yaxes(range=[-0.6, 2.6])


ratios = [0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 2.2]
viz.show(viz.frames(euler_against_exact, "dt / tau", ratios, start=3))
outcome("first_spiking_neuron.a")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - At $\Delta t = \tau/20$, the usual choice, Euler's error is about 1 %. No membrane is known that precisely.
# - At $\Delta t = \tau$ Euler jumps to $x$ in one step: the neuron has no memory left.
# - Above $\tau$ it jumps past $x$. Above $2\tau$ it swings with growing size. The neuron does not do this; the numerical
#   method does. The exact step is well behaved at any $\Delta t$.
#
# </details>

# %% [markdown]
# From here on we count time in steps: $\Delta t = 1$, so `tau = 20` means 20 steps. If a step is 1 ms, that is 20 ms.
#
# ### Exercise 01.1 · Charge the membrane (6 minutes, ●○○)
#
# Write one line. `x` and `v` are tensors of the same shape (one number per neuron), and `tau` is a number of steps.
# Return the membrane one step later. Both Euler and the exact step pass (for the exact one: `tau` is a plain number, so use
# `math.exp`).
#
# Stuck? Call `hint("first_spiking_neuron.1")`, several times if you need to; then `solution("first_spiking_neuron.1")`.


# %% tags=["exercise"]
def lif_step(x, v, tau):
    """The membrane one time step later, by tau dv/dt = -v + x. Shapes: x, v and the result [...]."""
    return ...


lif_step = attempt("first_spiking_neuron.1", lif_step)

# %% [markdown] tags=["slide"]
# ## 3 · Fire and reset
#
# At the threshold a real neuron does something drastic: within 2 ms the voltage shoots up by 100 mV and falls back. The
# spikes of one cell look much alike, so their shape carries hardly any information; their *timing* does. The **leaky
# integrate-and-fire** neuron (LIF) models only that. Each step has three parts:
#
# 1. **charge**: $v \leftarrow v + (x - v)/\tau$
# 2. **fire**: $s = 1$ if $v \ge \theta$, else $0$
# 3. **reset**: hard, $v \leftarrow v_\text{reset}$ where $s = 1$; or subtract, $v \leftarrow v - s\,\theta$
#
# A *hard reset* discards what the membrane had above the threshold. A *soft reset* subtracts the threshold, and so keeps
# the rest.

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
title = "Too weak: no spike. Strong enough: spikes at even intervals"
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

# %% [markdown]
# **Predict first.** Under a strong input, $x = 4$, which neuron fires more often: hard or soft reset?

# %%
predict("first_spiking_neuron.b")

# %%
strong = torch.full((1000, 1), 4.0)  # the kit's LIF takes Euler's step
hard, soft = (int(neuron.LIF(TAU, v_reset=v)(strong)[0].sum()) for v in (0.0, None))
print("spikes in 1000 steps at x = 4: hard reset", hard, "and soft reset", soft)
outcome("first_spiking_neuron.b", int(soft > hard))

# %% [markdown]
# Now go back to the lab at the top, and move its switch `reset`, at a small `current` and at the largest.

# %% [markdown] tags=["slide"]
# ## 4 · The firing rate: a formula and a test
#
# Apply a constant input $x$. From a hard reset to 0 the membrane rises as $v(t) = x\,(1 - e^{-t/\tau})$. It reaches
# $\theta$ when $e^{-t/\tau} = 1 - \theta/x$. So the **interspike interval**, in steps, is
#
# $$\text{interval} = -\tau\,\ln\!\left(1 - \frac{\theta}{x}\right) \tag{4}$$
#
# and the rate is one divided by that. For $0 \le x \le \theta$ there is no such logarithm: the membrane levels off at $x$ and
# the neuron never fires. The input above which a neuron fires is its *rheobase*. Here it is $x = \theta = 1$, in a typical
# cortical cell 0.2 nA. The firing rate as a function of the input is the *f–I curve* of the neuron: one of the first
# things that a physiologist measures in a new cell.
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
title = "Silent up to the rheobase; then the rate rises steeply"
axes = {"x_title": "input x", "y_title": "firing rate (spikes per step)", "title": title}
viz.show(figures.lines(rates, x=currents, faint=["equation (4)"], **axes))

# %%
at = [int((currents - x).abs().argmin()) for x in (1.5, 3.0)]
outcome("first_spiking_neuron.c", formula[at[1]] / formula[at[0]])
most = simulate(torch.full((50,), 100.0))[0].mean()
print(f"spikes per step at x = 100: {most:g}")
outcome("first_spiking_neuron.d", int(most == 1))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The neuron is silent up to the rheobase; then the rate rises steeply. From 1.5 to 3 it grows 2.7-fold, not twofold.
# - With a *hard* reset the curve is a staircase. At $x = 4$ the formula gives an interval of 5.75 steps. A simulation
#   that fires on whole steps rounds this **up** to 6, and discards the surplus. This is the price of a finite $\Delta t$.
# - The *soft* reset keeps the surplus. With Euler's step one interval of 5 comes after some of 6, and the average is right. Use it where
#   rates must stand for numbers.
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
# A neuron remembers its membrane potential, and this memory must be stored somewhere. In the kit **you hold it**: the
# state is an argument and a return value, and the module hides nothing. `None` means *start at rest*. A state that you
# can see is one that you can save, cut, move to a GPU, or discard on purpose. Here a neuron stops in the middle of a
# sequence and resumes.

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
# result. (If your `lif_step` uses the exact step, the last line prints `False`: the kit's is Euler's.)
#
# </details>

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
# `out, _ = cell(packet)` discards the state, so each packet starts at rest, and 25 steps are too few to reach the
# threshold. There is no error, and the shapes are right. Pass the state on, and the neuron fires:

# %% tags=["slide"]
state, count = None, 0.0
for packet in stream.split(25):
    out, state = cell(packet, state)
    count += out.sum().item()
print("spikes counted:", int(count))

spikes, carried = simulate(stream[:150, 0])
forgotten = torch.cat([simulate(packet)[1] for packet in stream[:150, 0].split(25)])  # each from rest
both, marks = {"state carried": carried, "state forgotten": forgotten}, {"state carried": spikes}
viz.show(
    figures.traces(both, marks, threshold=1.0, title="In packets of 25 steps: only a neuron that keeps its state fires")
)

# %% [markdown] tags=["slide"]
# ## 6 · Many neurons at once
#
# A step is *elementwise*: it computes each element of a tensor for itself. So it works for any number of neurons, and
# `[T, B, N]` runs `B × N` of them in parallel. The parameters may be tensors, too: give `tau` one value per neuron, and no
# two neurons are alike.
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

figure = figures.raster(spikes[:, 0], title="Long memories (top) fire for the pulse, short ones also for noise")
figure.add_vrect(x0=100, x1=300, fillcolor=viz.theme.faint(viz.theme.TEXT, 0.15), line_width=0)
viz.show(figure)
inside = spikes[100:300, 0].sum(0) / spikes[:, 0].sum(0).clamp(min=1)
print(f"spikes within the pulse: {inside[:15].mean():.0%} for short tau, {inside[-15:].mean():.0%} for long tau")
outcome("first_spiking_neuron.e", int(inside[-15:].mean() > inside[:15].mean()))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Neurons with a short memory (bottom) fire at every large fluctuation, pulse or no pulse. Neurons
# with a long memory (top) average the noise away. They fire only where the mean input is above the rheobase, and they
# respond late. `tau` is a choice between fast and reliable.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 7 · Other neurons of the catalogue
#
# All neurons of the kit have the same form, `step(x, state) -> (out, state)`. Only the equations differ:
#
# | neuron | what it adds | state |
# |---|---|---|
# | `IF` | nothing: it is the LIF without its leak | `v` |
# | `Leaky` | the LIF of snnTorch, another library: $v \leftarrow \beta v + x$ (there `mem`); the reset comes one step after the spike | `mem` |
# | `CubaLIF` | a *synapse*, the contact through which spikes arrive: it smooths the input before the membrane does (the LIF of Norse) | `v, i` |
# | `ALIF` | *adaptation*: each spike raises the threshold for a while, so the neuron fires less and less often | `v, a` |
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
viz.show(figures.gallery(runs, title="A step of current for each, six answers"))

# %%
gaps = [spikes.nonzero().flatten().diff() for _, spikes in runs.values()]
print("first intervals:", *(one[:5].tolist() for one in gaps))
outcome("first_spiking_neuron.f", sum(int(one.max() - one.min() > 1) for one in gaps))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The synapse of `CubaLIF` rounds the onset: its first spike comes late. `ALIF` and the
# regular-spiking Izhikevich cell adapt, as do most *excitatory* cells of the cortex, those that drive other cells. The
# chattering cell answers the same current with bursts. It differs only in two numbers, `c` and `d`.
#
# </details>

# %% [markdown]
# Your ear is better at time than your eye. Listen to four of them, 10 ms a step (ten times slower than life):

# %%
listed = ("LIF, hard reset", *list(runs)[3:])
viz.listen({name: runs[name][1] for name in listed}, seconds_per_step=0.01)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The LIF ticks like a clock. `ALIF` and the regular-spiking cell slow down: that is what adaptation
# sounds like. The chattering cell drums.
#
# </details>
#
# ### The neuron explorer
#
# Compare these neurons and a few more, with the f–I curve at the side. Drag the diamond along the <span class="show-rate">curve</span>, drag
# the dashed <span class="show-threshold">threshold</span>, or draw an <span class="show-input">input of your own</span>
# into the upper panel. <span class="show-current">`current`</span> is the level at which a leaky membrane would settle.
#
# **Predict first.** (g) Which neuron of the catalogue has *no* rheobase? (h) The f–I curve of the LIF has a sharp
# corner at 1. What does noise do to the corner?

# %%
predict("first_spiking_neuron.g")
predict("first_spiking_neuron.h")

# %%
viz.explorers.neuron()

# %%
outcome("first_spiking_neuron.g")
outcome("first_spiking_neuron.h")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - `IF` has no leak, so no input is too weak if you wait long enough. Its f–I curve is nearly a straight line from 0. The
#   corner comes from the leak.
# - Noise rounds the corner off. At `current = 0.9` with some noise the LIF fires now and then: only large fluctuations
#   carry the membrane over the threshold. Many cells of the cortex are believed to work like this.
# - `LI` never fires. It is a readout: its membrane is the output.
#
# </details>

# %% [markdown]
# **Predict first.** (i) `current` goes from 1.5 to 3, and the LIF fires 2.7 times as often. And `ALIF`?

# %%
predict("first_spiking_neuron.i")

# %%
levels = torch.tensor([1.5, 3.0]) * (1 - math.exp(-1 / 20))  # the x that lets v settle at 1.5 and 3
spikes, _ = neuron.ALIF(tau=20.0, beta=0.2, v_reset=0.0)(levels.expand(4000, 2))
growth = spikes[1000:, 1].sum() / spikes[1000:, 0].sum()  # after 1000 steps the threshold has risen
print(f"ALIF fires {growth:.1f} times as often")
outcome("first_spiking_neuron.i", 0 if growth < 2.7 else 2)

# %% [markdown] tags=["slide"]
# ## 8 · Your own neuron (optional, 12 minutes)
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
# Your neuron has an explorer, too: run `viz.explorers.neuron(mine)` in a new cell, and each of its numbers is a slider. You
# wrote one step. You did *not* write the loop over time, the batch, the GPU version, or the gradient: the kit's engines, which
# run your step over time, do that, as notebook 11 shows.

# %% [markdown] tags=["slide"]
# ## 9 · Build: a population from an empty cell
#
# Now with nothing given. Write below the dots, or in place of them. The card lists **every** property with ✓ or ✗, and
# says more about the first that fails.
#
# ### Exercise 01.4 · A population (15 minutes, ●○○)
#
# Write `population(x, beta, fire, v=None)`.
#
# | you get | shape | what it is |
# |---|---|---|
# | `x` | `[T, B, N]` | the input of each neuron at each step; float32 or float64 |
# | `beta` | a number or `[N]` | decay of the membrane per time step, 0 to 1 |
# | `fire` | a function | makes spikes (0 or 1) of the distance $u = v - \theta$ to the threshold |
# | `v` | `[B, N]` or `None` | the membrane to start from; `None` is 0 everywhere |
#
# The threshold is $\theta = 1$; all potentials are in units of it. Each time step does three things:
#
# $$v \leftarrow \beta\,v + x[t] \qquad s[t] = \text{fire}(v - \theta) \qquad v \leftarrow v - \theta\,s[t] \tag{5}$$
#
# Return two things: the spikes `[T, B, N]`, and the membrane `[B, N]` after the last step. Change none of the arguments.
#
# **An example.** One neuron, `beta = 0.5`, inputs 0.8, 0.8, 0.8. The membrane goes to 0.8, then to $0.4 + 0.8 = 1.2$: a
# spike, and 0.2 is left. Then $0.1 + 0.8 = 0.9$. So the spikes are 0, 1, 0, and `v` at the end is 0.9.

# %% tags=["exercise"]
# 01.4: a function population(x, beta, fire, v=None)
population = ...

population = attempt("first_spiking_neuron.4", population)

# %% [markdown]
# **Predict first.** 50 of your neurons, with decays from 0.50 to 0.99, get the same constant input of 0.051. What is the
# smallest decay with which a neuron ever fires?

# %%
predict("first_spiking_neuron.j")


# %% tags=["slide"]
def step(u):
    """1 where the threshold is reached."""
    return (u >= 0).to(u.dtype)


betas = torch.arange(50, 100) / 100
spikes, v = population(torch.full((1000, 1, 50), 0.051), betas, step)
viz.show(figures.raster(spikes[:200, 0], title="One weak input: only neurons with a slow leak (top) fire"))
outcome("first_spiking_neuron.j", betas[spikes[:, 0].any(0)].min().item())

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Without spikes $v$ settles at $x/(1-\beta)$. With a slow leak even a weak input adds up to the threshold.
#
# </details>

# %% [markdown]
# The kit has this neuron, too: `LIF` with a soft reset and `decay_input=False`, where $\beta = 1 - 1/\tau$.

# %%
x = 0.4 * torch.rand(100, 8, 20)
yours, _ = population(x, 0.75, step)
kits, _ = neuron.LIF(tau=4.0, v_reset=None, decay_input=False)(x)
print(f"{int(yours.sum())} spikes; the same as the kit's: {(yours == kits).float().mean():.2%}")

# %% [markdown]
# ## Quiz

# %%
quiz("first_spiking_neuron")

# %%
scorecard("first_spiking_neuron")

# %% [markdown]
# ## Where next
#
# You have neurons that compute, in a function of your own. They cannot learn yet: gradient descent follows slopes,
# and a spike is a step. **[02 · Learning through a step](02_surrogate_gradients.ipynb)** shows the trick
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
