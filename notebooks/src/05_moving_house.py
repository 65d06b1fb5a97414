# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/05_moving_house.ipynb)

# %% [markdown] tags=["slide"]
# # 05 · Moving house: `.to(device)`, nested modules and state
#
# A GPU has its own memory. Before it can help you, everything that belongs to your network must move there: weights,
# time constants, membranes, images. `.to(device)` is one line, and most of the time it is enough. This notebook is
# about the other cases: what it moves, what it leaves behind, and how you see the difference in a minute.
#
# **Afterwards you can**
#
# - say of every tensor in a network whether it is a parameter, a buffer, state or a plain attribute, and what
#   `.to(device)`, `state_dict()` and the optimizer do with each;
# - move a neuron, a nested network, and a network in the middle of a recording;
# - read a device error, and recognise the one mistake that raises no error at all;
# - save on one machine, load on another, and choose a precision knowing its effect on the membranes;
# - transfer data to a GPU in one small copy instead of a thousand.
#
# | | |
# |---|---|
# | Time | 60 minutes |
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
            "The kernel of this notebook has no snnkit. Start Jupyter by `make lab` in a clone of the repository, "
            f"or install it here: %pip install '{_snnkit}'"
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
import pickle
import tempfile
from pathlib import Path

import torch

from snnkit import course, data, encode, loss, measure, neuron, nn, surrogate, train, viz
from snnkit.measure import Transfers
from snnkit.course import attempt, hint, quiz, scorecard, solution
from snnkit.viz import figures

train.seed_everything(SEED)
course.start("05", solve=SOLVE)
device = data.resolve_device(DEVICE)  # where we compute
away = device if device.type == "cuda" else torch.device("meta")  # the other device
torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work


def outcome(function, *args):
    """The result of a call, or the error it raises, in one line."""
    try:
        return f"fine: {function(*args)}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


print(f"the network starts on cpu; the other device is {away}")

# %% [markdown] tags=["slide"]
# ## 1 · Two devices, one rule
#
# A tensor is on exactly one device, and all tensors of an operation must be on the same device. The kernel that adds
# two tensors runs *on* the GPU or *on* the CPU; it cannot access the memory of the other.
#
# If you have no GPU, your second device is `meta`, which is part of every PyTorch. A tensor on `meta` has shape, dtype
# and device, but no numbers. That is all we need to see what moved, and PyTorch raises the same errors as it does
# between CPU and GPU. One difference: nothing can be copied back from `meta`, so we always move a copy of the network.
#
# > **Predict first.** `w` is on the other device. Which of these three sums work?

# %%
w = torch.ones(3, device=away)
for expression, function in {
    "w + torch.ones(3)    ": lambda: (w + torch.ones(3)).device,
    "w + 2.0              ": lambda: (w + 2.0).device,
    "w + torch.tensor(2.0)": lambda: (w + torch.tensor(2.0)).device,
}.items():
    print(expression, "→", outcome(function))

# %% [markdown] tags=["slide"]
# **Notice the third.** `torch.tensor(2.0)` is on the CPU, and yet there is no error: a tensor with *no dimensions* is
# treated as a plain number and copied to the device. This is convenient, and it causes the worst bug of this notebook
# (section 6).
#
# ## 2 · What a neuron contains
#
# This is the LIF neuron of notebook 01, in which the input, too, is divided by $\tau$ (in time steps):
#
# $$V[t] = V[t-1] + \frac{X[t] - V[t-1]}{\tau}, \qquad S[t] = H(V[t] - \theta), \qquad V[t] \leftarrow (1 - S[t])\,V[t]$$
#
# It has two kinds of quantities. $\tau$ and $\theta$ belong to the neuron and stay the same from image to image. $V$
# belongs to the current input *sequence*: it is state. In PyTorch there are five ways to store a tensor:
#
# | stored as | made by | moved by `.to()` | in `state_dict()` | trained |
# |---|---|---|---|---|
# | **parameter** | `self.tau = torch.nn.Parameter(tensor)` | yes | yes | yes |
# | **buffer** | `self.register_buffer("tau", tensor)` | yes | yes | no |
# | **unsaved buffer** | the same with `persistent=False` | yes | no | no |
# | **plain attribute** | `self.tau = tensor` | **no** | **no** | no |
# | **state** | `out, state = cell(x)`: returned to you | by you | by you | no |
#
# A Python number (`tau=2.0`) is none of these: it has no device and works on every device. The neurons of the kit
# choose the right way by themselves: a number stays a number, a tensor becomes a buffer, and a `Parameter` becomes a
# parameter. `viz.module_tree` shows it:

