# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/17_taking_a_network_home.ipynb)

# %% [markdown] tags=["slide"]
# # 17 · Taking a network home
#
# A network that is trained is not finished. Its training run must survive a crash. Its file should be small. And it
# should run where people are: in a program without snnkit, or on a page in a browser.
#
# **Afterwards you can**
#
# - stop a training run and continue it, equal to the last bit to one that never stopped;
# - store weights in 8 bits and less, and know how many bits your network needs;
# - export a network as a program that needs only PyTorch, and as a page that needs only a browser;
# - find two mistakes in saved files.
#
# | | |
# |---|---|
# | Time | 50 minutes, and 5 more for the optional part |
# | GPU minutes | 0. Everything runs on a CPU in seconds |
# | Before this | 04 training, 12 the convolutional network |

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
QUICK: bool = True  # False: MNIST, where it is on this machine, instead of the small digits
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of the weights and of the order of the images
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
DATASET: str = "auto"  # "auto", "digits", "mnist" or "fashion" (the last two are downloaded once if need be)
EPOCHS: int = 0  # passes through the training set; 0: as many as the data set needs

# %%
import copy
import tempfile
import warnings
from functools import partial
from pathlib import Path

import torch

from snnkit import data, encode, export, loss, models, train
from snnkit.lab import course, pages, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution

train.seed_everything(SEED)
course.start("taking_a_network_home", solve=SOLVE)
device = data.resolve_device(DEVICE)
if DATASET == "auto":
    DATASET = "mnist" if not QUICK and data.available("mnist") else "digits"
if DATASET == "digits":
    torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work
show = partial(encode.repeat, steps=4)  # an image at every step, T = 4
test_images, test_labels = data.to_device(*data.load(DATASET, "test"), device)


folder = Path(tempfile.mkdtemp())


class PowerCut(Exception):
    pass


def power_cut(history, model):  # called after each epoch, when the checkpoint has been written
    raise PowerCut


def accuracy(net, images=test_images):
    """Share of the test images that a network reads right."""
    return train.evaluate(net, (images, test_labels), encode=show, device=device)["accuracy"]


# %% [markdown] tags=["slide"]
# ![Training leads to files: the whole run, or its weights alone, which in 8 bits take a quarter of the size. They lead three ways: to the next run, which resumes to the last bit; to a program that needs only PyTorch; to a page that needs only a browser.](drawings/ways_home.svg)

# %% [markdown] tags=["slide"]
# ## First, a page
#
# This network learns for a few seconds. Then it is a page, without Python. Draw a digit:

# %% tags=["slide"]
epochs = EPOCHS or (6 if DATASET == "digits" else 2)
recipe = train.recipes.get(
    "mnist-small", dataset=DATASET, samples=None, channels=16, hidden=256, lr=8e-3, epochs=epochs, seed=SEED
)
quiet = {"device": device, "progress": False}
unbroken = train.recipes.run(recipe, **quiet)
net = unbroken.model.eval()
about = f"Trained on {DATASET} in notebook 17 of snnkit; it reads {accuracy(net):.1%} of the test images."
look = {"labels": data.CLASSES[DATASET], "title": "My convolutional spiking network", "about": about}
home = pages.page(net, "my_conv_network.html", encode=show, images=(test_images, test_labels), **look)
viz.embed(home)  # the file itself is in the folder of this notebook

# %% [markdown] tags=["slide"]
# ## 1 · Kill and resume
#
# Machines crash, jobs reach their time limit. A *checkpoint* is a file from which a run goes on. What must be in it, so that the resumed run is *exactly* like one that never stopped?
#
# **Predict first.** The weights, of course. Which of these is *not* needed: the momentum of the optimizer, the state of
# the random generator that orders the images, the number of finished epochs, the loss of the last batch?

# %%
predict("taking_a_network_home.a")

# %% [markdown]
# The same network again; after the first epoch `power_cut` raises an error, and we resume from the file.

