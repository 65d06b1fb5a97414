# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/04_train_your_first_network.ipynb)

# %% [markdown] tags=["slide"]
# # 04 · Train your first spiking network
#
# So far you have met single neurons, surrogates and codes. Now we combine them: a network of 138 spiking neurons learns
# to read handwritten digits, in a few seconds on a laptop. You write the lines that train it.
#
# **Afterwards you can**
#
# - follow an image through the network (encode, network, decode) and give the shape of every tensor;
# - say what the loss must be *before* you train, and what another value means;
# - write a training step, and a whole training loop from an empty cell;
# - look inside: which neurons fire, when the answer is known;
# - find a dead layer within a minute, and repair it;
# - take your network home as a page that runs in any browser.
#
# | | |
# |---|---|
# | Time | 85 minutes, and 10 more for the optional parts |
# | GPU minutes | 0 (any CPU will do) |
# | Before this | 01 neuron, 02 surrogate gradients, 03 encodings; you have seen a PyTorch training loop once |

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
QUICK: bool = True  # True: 8 x 8 digits, seconds. False: MNIST if it is on this machine, a few minutes on a CPU at most
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of the weights and of the order of the images
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
DATASET: str = "auto"  # "auto", "digits", "mnist" or "fashion" (the last two are downloaded once if need be)
EPOCHS: int = 0  # passes through the training set; 0: as many as the data set needs

# %%
import math
import time
from functools import partial

import torch
import torch.nn.functional as F

from snnkit import data, encode, loss, neuron, nn, surrogate, train
from snnkit.lab import course, pages, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("train_your_first_network", solve=SOLVE)
device = data.resolve_device(DEVICE)

if DATASET == "auto":
    DATASET = "mnist" if not QUICK and data.available("mnist") else "digits"
    if not QUICK and DATASET == "digits":
        print('MNIST is not on this machine, so this run uses the digits. DATASET = "mnist" downloads it (12 MB).')
if DATASET == "digits":
    hidden, steps, batch_size, lr, epochs = 128, 20, 64, 1e-2, 10
    torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work
else:
    hidden, steps, batch_size, lr, epochs = 1000, 25, 128, 1e-3, 1 if QUICK else 4
epochs = EPOCHS or epochs
train_images, train_labels = data.to_device(*data.load(DATASET, "train"), device)
test_images, test_labels = data.to_device(*data.load(DATASET, "test"), device)
classes = data.CLASSES[DATASET]
pixels = train_images[0].numel()
encoder = partial(encode.repeat, steps=steps)


def some_batches(count):
    """`count` encoded batches with their labels, from as many passes through the training set as needed."""
    while True:
        for images, labels in data.batches(train_images, train_labels, batch_size):
            if count == 0:
                return
            count -= 1
            yield encoder(data.to_unit(images)), labels


@torch.no_grad()
def examine(net, images, layer):
    """Output spikes [T, N, 10], rate of each neuron of a layer, and its spikes per image up to each step [T]."""
    outputs, rates, spent = [], 0.0, 0.0
    for part in images.split(500):
        recording = net.record(encoder(data.to_unit(part)))
        spikes = recording.layers[layer]
        outputs.append(recording.out)
        rates = rates + spikes.mean(0).sum(0) / len(images)
        spent = spent + spikes.sum((1, 2)).cumsum(0) / len(images)
    return torch.cat(outputs, dim=1), rates, spent


# %% [markdown] tags=["slide"]
# ## 1 · A network that reads
#
# An image goes in, spikes run through two layers of neurons, and ten output neurons vote for a digit. Here is a trained
# network that comes with the kit. In half an hour you have your own.

# %% tags=["slide"]
digits, right = data.load("digits", "test")
reader = pages.reader_network()
read = reader(encode.repeat(data.to_unit(digits), 20))[0].sum(0).argmax(1)
viz.explorers.decision(
    reader, digits, right, read, encode=partial(encode.repeat, steps=20), classes=data.CLASSES["digits"]
)