# %%
taus = torch.linspace(2, 8, 4)  # one time constant per neuron, in time steps
cells = torch.nn.ModuleDict(
    {
        "number": neuron.LIF(tau=2.0),
        "tensor": neuron.LIF(tau=taus),
        "learned": neuron.LIF(tau=torch.nn.Parameter(taus.clone())),
    }
)
viz.module_tree(cells)

# %% [markdown] tags=["slide"]
# Now move one of them, and run it there on 10 steps for a batch of 2.
#
# > **Predict first.** After the cell below: where is `cell.tau`? Where is `x`? Where are the spikes and the membrane?

# %%
cell = neuron.LIF(tau=taus)
x = torch.rand(10, 2, 4)  # [T, B, N]

moved = copy.deepcopy(cell).to(away)
x.to(away)  # no error. Does it do anything?
print("x is on", x.device)

out, state = moved(x.to(away))
print("the spikes are on", out.device)
viz.module_tree(moved, state)

# %% [markdown] tags=["slide"]
# **Notice**
#
# - `module.to()` changes the module *in place* (and returns it). `tensor.to()` changes nothing: it returns a new
#   tensor, and if you do not assign the result, nothing has moved. `x = x.to(device)` is right; `net.to(device)` is
#   enough.
# - The neuron needs no instruction where to create its membrane. It starts at rest *on the device of the input*, in the
#   input's shape.
#
# ## 3 · You move the state
#
# State is an argument and a return value: `out, state = cell(x, state)`. The module stores nothing between two calls.
# This makes moving easier: no membrane of an earlier batch can stay behind on the old device. In libraries that store
# the membrane in the module, as a plain attribute, it is a common reason why a network runs once and then fails after
# `.to("cuda")`.
#
# It also means that *you* must move it. Suppose that a long recording comes in two chunks, and you get a GPU in
# between.
#
# > **Predict first.** The network moves and the second chunk moves. What about the state after the first chunk?

# %%
first, second = x[:5], x[5:]
_, state = cell(first)

moved = copy.deepcopy(cell).to(away)
print(outcome(lambda: moved(second.to(away), state)))
viz.module_tree(moved, state)

# %% [markdown]
# The error names the field, both devices, and the remedy. (The same check raises an error when the batch size has
# changed, as it does in the last batch of an epoch. A state fits only the batch that produced it; start another batch
# without one.)
#
# For one neuron, `state.v.to(away)` is enough. The state of a network is a tuple with one entry per module: `None` for
# a module without state, a `NamedTuple` of tensors for a neuron, and for a module that contains others, a nested state.
#
# ### Exercise 05.1 · A state on the move (6 minutes, ●●○)
#
# Write `move_state(state, device)` for all of these. It calls itself for the parts of a tuple. A `NamedTuple` must stay
# one, because a neuron accesses `state.v` by name (`hasattr(state, "_fields")` distinguishes it from a plain tuple, and
# `type(state)(*parts)` makes a new one). Stuck? `hint("05.1")`.


# %% tags=["exercise"]
def move_state(state, device):
    """The same state on `device`: None, a tensor, or a tuple or NamedTuple of such."""
    if state is None:
        return None
    if isinstance(state, torch.Tensor):
        return ...
    return ...


move_state = attempt("05.1", move_state)

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
# A network is a tree of modules. `.to()` goes through this tree: from each module to its submodules, and in each to its
# parameters and buffers. What is not registered there is not moved. Assigning a `Parameter` or a `Module` to an
# attribute registers it. Assigning a *tensor* does not, and neither does assigning a *list* of modules.
#
# The layer below scales the output of a `Linear` by a fixed `gain` per neuron. Choose how the gain is stored, move the
# layer to another device or precision, and look at the result.
#
# 1. Find a way to store the gain that leaves it behind. What does the tree show *before* the move?
# 2. Which ways work with `where = other device`? Which of them are saved in a checkpoint?
# 3. Convert it to `float64`. What happened to the integer?

