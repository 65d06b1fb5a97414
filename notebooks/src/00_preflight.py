# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/00_preflight.ipynb)

# %% [markdown] tags=["slide"]
# # 00 · Pre-flight
#
# Draw a digit, and a spiking network reads it. That takes one minute. The rest prepares you for the course.
#
# | | |
# |---|---|
# | Time | 25 minutes |
# | GPU minutes | 0 |
# | Before this | a little Python |
#
# **Run the two cells below:** click into the first and press <kbd>Shift</kbd> + <kbd>Enter</kbd> twice. (On Colab the first
# one takes half a minute, because it fetches the kit.)

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

# %% tags=["slide"]
from snnkit.lab import pages, viz

page = pages.reader("reads_what_you_draw.html")
viz.embed(page, height=560, compact=True)

# %% [markdown] tags=["slide"]
# **Draw a digit in the field on the left.** Watch its pixels charge 128 neurons. Each orange flash is a **spike**: a neuron was
# full, fired, and started again. The spikes vote for one of ten digits.
#
# - Draw a 1, then turn it into a 7. When does the network change its mind?
# - Press *Pause*, then *One step*, to see single spikes.
# - Click a neuron to silence it. How many must be silent before the answer is wrong?
#
# The network runs in this page. The file `reads_what_you_draw.html`, beside this notebook, holds the same network and
# opens in any browser. In notebook 04 you train such a network yourself, in seconds.

# %% [markdown]
# ## How this course works
#
# **Three tracks.** *Spikes* is notebooks 00 to 08. After 04 you may also go to *Machines* (10 to 17) or *Research* (20 and 21).
# Each track ends with a certificate of what you have passed.
#
# **Predict, run, compare.** Guess *before* you see a result. People who commit to a guess remember the result better than
# people who only watch. The results of the cells below a prediction stay hidden until you *Lock* your guess, or *Skip* it.
# You also say how sure you are, and at the end you see how often you were right. Open *What to notice* when you have looked
# for yourself.
#
# **Afterwards you can** say that your machine works, use predictions, exercises, hints and the scorecard, and read an
# array of spikes: `[T, B, N]`, **time first**.
#
# Each notebook starts with three cells. *Setup* and *Imports* are folded: they load the kit and helpers. Between them are
# the **settings**. `QUICK` keeps all sizes small. `SOLVE = True` fills in all exercises, for instructors.

# %% tags=["parameters"]
QUICK: bool = True  # small sizes: seconds on a laptop
SOLVE: bool = False  # use the reference solutions of the exercises
SEED: int = 0  # the seed of every random number
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import torch

from snnkit import data, encode, neuron, train
from snnkit.lab import course, pages, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.tools import doctor

train.seed_everything(SEED)
course.start("preflight", solve=SOLVE)

# %% [markdown]
# ## Is everything there?
#
# **Green**: fine. **Amber**: works, with a limit; an arrow, if any, says what you can do. **Red**: fix it now, or raise your hand.
# "No GPU" is amber, and that is all right: no notebook needs one.

# %%
doctor.report()

# %% [markdown] tags=["slide"]
# ## One neuron
#
# The wall of a neuron, its *membrane*, stores electric charge, much as a bucket stores water. The bucket is *leaky*: it
# has a hole, and the fuller it is, the faster it loses water. Input fills it. When it is full, the neuron fires a
# **spike** and starts again from empty:
#
# $$v \leftarrow v + \frac{x - v}{\tau}, \qquad \text{a spike and } v \leftarrow 0 \text{ where } v \ge 1.$$
#
# The level $v$ and the input $x$ are in units of the full bucket. The *time constant* $\tau$ is the number of time steps in
# which the level loses about two thirds of its distance to $x$.
#
# **Predict first.** The bucket is full at 1. Here $\tau = 20$ steps, and the input is 0.9 in all of 100 steps. What does
# the neuron do?

# %%
predict("preflight.a")

# %%
spikes, _ = neuron.LIF(tau=20.0)(torch.full((100, 1, 1), 0.9))
outcome("preflight.a", min(int(spikes.sum()), 2))  # 0: never, 1: once, 2: more often

# %% [markdown]
# Now move the slider of the input. How does the number of spikes depend on it?

# %% tags=["slide"]
viz.explorers.population(neurons=1, steps=100, current=1.5, only_current=True)

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# Up to an input of 1 the leak wins and the neuron never fires. Above 1 it fires regularly. Triangles
# mark the spikes; after each the level starts again from 0. Notebook 01 explains every feature of this curve.
#
# </details>
#
# ## Spikes are tensors, and time comes first
#
# The page at the top runs a network that you can also call in Python. Spikes in snnkit are a tensor (PyTorch's
# word for an array) of zeros and ones, here of shape `[T, B, N]`:
#
# | axis | what | here |
# |---|---|---|
# | `T` | time steps | 20 |
# | `B` | the *batch*: independent samples that are computed together | 20 images |
# | `N` | neurons | 128 hidden, 10 output |
#
# *Hidden* neurons are those between the pixels and the output.
#
# The next figure is a *raster*: each row is a neuron, time runs to the right, and each mark is a spike.
#
# **Predict first.** The first image is a 5, shown for 20 steps. How many of the 128 hidden neurons fire at least once?

# %%
predict("preflight.b")

# %% tags=["slide"]
images, labels = data.load("digits", "test")
images, labels = images[:20], labels[:20]
shown = encode.repeat(data.to_unit(images), steps=20)  # each image at every step: [20, 20, 1, 8, 8]
net = pages.reader_network()
hidden = net.record(shown).layers[2]  # spikes of the hidden neurons: [20, 20, 128]