# %% [markdown]
# From left to right: the <span class="show-image">image</span>, the <span class="show-spikes">spikes of the hidden
# neurons</span>, the <span class="show-votes">votes over time</span>. Green is the right class.
#
# 1. Find an image where the leading class changes. From which step on is the decision final?
# 2. Switch to <span class="show-mistakes_only">*mistakes only*</span>. Do wrong answers look different, before you know
#    that they are wrong?
# 3. Add <span class="show-noise">*noise*</span> to a clear digit until the answer is wrong. What happens to the number
#    of hidden spikes?
#
# The digits come with scikit-learn: 1797 images of 8 × 8 pixels, written by 13 people. Every fifth image of each class
# is for the test. (With `QUICK = False` you train on MNIST, if you have it: 60 000 images of 28 × 28 pixels.)

# %%
print(f"{DATASET}: {len(train_images)} training images, {len(test_images)} test images, on {device}")
some = [int((train_labels == k).nonzero()[i]) for i in range(2) for k in range(10)]
viz.show(
    figures.image_grid(
        train_images[some], [classes[k] for k in range(10)] * 2, columns=10, title=f"{DATASET}: two of each class"
    )
)

# %% [markdown] tags=["slide"]
# ## 2 · From picture to prediction
#
# There are three stages between the pixels and the answer:
#
# $$\underbrace{\text{image}}_{[B,\,1,\,H,\,W]} \;\xrightarrow{\text{encode}}\;
# \underbrace{\text{sequence}}_{[T,\,B,\,1,\,H,\,W]} \;\xrightarrow{\text{network}}\;
# \underbrace{\text{spikes}}_{[T,\,B,\,10]} \;\xrightarrow{\text{decode}}\;
# \underbrace{\text{class}}_{[B]}$$

# %% [markdown]
# A *batch* is a number of images that are processed together: $B$ of them. $T$ is the number of time steps.
#
# **Encode.** We take the simplest code of notebook 03, *direct coding*: the same image at each of $T$ steps. Its grey
# values, weighted, are input currents, and the first layer of neurons makes the spikes.
#
# **Predict first.** A batch of 64 images is shown for 20 steps. How much memory does the sequence take?

# %%
predict("train_your_first_network.a")

# %%
images, labels = train_images[:64], train_labels[:64]
x = encoder(data.to_unit(images))
memory, of_batch = x.untyped_storage().nbytes(), images.numel() * 4  # bytes; a float32 has 4
print("shape ", tuple(x.shape), "= [T, B, channels, height, width]")
print("stride", x.stride())
print(f"memory {memory / 1e3:.0f} kB; {steps} copies would have {x.numel() * 4 / 1e3:.0f}")
outcome("train_your_first_network.a", 0 if memory == of_batch else 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The *stride* says by how many numbers the address moves from one entry to the next. In the first dimension it is 0: all
# time steps are the same piece of memory. What does not depend on time is computed once instead of $T$ times.
#
# </details>

# %% [markdown] tags=["slide"]
# **The network** has two layers of weights. Each is followed by leaky neurons:
#
# $$v_i[t] = \beta\, v_i[t-1] + \sum_j w_{ij}\, x_j[t] + b_i - \theta\, s_i[t-1]$$
#
# $$s_i[t] = 1 \text{ where } v_i[t] > \theta, \text{ else } 0$$
#
# $v$ membrane potential, $s$ spike, $w$ weights, $b$ bias, $\theta = 1$ threshold, $\beta = 0.9$ decay per step

# %% [markdown]
# The membrane is measured in units of the threshold. This is the `Leaky` neuron of snnTorch: it fires above $\theta$, and
# the reset comes one step after the spike. The gradient of $s$ is the arctan surrogate of notebook 02. `torch.nn.Linear`
# is PyTorch's own; `nn.Sequential` is snnkit's, which carries the state of the neurons through time.


# %%
def make_net(seed=SEED):
    """A fresh network: the same seed gives the same weights."""
    train.seed_everything(seed)
    return nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(pixels, hidden),
        neuron.Leaky(beta=0.9),
        torch.nn.Linear(hidden, 10),
        neuron.Leaky(beta=0.9),
    ).to(device)


HIDDEN, OUTPUT = 2, 4  # where in the network the two spiking layers are

net = make_net()
with torch.no_grad():
    recording = net.record(x)  # runs the network and stores the output of every module

