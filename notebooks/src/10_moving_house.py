# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/10_moving_house.ipynb)

# %% [markdown] tags=["slide"]
# # 10 · Moving house: `.to(device)`, nested modules and state
#
# A GPU has its own memory. Before it can help you, everything in your network must move there: weights, time constants,
# membranes, images. Mostly `.to(device)` is enough. This notebook is about the other cases.
#
# **Afterwards you can**
#
# - say of every tensor in a network what `.to(device)`, `state_dict()` and the optimizer do with it;
# - move a nested network, and a network in the middle of a recording;
# - recognise the one mistake that raises no error at all;
# - save on one machine and load on another;
# - transfer data to a GPU in one small copy instead of a thousand.
#
# | | |
# |---|---|
# | Time | 60 minutes, and 5 more for the optional parts |
# | GPU minutes | 0: where there is no GPU, a device named *meta* takes its place. With a GPU the same cells use it |
# | Before this | 01 neuron, 04 training; you have written a `torch.nn.Module` once |

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
QUICK: bool = True  # False: longer training and more timings
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of the weights and of the order of the images
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"

# %%
import copy
import tempfile
from pathlib import Path

import torch

from snnkit import data, encode, loss, measure, neuron, nn, train
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("moving_house", solve=SOLVE)
device = data.resolve_device(DEVICE)  # where we compute
away = device if device.type == "cuda" else torch.device("meta")  # the other device
torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work
print(f"the network starts on cpu; the other device is {away}")


def result_of(function, *args):
    """The result of a call, or the error it raises, in one line."""
    try:
        return f"fine: {function(*args)}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


images, labels = data.to_device(*data.load("digits", "train"), device)
test_images, test_labels = data.to_device(*data.load("digits", "test"), device)


def encoder(batch):
    return encode.repeat(batch, 8)


@torch.no_grad()
def accuracy(net):
    """The share of test images for which the readout neuron with the highest membrane is the right one."""
    net.eval()
    out, _ = net(encoder(data.to_unit(test_images)))
    return (out.amax(0).argmax(1) == test_labels).float().mean().item()


def fit(net):
    """The network, trained on the digits for some epochs."""
    settings = {"encode": encoder, "loss": loss.membrane_max_cross_entropy, "epochs": 3 if QUICK else 10}
    settings |= {"batch_size": 64, "lr": 1e-2, "device": device, "progress": False}
    train.fit(net, (images, labels), (test_images, test_labels), **settings)
    return net


WAYS = ["plain tensor", "tensor in a list", "buffer", "unsaved buffer", "parameter"]


class Layer(torch.nn.Module):
    """A Linear whose output is scaled by a fixed gain per neuron: x [B, 4] to [B, 3]."""

    def __init__(self, storage):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        gain = torch.linspace(0.5, 1.5, 3)
        if storage == "plain tensor":
            self.gain = gain
        elif storage == "tensor in a list":
            self.gain = [gain]
        elif storage == "parameter":
            self.gain = torch.nn.Parameter(gain)
        else:
            self.register_buffer("gain", gain, persistent=storage == "buffer")

    def forward(self, x):
        gain = self.gain[0] if isinstance(self.gain, list) else self.gain
        return gain * self.linear(x)


def transfer(megabytes=1.6, microseconds_each=10.0, gigabytes_per_s=16.0):
    """Time of a transfer against the number of copies it is divided into."""
    n = torch.logspace(0, 3, 31).round().unique()
    bus = megabytes / gigabytes_per_s  # MB / (GB/s) = ms
    knee = max(1.0, bus * 1e3 / microseconds_each)
    curves = {"time": bus + n * microseconds_each / 1e3, "bytes alone": torch.full_like(n, bus)}
    title = f"{megabytes:g} MB: from N = {knee:.0f} on the copies cost more than the bytes"
    axes = {
        "x_title": "number of copies N",
        "y_title": "time (ms)",
        "log": "xy",
        "faint": ["bytes alone"],
        "between": (1e-3, 50),
    }
    return figures.lines(curves, x=n, title=title, marks={"knee": knee} if knee <= 1000 else {}, **axes)


