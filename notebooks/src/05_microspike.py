# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/05_microspike.ipynb)

# %% [markdown] tags=["slide"]
# # 05 · Microspike: all of it on one page
#
# You have trained a network with the kit. Now you read all that was in it: a spiking network and its training on one
# page, as Andrej Karpathy's *micrograd* shows backpropagation in a hundred lines [4]. The idea is his, the code is ours.
#
# **Afterwards you can**
#
# - write a spiking network and its training in a hundred lines of PyTorch, with no library for spikes;
# - say what each of these lines does, and what goes wrong without it;
# - compute the gradient of a spiking neuron by hand, backwards in time;
# - name for every line the part of the kit that does the same, and say what the kit adds.
#
# | | |
# |---|---|
# | Time | 70 minutes, and 5 more for the optional part |
# | GPU minutes | 0. It trains in seconds on a CPU |
# | Before this | 04: you have trained a network, and written its training step |
#
# Every cell that begins with `# microspike` is a piece of the program. There are seven pieces. They import PyTorch and the
# digits, and nothing else.

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
QUICK: bool = True  # False: four seeds instead of one in section 5
SOLVE: bool = False  # True: use the reference solutions instead of your answers

# %%
import subprocess
import time
from urllib.parse import quote

import torch
from IPython.display import HTML

from snnkit import data, encode, engine, loss as kit_loss, models, neuron, nn, train
from snnkit.lab import course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

course.start("microspike", solve=SOLVE)
train.seed_everything(0)
torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work


def kits_movie(epochs=10):
    """Before training and after each epoch: test accuracy, and the ten output neurons for one image [T, 10]."""
    (images, labels), (test_images, test_labels) = data.load("digits"), data.load("digits", "test")
    kit_net, encoder = models.mlp((64, 128, 10)), lambda images: encode.repeat(images, 20)

    def look(*_):
        with torch.no_grad():
            out, _ = kit_net(encoder(data.to_unit(test_images)))
        scenes.append(((out.sum(0).argmax(1) == test_labels).float().mean().item(), out[:, 3]))

    scenes = []
    look()
    how = {"epochs": epochs, "lr": 5e-3, "encode": encoder, "loss": kit_loss.count_cross_entropy, "on_epoch": look}
    train.fit(kit_net, (images, labels), (test_images, test_labels), progress=False, **how)
    return scenes, int(test_labels[3])


scenes, seen = kits_movie()

# %% [markdown] tags=["slide"]
# ![The seven pieces of the program. Digits (1) enter a network (4) of weights and neurons (3), whose spikes (2) are counted in the loss (5). Gradients lead from the loss back to the weights: learning (6). The seventh piece is the result.](drawings/microspike.svg)

# %% [markdown] tags=["slide"]
# ## 1 · The task, and the spike
#
# Here the kit learns to read digits. The ten output neurons see one test image, and each mark is a spike. **Move the
# slider back to epoch 0.** In the end, ninety-one lines of yours do the same.


# %% tags=["slide"]
def scene(epoch):
    """The output neurons after an epoch."""
    right, spikes = scenes[epoch]
    return figures.raster(spikes, title=f"Epoch {epoch}: {right:.1%} of the test images right; this one is {seen}")


viz.show(viz.frames(scene, "epoch", range(len(scenes)), start=len(scenes) - 1))

# %% [markdown] tags=["slide"]
# There are 1797 images of 8 × 8 pixels. Every fifth one is for the test. (The same people wrote both parts, so new writers
# would be harder.)

# %% tags=["microspike", "slide", "slide-code"]
# microspike 1: the digits
import torch
from sklearn.datasets import load_digits

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)  # [1797, 64]: grey values from 0 to 1
y = torch.tensor(digits.target)  # [1797]: which digit it is
test = torch.arange(len(x)) % 5 == 4  # every fifth image is for the test

# %% tags=["slide"]
viz.show(figures.image_grid(x[:10].view(-1, 8, 8), y[:10], columns=10, title="The first ten of 1797 images"))

# %% [markdown]
# **Line by line.** The pixels come as 0 to 16, so `/ 16` makes them 0 to 1. Without it, the first updates are far too
# large, and the network hardly learns anything. `test` is a tensor of booleans: `x[test]` are the test images, `x[~test]`
# the others.