# %%
WAYS = ["plain tensor", "tensor in a list", "buffer", "unsaved buffer", "parameter"]


class Layer(torch.nn.Module):
    """A Linear whose output is scaled by a fixed gain per neuron: x [B, 4] to [B, 3]."""

    def __init__(self, storage):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.tensor(0))
        gain = torch.linspace(0.5, 1.5, 3)
        self.storage = storage
        if storage == "plain tensor":
            self.gain = gain
        elif storage == "tensor in a list":
            self.gain = [gain]
        elif storage == "parameter":
            self.gain = torch.nn.Parameter(gain)
        else:
            self.register_buffer("gain", gain, persistent=storage == "buffer")

    def forward(self, x):
        gain = self.gain[0] if self.storage == "tensor in a list" else self.gain
        return gain * self.linear(x)


def moved_layer(storage="plain tensor", where="cpu", dtype="float32", other=away):
    """The tree of a Layer after its move."""
    target = "cpu" if where == "cpu" else other
    return viz.module_tree(Layer(storage).to(target, getattr(torch, dtype)))


DTYPES = ["float32", "float64", "bfloat16"]
viz.explore(moved_layer, storage=WAYS, where=["cpu", "other device"], dtype=DTYPES)

# %% [markdown]
# **Notice.** A buffer of integers (`calls`) moves, but a change of dtype leaves it as it is: `.to(torch.float64)`
# converts floating-point tensors only. And with the plain tensor everything looks fine as long as all tensors are on
# the CPU.
#
# What happens when the layer runs on the other device?


# %%
def runs(layer):
    """The device of the output when a layer runs on the other device."""
    return layer(torch.rand(2, 4, device=away)).device


for storage in WAYS:
    layer = Layer(storage).to(away)
    saved = "gain" in layer.state_dict()
    print(f"{storage:17} saved: {saved!s:6} {outcome(runs, layer)}")

# %% [markdown]
# The tensors left behind raise an error, and the fix is one line each: `self.register_buffer("gain", gain)`, or
# `torch.nn.Parameter` if it is to be learned; in your own neuron `self.number("gain", gain)` does either, and checks
# the values as well. (Please do not write `gain.to(x.device)` in `forward`. It hides the mistake, copies at every call,
# and the checkpoint still lacks the gain.)
#
# **Lists.** The same happens with whole modules, but here there is no error until you look for the weights.


# %%
class Stack(torch.nn.Module):
    """Two Linear layers, stored in a list or in a ModuleList."""

    def __init__(self, container):
        super().__init__()
        self.layers = container([torch.nn.Linear(4, 4) for _ in range(2)])


for container in (list, torch.nn.ModuleList):
    stack = Stack(container)
    count = sum(p.numel() for p in stack.parameters())
    print(f"{container.__name__:10} {count:3} trainable numbers, {len(stack.state_dict())} tensors to save")
print("an optimizer for the list:", outcome(torch.optim.Adam, Stack(list).parameters()))
viz.module_tree(Stack(list))

# %% [markdown]
# PyTorch does not look into Python's `list` and `dict`. It looks into `torch.nn.ModuleList`, `ModuleDict`, `Sequential`
# and `ParameterList`. (If the network had one registered layer besides, even the optimizer would raise no error: the
# layers in the list would keep their initial weights.)
#
# ### Exercise 05.2 · Repair a network (8 minutes, ●●○)
#
# This is a colleague's network; the comments show the original lines. `forward` is right. Fill in the four lines so
# that everything moves, is saved, and learns if it should: `gain` is given and never trained, `volume` starts at 1 and
# is learned.


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


NestedSNN = attempt("05.2", NestedSNN)

# %%
net = NestedSNN((6, 5, 3), gain=torch.full((6,), 2.0)).to(away)
out, state = net(torch.rand(10, 2, 6, device=away))
viz.module_tree(net, state)