# %% [markdown] tags=["slide"]
# ![Left the host, a CPU with its memory; right the device, a GPU with its own. Weights, buffers and images cross the bus by .to(device). A plain tensor stays behind, and its place on the device is empty.](drawings/host_and_device.svg)

# %% [markdown] tags=["slide"]
# ## 1 · Two devices, one rule
#
# All tensors of an operation must be on the same device.

# %% [markdown]
# A tensor is on exactly one device. The program that adds two tensors (the *kernel*) runs *on* the GPU or *on* the CPU,
# and cannot reach the memory of the other. Without a GPU, your second device is `meta`. There a tensor has shape, dtype
# and device, but no numbers.
#
# **Explorer.** This layer scales the output of a `Linear` by a fixed `gain`. Choose how it stores the gain, and move it to
# the other device. (Its class `Layer` is in the cell of the imports.)
#
# 1. Find a way to store the gain that leaves it behind. What does the tree show *before* the move?
# 2. Which of the five are saved in a *checkpoint*, the file with a network's weights?


# %%
def moved_layer(storage="plain tensor", where="cpu", other=away):
    """The tree of a Layer after its move."""
    return viz.module_tree(Layer(storage).to("cpu" if where == "cpu" else other))


viz.explore(moved_layer, storage=WAYS, where=["cpu", "other device"])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The tree warns before the move, when everything still works: the plain tensor will be left behind. No checkpoint has it.
#
# </details>

# %% [markdown] tags=["slide-more"]
# **Predict first.** `w` is on the other device. Which of these three sums work?
#
# 1. `w + torch.ones(3)`
# 2. `w + 2.0`
# 3. `w + torch.tensor(2.0)`

# %%
predict("moving_house.a")