# %% [markdown] tags=["slide"]
# ### The spike
#
# A neuron fires when its membrane $v$ is above the threshold $\theta = 1$. With $u = v - \theta$ the spike is a step:
# $s = 1$ where $u > 0$, else 0. Its slope is 0, so on the way back we pretend that it was smooth (notebook 02), and take
# the slope of an arctangent:
#
# $$s = H(u) \qquad\qquad \frac{\partial s}{\partial u} := \sigma'(u) = \frac{1}{1 + (\pi u)^2} \tag{1}$$
#
# Here $u$ is in units of the threshold, and $\sigma'$ has its peak of 1 at the threshold.


# %% tags=["microspike", "slide", "slide-code"]
# microspike 2: the spike
class Spike(torch.autograd.Function):
    """A step on the way forward, a smooth bump on the way back."""

    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return (u > 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad):
        (u,) = ctx.saved_tensors
        return grad * (1 / (1 + (torch.pi * u) ** 2))


# %% tags=["slide"]
u = torch.linspace(-2, 2, 201).requires_grad_()
spikes = Spike.apply(u)
spikes.sum().backward()
both = {"forward: the spike s": spikes, "backward: its slope σ′": u.grad}
axes = {"x": u, "x_title": "u = v − θ, in units of the threshold"}
viz.show(figures.lines(both, title="Forward a step, backward a hill", **axes))

# %% [markdown]
# **Line by line.** `ctx` is a bag that PyTorch carries from `forward` to `backward`. `forward` puts $u$ into it, and
# returns 0 or 1 in the dtype of $u$. `backward` gets `grad`, the gradient that arrives at the spike, and multiplies it by
# $\sigma'(u)$. That is the chain rule.
#
# **What breaks.** Write `(u > 0).float()` without this class, and `backward()` raises an error: the comparison cuts the
# graph.

# %% [markdown] tags=["slide"]
# ## 2 · The neuron
#
# In each step the membrane leaks, is charged by its input $x[t]$, and pays for its last spike:
#
# $$v[t] = \beta\,v[t-1] + x[t] - \theta\,s[t-1] \qquad\qquad s[t] = H(v[t] - \theta) \tag{2}$$
#
# The decay $\beta$ is 0.9 per time step. The last term is the soft reset of notebook 01, one step late. This is the
# kit's `neuron.Leaky`, which you trained in 04.
#
# **Predict first.** With $\beta = 0.9$ and $\theta = 1$: what is the smallest constant input that ever makes the neuron
# fire? Hint: where does $v$ settle if it does not fire?

# %%
predict("microspike.a")


# %% tags=["microspike", "slide", "slide-code"]
# microspike 3: the neuron
def leaky(current, beta=0.9):
    """Leaky integrate-and-fire neurons: currents [T, B, N] to spikes [T, B, N]."""
    v, spikes = torch.zeros_like(current[0]), []
    for x_t in current:
        fired = (v > 1).to(v.dtype)  # who fired in the step before
        v = beta * v + x_t - fired  # leak, charge, and pay for that spike
        spikes.append(Spike.apply(v - 1))
    return torch.stack(spikes)


# %% tags=["slide"]
currents = torch.arange(61) / 100  # 61 neurons, each with its own constant input: 0, 0.01, 0.02, …
spikes = leaky(currents.expand(200, 1, -1))[:, 0]
first = currents[spikes.any(0)].min().item()
figure = figures.raster(spikes[:60], title=f"Silent below an input of {first:g}; above it the rate rises")
viz.show(figure.update_yaxes(title_text="neuron n: input n / 100"))
outcome("microspike.a", first)

# %% [markdown]
# **Line by line.** `current` is `[T, B, N]`, time first, so the loop goes over time. `fired` comes from a comparison, so
# no gradient flows through the reset; notebook 02 shows why that is safe. Then equation (2), in one line. The list
# collects the spikes, and `stack` makes one tensor of it.
#
# <details>
# <summary><b>What to notice</b></summary>
#
# Without spikes $v$ settles at $x/(1-\beta) = 10\,x$. So the neuron fires if $x$ is above 0.1, a
# tenth of the threshold. Above that, its rate grows with the input.
#
# </details>

# %% [markdown]
# **What breaks.** With the batch first, `[B, T, N]`, `leaky` runs without an error, and one image leaks into the next.