# %% [markdown] tags=["slide"]
# ## 5 · A convolutional network moves
#
# Norse's page on hardware acceleration [1] moves a network named `LIFConvNet`: an image as a constant current, two
# convolutions and a linear layer followed by LIF neurons, and a leaky integrator as readout. Here is a similar network
# for digits of 8 × 8 pixels. Note three details:
#
# - `nn.TimeBatched(module)` runs a module without state on all time steps at once. `nn.Sequential` does this by itself
#   for plain modules; written out, it groups convolution and normalisation.
# - The neurons of the second layer learn *one time constant per channel*: a parameter of shape `[C, 1, 1]`, which broadcasts against
#   `[B, C, H, W]`. (`PLIF` learns $w$ with $1/\tau = \varsigma(w)$, so $\tau$ can't fall below one step.)
# - `Standardise` holds mean and standard deviation of the training images: fixed numbers, measured once. They are
#   buffers.


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


def conv(inputs, outputs):
    layers = torch.nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), torch.nn.BatchNorm2d(outputs)
    return nn.TimeBatched(torch.nn.Sequential(*layers))


class LIFConvNet(torch.nn.Module):
    """Images over time [T, B, 1, 8, 8] to membranes of ten readout neurons [T, B, 10]."""

    def __init__(self, standardise=Standardise):
        super().__init__()
        self.standardise = standardise()
        self.body = nn.Sequential(
            conv(1, 12),
            neuron.LIF(tau=2.0, detach_reset=True),
            torch.nn.MaxPool2d(2),
            conv(12, 24),
            neuron.PLIF(init_tau=2.0, shape=(24, 1, 1), detach_reset=True),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(24 * 2 * 2, 10),
            neuron.LI(),
        )

    def forward(self, x, state=None):
        return self.body(self.standardise(x), state)


STEPS = 8
images, labels = data.to_device(*data.load("digits", "train"), device)
test_images, test_labels = data.to_device(*data.load("digits", "test"), device)


def build(standardise=Standardise):
    """A fresh network, standardised for the training images, on our device: the same seed, the same weights."""
    train.seed_everything(SEED)
    net = LIFConvNet(standardise)
    net.standardise.measure(data.to_unit(images).cpu())
    return net.to(device)


net = build()
out, state = net(encode.repeat(data.to_unit(test_images[:16]), STEPS))
print("membranes of the readout:", tuple(out.shape), "on", out.device)
viz.module_tree(net, state)

# %% [markdown]
# **Notice**
#
# - `BatchNorm2d` is the best-known module with buffers: `running_mean` and `running_var` are measured, not trained, and
#   without them a loaded network would be useless. `num_batches_tracked` is a buffer of integers.
# - Compare the bytes: for 16 small images the *state* is already larger than the weights, and it grows with the batch.
#   In training the inputs of all $T$ steps are added. The activity fills a GPU, not the network.
#
# Train it (one short run), then move it as a whole. Without a GPU the `meta` run still checks every shape and every
# device on the way, with no time and no memory: a cheap test before you queue for an expensive machine.


# %%
def encoder(batch):
    return encode.repeat(batch, STEPS)


@torch.no_grad()
def accuracy(net):
    """The share of test images for which the readout neuron with the highest membrane is the right one."""
    net.eval()
    out, _ = net(encoder(data.to_unit(test_images)))
    return (out.amax(0).argmax(1) == test_labels).float().mean().item()


def fit(net, epochs=3 if QUICK else 10):
    sets = (images, labels), (test_images, test_labels)
    train.fit(
        net,
        *sets,
        encode=encoder,
        loss=loss.membrane_max_cross_entropy,
        epochs=epochs,
        batch_size=64,
        lr=2e-2,
        device=device,
        progress=False,
    )
    return net


fit(net)
print(f"right on {accuracy(net):.1%} of the test images, on {device}")

there = copy.deepcopy(net).to(away)
out, state = there(encoder(data.to_unit(test_images[:16]).to(away)))
print(f"moved to {away}: {tuple(out.shape)}, left behind: {list(viz.module_tree(there).left_behind) or 'nothing'}")

# %% [markdown] tags=["slide"]
# If your other device is a GPU, its numbers may differ from the CPU's in the last digit, because sums are added in
# another order. A membrane that is within that last digit of the threshold then fires a step earlier or later. This is
# not a bug; compare rates and accuracies between devices, not single spikes.
#
# ## 6 · What broke?
#
# The colleague has written his own `Standardise`. He trains, tests, and even moves the network to the GPU, without an
# error. He saves the network, loads it the next day, and it only guesses.
#
# > **Find the mistake before you run the cell.** Section 1 has the clue: why was there no error on the GPU?


