# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/09_blank_pages.ipynb)

# %% [markdown] tags=["slide"]
# # 09 · Blank pages: four builds from an empty cell
#
# **Afterwards you can**
#
# - write a population of spiking neurons from its equations, with nothing given;
# - give a step a gradient, in two ways, without a library;
# - write a training loop that holds in every detail, and say which details people forget;
# - write STDP with traces, and let your own neuron find the inputs that belong together.
#
# | | |
# |---|---|
# | Time | 130 minutes: each build takes 20 to 40, on one day or on four |
# | GPU minutes | 0 |
# | Before this | 01, 02 and 04; 07 for the last build. Read 05 first if you want to see such code once before |
#
# **How it works.** Each build has a page that says what you get and what you return. Then comes a cell with a name and
# three dots. Write below the dots, above them, or in place of them; import what you like from PyTorch. At the end the name
# must be your function. Run the cell as often as you want: the card lists **every** property with ✓ or ✗, and says more
# about the first that fails. Stuck? `hint("blank_pages.1")`, several times. At the very end there is `solution("blank_pages.1")`.
#
# Until yours passes, the notebook goes on with the reference. So you may begin with any build, but each one uses those before it.

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
QUICK: bool = True  # False: longer training, and STDP for twice as long
SOLVE: bool = False  # True: use the reference solutions instead of your answers
SEED: int = 0  # seed of weights, order of images and random spikes

# %%
import math

import torch
from torch.nn import functional as F

from snnkit import data, neuron
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

torch.manual_seed(SEED)
course.start("blank_pages", solve=SOLVE)

# %% [markdown] tags=["slide"]
# ## Build 1: a population of neurons
#
# ### Exercise 09.1 · A population (20 minutes, ●○○)
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
# $$v \leftarrow \beta\,v + x[t] \qquad s[t] = \text{fire}(v - \theta) \qquad v \leftarrow v - \theta\,s[t] \tag{1}$$
#
# Return two things: the spikes `[T, B, N]`, and the membrane `[B, N]` after the last step. Change none of the arguments.
#
# **An example.** One neuron, `beta = 0.5`, inputs 0.8, 0.8, 0.8. The membrane goes to 0.8, then to $0.4 + 0.8 = 1.2$: a
# spike, and 0.2 is left. Then $0.1 + 0.8 = 0.9$. So the spikes are 0, 1, 0, and `v` at the end is 0.9.

# %% tags=["exercise"]
# 09.1: a function population(x, beta, fire, v=None)
population = ...

population = attempt("blank_pages.1", population)


# %% [markdown]
# ### Your population at work
#
# **Predict first.** 50 neurons with decays from 0.50 to 0.99 get the same constant input of 0.05. What is the smallest
# decay with which a neuron ever fires?

# %%
predict("blank_pages.a")


# %% tags=["slide"]
def step(u):
    """1 where the threshold is reached."""
    return (u >= 0).to(u.dtype)


betas = torch.arange(50, 100) / 100
spikes, v = population(torch.full((1000, 1, 50), 0.051), betas, step)
outcome("blank_pages.a", betas[spikes[:, 0].any(0)].min().item())


def tuned(current=0.05, noise=0.0):
    """50 neurons with decays from 0.50 (bottom) to 0.99 (top)."""
    generator = torch.Generator().manual_seed(0)
    x = current + noise * torch.randn(200, 1, 50, generator=generator)
    spikes, _ = population(x, betas, step)
    return figures.raster(spikes[:, 0], title="Decay from 0.50 (bottom) to 0.99 (top)")


viz.explore(tuned, current=(0.0, 0.6, 0.01), noise=(0.0, 0.5, 0.05))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Without spikes $v$ settles at $x/(1-\beta)$. With a slow leak even a weak input adds up to the
# threshold. Add noise: the neurons with a fast leak begin to fire at random.
#
# </details>
#
# The kit has this neuron, too: `LIF` with a soft reset, where $\beta = 1 - 1/\tau$.

# %%
x = 0.4 * torch.rand(100, 8, 20)
yours, _ = population(x, 0.75, step)
kits, _ = neuron.LIF(tau=4.0, v_reset=None, decay_input=False)(x)
print(f"{int(yours.sum())} spikes; the same as the kit's: {(yours == kits).float().mean():.2%}")