# %% [markdown] tags=["slide"]
# ### Whose fault was it?
#
# Learning asks for each input: would more of you have helped? A spike at step 40 depends on all inputs before it. The
# figure shows the gradient of one spike with respect to the input of each step. Move $\beta$.
#
# **Predict first.** At $\beta = 0.9$, the input ten steps before the spike gets which share of the gradient at the spike?

# %%
predict("microspike.b")


# %% tags=["slide"]
def blame(beta=0.9, current=0.05):
    """The gradient of the spike at step 40 with respect to the input of each step."""
    drive = torch.full((60, 1, 1), current).requires_grad_()
    leaky(drive, beta)[40].sum().backward()
    left = (drive.grad[30] / drive.grad[40]).item()
    title = f"At β = {beta:g}: ten steps earlier, {left:.2f} of it is left"
    axes = {"x_title": "time step of the input", "y_title": "gradient of the spike at step 40"}
    return figures.lines({"gradient": drive.grad[:, 0, 0]}, x=range(60), title=title, **axes)


viz.explore(blame, beta=(0.5, 0.99, 0.01), current=(0.0, 0.2, 0.01))

# %%
early = torch.zeros(60, 1, 1).requires_grad_()
leaky(early)[40].sum().backward()
outcome("microspike.b", 100 * (early.grad[30] / early.grad[40]).item())

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Later inputs have no part in it: time has a direction. Each step further back costs a factor
# $\beta$. So a neuron can learn only what happened within its memory, some $1/(1-\beta)$ steps. This is why sequences
# need a slow decay, or feedback (section 5).
#
# </details>

# %% [markdown] tags=["slide"]
# ### Exercise 05.1 · Backward by hand (10 minutes, ●●○)
#
# PyTorch computed this figure for you. Do it yourself once. By equation (2), $v[t]$ acts on the spike $s[t]$ and, through
# the leak, on $v[t+1]$. Write $d[t]$ for $\partial L/\partial v[t]$, which is $\partial L/\partial x[t]$ as well, and $g[t]$
# for $\partial L/\partial s[t]$:
#
# $$d[t] = g[t]\;\sigma'(u[t]) + \beta\,d[t+1], \qquad d = 0 \text{ after the last step} \tag{3}$$
#
# You get `u` `[T, N]` (the distance to the threshold at each step), `g` `[T, N]` (the gradient with respect to each spike)
# and `beta`. Return the gradient with respect to each input, `[T, N]`. The surrogate is that of equation (1). Which way does the loop go?


# %% tags=["exercise"]
def backward(u, g, beta):
    """Gradient of the loss with respect to the input of each step: u [T, N], g [T, N] -> [T, N]."""
    return ...


backward = attempt("microspike.1", backward)

# %% [markdown]
# The test: your gradient beside PyTorch's, for random inputs and a random $g$.

# %%
drive = (0.3 * torch.rand(50, 1, 20, generator=torch.Generator().manual_seed(1))).requires_grad_()
g = torch.randn(50, 20, generator=torch.Generator().manual_seed(2))
spikes = leaky(drive)[:, 0]
spikes.backward(g)
v, u = torch.zeros(20), []
for x_t in drive.detach()[:, 0]:
    v = 0.9 * v + x_t - (v > 1).float()
    u.append(v - 1)
by_hand = backward(torch.stack(u), g, 0.9)
print("largest difference to PyTorch:", f"{(by_hand - drive.grad[:, 0]).abs().max():.1e}")

# %% [markdown] tags=["slide"]
# ## 3 · The network, and learning
#
# A layer is a matrix of weights $w$ and a population of neurons. Spikes $s_j$ of one layer are the input $x_i$ of the next:
#
# $$x_i[t] = \sum_j w_{ij}\,s_j[t] \tag{4}$$
#
# The weights have no unit: they say how much one spike raises a membrane, in units of the threshold. The first layer
# gets the grey values as a constant input, the same in each of 20 time steps. There are 64 pixels, 128 hidden neurons and
# 10 output neurons, one for each digit.


