# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/00_preflight.ipynb)

# %% [markdown] tags=["slide"]
# # 00 · Pre-flight
#
# Ten minutes of preparation: see your first spikes, check that this machine can run the course, and learn the kit's few
# controls. After that you need not think about them again.
#
# After this notebook you
#
# - know that your environment works, or what to fix;
# - have met sliders, exercises, hints and the scorecard, and know what happens after a wrong answer;
# - can read a tensor of spikes: `[T, B, N]`, **time first**;
# - know where the data are, when a GPU is worth using, and what to do when you are stuck.
#
# | in class | GPU minutes | you need | exercises |
# |---|---|---|---|
# | 15 min | 0 | a little Python | 00.1 count the spikes (2 min), 00.2 time first (1 min) |
#
# **How to run a cell:** click into it and press <kbd>Shift</kbd> + <kbd>Enter</kbd>. It runs, and the next one is selected.
# Start with the cells below, in order. (On Colab, the first takes half a minute, because it fetches the kit.)

# %% [markdown]
# The first cell below loads the kit. The second holds this notebook's **settings**; every notebook has exactly one such
# cell. `QUICK` keeps all sizes small; `SOLVE = True` fills in all exercises, which is meant for instructors. Change a
# value, then run the cells below it again.

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
QUICK: bool = True  # small sizes: seconds on a laptop
SOLVE: bool = False  # use the reference solutions of the exercises
SEED: int = 0  # the seed of every random number
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import torch

from snnkit import course, data, encode, neuron, train, viz
from snnkit.course import attempt, hint, quiz, scorecard, solution
from snnkit.tools import doctor

train.seed_everything(SEED)
course.start("00", solve=SOLVE)

# %% [markdown] tags=["slide"]
# ## First spikes
#
# A neuron's membrane behaves like a leaky bucket. Input fills it and the leak empties it. When it is full, the neuron
# emits a **spike** and starts again from empty. In symbols,
#
# $$v \leftarrow v + \frac{x - v}{\tau}, \qquad \text{a spike and } v \leftarrow 0 \text{ where } v \ge 1,$$
#
# with the level $v$ and the input $x$ in units of the full bucket, and the time constant $\tau$ in time steps. Here is
# a neuron with $\tau = 20$ steps and a constant input for 100 steps.
#
# **Predict first.** The bucket overflows at 1. What happens with an input of 0.9? And does twice the input give twice the
# spikes? Decide, then move the slider.

# %% tags=["slide"]
viz.labs.population_lab(neurons=1, steps=100, current=1.5, only_current=True)

# %% [markdown] tags=["slide"]
# **What to notice.** Up to an input of 1 the leak wins and the neuron never fires. Above 1 it fires regularly, and the
# rate grows more than in proportion to the input. Triangles mark the spikes; after each spike the membrane starts again
# from 0. Notebook 01 explains every feature of this curve.
#
# The whole course follows this pattern: **predict, run, explain**. Make a prediction *before* you run a cell, even a
# wild guess. People who commit to a guess remember the result better than people who only watch.
#
# ## Is everything there?
#
# One row per check. **Green**: fine. **Amber**: works, with a limitation; the arrow says what you can do about it.
# **Red**: fix it now, or raise your hand. "No GPU" is amber, and that is perfectly all right: no notebook needs one.

# %%
doctor.report()

# %% [markdown] tags=["slide"]
# ## Spikes are tensors, and time comes first
#
# Everywhere in snnkit, spike trains are a tensor of zeros and ones of shape `[T, B, N]`:
#
# | axis | what | here |
# |---|---|---|
# | `T` | time steps | 50 |
# | `B` | batch: independent samples | 4 |
# | `N` | neurons (or channels, height, width) | 30 |
#
# A neuron takes such a tensor and returns **two** things: its output spikes, and its **state** at the end. The module
# itself stores no state. To continue a sequence, pass the state to the next call; to start again from rest, leave it
# out.

# %% tags=["slide"]
rain = encode.poisson(torch.full((4, 30), 0.3), steps=50, generator=torch.Generator().manual_seed(SEED))
layer = neuron.LIF(tau=5.0, v_threshold=0.4)
out, state = layer(rain)
more, state = layer(rain, state)  # continues where the first call stopped

print(
    f"in {tuple(rain.shape)}, out {tuple(out.shape)}, state.v {tuple(state.v.shape)}: one membrane per sample and neuron"
)
viz.show(viz.figures.raster(out[:, 0], title="Sample 0, 30 neurons"))

# %% [markdown]
# ## How exercises work
#
# An exercise is a cell with a `...` in it. Replace the dots and run it; a card shows the result:
#
# - **○ to do**: the dots are still there.
# - **✗ failed**: the card shows the first property that does not hold, your result and the expected one, and a hint.
# - **✓ passed**.
#
# The last line, `attempt`, returns your answer if it passes and **our solution if it does not**. So a wrong or missing
# answer never stops you: the notebook goes on, and you can come back to the exercise later.
#
# ### Exercise 00.1 · Count the spikes (2 min, ●○○)
#
# See all three states once. Run the cell as it is (*to do*). Then write `spikes.numel()`, which counts zeros as well
# (*failed*). Then write the correct answer (*passed*).