# %%
class HisStandardise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.std = torch.tensor(0.0), torch.tensor(1.0)

    def measure(self, images):
        self.mean, self.std = images.mean(), images.std()

    def forward(self, x):
        return (x - self.mean) / self.std


folder = tempfile.TemporaryDirectory()
checkpoint = Path(folder.name) / "net.pt"


def next_day(trained):
    """A fresh network of the same kind, loaded from the checkpoint of the trained one."""
    torch.save(trained.state_dict(), checkpoint)
    fresh = LIFConvNet(type(trained.standardise)).to(device)
    fresh.load_state_dict(torch.load(checkpoint, weights_only=True))
    return fresh


for name, trained in {"his": fit(build(HisStandardise)), "ours": net}.items():
    fresh = next_day(trained)
    print(f"{name:5} trained: {accuracy(trained):.1%}   loaded: {accuracy(fresh):.1%}")
viz.module_tree(LIFConvNet(HisStandardise).standardise)

# %% [markdown] tags=["slide"]
# His `mean` and `std` are plain tensors with no dimensions. They never moved to the GPU, and there was no error, since
# a 0-dimensional CPU tensor counts as a number. They were not in the checkpoint either, and again there was no error,
# since `load_state_dict` compares what is *registered* on both sides. The fresh network standardises with mean 0 and
# deviation 1. The fix is `register_buffer`; without the tree it may take a day to discover.
#
# Spiking networks are full of such numbers: thresholds, time constants, $\beta$, $dt$. If one of them is a tensor,
# register it. (In a library that stores its neurons' constants as plain 0-dimensional tensors, a *learned* time
# constant reaches neither the optimizer nor the checkpoint [2].)
#
# ## 7 · Copy, save, load
#
# There are three ways to get a second network:
#
# | | what you get |
# |---|---|
# | `twin = net` | another name for the *same* network: moving `twin` moves `net` |
# | `copy.deepcopy(net)` | a full copy, plain attributes included, on the same device |
# | `state_dict()` into a fresh network | registered tensors only; the code builds the rest |
#
# For a file the third is best: it contains tensors and names, nothing that could run code when it is opened
# (`weights_only=True`), and it still loads after you rename a file of your project. The device of each tensor *is*
# saved, so a checkpoint written on `cuda` cannot simply be opened on a laptop. `map_location` sets the device on which
# its tensors are loaded:

# %%
torch.save(net.state_dict(), checkpoint)
for where in ("cpu", str(away)):
    loaded = torch.load(checkpoint, map_location=where, weights_only=True)
    devices = {str(tensor.device) for tensor in loaded.values()}
    print(f"map_location={where!r}: {len(loaded)} tensors on {', '.join(devices)}")

laptop = LIFConvNet()  # built on the CPU
laptop.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True))
print(f"the laptop's copy is as accurate as the original: {accuracy(laptop.to(device)):.1%} and {accuracy(net):.1%}")

# %% [markdown]
# State is not in a `state_dict`: it belongs to a sequence, not to the network. To stop in the middle of a recording and
# continue tomorrow, save `move_state(state, "cpu")` with it.
#
# Whole modules are sent with `pickle`: between processes, and to the workers of a cluster (notebook 09). This works if
# every class and function in them has a name that can be imported. A surrogate of the kit has one; a `lambda` has none:


# %%
def pickled_size(module):
    return f"{len(pickle.dumps(module))} bytes"


for name, spike in {"ATan()": surrogate.ATan(), "a lambda": lambda u: (u >= 0).float()}.items():
    print(f"{name:9}", outcome(pickled_size, neuron.LIF(surrogate=spike)))

# %% [markdown] tags=["slide"]
# ## 8 · Changing the precision: dtypes
#
# `.to()` also takes a dtype; `.double()`, `.half()` and `.bfloat16()` are short for it. bfloat16 halves the bytes and keeps the range
# of float32, but has 8 significant bits: between 1 and 2 there are 128 numbers.
#
# > **Predict first.** We convert the network to bfloat16, and the images as well. What is the dtype of the spikes? Of
# > the membrane?