for module, layer in zip(net, recording.layers, strict=True):
    weights = sum(p.numel() for p in module.parameters())
    note = f"{layer.mean():.3f} spikes per neuron and step" if isinstance(module, neuron.Leaky) else ""
    note = "the same at all steps: computed once" if nn.is_static(layer) else note
    print(f"{type(module).__name__:8} {tuple(layer.shape)!s:16} {weights:7,} weights   {note}")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The first `Linear` is computed once, although it feeds neurons that run for 20 steps. From the first `Leaky` on every
# step is different, because the neurons have state.
#
# </details>

# %% [markdown] tags=["slide"]
# **Decode.** Each of the ten output neurons votes for a class. Count its spikes; the busiest neuron gives the answer:
#
# $$c_k = \sum_{t=1}^{T} s_k[t], \qquad \text{answer} = \arg\max_k c_k$$

# %%
counts = recording.out.sum(0)  # [T, B, 10] -> [B, 10]
guess = counts.argmax(1)
print("spikes of the ten output neurons for the first image:", counts[0].int().tolist())
print(f"the untrained network says {classes[int(guess[0])]}, the label says {classes[int(labels[0])]}")
print(f"right on {(guess == labels).float().mean():.0%} of the batch; chance would be 10 %")

# %% [markdown] tags=["slide"]
# ## 3 · The loss: how wrong is the vote?
#
# To learn we need one number that says how wrong the votes are. The counts $c_k$ are votes. A *softmax* turns them into
# probabilities $p_k$. The loss, the *cross-entropy*, is the mean surprise at the right classes $y$, in *nats* (units of
# the natural logarithm):
#
# $$p_k = \frac{e^{c_k}}{\sum_j e^{c_j}}, \qquad L = -\frac{1}{B} \sum_{b=1}^{B} \ln p_{y_b} \quad \text{(nats)}$$

# %% [markdown]
# $L = 0$ means certain and right. Work out the loss of silence before you go on. You will meet this number again, as a bad
# sign.

# %% [markdown] tags=["slide-more"]
# **Predict first.** No output neuron fires at all. What is the loss, with ten classes?

# %%
predict("train_your_first_network.b")

# %% [markdown]
# ### Exercise 04.1 · The loss of a vote (5 minutes, ●○○)
#
# `spikes` is `[T, B, C]`, `labels` holds the right classes, int64 `[B]`. Return the loss above, as one number with a
# gradient. PyTorch's `F.cross_entropy(logits, labels)` does softmax, logarithm and mean. (The *logits* are what goes into
# the softmax.) Stuck? `hint("train_your_first_network.1")`.


# %% tags=["exercise"]
def count_cross_entropy(spikes, labels):
    """Cross-entropy of the spike counts: spikes [T, B, C], labels [B] -> scalar."""
    return ...


count_cross_entropy = attempt("train_your_first_network.1", count_cross_entropy)

# %%
silent = count_cross_entropy(torch.zeros_like(recording.out), labels).item()
print(f"a silent network:       {silent:.4f}   (ln 10 = {math.log(10):.4f})")
print(f"our untrained network:  {count_cross_entropy(recording.out, labels):.4f}")
outcome("train_your_first_network.b", silent)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Silence is a guess without a favourite: every class gets the probability 1/10, and the surprise is $\ln 10 = 2.3026$.
# The untrained network is a little *worse*: random votes raise the loss on average. Always check the first loss before a
# long training. If it is 6 or 12 instead of 2.3, the inputs or the weights are far too large.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 4 · One step of learning
#
# Each weight goes a small step downhill, against its gradient. The *learning rate* $\eta$ sets the size of the step:
#
# $$w \leftarrow w - \eta\, \frac{\partial L}{\partial w}$$
#
# PyTorch computes the gradient: backwards through all $T$ steps (*backpropagation through time*), and through every
# spike by the surrogate. An *optimizer* takes the step. (Ours is Adam, which gives each weight a step size of its own.)
# You only have to make the calls in the right order.