# %% [markdown] tags=["slide"]
# ## Build 2: a surrogate gradient
#
# ### Exercise 09.2 · A surrogate gradient (25 minutes, ●●○)
#
# Write `spike(u, width)`: a step on the way forward, a triangle on the way back.
#
# | you get | shape | what it is |
# |---|---|---|
# | `u` | any | distance of the membrane to the threshold, in units of the threshold |
# | `width` | a number above 0 | where the triangle ends, in the same units |
#
# $$s = \begin{cases}1 & u \ge 0\\0 & u < 0\end{cases} \qquad
# \frac{\partial s}{\partial u} := \sigma'(u) = \frac{1}{h}\max\!\Big(0,\; 1 - \frac{|u|}{h}\Big), \quad h = \text{width} \tag{2}$$
#
# Return the spikes, in the shape and dtype of `u`: exactly 0 or 1. What arrives at the spikes on the way back must arrive
# at `u`, times $\sigma'(u)$.
#
# **An example.** `width = 2`. At $u = -1$ the spike is 0 and the slope $\frac12(1 - \frac12) = 0.25$. At $u = 3$ the spike
# is 1 and the slope 0.
#
# There are two ways. One is `torch.autograd.Function`, as in 02. The other needs no class at all (16 uses it, for a chip that
# knows no such functions):
#
# **Predict first.** Let `a` be some smooth function of `u`, and `s` the step. What are the value and the gradient of
# `s + (a - a.detach())`?

# %%
predict("blank_pages.b")

# %%
u = torch.tensor([-0.4, 0.3], requires_grad=True)
a = torch.sigmoid(u)
trick = step(u) + (a - a.detach())
(gradient,) = torch.autograd.grad(trick.sum(), u)
print(
    "value",
    trick.tolist(),
    "  gradient",
    gradient.numpy().round(3),
    "  slope of a",
    (a * (1 - a)).detach().numpy().round(3),
)
outcome("blank_pages.b", 0 if torch.equal(trick, step(u)) and torch.allclose(gradient, a * (1 - a)) else 1)

# %% tags=["exercise"]
# 09.2: a function spike(u, width)
spike = ...

spike = attempt("blank_pages.2", spike)

# %% tags=["slide"]
u = torch.linspace(-3, 3, 241)
slopes = {}
for width in (0.5, 1.0, 2.0):
    leaf = u.clone().requires_grad_()
    spike(leaf, width).sum().backward()
    slopes[f"width {width:g}"] = leaf.grad
axes = {"x_title": "u, in units of the threshold", "y_title": "gradient of the spike"}
viz.show(figures.lines(slopes, x=u, title="Your surrogate, three widths", **axes))

# %% [markdown] tags=["slide"]
# ## Build 3: a training loop
#
# ### Exercise 09.3 · A training loop (30 minutes, ●●○)
#
# Write `fit(scores, weights, x, y, epochs, batch, lr, generator)`.
#
# | you get | what it is |
# |---|---|
# | `scores` | a function: `scores(images, weights)` gives `[B, C]`, one number per image and class |
# | `weights` | a list of tensors that require gradients; you change them **in place** |
# | `x`, `y` | all images `[M, …]`, and the class of each, int64 `[M]` |
# | `epochs`, `batch` | how often through all images, and how many of them at a time |
# | `lr` | the learning rate $\eta$ |
# | `generator` | the `torch.Generator` that decides the order of the images |
#
# In each epoch the images come in a new random order, each of them once. The last batch may be smaller. For each batch,
# the loss $L$ is the mean cross-entropy of the scores in nats (`F.cross_entropy`), and then, for all weights,
#
# $$w \leftarrow w - \eta\,\frac{\partial L}{\partial w} \tag{3}$$
#
# Return a list with one float per epoch: the mean loss of its images, as computed on the way.
#
# **An example.** 7 images, `batch=3`: batches of 3, 3 and 1. After two epochs the weights have changed six times, and the
# list has two numbers.

# %% tags=["exercise"]
# 09.3: a function fit(scores, weights, x, y, epochs, batch, lr, generator)
fit = ...

fit = attempt("blank_pages.3", fit)

# %% [markdown] tags=["slide"]
# ### All three together read digits
#
# `scores` shows an image for 20 steps to two layers of *your* neurons, which fire through *your* `spike`, and counts the
# spikes of the last layer. *Your* loop trains it. The only parameter that we try is the width of the surrogate.
#
# **Predict first.** One network learns with a half-width of 0.25, the other with 2. Which one reads more digits in the end?