# %%
try:
    train.recipes.run(recipe, **quiet, checkpoint=folder / "run.pt", on_epoch=power_cut)
except PowerCut:
    print("killed after epoch 1")
resumed = train.recipes.run(recipe, **quiet, checkpoint=folder / "run.pt", resume=True)
saved = train.load_checkpoint(folder / "run.pt")
pairs = zip(unbroken.model.state_dict().values(), resumed.model.state_dict().values(), strict=True)
print("equal to the last bit:", all(torch.equal(a, b) for a, b in pairs))
parts = sorted({*saved, *saved["extra"]} - {"extra", "format"})
print("in the file:", ", ".join(parts[:6]), "\n            ", ", ".join(parts[6:]))
outcome("taking_a_network_home.a")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# The file holds the weights, the momentum of the optimizer, the schedule of the learning rate and the states of *all* random
# generators: order of the images, augmentation, dropout. The loss of the last batch decides nothing: it is a result.
#
# </details>

# %% [markdown] tags=["slide-more"]
# It contains only tensors and plain values, so opening a stranger's file runs no code. On a GPU "equal" may mean "up to
# rounding".

# %% [markdown]
# ### Exercise 17.1 · Everything that the next update needs (6 minutes, ●●○)
#
# Write what `train.fit` writes, in memory. `net` is a network, `optimizer` its optimizer, and `order` the
# `torch.Generator` that draws the images. `epoch` counts the finished epochs. The run goes on after your snapshot, and
# the snapshot must not change. Stuck? `hint("taking_a_network_home.1")`.


# %% tags=["exercise"]
def snapshot(net, optimizer, order, epoch):
    """All that a run needs to continue: a dict with "net", "optimizer", "order" and "epoch"."""
    return ...


snapshot = attempt("taking_a_network_home.1", snapshot)

# %% [markdown]
# "The weights are enough." A small run is killed after 10 of 20 updates, and goes on from your snapshot, or
# from its weights alone:


# %% tags=["slide"]
def trained(updates, saved=None):
    """Losses of so many updates of a small network, from the start or from what was saved; and a snapshot."""
    torch.manual_seed(SEED)
    small, order = torch.nn.Linear(64, 10), torch.Generator().manual_seed(SEED)
    optimizer, losses = torch.optim.Adam(small.parameters(), lr=0.1), []
    ways = {"net": small.load_state_dict, "optimizer": optimizer.load_state_dict, "order": order.set_state}
    for part in {*ways} & {*(saved or {})}:
        ways[part](saved[part])
    for _ in range(updates):
        rows = torch.randint(len(digits), (16,), generator=order)
        value = torch.nn.functional.cross_entropy(small(digits[rows]), digit_labels[rows])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses, snapshot(small, optimizer, order, 0)


images, digit_labels = data.load("digits", "train")
digits = data.to_unit(images).flatten(1)
first, saved = trained(10)
curves = {"unbroken": trained(20)[0], "resumed from your snapshot": first + trained(10, saved)[0]}
curves["resumed from the weights"] = first + trained(10, {"net": saved["net"]})[0]
axes = {"x_title": "update", "y_title": "loss (nats)", "marks": {"killed": 10.5}, "faint": ["unbroken"]}
viz.show(viz.figures.lines(curves, title="The snapshot goes on exactly; the weights alone do not", **axes))

# %% [markdown]
# There is no error and no warning, but it is a different run.

# %% [markdown] tags=["slide"]
# ## 2 · Smaller: whole numbers for weights
#
# A trained network only needs weights that are *about* right, so its weights can be *quantised*: stored as whole numbers.
# Take the weights $w$ of one neuron. Divide them by a scale $a$ and round:
#
# $$n = \text{round}\left(\frac{w}{a}\right), \qquad a = \frac{\max |w|}{127}, \qquad w \approx a\,n \tag{1}$$
#
# Then $n$ is a whole number from −127 to 127, one byte in place of 4. The row needs one scale of 4 bytes besides [1].
#
# **Predict first.** The published network of notebook 12 has 13 million weights, 99 % of them in linear layers. If
# only the linear layers become int8, how many times smaller is the network? And how many bits per weight does *our*
# network need to read as well as before, but for one test image in a hundred?