# %% tags=["microspike", "slide", "slide-code"]
# microspike 4: the network
class Network:
    """Layers of weights and leaky neurons: Network(64, 128, 10)."""

    def __init__(self, *sizes):
        self.weights = []
        for inputs, neurons in zip(sizes, sizes[1:]):
            w = torch.empty(neurons, inputs).uniform_(-1, 1) / inputs**0.5
            self.weights.append(w.requires_grad_())

    def __call__(self, images, steps=20):
        s = images.expand(steps, -1, -1)  # [T, B, 64]: the image, the same at every step
        for w in self.weights:
            s = leaky(s @ w.T)
        return s  # [T, B, 10]


# %% tags=["slide"]
untrained = Network(64, 128, 10)
hidden = leaky(x[:1].expand(20, -1, -1) @ untrained.weights[0].T)[:, 0]
viz.show(figures.raster(hidden, title=f"Untrained, {int(hidden.any(0).sum())} of 128 neurons fire at a {int(y[0])}"))

# %% [markdown]
# **Line by line.** `zip(sizes, sizes[1:])` gives the pairs (64, 128) and (128, 10). The weights are drawn between
# $\pm 1/\sqrt{\text{inputs}}$: then the input of a neuron has the same size for few inputs and for many. `expand` shows
# the image 20 times and copies nothing.
#
# **What breaks.** Leave out `/ inputs**0.5`, and the weights are about ten times too large. Some neurons fire in nearly every
# step, others never, and only 10 to 35 % of the test images are right in the end.

# %% [markdown] tags=["slide"]
# ### The loss
#
# As in 04, the answer is the output neuron that fires most, and the loss is the cross-entropy of the counts. With $n_k$
# spikes of output neuron $k$ (without units), and $n_y$ of the right one,
#
# $$L = \ln \sum_k e^{n_k} - n_y \qquad \text{in nats} \tag{5}$$
#
# **Predict first.** The network is untrained. About how large is its loss? Suppose that all ten counts are equal.

# %%
predict("microspike.c")


# %% tags=["microspike", "slide", "slide-code"]
# microspike 5: the loss
def cross_entropy(spikes, labels):
    """How surprising the labels are to the spike counts: spikes [T, B, 10], labels [B]."""
    counts = spikes.sum(0)
    return (counts.logsumexp(1) - counts[torch.arange(len(labels)), labels]).mean()


def accuracy(net, images, labels):
    """The share of the images for which the right neuron fires most."""
    with torch.no_grad():
        return (net(images).sum(0).argmax(1) == labels).float().mean().item()


# %%
loss = cross_entropy(untrained(x), y).item()
print(f"loss {loss:.3f} nats, accuracy {accuracy(untrained, x, y):.1%}")
outcome("microspike.c", loss)

# %% [markdown]
# **Line by line.** `spikes.sum(0)` sums over time: `[T, B, 10]` becomes `[B, 10]`. `logsumexp` is the first term of (5),
# without overflow. The index picks the count of the right neuron for each image.
#
# <details>
# <summary><b>What to notice</b></summary>
#
# Ten equal counts give $\ln 10 = 2.303$, as you know from 04. A loss that stays there says: *all neurons of the output do
# the same*, often nothing.
#
# </details>

# %% [markdown] tags=["slide"]
# ### Learning
#
# Your training loop of 04, with a learning rate $\eta$ that shrinks from epoch to epoch:
#
# $$w \leftarrow w - \eta\,\frac{\partial L}{\partial w} \tag{6}$$


# %% tags=["microspike", "slide", "slide-code"]
# microspike 6: learning
def learn(net, images, labels, epochs=20, lr=0.005):
    """Train the network, and hand out the mean loss of each epoch."""
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(images)).split(64):
            loss = cross_entropy(net(images[rows]), labels[rows])
            loss.backward()
            with torch.no_grad():
                for w in net.weights:
                    w -= lr * (1 - epoch / epochs) * w.grad
                    w.grad = None
            total += loss.item() * len(rows)
        yield total / len(images)


# %% [markdown]
# **Line by line.** `randperm` is a new order of the images for each epoch, and `split` cuts it into batches of 64.
# `loss.backward()` runs all of the above backwards, through both layers and all 20 steps. The weights change under
# `no_grad`, because the change itself is no part of the network. `w.grad = None` clears the gradient for the next batch.
# `yield` makes `learn` a loop that you can watch: it hands out a number, and goes on when you ask for the next one.