# %% [markdown]
# ### Exercise 04.2 · The training step (8 minutes, ●●○)
#
# `x` is the encoded batch `[T, B, …]`, `y` its labels. Run `net`: it returns `out, state`. (Called without a state,
# every neuron starts at rest, so the batches are independent.) Compute `loss_fn(out, y)`, and let the optimizer take
# one step. Return the loss before the step as a plain number.


# %% tags=["exercise"]
def train_step(net, optimizer, loss_fn, x, y):
    """One update of the weights from one batch: x [T, B, ...], y [B] -> the loss before the update, a float."""
    return ...


train_step = attempt("train_your_first_network.2", train_step)

# %% [markdown] tags=["slide"]
# **Predict first.** Sixty batches of 64 digits are a little more than two and a half passes through the training set. Sketch
# the loss over these sixty steps.

# %%
predict("train_your_first_network.c")

# %% [markdown]
# Here is a complete training program: a network, an optimizer, and batches.

# %% tags=["slide"]
net = make_net()
optimizer = torch.optim.Adam(net.parameters(), lr=lr)
losses = [train_step(net, optimizer, count_cross_entropy, x, y) for x, y in some_batches(60)]

axes = {"x_title": "batch", "y_title": "loss (nats)", "levels": {"ln 10: silence": math.log(10)}}
viz.show(
    figures.lines(
        {"loss": losses}, title=f"In sixty steps the loss falls from {losses[0]:.1f} to {losses[-1]:.1f}", **axes
    )
)
outcome("train_your_first_network.c", (range(1, 61), losses))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The curve is noisy: every batch has other images, and spike counts are whole numbers. Only the trend matters. After
# sixty batches the network is far better than guessing.
#
# </details>
#
# ### The same step, where you can watch it (3 minutes)
#
# This page takes your training step in the browser, some hundred times a second: forward, loss, backward, step. Press
# **Play**, and watch the answers. Then choose a neuron of the network to see its membrane. Under *Break it on purpose*,
# press one mistake, and find out why nothing is learned.

# %% tags=["slide"]
viz.embed(pages.playground("playground.html"))

# %% [markdown]
# ## 5 · The long run
#
# A pass through all training images is an *epoch*. `train.fit` repeats your step for ten epochs (digits),
# and looks at the test
# set after each. The panel below changes while the network learns. Besides loss and accuracy it shows what only spiking
# networks have: **firing rates**. If one of them falls to zero, learning nearly stops.
# The panel's button ends the training.
#
# The learning rate follows a cosine down to zero: large steps first, fine work at the end.

# %% tags=["slide"]
net = make_net()
optimizer = torch.optim.Adam(net.parameters(), lr=lr)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
probe = encoder(data.to_unit(test_images[:256]))
panel = viz.LivePanel(epochs, layers={"hidden": HIDDEN, "output": OUTPUT}, probe=probe)

started = time.perf_counter()
history = train.fit(
    net,
    (train_images, train_labels),
    (test_images, test_labels),
    encode=encoder,
    loss=loss.count_cross_entropy,
    optimizer=optimizer,
    scheduler=cosine,
    epochs=epochs,
    batch_size=batch_size,
    device=device,
    on_epoch=panel,
    on_batch=panel.on_batch,
)
seconds = time.perf_counter() - started
reached = f"right on {history.test_accuracy[-1]:.1%} of the test images" if history.epochs else "no epoch was completed"
print(f"{history.epochs} epochs in {seconds:.1f} s; {reached}")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Training accuracy ends above test accuracy: the network also learns images by heart.
# - The hidden layer ends near 0.1 spikes per neuron and step (MNIST: 0.04), although the loss does not ask for that.
#   Nine of ten possible spikes do not occur.
# - The output layer fires more as it becomes confident: confidence *is* a high count.
#
# </details>

# %% [markdown]
# ## 6 · Look inside
#
# You can examine a trained network in every detail. First, all hidden spikes for one image:

# %% tags=["slide"]
with torch.no_grad():
    recording = net.record(encoder(data.to_unit(test_images[:1])))
one_image = recording.layers[HIDDEN][:, 0]  # [T, hidden]
title = f"A {classes[int(test_labels[0])]}: {int((one_image.sum(0) == 0).sum())} of {hidden} hidden neurons stay silent"
viz.show(figures.raster(one_image, title=title))