# %%
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    small = copy.deepcopy(net).to(dtype)
    out, state = small(encoder(data.to_unit(test_images[:16]).to(dtype)))
    size = viz.module_tree(small, state).bytes("parameter")
    print(f"{dtype!s:15} parameters {size:6,} bytes   output {out.dtype!s:15} membrane {state[1].v.dtype}")

print(outcome(lambda: copy.deepcopy(net).to(torch.bfloat16)(encoder(data.to_unit(test_images[:1])))[0].dtype))

# %% [markdown]
# Input and weights must have the same dtype (the last line: a convolution raises an error otherwise). But the membrane
# stays in float32, whatever the dtype of input and output. Is this necessary? Take a neuron without leak that gets
# 0.001 per step and should fire every 1000 steps, once with its membrane in float32 and once in bfloat16:

# %% tags=["slide"]
SMALL, LONG = 1e-3, 1200
wide, narrow = torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16)
curves = {"float32": [], "bfloat16": []}
for _ in range(LONG):
    wide = wide + SMALL
    narrow = narrow + torch.tensor(SMALL, dtype=torch.bfloat16)
    wide, narrow = torch.where(wide >= 1, 0, wide), torch.where(narrow >= 1, 0, narrow)
    curves["float32"].append(wide.item())
    curves["bfloat16"].append(narrow.item())
axes = {"x_title": "time step", "y_title": "membrane V", "levels": {"threshold": 1.0}}
viz.show(figures.lines(curves, title="The same small input, two precisions of the membrane", **axes))

slow = neuron.IF()
spikes, _ = slow(torch.full((LONG, 1), SMALL, dtype=torch.bfloat16))
print(f"a neuron of the kit, bfloat16 in and out: {int(spikes.sum())} spike, at step {int(spikes.argmax()) + 1}")

# %% [markdown] tags=["slide"]
# Up to 0.25 the two agree. From there on the bfloat16 membrane rises too fast, since 0.001 is rounded up to the
# distance between two neighbouring numbers, 0.00195. At 0.5 that distance has doubled, and 0.001 is less than half of
# it and is rounded to zero: the membrane is stuck, and this neuron will *never* fire. A membrane is a sum over time,
# and low precision fails for sums of many small terms. So the kit's neurons keep state and arithmetic in float32
# (float64 for float64 input), and use low precision for input and output only: most of the bytes are there. Notebook 08
# has more on precision.
#
# ## 9 · Transfers: how many bytes, and how many copies
#
# The bus between CPU and GPU is slow: NVIDIA's guide gives 16 GB/s for PCIe 3 × 16, while the GPU's own memory has 898
# GB/s (a V100 [3]). In addition, every copy has a fixed cost of some microseconds, however small it is. A first model:
#
# $$t = n\,t_0 + \frac{\text{bytes}}{\text{bandwidth}} \qquad (n \text{ copies, } t_0 \text{ seconds for each})$$
#
# You can influence both terms. `Transfers` counts copies between devices (to `meta` as well, so a GPU is not needed).
#
# > **Predict first.** 64 images of 8 × 8 bytes, shown for 100 steps. How many copies and how many bytes does each of
# > these programs transfer?

# %%
batch, T = images[:64].cpu(), 100  # uint8 [64, 1, 8, 8]


def step_by_step(device):
    return [data.to_unit(batch).to(device) for _ in range(T)]


def one_sequence(device):
    return encode.repeat(data.to_unit(batch), T).to(device)


for program in (step_by_step, one_sequence):
    with Transfers() as seen:
        program(away)
    print(
        f"{program.__name__:13} copies: {seen.count:4}   bytes: {seen.bytes:9,}   (the images have {batch.numel():,})"
    )

# %% [markdown]
# One copy instead of a hundred, but still 400 times the bytes of the images: float32 is four times uint8, and the view
# with stride 0, which costs nothing on the CPU, is written out in full for the transfer.
#
# ### Exercise 05.3 · Pack light (5 minutes, ●○○)
#
# Produce the same result with one copy of 4096 bytes.


# %% tags=["exercise"]
def pack_light(images, steps, device):
    """Images uint8 [B, ...] to a sequence float32 [T, B, ...] in [0, 1] on `device`, by one small copy."""
    return ...


pack_light = attempt("05.3", pack_light)

# %%
with Transfers() as seen:
    sequence = pack_light(batch, T, away)