# %%
predict("taking_a_network_home.b")
predict("taking_a_network_home.c")

# %% [markdown]
# ### Exercise 17.2 · Eight bits per weight (6 minutes, ●●○)
#
# Write equation (1), for `weight` [outputs, inputs], with one scale per output. With `bits=4` the largest number is 7
# instead of 127; the numbers stay int8. A row of zeros must stay a row of zeros. Stuck? `hint("taking_a_network_home.2")`.


# %% tags=["exercise"]
def to_integers(weight, bits=8):
    """Whole numbers [outputs, inputs] (int8) and a scale per output [outputs, 1], whose product is about weight."""
    return ...


to_integers = attempt("taking_a_network_home.2", to_integers)

# %% [markdown]
# ### How many bits?
#
# All weights of the network, convolutions included, with 2 to 8 bits; then the share of the test images that it reads.


# %% tags=["slide"]
def rounded(net, bits, each_output=True):
    """A copy of the network whose weights have this many bits; or with one scale for a whole layer."""
    small = copy.deepcopy(net)
    with torch.no_grad():
        for weight in small.parameters():
            if weight.ndim > 1:  # not those of the batch norms
                numbers, scale = to_integers(weight.flatten(1) if each_output else weight.flatten()[None], bits)
                weight.copy_((scale * numbers).view_as(weight))
    return small


BITS = range(2, 9)
right = {
    "a scale per output": [accuracy(rounded(net, bits)) for bits in BITS],
    "a scale per layer": [accuracy(rounded(net, bits, each_output=False)) for bits in BITS],
}
axes = {"x_title": "bits per weight", "y_title": "share of test images read right"}
axes["levels"] = {"float32": accuracy(net)}
enough = min(b for b, a in zip(BITS, right["a scale per output"], strict=True) if a >= accuracy(net) - 0.01)
title = f"{enough} bits per weight are enough, within 1 % of float32"
viz.show(viz.figures.lines(right, x=list(BITS), title=title, **axes))
outcome("taking_a_network_home.c", enough)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Eight bits cost nothing that these test images can show. Then, within one or two bits, the network falls apart. More
# layers add more errors.
#
# </details>

# %% [markdown]
# **Explorer.** The weights of one neuron in the first linear layer, sorted, and what the whole numbers give.
#
# 1. At how many bits can you see the steps? How many are there, and why that many?
# 2. Which weights become exactly 0 with 2 bits? What does the neuron lose?


# %%
def stairs(neuron=0, bits=4, net=net):
    """The weights of one neuron, and what is left of them."""
    weight = net[9].weight.detach().cpu()[neuron : neuron + 1]
    numbers, scale = to_integers(weight, bits)
    order = weight[0].argsort()
    sizes = {"float32": weight[0, order], f"{bits} bits": (scale * numbers)[0, order]}
    title = f"Neuron {neuron}: {numbers.unique().numel()} different numbers"
    look = {"x_title": "connection, sorted", "y_title": "weight", "shape": "hv", "faint": ["float32"]}
    return viz.figures.lines(sizes, title=title, **look)


viz.explore(stairs, neuron=(0, 255), bits=(2, 8))

# %% [markdown]
# So far the numbers were stored as float32 again. Here the linear layers really hold one byte per weight. In each call they
# become float32, one layer at a time.


# %%
class Int8Linear(torch.nn.Module):
    """A linear layer without a bias, for inference, that holds whole numbers and a scale per output."""

    def __init__(self, layer):
        super().__init__()
        numbers, scale = to_integers(layer.weight.detach())
        self.register_buffer("numbers", numbers)
        self.register_buffer("scale", scale[:, 0])

    def forward(self, x):
        return torch.nn.functional.linear(x, self.numbers.to(x.dtype)) * self.scale