# %% tags=["microspike", "slide", "slide-code"]
# microspike 7: the result
net = Network(64, 128, 10)
for epoch, loss in enumerate(learn(net, x[~test], y[~test]), start=1):
    print(f"epoch {epoch:2}   loss {loss:.3f}   test accuracy {accuracy(net, x[test], y[test]):.1%}")

spikes = net(x[test][:1])[:, 0]  # the ten output neurons see one image
for digit, train_of_spikes in enumerate(spikes.T):
    print(digit, "".join("|" if s else "·" for s in train_of_spikes))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A few seconds on a CPU, and 96 or 97 % of the test images are right. The last lines are the output neurons for one
# image.
#
# </details>

# %% [markdown] tags=["slide"]
# ### Half of it at random
#
# **Predict first.** Train again, but leave the 128 × 64 weights of the first layer as they were drawn. Only the 10 × 128
# weights of the second layer learn. How much of the test set is right?

# %%
predict("microspike.d")

# %%
half = Network(64, 128, 10)
first, last = half.weights
half.weights = [first.detach(), last]


def learn_last(epochs=20, lr=0.005):
    """As `learn`, but only for the last weights."""
    for epoch in range(epochs):
        for rows in torch.randperm(int((~test).sum())).split(64):
            cross_entropy(half(x[~test][rows]), y[~test][rows]).backward()
            with torch.no_grad():
                last.sub_(lr * (1 - epoch / epochs) * last.grad)
                last.grad = None


learn_last()
right = accuracy(half, x[test], y[test])
print(f"first layer random: {right:.1%}; both trained: {accuracy(net, x[test], y[test]):.1%}")
outcome("microspike.d", 100 * right)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# About nine of ten are right. 128 random features are enough for most digits, and one layer on top of them can use
# them. So "it learns" says little about the layers below. If you wonder whether a gradient helps, freeze the layer and
# compare.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 4 · Yours to take away
#
# The list `In` has the text of all cells that you ran. So the notebook joins your pieces, with your changes, and offers
# them as a file. Then a new Python runs it, with nothing else.

# %%
pieces = {cell.partition("\n")[0]: cell.strip() for cell in In if cell.startswith("# microspike")}
program = "\n\n\n".join(pieces.values()) + "\n"
print(len(pieces), "pieces,", program.count("\n"), "lines, blank ones and comments included")
address = "data:text/x-python," + quote(program)
HTML(f'<a download="microspike.py" href="{address}">Save microspike.py</a>')

# %%
python = [sys.executable, "-I", "-"]  # -I: nothing but the installed packages
alone = subprocess.run(python, input=program, capture_output=True, text=True)
print(*alone.stdout.splitlines()[19:], alone.stderr, sep="\n")

# %% [markdown]
# Change a line above, run the cell, and run these two cells again. A few things to try: `beta=0.5`, `steps=5`,
# `Network(64, 32, 10)`, `Network(64, 64, 64, 10)`.

# %% [markdown] tags=["slide"]
# ## 5 · One line more: feedback
#
# Microspike looks at all pixels at once. Now it sees the digit **row by row**: 8 inputs, 8 rows, two time steps for each
# row. It must remember the first rows when the last one comes. The leak forgets: after 14 steps $0.9^{14} = 0.23$ is left. But a network
# can keep its activity going if its neurons talk to each other. With weights $r$ from each hidden neuron to every one,
#
# $$v_i[t] = \beta\,v_i[t-1] + x_i[t] + \sum_j r_{ij}\,s_j[t-1] - \theta\,s_i[t-1] \tag{7}$$
#
# ### Exercise 05.2 · A recurrent layer (8 minutes, ●●○)
#
# Start from `leaky`. `current` is `[T, B, N]`, `r` is `[N, N]`, and `r[i, j]` is the weight from neuron `j` to neuron `i`.
# Return the spikes `[T, B, N]`. In the first step there is no feedback, because nothing has fired yet. Gradients must reach
# `r`, so feed back the *spikes*, not a comparison. The reset stays as in `leaky`: a comparison, without a gradient.


# %% tags=["exercise"]
def recurrent(current, r, beta):
    """Leaky neurons that hear each other's last spikes: [T, B, N], [N, N] -> spikes [T, B, N]."""
    return ...


recurrent = attempt("microspike.2", recurrent)