viz.show(viz.figures.raster(hidden[:, 0], title="Hidden neurons see a 5"))
outcome("preflight.b", int((hidden[:, 0].sum(0) > 0).sum()))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Most neurons are silent, and each image wakes others. Such **sparse** activity is what makes spiking networks
# interesting for hardware: a silent neuron has nothing to send.
#
# </details>

# %% [markdown]
# A network returns **two** things: its output spikes, and its **state** at the end. It stores no state itself. To continue
# a sequence, pass the state to the next call. To start again from rest, leave it out.

# %%
out, state = net(shown)
first, state = net(shown[:10])
second, state = net(shown[10:], state)  # continues where the first call stopped
print(f"in {tuple(shown.shape)}, out {tuple(out.shape)}: ten output neurons for each image")
print("10 steps and 10 more are the same as 20:", torch.equal(torch.cat([first, second]), out))

# %% [markdown]
# ## How exercises work
#
# An exercise is a cell with a `...` in it. Replace the dots and run it. A card says **○ to do**, **✓ passed**, or
# **✗ failed** with the first thing that is wrong and a hint.
#
# The last line, `attempt`, returns your answer if it passes and **our solution**, the *reference*, **if it does not**. So a
# wrong or missing answer never stops you: the notebook goes on, and you can come back later.
#
# ### Exercise 00.1 · Count the spikes (2 minutes, ●○○)
#
# See all three cards once. Run the cell as it is (*to do*). Then write `spikes.numel()`, which counts zeros as well
# (*failed*). Then write the correct answer (*passed*).


# %% tags=["exercise"]
def count_spikes(spikes):
    """How many spikes there are in all. spikes: [T, B, N] of 0 and 1."""
    return ...


count_spikes = attempt("preflight.1", count_spikes)

# %%
one, all_of_them = count_spikes(hidden[:, :1]), count_spikes(hidden)
print(f"first image: {int(one)} hidden spikes; all 20 images: {int(all_of_them)}")

# %% [markdown]
# Stuck? Each call of `hint("preflight.1")` shows one more hint; then there is `solution("preflight.1")`. Hints cost you nothing. (The
# one hint that the scorecard will show for 00.1 comes from the next cell.)

# %%
hint("preflight.1")

# %% [markdown]
# ### Exercise 00.2 · Time first (1 minute, ●○○)
#
# You show a *batch*, here 32 images at once, of 8 × 8 pixels, one neuron per pixel, for 20 time steps. What is the shape
# of the spikes? Replace the dots by three numbers.

# %% tags=["exercise"]
shape = (..., ..., ...)
shape = attempt("preflight.2", shape)

# %%
spikes = torch.zeros(shape)
print(f"T = {spikes.shape[0]} steps, B = {spikes.shape[1]} images, N = {spikes.shape[2]} neurons")

# %% [markdown] tags=["slide"]
# ## What broke?
#
# Many data loaders put the batch first: `[B, T, …]`. We give our 20 images of 20 steps to the network in this order.
#
# **Predict first.** What happens?

# %%
predict("preflight.c")

# %% tags=["slide"]
batch_first = shown.transpose(0, 1)  # as a data loader may return it
orders = {"batch first": batch_first, "time first": batch_first.transpose(0, 1)}
right = {}
for order, x in orders.items():
    spikes, _ = net(x)
    right[order] = int((spikes.sum(0).argmax(1) == labels).sum())
    print(f"{order}: {tuple(spikes.shape)}, {right[order]} of 20 images read correctly")
outcome("preflight.c", 1 if right["batch first"] == right["time first"] else 2)

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# There is no error, and the shape is the same. But each of the 20 samples now shows all 20
# images, one per step, so all 20 answers are the same. **The fix:** apply `x.transpose(0, 1)` where the data come in. When a number
# surprises you in this course, print the shapes first.
#
# </details>
#
# ## When you are stuck
#
# Your cells run in a Python process, the *kernel* of the notebook. It remembers every cell that it has run.
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
# **A GPU?** Not now: no notebook of *Spikes* needs one. The top of each notebook says how many GPU minutes it needs. On
# Colab: *Runtime → Change runtime type → T4 GPU*, then run again from the top. Release it afterwards by *Runtime → Disconnect and
# delete runtime*. `DEVICE = "auto"` finds a GPU where there is one.

# %%
print(f"DEVICE = {DEVICE!r} selects: {data.resolve_device(DEVICE)}")

# %% [markdown]
# ## Check yourself

# %%
quiz("preflight")

# %%
scorecard("preflight")

# %% [markdown]
# ## Next
#
# **[Why spikes?](https://github.com/snnkit/snnkit/blob/main/docs/why_spikes.md)** is one page on energy, time, events and brains: with numbers, and with what is
# contested. Then **[01 · Your first spiking neuron](01_first_spiking_neuron.ipynb)**: where the leaky bucket comes from, how
# to write it in three lines, and what the features of its curves mean.
#
# ## Sources
#
# - W. Gerstner, W. M. Kistler, R. Naud, L. Paninski: *Neuronal Dynamics*. Cambridge University Press (2014),
#   [10.1017/CBO9781107447615](https://doi.org/10.1017/CBO9781107447615), chapter 1: the neuron of this notebook.
# - E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits. UCI Machine Learning Repository (1998),
#   [10.24432/C50P49](https://doi.org/10.24432/C50P49): the digits.