def size_of(net):
    """Bytes of all weights and buffers."""
    return sum(tensor.numel() * tensor.element_size() for tensor in net.state_dict().values())


tiny = copy.deepcopy(net).eval()
for name, layer in list(tiny.named_children()):
    if isinstance(layer, torch.nn.Linear):
        setattr(tiny, name, Int8Linear(layer))
for name, one in {"before": net, "after": tiny}.items():
    print(f"{name}: {size_of(one):,} bytes, {accuracy(one):.1%} right")
with torch.device("meta"):  # shapes without numbers
    published = models.FashionConvNet(channels=128, hidden=2048)
every = sum(weight.numel() for weight in published.parameters())
linear = sum(layer.weight.numel() for layer in published if isinstance(layer, torch.nn.Linear))
ratio = 4 * every / (4 * (every - linear) + linear)
print(f"at the published size: {ratio:.1f} times smaller")
outcome("taking_a_network_home.b", ratio)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Smaller is certain, faster is not: the conversion of the numbers costs time, too. `quantize.quantize(net)` does the same
# through [torchao](https://github.com/pytorch/ao), which has kernels that compute with int8. It needs torchao 0.15 or
# newer, and Colab ships an older one.
#
# </details>
#
# ## 3 · Without snnkit: a program
#
# `torch.export` saves the network as a program of plain PyTorch operations [2]. It runs the network once and records what
# happens. To run the program you need PyTorch and nothing else. The state is an input and an output, so that a sequence
# can be continued.
#
# **Predict first.** Which of these is not in the file: the weights, the comparison with the threshold, the loop over
# time, the state at rest?

# %%
predict("taking_a_network_home.d")

# %%
cpu_net = copy.deepcopy(net).cpu()
torch.export.save(export.export(cpu_net, show(data.to_unit(test_images[:2].cpu()))), folder / "net.pt2")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # PyTorch warns about one of its own buffers
    program = torch.export.load(folder / "net.pt2")

x = show(data.to_unit(test_images[:50].cpu()))
with torch.no_grad():
    there, _ = program.module()(x, export.resting_state(program, batch=50))
    here, _ = cpu_net(x)
operations = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
print(f"{(folder / 'net.pt2').stat().st_size / 1e6:.2f} MB, {len(operations)} operations")
print(f"the same spikes for 50 images: {(there == here).float().mean():.2%}")
outcome("taking_a_network_home.d")

# %% [markdown] tags=["slide"]
# ## 4 · Without Python: a page that one can draw on
#
# `pages.page` wrote the page at the top: a single HTML file, with the network's equations as JavaScript. It needs no
# server. Open it on a phone, or send it to a friend.
#
# **Predict first.** You draw with a mouse, and never exactly in the middle. A convolution looks at each place in
# the same way. How many per cent of the test images are still read right if each is shifted down by *one* pixel?

# %%
predict("taking_a_network_home.e")

# %% tags=["slide"]
shifted = {
    "as it is": test_images,
    "1 pixel to the right": test_images.roll(1, -1),
    "1 pixel down": test_images.roll(1, -2),
}
bars = {name: {"read right": 100 * accuracy(net, images)} for name, images in shifted.items()}
down = bars["1 pixel down"]["read right"]
viz.show(viz.figures.shares(bars, "%", title=f"Shifted down by one pixel, {down:.0f} % are read right"))
outcome("taking_a_network_home.e", down)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The convolutions do not care about the place. The linear layers after them do: each of their
# weights belongs to one pixel of a map. The network never saw an image that was not centred. So the page scales and
# centres your drawing before the network sees it, as the data set did. (On MNIST, with `QUICK = False`, one pixel is
# only one of 28.)
#
# </details>

# %% [markdown]
# **What to try** on the page at the top:
#
# - Draw a 7 with and without a bar. Who taught the network how *you* write?
# - Silence neurons, one click each. How many does it take to change the answer?
# - Raise the threshold: the answer comes late, and in the end there is none.