# %%
w = torch.ones(3, device=away)
sums = {
    "w + torch.ones(3)": lambda: (w + torch.ones(3)).device,
    "w + 2.0": lambda: (w + 2.0).device,
    "w + torch.tensor(2.0)": lambda: (w + torch.tensor(2.0)).device,
}
results = [result_of(function) for function in sums.values()]
print(*(f"{name:21} → {result}" for name, result in zip(sums, results, strict=True)), sep="\n")
outcome("moving_house.a", sum(result.startswith("fine") for result in results) - 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# In the third line `torch.tensor(2.0)` is on the CPU, and yet there is no error. A tensor with *no dimensions* is
# treated as a plain number and copied to the device. It causes the worst bug of this notebook (section 6).
#
# </details>

# %% [markdown] tags=["slide"]
# ## 2 · What a neuron contains
#
# In a LIF neuron, $\tau$ and $\theta$ belong to the neuron: the same for every image. The membrane $v$ belongs to the
# current input *sequence*: it is *state*. PyTorch has five ways to store a tensor (`state_dict()` is what a checkpoint
# holds):
#
# | stored as | made by | moved by `.to()` | in `state_dict()` | trained |
# |---|---|---|---|---|
# | **parameter** | `self.tau = torch.nn.Parameter(tensor)` | yes | yes | yes |
# | **buffer** | `self.register_buffer("tau", tensor)` | yes | yes | no |
# | **unsaved buffer** | the same with `persistent=False` | yes | no | no |
# | **plain attribute** | `self.tau = tensor` | **no** | **no** | no |
# | **state** | `out, state = cell(x)`: returned to you | by you | by you | no |

# %% [markdown]
# A Python number (`tau=2.0`) is none of these. It has no device and works on every device. In the neurons of the kit a
# number stays a number, a tensor becomes a buffer, a `Parameter` becomes a parameter:

# %%
taus = torch.linspace(2, 8, 4)  # one time constant per neuron, in time steps
viz.module_tree(torch.nn.ModuleDict({"number": neuron.LIF(tau=2.0), "tensor": neuron.LIF(tau=taus)}))

# %% [markdown]
# Now we move one of them, and run it there. (Nothing can be copied back from `meta`, so we move a copy.)
#
# ```python
# moved = copy.deepcopy(cell).to(away)
# x.to(away)
# out, state = moved(x.to(away))
# ```
#
# **Predict first.** After the second line: where is `x`? After the third: where are the spikes and the membrane?

# %%
predict("moving_house.b")
predict("moving_house.c")

# %%
cell = neuron.LIF(tau=taus)
x = torch.rand(10, 2, 4)  # [T, B, N]

moved = copy.deepcopy(cell).to(away)
x.to(away)  # no error. Does it do anything?
print("x is on", x.device)
outcome("moving_house.b", 0 if x.device.type == "cpu" else 1)

out, state = moved(x.to(away))
print("the spikes are on", out.device, "and the membrane is on", state.v.device)
outcome("moving_house.c", 0 if out.device == state.v.device == w.device else 1)
viz.module_tree(moved, state)

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# - `module.to()` changes the module *in place*. `tensor.to()` changes nothing: it returns a new tensor.
#   `x = x.to(device)` is right; `net.to(device)` is enough.
# - The neuron starts at rest *on the device of its input*.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 3 · You move the state
#
# State is an argument and a return value: `out, state = cell(x, state)`. The module stores nothing between two calls.
# So no membrane of an earlier batch can stay behind on the old device. The price: *you* must move the state.
#
# A long recording comes in two chunks, and you get a GPU in between.

# %% [markdown] tags=["slide-more"]
# **Predict first.** The network and the second chunk move. You pass on the state of the first. What happens?

# %%
predict("moving_house.d")

# %%
first, second = x[:5], x[5:]
_, state = cell(first)
result = result_of(lambda: moved(second.to(away), state))
print(result)
outcome("moving_house.d", 2 if "Error" in result else 1)
viz.module_tree(moved, state)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The error names the field, both devices, and the remedy.
#
# </details>

# %% [markdown]
# For one neuron, `state.v.to(away)` is enough. The state of a network is a tuple with one entry per module: `None` for a
# module without state, a `NamedTuple` of tensors for a neuron, a nested state for a module that contains others.
#
# ### Exercise 10.1 · A state on the move (6 minutes, ●●○)
#
# Write `move_state(state, device)` for all of these. It calls itself for the parts of a tuple. A `NamedTuple` must stay
# one, because a neuron reads `state.v` by name. (`hasattr(state, "_fields")` tells it from a plain tuple, and
# `type(state)(*parts)` makes a new one.) Stuck? `hint("moving_house.1")`.


# %% tags=["exercise"]
def move_state(state, device):
    """The same state on `device`: None, a tensor, or a tuple or NamedTuple of such."""
    if state is None:
        return None
    if isinstance(state, torch.Tensor):
        return ...
    return ...


move_state = attempt("moving_house.1", move_state)

# %%
out, state = moved(second.to(away), move_state(state, away))
print("second chunk:", tuple(out.shape), "on", out.device)

whole, _ = cell(x)
_, middle = cell(first)
again, _ = cell(second, move_state(middle, "cpu"))
print("in two chunks on the CPU, the same spikes as in one run:", torch.equal(again, whole[5:]))

# %% [markdown] tags=["slide"]
# ## 4 · Nested modules
#
# A network is a tree of modules. `.to()` goes from each module to its submodules, and in each to its parameters and
# buffers, which are *registered*. **What is not registered is not moved.**
#
# - Registered: a `Parameter`, a `Module`, a buffer
# - Not registered: a plain *tensor*, a Python *list*

# %% [markdown]
# The layer of section 1 on the other device:

# %%
for storage in WAYS:
    layer = Layer(storage).to(away)
    saved = "gain" in layer.state_dict()
    result = result_of(lambda layer: layer(torch.rand(2, 4, device=away)).device, layer)
    print(f"{storage:17} saved: {saved!s:6} {result}")

# %% [markdown]
# The tensors left behind raise an error. The fix is one line: `self.register_buffer("gain", gain)`, or
# `torch.nn.Parameter` if it is to be learned. Please do not write `gain.to(x.device)` in `forward`. It copies at every
# call, and the checkpoint still lacks the gain.
#
# The same happens to whole modules in a list, but without an error at first: their weights do not move, are not saved and
# never learn. PyTorch does not look into Python's `list` and `dict`. It looks into `torch.nn.ModuleList`, `ModuleDict`
# and `Sequential`.
#
# ### Exercise 10.2 · Repair a network (8 minutes, ●●○)
#
# This is a colleague's network; the comments show the original lines. `forward` is right. Fill in the four lines so that
# everything moves, is saved, and learns if it should: `gain` is given and never trained, `volume` starts at 1 and is
# learned.


# %% tags=["exercise"]
class NestedSNN(torch.nn.Module):
    """Scaled input, then a Linear and LIF neurons for each two neighbouring sizes, then a volume."""

    def __init__(self, sizes, gain):
        super().__init__()
        self.gain = ...  # was: gain, a tensor [sizes[0]]
        self.layers = ...  # was: [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
        self.cells = ...  # was: [neuron.LIF(tau=torch.full((n,), 2.0)) for n in sizes[1:]]
        self.volume = ...  # was: torch.tensor(1.0)

    def forward(self, x, state=None):
        x, new = x * self.gain, []
        for layer, cell, part in zip(self.layers, self.cells, state or [None] * len(self.cells), strict=True):
            x, part = cell(layer(x), part)
            new.append(part)
        return self.volume * x, tuple(new)


NestedSNN = attempt("moving_house.2", NestedSNN)

# %%
net = NestedSNN((6, 5, 3), gain=torch.full((6,), 2.0)).to(away)
out, state = net(torch.rand(10, 2, 6, device=away))
viz.module_tree(net, state)

# %% [markdown] tags=["slide"]
# ## 5 · A whole network moves
#
# It reads digits of 8 × 8 pixels. The image is a constant current, and a leaky integrator for each digit is the readout.
#
# - The hidden neurons learn *one time constant each*: a parameter.
# - `Standardise` holds mean and standard deviation of the training images. They are measured once, so they are buffers.
# - A *batch norm* brings each neuron's input to mean 0 and variance 1. Its running means and variances are buffers, too.


# %%
class Standardise(torch.nn.Module):
    """(x - mean) / std with numbers measured on the training images."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(0.0))
        self.register_buffer("std", torch.tensor(1.0))

    def measure(self, images):
        self.mean, self.std = images.mean(), images.std()

    def forward(self, x):
        return (x - self.mean) / self.std


# %%
def block(inputs):
    neurons = neuron.PLIF(init_tau=2.0, shape=(100,), detach_reset=True)  # it stores τ as w: 1/τ = sigmoid(w)
    return torch.nn.Linear(inputs, 100, bias=False), torch.nn.BatchNorm1d(100), neurons


def build(standardise=Standardise):
    """A fresh network on our device: the same seed, the same weights."""
    train.seed_everything(SEED)
    layers = standardise(), torch.nn.Flatten(), *block(64), *block(100), torch.nn.Linear(100, 10), neuron.LI()
    return nn.Sequential(*layers).to(device)


net = build()
net[0].measure(data.to_unit(images))
out, state = net(encoder(data.to_unit(test_images[:16])))
viz.module_tree(net, state)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Compare the bytes. The *state* grows with the batch, and in training the activity of all steps is added: that is what
# fills a GPU.
#
# </details>

# %% [markdown]
# Train it, then move it as a whole. Without a GPU the `meta` run still checks shapes and devices on the way:
# a cheap test before you queue for an expensive machine. (`fit` and `accuracy` are in the cell of the imports.)


# %%
fit(net)
print(f"right on {accuracy(net):.1%} of the test images, on {device}")

there = copy.deepcopy(net).to(away)
out, state = there(encoder(data.to_unit(test_images[:16]).to(away)))
print(f"moved to {away}: {tuple(out.shape)}, left behind: {list(viz.module_tree(there).left_behind) or 'nothing'}")

# %% [markdown] tags=["slide"]
# ## 6 · What broke?
#
# A colleague has written his own `Standardise`. He trains, tests, and even moves the network to the GPU: no error. He
# saves the network, loads it the next day, and most of its answers are wrong.


# %% tags=["slide-more", "slide-code"]
class HisStandardise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.std = torch.tensor(0.0), torch.tensor(1.0)

    def measure(self, images):
        self.mean, self.std = images.mean(), images.std()

    def forward(self, x):
        return (x - self.mean) / self.std


# %% [markdown] tags=["slide-more"]
# **Predict first.** What does the loaded network lack? (Section 1 has the clue: why was there no error on the GPU?)

# %%
predict("moving_house.e")

# %%
checkpoint = Path(tempfile.mkdtemp()) / "net.pt"


def next_day(trained, standardise):
    """A fresh network of the same kind, loaded from the checkpoint of the trained one."""
    torch.save(trained.state_dict(), checkpoint)
    fresh = build(standardise)
    fresh.load_state_dict(torch.load(checkpoint, weights_only=True))
    return fresh


his = build(HisStandardise)
his[0].measure(data.to_unit(images).cpu())
fit(his)
for name, trained, standardise in (("his", his, HisStandardise), ("ours", net, Standardise)):
    fresh = next_day(trained, standardise)
    print(f"{name:5} trained: {accuracy(trained):.1%}   loaded: {accuracy(fresh):.1%}")
lost = [name for name in net.state_dict() if name not in his.state_dict()]
print("not in his checkpoint:", ", ".join(lost))
outcome("moving_house.e", 0 if lost else 2)
viz.module_tree(HisStandardise())

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# His `mean` and `std` are plain tensors with no dimensions.
#
# - They never moved to the GPU. No error: a 0-dimensional CPU tensor counts as a number.
# - They were not in the checkpoint. No error: `load_state_dict` compares what is *registered* on both sides.
# - The fresh network standardises with mean 0 and deviation 1.
#
# </details>

# %% [markdown]
# The fix is `register_buffer`. Spiking networks are full of such numbers: $\theta$, $\tau$, $\beta$. If one of them is a
# tensor, register it. (This happens in libraries, too [2].)
#
# ## 7 · Copy, save, load
#
# Three ways that may look like a second network:
#
# | | what you get |
# |---|---|
# | `twin = net` | another name for the *same* network: moving `twin` moves `net` |
# | `copy.deepcopy(net)` | a full copy, plain attributes included, on the same device |
# | `state_dict()` into a fresh network | registered tensors only; the code builds the rest |
#
# For a file the third is best. It contains nothing that could run code when it is opened (`weights_only=True`). The
# device of each tensor *is* saved, so a checkpoint written on `cuda` cannot simply be opened on a laptop. `map_location`
# sets the device:

# %%
torch.save(net.state_dict(), checkpoint)
for where in ("cpu", str(away)):
    loaded = torch.load(checkpoint, map_location=where, weights_only=True)
    devices = {str(tensor.device) for tensor in loaded.values()}
    print(f"map_location={where!r}: {len(loaded)} tensors on {', '.join(devices)}")


# %% [markdown]
# State is not in a `state_dict`. To continue a recording tomorrow, save `move_state(state, "cpu")` with it.

# %% [markdown] tags=["slide"]
# ## 8 · Changing the precision: dtypes (optional, 4 minutes)
#
# `.to()` also takes a dtype. *bfloat16* is a 16-bit format. It halves the bytes and has the range of float32, but only 8
# significant bits: there are 128 numbers from 1 to 2. If you convert a network of the kit, its weights and spikes become
# bfloat16, but its membranes stay in float32.

# %% [markdown] tags=["slide"]
# Is this necessary? A neuron without leak and with threshold 1 gets 0.001 per step. It should fire every 1000 steps.
#
# **Predict first.** When does it fire if its membrane is a bfloat16?

# %%
predict("moving_house.g")

# %% tags=["slide"]
SMALL, LONG = 1e-3, 1200
curves, last = {}, {}
for dtype in (torch.float32, torch.bfloat16):
    v, step, trace = torch.zeros(1, dtype=dtype), torch.tensor(SMALL, dtype=dtype), []
    for _ in range(LONG):
        v = v + step
        v = torch.where(v >= 1, 0, v)
        trace.append(v.item())
    curves[f"membrane in {str(dtype)[6:]}"] = trace
axes = {"x_title": "time step", "y_title": "membrane v", "levels": {"threshold": 1.0}}
title = "In bfloat16 small inputs are lost: the membrane stops rising"
viz.show(figures.lines(curves, x=range(LONG), title=title, shape="hv", **axes))
outcome("moving_house.g", 2 if min(trace[-100:]) == max(trace[-100:]) else 0)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Up to 0.25 the two nearly agree. From there 0.001 is rounded up to the distance between two neighbouring numbers,
# 0.00195. At 0.5 that distance doubles. Now 0.001 is less than half of it and is rounded to zero: this neuron will
# *never* fire.
#
# A membrane is a sum over time, and low precision fails for sums of many small terms. So the kit's neurons compute in
# float32, and use low precision for input and output only: most of the bytes are there.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 9 · Transfers: how many bytes, and how many copies
#
# $$t = n\,t_0 + \frac{\text{bytes}}{\text{bandwidth}} \qquad (n \text{ copies, } t_0 \text{ seconds for each})$$
#
# - *Bandwidth* is bytes per second. The bus between CPU and GPU (PCIe 3 × 16) has 16 GB/s, the GPU's own memory (V100)
#   898 GB/s [3].
# - $t_0$: some microseconds, however small the copy is.

# %% [markdown]
# **Explorer: which term dominates?** The line shows the time of a whole transfer, in 1 to 1000 copies. Where is the knee?
# What does a ten times faster bus change for a small recording in 1000 pieces?

# %%
viz.explore(transfer, megabytes=(0.1, 20.0, 0.1), microseconds_each=(1.0, 30.0, 1.0), gigabytes_per_s=(4.0, 60.0, 4.0))

# %% [markdown]
# `measure.Transfers` counts copies between devices (to `meta` as well, so you need no GPU).

# %%
batch, T = images[:64].cpu(), 100  # uint8 [64, 1, 8, 8]


def step_by_step(device):
    return [data.to_unit(batch).to(device) for _ in range(T)]


def one_sequence(device):
    return encode.repeat(data.to_unit(batch), T).to(device)


# %% [markdown]
# **Predict first.** 64 images of 8 × 8 bytes, shown for 100 steps. How many bytes does `step_by_step` transfer?

# %%
predict("moving_house.h")

# %%
counted = []
for program in (step_by_step, one_sequence):
    with measure.Transfers() as seen:
        program(away)
    counted.append(seen.bytes)
    print(f"{program.__name__:13} copies: {seen.count:4}   bytes: {seen.bytes:9,}   (the images: {batch.numel():,})")
outcome("moving_house.h", counted[0] / 1000)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# One copy instead of a hundred, but still 400 times the bytes of the images. float32 is four times uint8. And the view
# with stride 0 is written out in full for the transfer.
#
# </details>
#
# ### Exercise 10.3 · Pack light (5 minutes, ●○○)
#
# Produce the same result with one copy of 4096 bytes.


# %% tags=["exercise"]
def pack_light(images, steps, device):
    """Images uint8 [B, ...] to a sequence float32 [T, B, ...] in [0, 1] on `device`, by one small copy."""
    return ...


pack_light = attempt("moving_house.3", pack_light)

# %%
with measure.Transfers() as seen:
    sequence = pack_light(batch, T, away)
print(f"pack_light    copies: {seen.count:4}   bytes: {seen.bytes:9,}   {tuple(sequence.shape)} on {sequence.device}")

# %% [markdown]
# The best transfer is none. `data.to_device` holds MNIST on the GPU as one uint8 tensor (47 MB), and batches are made
# there. Reading results costs time as well: `.item()`, `float(loss)` and `print(tensor)` wait until the GPU has finished
# all earlier work. Once per epoch is fine. Once per time step can make a GPU slower than a laptop.
#
# ### Measured, and pinned memory (optional)
#
# With a GPU the cell below times real transfers. Without one it copies from the CPU to the CPU: there is no bus, but the
# two terms of the model are the same.

# %%
recording = torch.rand(T, 64, 64)  # [T, B, N], a recording that changes over time: 1.6 MB
goal = torch.empty_like(recording, device=device)


def in_steps():
    for there, here in zip(goal, recording, strict=True):
        there.copy_(here)


candidates = {"one copy": lambda: goal.copy_(recording), f"{T} copies": in_steps}
if device.type == "cuda":
    pinned = recording.pin_memory()
    candidates["one copy, pinned"] = lambda: goal.copy_(pinned, non_blocking=True)
times = measure.race(candidates, repeats=9 if QUICK else 21, clock=measure.clock_for(device))
least = {name: min(measured.rounds) for name, measured in times.items()}  # the round with the least other load
for name, seconds in least.items():
    print(f"{name:17} {seconds * 1e6:8.0f} µs   {recording.numel() * 4 / seconds / 1e9:6.1f} GB/s   cpu → {device}")
each = (least[f"{T} copies"] - least["one copy"]) / (T - 1)
print(f"so each further copy costs {each * 1e6:.1f} µs here")

# %% [markdown]
# The GPU can fetch data by itself only from *pinned* memory, which the operating system promises not to move. The driver
# first copies ordinary memory to a pinned buffer, and the program waits for it. `x.pin_memory()` returns a pinned copy of
# a tensor. Then `x.to("cuda", non_blocking=True)` returns at once, and the transfer runs while Python prepares the next
# batch. Two rules:
#
# - Pinning a tensor *just* to copy it once costs more than it saves [4]. Pin what you send again and again.
# - After `y = x.to("cpu", non_blocking=True)` the numbers of `y` may not have arrived. Call `torch.cuda.synchronize()`
#   before you read them.
#
# ## Quiz

# %%
quiz("moving_house")

# %%
scorecard("moving_house")

# %% [markdown]
# ## Where next
#
# The next goal is speed: **[11 · Fused multi-step neurons](11_fused_neurons.ipynb)** shows how a neuron uses the memory of
# the device.
#
# **Worth reading**
#
# 1. Norse, *Hardware acceleration*: [norse.github.io/norse](https://norse.github.io/norse/pages/hardware.html), on `.to()` and nested modules.
#    C. Pehle, J. E. Pedersen, *Norse* (2021). [doi:10.5281/zenodo.4422025](https://doi.org/10.5281/zenodo.4422025)
# 2. Norse, [issue 378](https://github.com/norse/norse/issues/378): constants that do not move with their module, as a
#    user reported it.
# 3. NVIDIA, *CUDA C++ Best Practices Guide*, section on data transfer between host and device:
#    [docs.nvidia.com](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#data-transfer-between-host-and-device). The 16 and 898 GB/s.
# 4. PyTorch, *A guide on good usage of `non_blocking` and `pin_memory()`*:
#    [docs.pytorch.org](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
# 5. A. Paszke et al., *PyTorch: an imperative style, high-performance deep learning library*, NeurIPS (2019).
#    [arXiv:1912.01703](https://arxiv.org/abs/1912.01703)
# 6. W. Fang et al., *SpikingJelly: an open-source machine learning infrastructure platform for spike-based intelligence*, Science Advances 9 (2023).
#    [doi:10.1126/sciadv.adi1480](https://doi.org/10.1126/sciadv.adi1480). The LIF neuron of section 2 is its LIF.