# %% tags=["exercise"]
def count_spikes(spikes):
    """How many spikes there are in all. spikes: [T, B, N] of 0 and 1."""
    return ...


count_spikes = attempt("00.1", count_spikes)

# %%
print(f"{int(count_spikes(rain))} spikes in, {int(count_spikes(out))} out")

# %% [markdown]
# Stuck? Run `hint("00.1")` in a separate cell: each call shows one more hint. After that, feel free to run
# `solution("00.1")`. Try it. (The scorecard counts hints, but they cost you nothing. The one hint that it will show for
# 00.1 comes from the next cell.)

# %%
hint("00.1")

# %% [markdown]
# ### Exercise 00.2 · Time first (1 min, ●○○)
#
# Some exercises ask for a value. You show a batch of 32 images of 8 × 8 pixels, one neuron per pixel, for 20 time steps.
# What is the shape of the spikes? Replace the dots by three numbers.

# %% tags=["exercise"]
shape = (..., ..., ...)
shape = attempt("00.2", shape)

# %%
spikes = torch.zeros(shape)
print(f"T = {spikes.shape[0]} steps, B = {spikes.shape[1]} images, N = {spikes.shape[2]} neurons")

# %% [markdown] tags=["slide"]
# ## What broke?
#
# The most frequent mistake with spiking networks raises no error. Many data loaders put the batch first, `[B, T, N]`,
# and every number in this tensor is a valid spike. Pass it on as it is, and the neuron treats your samples as time
# steps.

# %%
batch_first = rain.transpose(0, 1)  # [4, 50, 30]: as a data loader may return it
wrong, _ = layer(batch_first)
right, _ = layer(batch_first.transpose(0, 1))

print(f"as delivered:      {tuple(wrong.shape)}: 4 steps of 50 samples, {int(wrong.sum())} spikes")
print(f"time put in front: {tuple(right.shape)}: 50 steps of 4 samples, {int(right.sum())} spikes")

# %% [markdown] tags=["slide"]
# There is no error and the spikes are plausible, but sample 3 has inherited the membrane of sample 0. **The fix:**
# apply `x.transpose(0, 1)` where the data come in, and look at `x.shape` before the first long run. When a number
# surprises you in this course, print the shapes first.
#
# ## Where the data are
#
# `data.load(name)` gives images as bytes `[N, 1, H, W]` and labels `[N]`. The **digits** are always available, even
# offline. MNIST and Fashion-MNIST are downloaded once and checked, or read from the folder that the environment
# variable `SNNKIT_DATA` names: in a room with bad Wi-Fi the instructor passes that folder round on a USB stick.

# %% tags=["slide"]
for name in ("digits", "mnist", "fashion"):
    print(f"{name:8} {'here' if data.available(name) else 'not here yet'}")

images, labels = data.load("digits")
title = f"Digits: {len(images)} training images, {tuple(images.shape[1:])}"
viz.show(viz.figures.image_grid(images[:20], labels[:20], columns=10, title=title))

# %% [markdown] tags=["slide"]
# ## GPU: when, and when not
#
# **Not now.** Notebooks 00 to 04 need none. Colab gives everyone a limited allowance, and a GPU uses it up even while
# you only read. The top of each notebook says how many GPU minutes it needs.
#
# When you need one: on **Colab**, menu *Runtime → Change runtime type → T4 GPU*, then run again from the top, because a
# new runtime starts empty. Afterwards *Runtime → Disconnect and delete runtime* releases it. On your **own machine**
# the card above says whether PyTorch sees a GPU. In both cases `DEVICE = "auto"` finds it:

# %%
print(f"DEVICE = {DEVICE!r} selects: {data.resolve_device(DEVICE)}")

# %% [markdown] tags=["slide"]
# ## When you are stuck
#
# | what you see | what to do |
# |---|---|
# | `NameError: name … is not defined` | a cell above has not been run: *Run → Run All Above Selected Cell* (Colab: *Runtime → Run before*) |
# | results that make no sense after much editing | *Kernel → Restart Kernel and Run All Cells* (Colab: *Runtime → Restart session and run all*) |
# | a cell marked `[*]` for minutes | *Kernel → Interrupt Kernel* (Colab: *Runtime → Interrupt execution*), then look at `QUICK` and your loop |
# | a picture without a slider, or none at all | reload the page and run the cell again |
# | an exercise that will not pass | read the card's *first* line, then `hint("NN.n")`, then `solution("NN.n")` |
# | anything red in the card above | do what its arrow says, or ask an instructor |
#
# Your progress is saved in one small file on the machine where the kernel runs (on Colab it is lost with the runtime);
# nothing is sent anywhere.
#
# ## Check yourself

# %%
quiz("00")

# %%
scorecard("00")

# %% [markdown]
# ## Next
#
# **01 · Your first spiking neuron**: where the leaky bucket comes from, how to write it in one line, and what the
# features of its curves mean.
#
# ## Sources
#
# - W. Gerstner, W. M. Kistler, R. Naud, L. Paninski: *Neuronal Dynamics*. Cambridge University Press (2014),
#   [10.1017/CBO9781107447615](https://doi.org/10.1017/CBO9781107447615), chapter 1: the neuron of this notebook.
# - E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits. UCI Machine Learning Repository (1998),
#   [10.24432/C50P49](https://doi.org/10.24432/C50P49): the digits.