# %%
class Rows(Network):
    """Reads a digit row by row: two steps for each of the eight rows."""

    def __init__(self, feedback):
        super().__init__(8, 128, 10)
        self.feedback = feedback
        if feedback:
            self.weights += Network(128, 128).weights

    def __call__(self, images):
        rows = images.view(-1, 8, 8).transpose(0, 1).repeat_interleave(2, 0)  # [16, B, 8]
        current = 2 * rows @ self.weights[0].T
        hidden = recurrent(current, self.weights[2], 0.9) if self.feedback else leaky(current)
        return leaky(hidden @ self.weights[1].T)


for seed in range(1 if QUICK else 4):
    for feedback, lr in ((False, 0.005), (True, 0.002)):  # each with a step size that suits it
        torch.manual_seed(seed)
        rows = Rows(feedback)
        *_, loss = learn(rows, x[~test], y[~test], lr=lr)
        right = accuracy(rows, x[test], y[test])
        print(f"feedback {feedback!s:5}   loss {loss:.2f}   test accuracy {right:.1%}")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The same loop and the same loss, and one more matrix: the accuracy goes up by 6 to 12 points, with
# each of four seeds (`QUICK = False`). PyTorch runs any loop backwards, so only the step size had to change.
#
# Is this a fair comparison? Without feedback, 0.005 has the best mean over four seeds. With it, 0.003 is better still.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 6 · The same again, in the kit
#
# Every piece has its counterpart:
#
# | microspike | the kit | what it adds |
# |---|---|---|
# | `load_digits` | `data.load("digits")` | MNIST, Fashion-MNIST, events; checked downloads |
# | `Spike` | `surrogate.ATan(2)` | five others; any function of your own |
# | `leaky` | `neuron.Leaky(0.9)` | eleven neurons, a state that you hold, engines that compile the loop |
# | `Network` | `nn.Sequential`, `models.mlp` | any PyTorch layer, recordings of all layers |
# | `cross_entropy` | `loss.count_cross_entropy` | other losses, checks of shapes and labels |
# | `learn` | `train.fit` | Adam, *checkpoints* (files from which a run goes on), *mixed precision* (16 bits where they are enough), many devices |
#
# Counterpart, or the same? Take the neuron first: the same input, the same gradient $g$ at the spikes.
#
# **Predict first.** Do the spikes of `leaky` and of `neuron.Leaky(0.9)` agree, and do the gradients?

# %%
predict("microspike.e")

# %%
mine = torch.randn(50, 64, 100, generator=torch.Generator().manual_seed(1)).requires_grad_()
kits = mine.detach().clone().requires_grad_()
g = torch.randn(50, 64, 100, generator=torch.Generator().manual_seed(2))
my_spikes, (kit_spikes, state) = leaky(mine), neuron.Leaky(0.9)(kits)
my_spikes.backward(g)
kit_spikes.backward(g)
same_spikes, same_gradients = torch.equal(my_spikes, kit_spikes), torch.equal(mine.grad, kits.grad)
print(f"{int(my_spikes.sum())} spikes, the same: {same_spikes}; the same gradients: {same_gradients}")
print(engine.explain(neuron.Leaky(0.9), kits))
assert same_spikes and torch.allclose(mine.grad, kits.grad, rtol=0, atol=1e-6)
outcome("microspike.e", 0 if same_spikes and same_gradients else 1)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Not one bit differs, although the kit did not run our loop. `engine.explain` says what `auto` took, and why: one C++ loop
# that it generated from the neuron's equation.
#
# </details>

# %% [markdown]
# And this is the whole of microspike in the words of the kit. Its optimizer is Adam: three epochs are enough.

# %%
train.seed_everything(0)
history = train.fit(
    models.mlp((64, 128, 10)),
    data.load("digits"),
    data.load("digits", "test"),
    epochs=3,
    lr=1e-2,
    encode=lambda images: encode.repeat(images, 20),
    loss=kit_loss.count_cross_entropy,
)
print(f"{history.test_accuracy[-1]:.1%} of the test digits")

# %% [markdown]
# ### How much faster is it? (optional, 5 minutes)
#
# First the whole network in the kit, with the weights that microspike has learned:

# %%
kit_net = nn.Sequential(
    torch.nn.Linear(64, 128, bias=False), neuron.Leaky(0.9), torch.nn.Linear(128, 10, bias=False), neuron.Leaky(0.9)
)
with torch.no_grad():
    for theirs, w in zip(kit_net.parameters(), net.weights):
        theirs.copy_(w)
    kit_spikes, _ = kit_net(x.expand(20, -1, -1))
    differ = (kit_spikes != net(x)).float().mean().item()
print(f"{kit_spikes.numel():,} places of the output, {differ:.0%} of them differ")
assert differ < 1e-4

# %% [markdown]
# **Predict first.** One update of the weights with a batch of 64 images, forward, backward and step. How many times faster
# is the kit?

# %%
predict("microspike.f")


# %%
def seconds(update, repeats=40):
    """The median time of one update, in seconds."""
    update()  # the first one compiles
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        update()
        times.append(time.perf_counter() - began)
    return sorted(times)[repeats // 2]


images, labels = x[~test][:64], y[~test][:64]
optimizer = torch.optim.SGD(kit_net.parameters(), lr=1e-6)


def kit_update():
    spikes, _ = kit_net(images.expand(20, -1, -1))
    optimizer.zero_grad()
    kit_loss.count_cross_entropy(spikes, labels).backward()
    optimizer.step()


took = {"microspike": seconds(lambda: list(learn(net, images, labels, epochs=1, lr=1e-6)))}
took["the kit"] = seconds(kit_update)
for name, one in took.items():
    print(f"{name:10} {1000 * one:5.2f} ms per update")
outcome("microspike.f", took["microspike"] / took["the kit"])

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Microspike starts a small PyTorch operation for each line and each step, and most of the time goes into starting them.
# The kit's two loops are one call each, and the first product `s @ w.T` is computed once. So write it plainly first; then
# let a compiler make it fast. Notebook 11 takes these times apart.
#
# </details>

# %% [markdown] tags=["slide"]
# ## What broke?
#
# A friend has typed microspike from memory. There is no error. The loss goes to 2.1 and stays there, and about 15 % of the
# test images are right. **Find the missing line before you read on.**


# %%
def learn_from_memory(net, images, labels, epochs=5, lr=0.005):
    for epoch in range(epochs):
        for rows in torch.randperm(len(images)).split(64):
            loss = cross_entropy(net(images[rows]), labels[rows])
            loss.backward()
            with torch.no_grad():
                for w in net.weights:
                    w -= lr * (1 - epoch / epochs) * w.grad
        loss = cross_entropy(net(images), labels)
        print(f"loss {loss:.3f}   right {accuracy(net, x[test], y[test]):.1%}")


torch.manual_seed(0)
learn_from_memory(Network(64, 128, 10), x[~test], y[~test])

# %% [markdown]
# `w.grad = None` is missing. PyTorch *adds* each new gradient to the old one, so every step follows the sum of all
# gradients since the start. The weights overshoot, and most hidden neurons fire nearly always or never. Then nearly
# all output counts are 0, and the loss is not far from $\ln 10 = 2.303$. That number was the clue.

# %% [markdown]
# ## Quiz

# %%
quiz("microspike")

# %%
scorecard("microspike")

# %% [markdown]
# ## Where next
#
# You have read every line of a spiking network, and written its gradient. So far its input was a picture that stands still.
# **[06 · Events and time](06_event_data.ipynb)** has sensors that see only what changes.
#
# **Worth reading**
#
# 1. E. O. Neftci, H. Mostafa, F. Zenke, *Surrogate gradient learning in spiking neural networks*, IEEE Signal Processing
#    Magazine 36 (2019). [doi:10.1109/MSP.2019.2931595](https://doi.org/10.1109/MSP.2019.2931595). Equation (3) for whole
#    networks.
# 2. P. J. Werbos, *Backpropagation through time: what it does and how to do it*, Proceedings of the IEEE 78 (1990).
#    [doi:10.1109/5.58337](https://doi.org/10.1109/5.58337)
# 3. J. K. Eshraghian et al., *Training spiking neural networks using lessons from deep learning*, Proceedings of the IEEE
#    111 (2023). [doi:10.1109/JPROC.2023.3308088](https://doi.org/10.1109/JPROC.2023.3308088). The neuron of section 2.
# 4. A. Karpathy, [*micrograd*](https://github.com/karpathy/micrograd) (2020): backpropagation in a hundred lines.