# %% [markdown] tags=["slide"]
# Each row is a neuron, each mark a spike. Many rows are empty.
#
# **Predict first.** Are these neurons silent for every image (dead), or do other images wake them?

# %%
predict("train_your_first_network.d")

# %% tags=["slide"]
output, hidden_rates, hidden_spikes = examine(net, test_images, HIDDEN)
answers = output.sum(0).argmax(1)  # of the votes [N, 10]
accuracy = float((answers == test_labels).float().mean())

viz.show(figures.rate_histogram(hidden_rates, bins=25, title="Over all test images"))
empty, dead = one_image.sum(0) == 0, hidden_rates == 0
print(f"{int(empty.sum())} rows were empty; {int((empty & dead).sum())} of these neurons fire for no test image at all")
outcome("train_your_first_network.d", 0 if dead[empty].all() else 2 if dead.any() else 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A few neurons fire often, most fire rarely, and some never fire: they are the striped bar on the left. The empty rows
# were of both kinds. Notebook 02 has the reason: without a membrane near the threshold there is hardly any gradient.
#
# </details>
#
# ### Which images does it misread?

# %%
wrong = (answers != test_labels).nonzero().flatten()
shown = wrong[:16].tolist()
captions = [f"{classes[int(test_labels[i])]} as {classes[int(answers[i])]}" for i in shown]
if shown:
    title = f"{len(shown)} of {len(wrong)} misread images (right class, answer)"
    viz.show(figures.image_grid(test_images[shown], captions, columns=8, title=title))

# %% [markdown]
# You would misread some of them yourself.

# %% [markdown] tags=["slide"]
# ### When is the answer known?
#
# A spiking network has an answer at every step, and you may stop whenever you like (*anytime inference*):
#
# $$\text{answer}(t) = \arg\max_k \sum_{t' \le t} s_k[t']$$
#
# **Predict first.** It was trained to be right after all the steps. How many does it need to come within 1 % of that?

# %%
predict("train_your_first_network.e")

# %% tags=["slide"]
by_step = (output.cumsum(0).argmax(2) == test_labels).float().mean(1).cpu()  # [T]
enough = int((by_step >= accuracy - 0.01).nonzero()[0]) + 1
stop = {f"step {enough}: within 1 % of the end": enough}
axes = {"x_title": "time steps used", "y_title": "right (%)", "marks": stop}
viz.show(
    figures.lines(
        {"test accuracy": 100 * by_step}, shape="hv", title=f"{enough} of {len(by_step)} steps are enough", **axes
    )
)
outcome("train_your_first_network.e", enough)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Before the first output spike every count is 0, and the answer is class 0 by default: right for one image in ten. The
# membranes need a step or two to charge. Then the accuracy rises quickly, and the last steps add almost nothing.
#
# </details>
#
# ### What does it cost? (optional, 10 minutes)
#
# A conventional layer multiplies and accumulates (MAC) at every synapse. A spike is 0 or 1. A synapse that receives a
# spike *adds* its weight; one that receives none does nothing. At the prices of notebook 03 (45 nm silicon, 32 bits)
# an addition takes 0.9 pJ and a multiply-accumulate 4.6 pJ.
#
# #### Exercise 04.3 · Count the additions (5 minutes, ●○○)
#
# `spikes` `[T, B, N]` are those of one layer; each spike reaches `fan_out` neurons of the next. How many additions does
# that make **per image**, on average?


# %% tags=["exercise"]
def additions_per_image(spikes, fan_out):
    """Synaptic additions that one image costs on average: spikes [T, B, N], each sent to fan_out neurons."""
    return ...


additions_per_image = attempt("train_your_first_network.3", additions_per_image)

# %%
with torch.no_grad():
    sample = net.record(encoder(data.to_unit(test_images[:500]))).layers[HIDDEN]  # [T, B, hidden]
additions = float(additions_per_image(sample, fan_out=10))
print(f"hidden → output: {additions:,.0f} additions per image; a conventional network makes {hidden * 10:,} MACs there")
each = additions / 10 / hidden
print(
    f"{additions / 10:.0f} hidden spikes per image, {each:.1f} per neuron; break-even is at 4.6 / 0.9 = {4.6 / 0.9:.1f}"
)

# %% [markdown] tags=["slide"]
# **Predict first.** The spikes save energy in that layer. Is the *whole* spiking network cheaper than a conventional one
# of the same shape? Compare like with like: hardware that skips a missing spike can skip a black pixel, too.
#
# - The first layer receives grey values, not spikes: MACs, once per image, for the pixels that are not 0.
# - Every neuron updates its membrane at every step ($\beta v + x$: one MAC).

# %%
predict("train_your_first_network.f")

# %% tags=["slide"]
ADD, MAC = 0.9e-3, 4.6e-3  # nJ per operation, 45 nm CMOS, 32-bit floating point
lit = int((test_images != 0).sum()) / len(test_images)  # pixels that are not 0, of an average image
first = lit * hidden * MAC  # once per image, because the image does not change


def spiking(t):
    """Energy in nJ of the parts of the spiking network, if it stops after t steps."""
    synapses, updates = float(hidden_spikes[t - 1]) * 10 * ADD, t * (hidden + 10) * MAC
    return {"first layer": first, "second layer": synapses, "membrane updates": updates}


energy = {
    "conventional, every pixel": {"first layer": pixels * hidden * MAC, "second layer": hidden * 10 * MAC},
    "conventional, zero pixels skipped": {"first layer": first, "second layer": hidden * 10 * MAC},
    f"spiking, {enough} steps": spiking(enough),
    f"spiking, {steps} steps": spiking(steps),
}
dense, conventional, early, late = (sum(parts.values()) for parts in energy.values())
title = f"If both skip zeros, spikes cost {late / conventional - 1:+.0%}; stopped early {early / conventional - 1:+.0%}"
viz.show(figures.shares(energy, unit="nJ", title=title))
for name, other in {"zero pixels skipped by both": conventional, "skipped only with spikes": dense}.items():
    print(f"compared with the conventional network, {name}: {early / other - 1:+.1%} and {late / other - 1:+.1%}")
outcome("train_your_first_network.f", 2 if late > conventional else 1 if late > conventional / 2 else 0)

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# The second layer became cheap, but the network as a whole did not. If you compare it with a network that multiplies
# every black pixel, you get another answer: say which comparison you made. "Spiking networks save energy" is true under three
# conditions:
#
# 1. **sparse spikes**: fewer than about 5 per neuron and image, at these prices;
# 2. **few steps**: stop early, or train with a small $T$;
# 3. **spikes at the input** as well: an event camera instead of a grey image (notebook 06).
#
# And this counts arithmetic only. On a GPU a multiplication by zero costs as much as any other. The saving needs
# hardware that rests until a spike arrives, or a program that leaves the zeros out.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 7 · What broke?
#
# Two real mistakes. From the outside they look alike: *nothing is learned*.
#
# - **Patient A**: "I scale the images to [0, 1] by dividing by 255." But `data.to_unit` had already done so.
# - **Patient B**: "A larger learning rate learns faster, so I took 1.0."
#
# **Predict first.** After 30 batches, what does the *hidden* layer do in A? And in B?

# %%
predict("train_your_first_network.g")
predict("train_your_first_network.h")


# %% tags=["slide"]
def attempt_training(scale=1.0, lr=lr, count=30):
    """Train a fresh network for a few batches; return the losses and the firing rate of each spiking layer."""
    net = make_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    losses = [train_step(net, optimizer, count_cross_entropy, x * scale, y) for x, y in some_batches(count)]
    with torch.no_grad():
        layers = net.record(probe * scale).layers
    return losses, [float(layers[i].mean()) for i in (HIDDEN, OUTPUT)]


patients = {
    "A: images / 255, twice": attempt_training(scale=1 / 255),
    "B: learning rate 1.0": attempt_training(lr=1.0),
    "repaired": attempt_training(),
}
axes = {"x_title": "batch", "y_title": "loss (nats)", "levels": {"ln 10: silence": math.log(10)}}
curves = {name: losses for name, (losses, _) in patients.items()}
title = "A (pale) stays at the loss of silence, B jumps and falls back"
viz.show(figures.lines(curves, title=title, faint=["A: images / 255, twice"], **axes))

print(f"{'':26} last loss   hidden rate   output rate   (spikes per neuron and step)")
for name, (losses, rates) in patients.items():
    print(f"{name:26} {losses[-1]:9.4f}   {rates[0]:11.3f}   {rates[1]:11.3f}")
of_a, of_b, _ = (rates[0] for _, rates in patients.values())
outcome(
    "train_your_first_network.g", sum(of_a > limit for limit in (0.02, 0.25))
)  # 0: nearly silent, 1: healthy, 2: wild
outcome("train_your_first_network.h", sum(of_b > limit for limit in (0.02, 0.25)))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# In A the loss stays at 2.3026 (you know what this number means). In B it jumps far above, and stays there or, once all
# outputs are silent, falls back to 2.3026. **Do not only watch the loss; look at the layers.** Go from the input to the
# output and find the first layer with a wrong rate:
#
# | | hidden | output | diagnosis | cure |
# |---|---|---|---|---|
# | A | nearly silent | silent, or nearly | the membrane rarely reaches the threshold | scale the input (look at `x.max()`); larger weights, lower threshold |
# | B | fires wildly | 0, or a round 0.1, 0.2, … | one huge step moved the weights to where the surrogate gives almost no gradient | smaller learning rate, and new initial weights: these cannot recover |
# | repaired | 0.03 to 0.2 | 0.03 to 0.2 | | |
#
# In B the output neurons no longer depend on the image: each fires always or never. A loss of 10 and more is a network
# that is *certain* and wrong, which is worse than silence.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 8 · Your network on a page
#
# What you have trained is a list of numbers and one equation. `pages.page` writes both into a single HTML file. It needs
# no Python and no server: open it on a phone, or send it to a friend. Draw with the mouse, and silence neurons by a
# click. How many can you silence before a digit is misread?

# %% tags=["slide"]
home = pages.page(
    net,
    "my_network.html",
    encode=encoder,
    images=(test_images, test_labels),
    labels=classes,
    title="My first spiking network",
    about=f"Trained on {DATASET} in notebook 04 of snnkit; it reads {accuracy:.1%} of the test images.",
)
viz.embed(home)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - No single neuron matters much: the knowledge is spread over many.
# - Your drawing is scaled and centred first, as the images of the data set were. Shift or tilt a test image instead, and
#   soon it is misread: the network never saw one like it.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 9 · Build: a training loop
#
# You wrote the step. Now write the loop around it, from an empty cell and without an optimizer. The cell has a name and
# three dots; at the end the name must be your function. The card lists **every** property with ✓ or ✗, and says more
# about the first that fails. Until yours passes, the notebook goes on with the reference.
#
# ### Exercise 04.4 · A training loop (15 minutes, ●●○)
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
# $L$ is the mean cross-entropy of the scores (`F.cross_entropy`), and all weights take the step of section 4. Return a
# list with one float per epoch: the mean loss of its images, as computed on the way.
#
# **An example.** 7 images, `batch=3`: batches of 3, 3 and 1. After two epochs the weights have changed six times, and the
# list has two numbers.

# %% tags=["exercise"]
# 04.4: a function fit(scores, weights, x, y, epochs, batch, lr, generator)
fit = ...

fit = attempt("train_your_first_network.4", fit)

# %% [markdown] tags=["slide"]
# ### Your loop reads digits
#
# `scores` shows an image for 20 steps to two layers of neurons, and counts the spikes of the last layer. The neurons are
# the kit's, with the triangle of notebook 02 as surrogate. If you built a `population` in 01 and a `spike` in 02, paste
# both above the cell and take the line in the comment: then everything that learns here is yours.
#
# **Predict first.** One network learns with a triangle of width 0.25, the other with one of width 2. Which one reads more digits in the end?

# %%
predict("train_your_first_network.i")


# %% tags=["slide"]
def network(width):
    """A function of (images [B, 64], weights) that gives the spike counts [B, 10]."""
    cell = neuron.LIF(10.0, v_reset=None, decay_input=False, surrogate=surrogate.Triangle(1 / width))

    def scores(images, weights):
        s = images.expand(20, -1, -1)
        for w in weights:
            s, _ = cell(s @ w.T)  # population(s @ w.T, 0.9, lambda u: spike(u, width))
        return s.sum(0)

    return scores


images, labels = data.load("digits")
x, x_test = data.to_unit(images).flatten(1), data.to_unit(digits).flatten(1)
reads, curves = {}, {}
for width in (0.25, 2.0):
    generator = torch.Generator().manual_seed(SEED)
    weights = []
    for inputs, neurons in ((64, 100), (100, 10)):
        w = (2 * torch.rand(neurons, inputs, generator=generator) - 1) / inputs**0.5
        weights.append(w.requires_grad_())
    scores = network(width)
    curves[f"width {width:g}"] = fit(scores, weights, x, labels, 10 if QUICK else 30, 64, 0.03, generator)
    reads[width] = loss.accuracy(scores(x_test, weights)[None], right)
for width, share in reads.items():
    print(f"width {width:4}: {share:.1%} of the test digits are read")
title = "Your loop, two surrogates: a wide one reaches more neurons"
viz.show(figures.lines(curves, x_title="epoch", y_title="loss (nats)", title=title))
outcome("train_your_first_network.i", 0 if reads[0.25] > reads[2.0] else 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A triangle of width 2 reaches down to $u = -2$, so a neuron that is silent still gets a gradient. One of 0.25 is eight
# times as tall, so the first steps are too large, and the output falls silent. Then hardly one of its membranes is within
# reach: section 5 of notebook 02 calls such neurons dead.
#
# </details>
#
# ## 10 · Check yourself

# %%
quiz("train_your_first_network")

# %%
scorecard("train_your_first_network")

# %%
print(f"data set: {DATASET}, {history.epochs} epochs, {seconds:.1f} s of training on {device}")
print(f"test accuracy: {accuracy:.4f}")

# %% [markdown]
# ## Challenge: a network with few spikes (optional)
#
# Reach 95 % on the digits with as few hidden spikes per image as you can. You can change `steps`, `hidden`, $\beta$ and
# the threshold, and add a second loss term:
# `loss.spike_rate_regulariser([recording.layers[HIDDEN]], target=0.02, weight=50)`, with `net.record(x)` instead of
# `net(x)` in your training step. That alone leaves about 30 % of the spikes that exercise 04.3 counts, at no loss of
# accuracy. With 10 steps and 64 hidden neurons as well, about 26 spikes are left at 98 %: beat that. ([Notebook
# 08](08_open_challenge.ipynb) makes this a contest.)
#
# ## Next
#
# **[05 · Microspike](05_microspike.ipynb)** has all of this on one page, without the kit: the network, its gradient by
# hand, and the training. Or begin another track: *Machines* with [10 · Moving house](10_moving_house.ipynb), *Research*
# with [20 · Your own data](20_your_own_data.ipynb). At full size (`QUICK = False`) this notebook reaches 98 % on MNIST
# in four epochs: half a minute to three minutes on a CPU.
#
# ## References
#
# - J. K. Eshraghian et al., "Training spiking neural networks using lessons from deep learning", Proc. IEEE 111, 1016–1054
#   (2023), [doi:10.1109/JPROC.2023.3308088](https://doi.org/10.1109/JPROC.2023.3308088). The 784-1000-10 network, the count loss.
# - E. O. Neftci, H. Mostafa, F. Zenke, "Surrogate gradient learning in spiking neural networks", IEEE Signal Process. Mag. 36,
#   51–63 (2019), [doi:10.1109/MSP.2019.2931595](https://doi.org/10.1109/MSP.2019.2931595).
# - M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, 10–14,
#   [doi:10.1109/ISSCC.2014.6757323](https://doi.org/10.1109/ISSCC.2014.6757323). The 0.9 and 4.6 pJ.
# - E. Alpaydin, C. Kaynak, "Optical recognition of handwritten digits", UCI Machine Learning Repository (1998),
#   [doi:10.24432/C50P49](https://doi.org/10.24432/C50P49).
# - Y. LeCun et al., "Gradient-based learning applied to document recognition", Proc. IEEE 86, 2278–2324 (1998),
#   [doi:10.1109/5.726791](https://doi.org/10.1109/5.726791). MNIST.