# %%
predict("blank_pages.c")

# %% tags=["slide"]
images, labels = data.load("digits")
test_images, test_labels = data.load("digits", "test")
x, x_test = data.to_unit(images).flatten(1), data.to_unit(test_images).flatten(1)


def network(width):
    """A function of (images [B, 64], weights) that gives the spike counts [B, 10]."""

    def scores(images, weights):
        s = images.expand(20, -1, -1)
        for w in weights:
            s, _ = population(s @ w.T, 0.9, lambda u: spike(u, width))
        return s.sum(0)

    return scores


accuracy, curves = {}, {}
for width in (0.25, 2.0):
    generator = torch.Generator().manual_seed(SEED)
    weights = []
    for inputs, neurons in ((64, 100), (100, 10)):
        w = (2 * torch.rand(neurons, inputs, generator=generator) - 1) / inputs**0.5
        weights.append(w.requires_grad_())
    scores = network(width)
    curves[f"width {width:g}"] = fit(scores, weights, x, labels, 10 if QUICK else 30, 64, 0.03, generator)
    with torch.no_grad():
        accuracy[width] = (scores(x_test, weights).argmax(1) == test_labels).float().mean().item()
print({f"width {width:g}": f"{right:.1%} of the test digits" for width, right in accuracy.items()})
title = "Your network, your loop, two surrogates"
viz.show(figures.lines(curves, x_title="epoch", y_title="loss (nats)", title=title))
outcome("blank_pages.c", 0 if accuracy[0.25] > accuracy[2.0] else 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Everything that ran here is yours. A triangle of half-width 2 reaches down to $u = -2$, so a
# neuron that is silent still gets a gradient. One of 0.25 reaches almost no membrane: section 5 of notebook 02 calls
# such neurons dead.
#
# </details>

# %% [markdown] tags=["slide"]
# ## Build 4: STDP with traces
#
# ### Exercise 09.4 · STDP with traces (35 minutes, ●●●)
#
# Write `stdp(pre, post, w, tau, up, down, traces=None)`: the rule of notebook 07, this time with its loop over time.
#
# | you get | shape | what it is |
# |---|---|---|
# | `pre` | `[T, M]` | spikes of the inputs |
# | `post` | `[T, N]` | spikes of the neurons |
# | `w` | `[N, M]` | the weight from each input to each neuron, 0 to 1 |
# | `tau` | a number | time constant of all traces, in time steps |
# | `up`, `down` | numbers | how much one pair adds or takes |
# | `traces` | yours | what an earlier call has returned; `None` at the start |
#
# Each input has a trace $x$, each neuron a trace $y$ (not inputs here, as in 07). In each step, in this order:
#
# $$x \leftarrow e^{-1/\tau} x + s_\text{pre}[t] \qquad y \leftarrow e^{-1/\tau} y + s_\text{post}[t] \tag{4}$$
#
# $$w_{ij} \leftarrow \big[\, w_{ij} + \text{up}\cdot s_{\text{post},i}\; x_j - \text{down}\cdot y_i\; s_{\text{pre},j} \,\big]_0^1 \tag{5}$$
#
# The bracket cuts off below 0 and above 1. Return the new weights `[N, M]`, and anything from which a next call can go on
# (such as the two traces). Change none of the arguments.
#
# **An example.** One input fires at step 3, one neuron at step 8, $\tau = 10$, `up = 0.1`. The weight between them grows by
# $0.1\,e^{-5/10} = 0.061$.

# %% tags=["exercise"]
# 09.4: a function stdp(pre, post, w, tau, up, down, traces=None)
stdp = ...

stdp = attempt("blank_pages.4", stdp)

# %% [markdown] tags=["slide"]
# ### Who belongs together?
#
# One of your neurons has 40 inputs. All fire equally often, three times in 100 steps. Each spike of the first 20 is with
# probability 1/2 a copy of a common source, so they often fire together. The other 20 know nothing of each other. All
# weights begin at 0.5.
#
# **Predict first.** STDP runs for 4000 steps. Which weights grow?

# %%
predict("blank_pages.d")

# %% tags=["slide"]
steps = 4000 if QUICK else 8000
generator = torch.Generator().manual_seed(SEED)
source = (torch.rand(steps, 1, generator=generator) < 0.03).float()
pre = (torch.rand(steps, 40, generator=generator) < 0.03).float()
copies = torch.rand(steps, 20, generator=generator) < 0.5
pre[:, :20] = torch.where(copies, source, pre[:, :20])

w, v, traces, history = torch.full((1, 40), 0.5), None, None, []
for t in range(steps):
    current = 0.5 * pre[t : t + 1] @ w.T  # [1, 1]: one step, one neuron
    post, v = population(current[:, None], 0.9, step, v)
    w, traces = stdp(pre[t : t + 1], post[:, 0], w, 20.0, 0.01, 0.0105, traces)
    history.append(w[0])
history = torch.stack(history)  # [steps, 40]

means = {"inputs 0 to 19, which fire together": history[::20, :20].mean(1)}
means["inputs 20 to 39, each alone"] = history[::20, 20:].mean(1)
axes = {"x": range(0, steps, 20), "x_title": "time step", "y_title": "mean weight"}
viz.show(figures.lines(means, title="One neuron, two groups of inputs", **axes))
together, alone = history[-1, :20].mean().item(), history[-1, 20:].mean().item()
print(f"at the end: together {together:.2f}, alone {alone:.2f}")
outcome("blank_pages.d", 0 if together > 0.5 > alone else 3)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# No label, no error, no gradient: the neuron has found the inputs that share a cause. Several of
# them at once make it fire, so their spikes come just before its own. The others hit it at random times, and `down` is
# a little larger than `up`. The loop calls your two functions with one step at a time. That works because both go on
# from the state that they returned.
#
# </details>

# %% [markdown] tags=["slide"]
# ## What broke?
#
# A colleague's `population` is a line shorter than yours. It gives the right spikes. Then she runs two experiments from the
# same start, and the second one comes out differently. **Find the mistake before you read on.**


# %%
def her_population(x, beta, fire, v):
    spikes = []
    for x_t in x:
        v *= beta
        v += x_t
        s = fire(v - 1)
        v -= s
        spikes.append(s)
    return torch.stack(spikes), v


start, drive = torch.zeros(1, 1), torch.full((10, 1, 1), 0.3)
for run in (1, 2):
    spikes, _ = her_population(drive, 0.9, step, start)
    print(f"run {run}: spikes", [int(s) for s in spikes.flatten()], "  the start is now", f"{start.item():.3f}")

# %% [markdown]
# `v *= beta` changes the tensor that the caller has handed over: `start` is no longer 0 after the first run. `v = beta * v`
# makes a new one. In-place operations save memory, and they have two prices: the caller's data change, and autograd
# complains (or, worse, does not). Write them only where you own the tensor. A test that runs a function *twice* finds this
# kind of mistake.

# %% [markdown]
# ## Quiz

# %%
quiz("blank_pages")

# %%
scorecard("blank_pages")

# %% [markdown]
# ## Where next
#
# You have built the four parts that every spiking library is made of. Three ways on:
#
# - **[20 · Your own data](20_your_own_data.ipynb)**: a table, a sound and a recording of your own, the whole way to a page.
# - **[08 · The open challenge](08_open_challenge.ipynb)**: XOR in time with the fewest
#   spikes. Your `population` and your `fit` may take part.
# - **Your own work.** Take a decision of your field that needs two moments in time. Fifty lines of data, and the code that you
#   have now.
#
# **Worth reading**
#
# 1. F. Zenke, T. P. Vogels, *The remarkable robustness of surrogate gradient learning for instilling complex function in spiking
#    neural networks*, Neural Computation 33 (2021). [doi:10.1162/neco_a_01367](https://doi.org/10.1162/neco_a_01367). Which
#    details of build 2 matter.
# 2. S. Song, K. D. Miller, L. F. Abbott, *Competitive Hebbian learning through spike-timing-dependent synaptic plasticity*,
#    Nature Neuroscience 3 (2000). [doi:10.1038/78829](https://doi.org/10.1038/78829). The experiment of build 4, larger.
# 3. A. Morrison, M. Diesmann, W. Gerstner, *Phenomenological models of synaptic plasticity based on spike timing*, Biological
#    Cybernetics 98 (2008). [doi:10.1007/s00422-008-0233-1](https://doi.org/10.1007/s00422-008-0233-1). Which pairs count, and
#    how traces compute them.