print(f"pack_light    copies: {seen.count:4}   bytes: {seen.bytes:9,}   {tuple(sequence.shape)} on {sequence.device}")

# %% [markdown]
# Now we measure the time. With a GPU the cell below times real transfers. Without one it copies from the CPU to the
# CPU: no bus is involved, but the two terms of the model are the same.

# %%
recording = torch.rand(T, 64, 64)  # [T, B, N], a recording that changes over time: 1.6 MB
goal = torch.empty_like(recording, device=device)


def at_once():
    goal.copy_(recording)


def in_steps():
    for there, here in zip(goal, recording, strict=True):
        there.copy_(here)


candidates = {"one copy": at_once, f"{T} copies": in_steps}
if device.type == "cuda":
    pinned = recording.pin_memory()
    candidates["one copy, pinned"] = lambda: goal.copy_(pinned, non_blocking=True)
times = measure.race(candidates, repeats=5 if QUICK else 21, clock=measure.clock_for(device))
for name, measured in times.items():
    rate = recording.numel() * 4 / measured.median / 1e9
    print(f"{name:17} {measured.median * 1e6:8.0f} µs   {rate:6.1f} GB/s   cpu → {device}")
each = (times[f"{T} copies"].median - times["one copy"].median) / (T - 1)
print(f"so each further copy costs {each * 1e6:.1f} µs here")

# %% [markdown]
# **Explorer: which term dominates?** The line shows the time of a whole transfer, divided into 1 to 1000 copies. Set
# `each_us` to the value that you have just measured. Where is the knee? What does a ten times faster bus change for a
# small recording that is divided into 1000 pieces?


# %%
def transfer(megabytes=1.6, each_us=10.0, gb_per_s=16.0):
    """Time of a transfer against the number of copies it is divided into."""
    n = torch.logspace(0, 3, 31).round().unique()
    bus = megabytes / gb_per_s  # MB / (GB/s) = ms
    knee = max(1.0, bus * 1e3 / each_us)
    curves = {"time": bus + n * each_us / 1e3, "bytes alone": torch.full_like(n, bus)}
    title = f"{megabytes:g} MB: the copies cost more than the bytes from {knee:.0f} copies on"
    axes = {"x_title": "copies", "y_title": "time (ms)", "log": "xy", "faint": ["bytes alone"]}
    marks = {"knee": knee} if knee <= 1000 else {}
    return figures.lines(curves, x=n, title=title, marks=marks, **axes)


viz.explore(transfer, megabytes=(0.1, 20.0, 0.1), each_us=(1.0, 30.0, 1.0), gb_per_s=(4.0, 60.0, 4.0))

# %% [markdown]
# **Pinned memory.** The GPU can fetch data by itself only from memory that the operating system promises not to move
# ("pinned", page-locked). The driver first copies ordinary memory to a pinned buffer: this is one more copy, and the
# program waits for it. `x.pin_memory()` returns a copy of a tensor in pinned memory. Then
# `x.to("cuda", non_blocking=True)` returns at once, and the transfer runs while Python prepares the next batch. Three
# rules:
#
# - From ordinary memory `non_blocking=True` gains little: several small copies need not wait for each other, but no
#   transfer overlaps with Python's work. Pinning a tensor *just* to copy it once costs more than it saves [4]. Pin what
#   you send again and again.
# - Be careful in the other direction: after `y = x.to("cpu", non_blocking=True)` the numbers of `y` may not have
#   arrived. Call `torch.cuda.synchronize()` before you read them.
# - The best transfer is none. The kit keeps MNIST on the GPU as one uint8 tensor (47 MB) and makes batches there: `data.to_device`.
#
# Reading results also costs time: `.item()`, `float(loss)` and `print(tensor)` all wait until the GPU has finished all
# earlier work. Once per epoch is fine; once per time step can make a GPU slower than a laptop.
#
# ## Quiz

# %%
quiz("05")

# %%
scorecard("05")

# %% [markdown]
# ## Where next
#
# Everything is now on the right device. The next goal is speed: **[06 · Fused multi-step
# neurons](06_fused_neurons.ipynb)** shows how a neuron uses the memory of the device, and runs all its time steps in
# one kernel.
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
#    [doi:10.1126/sciadv.adi1480](https://doi.org/10.1126/sciadv.adi1480). The equation of section 2 is that of its LIF.