# %% [markdown] tags=["slide"]
# ## 5 · What broke?
#
# Two colleagues saved a network that read nearly all test images. Both files were loaded in the end.
#
# - **Cleo** wanted the best weights of the run. At the best moment she wrote `best = net.state_dict()`. Then she trained
#   on, too fast, and at the end she loaded `best`.
# - **Dan** saved `dict(net.named_parameters())`: "all that was trained". His friend's `load_state_dict` complained about
#   missing keys, so the friend added `strict=False`.
#
# **Predict first.** Which weights does Cleo load: those of the best moment, the last ones,
# or a mixture? And what is not in Dan's file?

# %%
predict("taking_a_network_home.f")

# %% tags=["slide"]
train_images, train_labels = data.to_device(*data.load(DATASET, "train"), device)


def too_far(net):
    """Training at a learning rate that is too large."""
    few = train_images[:640], train_labels[:640]
    train.fit(net, few, encode=show, loss=loss.rate_mse, lr=1.0, epochs=1, **quiet)


right = {}
for name, keep in {"Cleo": lambda state: state, "Cleo, with a copy": copy.deepcopy}.items():
    trained = copy.deepcopy(net)
    best = keep(trained.state_dict())
    too_far(trained)
    trained.load_state_dict(best)
    right[name] = accuracy(trained)
for name, saved in {"Dan": dict(net.named_parameters()), "Dan, with state_dict()": net.state_dict()}.items():
    friend = recipe.build().to(device)
    friend.load_state_dict(saved, strict=False)
    right[name] = accuracy(friend)
bars = {name: {"read right": 100 * share} for name, share in right.items()}
title = f"Saved at {accuracy(net):.1%}: only a copy or state_dict() brings it back"
viz.show(viz.figures.shares(bars, "%", title=title))
lost = right["Cleo"] < right["Cleo, with a copy"]
outcome("taking_a_network_home.f", "the last ones" if lost else "those of the best moment")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - **Cleo** loads the last weights. `state_dict()` makes no copy: it hands out the tensors themselves, and each update
#   writes into them. `copy.deepcopy` or `torch.save` at the best moment keeps that moment (exercise 17.1).
# - **Dan**'s file has no *buffers*. The running mean and variance of a batch norm were not trained by gradients, but they
#   are part of the network. The complaint about missing keys was the help: `strict=False` only made it silent.
#
# Both are found by one habit: **load the file, as its reader will, and measure its accuracy again**.
#
# </details>
#
# ## 6 · A readout from statistics (optional, 6 minutes)
#
# So far the answer was read from the rates of ten neurons. What else can a readout use? Take a *population* of neurons
# and four numbers:
#
# | | | |
# |---|---|---|
# | **rate** | mean number of spikes per neuron and step | how much? |
# | **spread** | variance of the neurons' rates | all alike, or a few very active ones? |
# | **Fano factor** | variance over time of the population's spike count, divided by its mean | how regular? |
# | **synchrony** | variance over time of the population's mean, relative to that of its neurons [3] | together, or each alone? |
#
# **Predict first.** Two populations of 50 neurons, both with rate 0.2. In one, every neuron has its own random draws;
# in the other, all share the same draws. How many times as large is the Fano factor then?

# %%
predict("taking_a_network_home.g")

# %%
summarise, fano = models.Population(50, 1), {}
torch.manual_seed(SEED)
alone = (torch.rand(2000, 1, 50) < 0.2).float()
together = (torch.rand(2000, 1, 1) < 0.2).float().expand(2000, 1, 50)
for name, x in {"own": alone, "shared": together}.items():
    numbers = summarise.split(summarise(x)[0][0])
    print(f"{name:9}" + "   ".join(f"{field} {value.item():7.4f}" for field, value in numbers._asdict().items()))
    fano[name] = numbers.fano.item()
outcome("taking_a_network_home.g", fano["shared"] / fano["own"])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The rate is the same. The Fano factor goes from 0.8, which is $1 - \text{rate}$ for independent neurons, to fifty times
# that. Synchrony goes from about $1/50$ to 1.
#
# </details>

# %% [markdown]
# `models.StatisticalSNN` trains a hidden layer of spiking neurons through these four numbers per population. Nothing
# else reaches the output. Its input consists of random spikes, so the same image gives another input each time.

# %%
digits, digit_labels = data.load("digits", "test")
torch.manual_seed(SEED)
reader = models.StatisticalSNN(64, hidden=128, populations=16, steps=25)
few_epochs = {"epochs": 8 if QUICK else 20, "lr": 1e-2, "loss": loss.count_cross_entropy}
train.fit(reader, data.load("digits"), (digits, digit_labels), encode=reader.encode, **few_epochs, **quiet)
with torch.no_grad():
    answer = reader.process_input(digits)
right = (answer.output.argmax(1).cpu() == digit_labels).float().mean()
print(f"{right:.1%} of the test digits, from {16 * 4} numbers per image; chance would be 10 %")
# Of each statistic the mean over the samples of a class: [4, classes, populations].
means = [torch.stack([one.cpu()[digit_labels == k].mean(0) for k in range(10)]) for one in answer.statistics]
ranges = [f"{name}: {m.min():.2g} to {m.max():.2g}" for name, m in zip(answer.statistics._fields, means, strict=True)]
panels = viz.figures.panels(2, 2, ranges)
for i, mean in enumerate(means):
    panels.add_heatmap(z=mean, colorscale=viz.theme.INK, showscale=False, row=i // 2 + 1, col=i % 2 + 1)
panels.update_xaxes(title_text="population", row=2).update_yaxes(title_text="digit", autorange="reversed", dtick=1)
title = "Where a column varies, its population tells digits apart"
viz.show(panels.update_layout(title_text=title, height=520, margin_t=80))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Each panel is one statistic: rows are digits, columns are populations. A column with structure is a
# population in which this number differs between classes. Look at the ranges: which of the four does the network use?
# (A column that is empty in all four is a population that never fires.) A complete run on MNIST:
# `snnkit train statistical`.
#
# </details>
#
# ## Quiz

# %%
quiz("taking_a_network_home")

# %%
scorecard("taking_a_network_home")

# %% [markdown]
# The end of this track, and what you have passed. `.save("mine.html")` writes a page.

# %%
course.certificate("machines")

# %% [markdown]
# ## Where next
#
# This is the end of the track on machines. **[20 · Your own data](20_your_own_data.ipynb)** begins with what you bring.
#
# Meanwhile: `snnkit train mnist --checkpoint run.pt` writes a file after each epoch. Press Ctrl-C, then add `--resume`.
# `snnkit export run.pt --page net.html` makes a page of it, and `snnkit export --playground play.html` one that *trains*
# networks in the browser.
#
# **Worth reading**
#
# 1. B. Jacob et al., *Quantization and training of neural networks for efficient integer-arithmetic-only inference*, CVPR (2018).
#    [doi:10.1109/CVPR.2018.00286](https://doi.org/10.1109/CVPR.2018.00286)
# 2. J. Ansel et al., *PyTorch 2: faster machine learning through dynamic Python bytecode transformation and graph compilation*, ASPLOS (2024).
#    [doi:10.1145/3620665.3640366](https://doi.org/10.1145/3620665.3640366)
# 3. D. Golomb, J. Rinzel, *Dynamics of globally coupled inhibitory neurons with heterogeneity*, Phys. Rev. E 48 (1993), for the measure of
#    synchrony. [doi:10.1103/PhysRevE.48.4810](https://doi.org/10.1103/PhysRevE.48.4810)
# 4. J. W. Young, *A first order approximation to the optimum checkpoint interval*, Communications of the ACM 17 (1974): how often to save.
#    [doi:10.1145/361147.361115](https://doi.org/10.1145/361147.361115)
