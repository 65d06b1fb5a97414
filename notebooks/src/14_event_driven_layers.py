# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/14_event_driven_layers.ipynb)

# %% [markdown] tags=["slide"]
# # 14 · Spikes that pay: event-driven layers
#
# Much of the time of a network goes to the products between its layers, and most of the inputs of these products are 0.
# A processor multiplies a 0 like any other number. An *event-driven* layer leaves the zeros out: it works only where there
# is a spike.
#
# **Afterwards you can**
#
# - write a product of spikes without a multiplication, and count its additions;
# - say how few spikes it takes to be faster, on your own machine, and what makes a layer dense again;
# - train recurrent layers and recordings of events at the cost of their spikes.
#
# | | |
# |---|---|
# | Time | 45 minutes, and 5 more for the optional part |
# | GPU minutes | 0. The products by spikes of this notebook are for CPUs |
# | Before this | 04 training; 13 helps |

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
QUICK: bool = True  # False: larger batches, more text
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights, inputs and the text

# %%
import tempfile
from functools import partial

import torch

from snnkit import data, encode, engine, loss, measure, models, neuron, nn, train
from snnkit.lab import course, text, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.hardware import energy
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("event_driven_layers", solve=SOLVE)
torch.set_num_threads(1)  # one core, so that we time the work and not the start of threads
T, B = 25, 32 if QUICK else 128

# %% [markdown] tags=["slide"]
# ## 1 · Leave the zeros out
#
# A layer of 1000 neurons with 1000 inputs has a million weights. Usually it multiplies each weight by its input and adds
# up. We call this the *dense* product. The other way is a list of the inputs that fired: for each of them, add its 1000
# weights to the sums. With 5 % spikes that is a twentieth of the work.
#
# **Predict first.** Does it take a twentieth of the time? Up to which share of spikes is the sum by spikes faster, on
# your processor?

# %%
predict("event_driven_layers.a")

# %%
layer = nn.Sequential(torch.nn.Linear(1000, 1000))
percent = (0.5, 1, 2, 5, 10, 20, 30, 40, 50)
milliseconds = {"dense": [], "by spikes": []}
for share in percent:
    x = (torch.rand(T, B, 1000) < share / 100).float()
    listed = data.events.EventList.of(x)  # the places of its spikes, made before the clock starts
    with torch.no_grad(), nn.dense_products():  # by a list only if we bring one
        ways = {"dense": lambda x=x: layer(x), "by spikes": lambda x=listed: layer(x)}
        for way, timing in measure.race(ways, repeats=5).items():
            milliseconds[way].append(timing.median * 1e3)
pairs = list(zip(percent, milliseconds["dense"], milliseconds["by spikes"], strict=True))
pays = max((share for share, dense_ms, spikes_ms in pairs if spikes_ms < dense_ms), default=0)


# %% tags=["slide"]
def time_at(share=5.0):
    """Both curves, and what the share of spikes on the slider means in operations."""
    additions = 1000 * 1000 * share / 100 / 1e3
    axes = {"x_title": "% of the inputs that are spikes", "y_title": "ms", "log": "xy"}
    title = f"At {share:g} % spikes: {additions:,.0f} thousand additions in place of 1,000 thousand"
    return figures.lines(milliseconds, x=percent, title=title, marks={f"{share:g} %": share}, **axes)


viz.explore(time_at, share=(0.5, 50.0, 0.5))
outcome("event_driven_layers.a", pays)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - The dense product takes the same time for any input. By spikes, the time grows with the spikes. The curves cross.
# - At 1 % there is a hundredth of the operations, but it takes more than a hundredth of the time. Reading the weights and
#   writing the sums do not shrink with the spikes. And a processor is built for dense products: it multiplies and adds 4
#   to 16 numbers at once, side by side in memory, and never has to look where the next one is.
# - The hidden neurons of notebook 04 fire in about 10 % of all steps. At such rates it pays.
#
# </details>
#
# ## 2 · A spike adds a column
#
# $O$ neurons weigh $I$ inputs, for $B$ samples, at each of $T$ steps. If a share $\rho$ of the inputs are spikes, then
#
# $$\underbrace{T\,B\,I\,O}_{\text{dense: multiply and add}} \quad\text{becomes}\quad
# \underbrace{\rho\,T\,B\,I\,O}_{\text{by spikes: add}} \tag{1}$$
#
# What is left is not even a multiplication. A spike times a weight is the weight, so each spike adds one column of the
# matrix, $O$ numbers, to the sums of its sample.
#
# ### Exercise 14.1 · The product by spikes (8 minutes, ●●○)
#
# `places` has a list for each sample: the numbers of the inputs that fired. `weight` is $[O, I]$. Return the product
# $[B, O]$, and how many additions it took. Stuck? `hint("event_driven_layers.1")`.


# %% tags=["exercise"]
def by_spikes(places, weight):
    """The product [B, O] of spikes, given by their places, with weights [O, I]; and the number of additions."""
    out = torch.zeros(len(places), weight.shape[0])
    for sample, columns in enumerate(places):
        for i in columns:
            ...  # add to out[sample] what a spike of input i sends
    additions = ...  # of all spikes together
    return out, additions


by_spikes = attempt("event_driven_layers.1", by_spikes)

# %%
few, weight = (torch.rand(64, 784) < 0.05).float(), torch.randn(100, 784)
product, additions = by_spikes([row.nonzero().flatten().tolist() for row in few], weight)
print("the same product:", torch.allclose(product, few @ weight.t(), atol=1e-4))
print(f"{additions:,} additions in place of {64 * 784 * 100:,} multiplications and additions")

# %% [markdown] tags=["slide"]
# ## 3 · Decided call by call
#
# The kit has your function in C++, forward and backward: the gradient of a weight needs only the steps in which its input
# fired. `nn.Sequential` looks at a few rows of each input, counts, and takes the faster way. `engine.explain` shows what
# it took, and why:

# %% tags=["slide-code"]
easily = neuron.LIF(v_threshold=0.15)  # the weights are not trained, so its inputs are small
net = nn.Sequential(torch.nn.Linear(784, 1000), easily, torch.nn.Linear(1000, 1000), neuron.LIF())
sparse = (torch.rand(T, 128, 784) < 0.05).float()
for row in engine.explain(net, sparse).products:
    print(f"layer {row.layer}: by {row.way}: {row.reason}")

# %% [markdown]
# **Predict first.** Now three other inputs for the first layer: one sample in place of 128; grey values where there were
# spikes; 30 % spikes. For which does the kit still take the list?

# %%
predict("event_driven_layers.b")

# %%
inputs = {
    "one sample with 5 % spikes": sparse[:, :1].contiguous(),
    "grey values, 95 % of them 0": sparse * torch.rand_like(sparse),
    "30 % spikes": (torch.rand_like(sparse) < 0.3).float(),
}
still = "none of these"
for name, x in inputs.items():
    first = engine.explain(net, x).products[0]
    still = name if first.way == "events" else still
    print(f"{name}\n    by {first.way}: {first.reason}")
outcome("event_driven_layers.b", still)

# %% [markdown]
# The reason changes each time. The result never does, but for the last digits: a sum in another order is rounded
# differently.
#
# ## 4 · Recurrent layers
#
# A *recurrent* layer also gets its own spikes of the step before, through a second matrix $W$: its input is
# $x[t] + W s[t-1]$. What comes back is always spikes, and few. But a loop in Python calls a small dense product at every
# step. `neuron.Recurrent` is one call for all steps: loop, neurons and products by spikes, in one compiled function.

# %% tags=["slide-code"]
recurrent = neuron.Recurrent(neuron.LIF(v_threshold=0.5), 512)
currents = torch.rand(50, B, 512) * 0.8


def by_loop(x):
    """The same in Python, step by step, with dense products."""
    spikes, state, out = [], None, torch.zeros(x.shape[1:])
    for x_t in x:
        step, state = recurrent.neuron((x_t + recurrent.weight(out))[None], state)
        out = step[0]
        spikes.append(out)
    return torch.stack(spikes)


ways = {"a loop": lambda: by_loop(currents), "one call": lambda: recurrent(currents)[0]}
with torch.no_grad():
    first, second = (run() for run in ways.values())
    times = {way: timing.median * 1e3 for way, timing in measure.race(ways, repeats=5).items()}
print(f"{first.mean():.1%} of the places are spikes; the same spikes both ways: {torch.equal(first, second)}")
title = f"One call is {times['a loop'] / times['one call']:.1f} times as fast"
viz.show(figures.shares({way: {"50 steps of 512 neurons": ms} for way, ms in times.items()}, "ms", title=title))

# %% [markdown] tags=["slide"]
# ## 5 · A list from the start
#
# An *event camera* has no frames. Each pixel sends an *event* when it becomes brighter or darker: when, where, and the
# *polarity*, which of the two. This is a list of spikes already. Why make a tensor of zeros of it?
#
# ### Exercise 14.2 · A list of spikes (6 minutes, ●●○)
#
# `spikes` is $[T, B, I]$, zeros and ones. Return two tensors, `starts` and `places`. `places` holds the inputs of all
# spikes, row after row. `starts` has $T B + 1$ numbers, so that the spikes of row $r = tB + b$ are
# `places[starts[r]:starts[r + 1]]`. Stuck? `hint("event_driven_layers.2")`.


# %% tags=["exercise"]
def as_list(spikes):
    """Spikes [T, B, I] as a list: where the events of each row begin [T B + 1], and the place of each event [n]."""
    rows = spikes.flatten(0, 1)
    places = ...
    starts = ...
    return starts, places


as_list = attempt("event_driven_layers.2", as_list)

# %%
mine = data.events.EventList(*as_list(sparse), sparse.shape)
print(mine, "gives the same spikes:", torch.equal(net(mine)[0], net(sparse)[0]))

# %% [markdown]
# `data.events.to_list` makes this list of recordings, and no tensor in between. Here are 64 digits, recorded by a simulated
# camera of 32 × 32 pixels, in 100 steps:

# %% tags=["slide-code"]
recordings, labels = data.events.record_digits("train", 64, size=32, seed=SEED)
listed = data.events.to_list(recordings, steps=100)
frames = listed.dense()  # [T, B, polarities, height, width]
hidden, output = neuron.LIF(v_threshold=0.3), neuron.LIF()
reader = nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2048, 256), hidden, torch.nn.Linear(256, 10), output)


def learn(x):
    """Forward and backward of one batch."""
    value = torch.nn.functional.cross_entropy(reader(x)[0].sum(0), labels)
    return torch.autograd.grad(value, list(reader.parameters()))


times = measure.race({"frames": lambda: learn(frames), "list": lambda: learn(listed)}, repeats=3)
for name, size in {"frames": frames.nbytes, "list": listed.places.nbytes + listed.starts.nbytes}.items():
    print(f"{name:6}: {size / 1e6:5.1f} MB, {times[name].median * 1e3:6.1f} ms an update")
print(f"{engine.explain(reader, frames).products[0].reason}: up to {frames.max():.0f}")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# A pixel may send two events in one step. In the tensor this is a 2, so the layer multiplies. The list names the place
# twice and adds twice. The list has the memory of the events, nearly whatever the number of steps.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 6 · And in joules?
#
# On a chip that computes by events, fewer operations are less energy. Operations can be *counted*, by NeuroBench's
# definitions [5]: a pair of an input and a weight counts if both are not zero. If the input is a spike, an addition is
# enough (AC); otherwise there is a multiplication as well (MAC).
#
# **Predict first.** A network learns to classify digits. Does it fire more or less after training?

# %%
predict("event_driven_layers.e")

# %% tags=["slide"]
see, digits, test = partial(encode.repeat, steps=16), data.load("digits"), data.load("digits", "test")
small, shown = models.mlp((64, 100, 10)), see(data.to_unit(digits[0][:256]).flatten(1))
counted = {"untrained": energy.count(small, shown)}
history = train.fit(small, digits, test, encode=see, loss=loss.count_cross_entropy, epochs=4, lr=2e-3, progress=False)
counted[f"trained, {history.test_accuracy[-1]:.0%} right"] = after = energy.count(small, shown)
fire = {name: 1 - one.activation_sparsity for name, one in counted.items()}
for name, one in counted.items():
    print(f"{name:20} {fire[name]:6.2%} of the neurons fire in a step; {one.effective_acs:,.0f} ACs a sample")
prices = after.energy()
numbers = [figures.Marked(name, "predicted", picojoules / 1e3) for name, picojoules in prices.rows.items()]
once, skipped = "spiking: arithmetic alone, static layers once", "without spikes, one pass: zeros skipped, too"
title = f"Like with like, spikes take {prices.rows[once] / prices.rows[skipped]:.1f} times the energy (predicted)"
viz.show(figures.marked(numbers, "nJ per sample", title=title))
outcome("event_driven_layers.e", "more" if max(fire, key=fire.__getitem__) != "untrained" else "less")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# - Counts are facts about a network on some data. Joules are not: a price belongs to one chip, one process, one memory.
# - The conclusion depends on the row: arithmetic alone or with the memory, layer 1 every step or once, against a network
#   without spikes that skips zeros or one that does not. Compare like with like: *spiking: arithmetic alone, static layers
#   once* against *without spikes, one pass: zeros skipped, too*.
# - With a share $\rho$ of spikes no gain from skipping exceeds $1/\rho$.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 7 · What broke?
#
# Mira adds *dropout*, so that her network learns fewer samples by heart: `torch.nn.Dropout(0.1)` sets a tenth of the spikes to 0 in training, at random.
# The network learns as well as before.
#
# **Predict first.** What does the dropout layer change?

# %%
predict("event_driven_layers.c")


# %% tags=["slide"]
class DropSpikes(torch.nn.Module):
    """Dropout that leaves spikes 0 or 1."""

    def forward(self, spikes):
        return spikes * (torch.rand_like(spikes) > 0.1) if self.training else spikes


between, nets, ways = {"without": [], "Dropout": [torch.nn.Dropout(0.1)], "DropSpikes": [DropSpikes()]}, {}, {}
for name, some in between.items():
    nets[name] = nn.Sequential(torch.nn.Linear(784, 1000), easily, *some, torch.nn.Linear(1000, 1000))
    last = engine.explain(nets[name], sparse).products[-1]
    ways[name] = last.way
    print(f"{name:10}: the product after it by {last.way}: {last.reason}")
runs = {name: lambda net=net: net(sparse)[0].sum().backward() for name, net in nets.items()}
bars = {name: {"update": timing.median * 1e3} for name, timing in measure.race(runs, repeats=5).items()}
slow = ways["Dropout"] != "events"  # a dense product, by PyTorch or oneDNN
ratio = bars["Dropout"]["update"] / bars["without"]["update"]
viz.show(figures.shares(bars, "ms", title=f"Dropout: {ratio:.1f} times the time, forward and backward"))
answers = "nothing, as a dropped spike is one spike less", "the product after it becomes slow"
outcome("event_driven_layers.c", answers[slow])

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# `Dropout` divides what it keeps by 0.9, so that the mean stays the same. A spike becomes 1.11, and no longer a 1. No
# error says so: only `explain`, or a clock. `DropSpikes` leaves spikes as they are. (In evaluation there are then more
# spikes than in training, so train the last epoch without it.) A batch norm or average pooling between neurons and layer
# does the same harm as `Dropout`. Put a batch norm *before* the neurons, and use maximum pooling.
#
# </details>
#
# ## 8 · A vector engine of spikes (optional, 6 minutes)
#
# Semantic search turns words into vectors and looks for near ones. They point in nearly the same direction, so their
# *cosine* is close to 1. Usually these vectors are dense. In `text.SpikingEmbedding`, a word drives a row of neurons for 16
# steps, and its vector is the firing rate of each of them.
# Surrogate gradients teach the currents, so that the rates of a word predict which words occur near it [3]. A small
# grammar makes the text, with words of six kinds (animals, food, cities, …). The training never uses the kinds.
#
# **Predict first.** *the dog sleeps in the stable*, *the cow rests in the barn*: will the nearest neighbour of `dog` be
# a word like `cow`, or a word like `sleeps`?

# %%
predict("event_driven_layers.d")

# %% tags=["slide"]
sentences = text.corpus(seed=SEED, sentences=2500 if QUICK else 6000)
vocabulary = text.Vocabulary.build(sentences)
embedding = text.SpikingEmbedding(vocabulary, features=32 if QUICK else 64, steps=16)
embedding.fit(sentences, epochs=4 if QUICK else 8, seed=SEED)
words = [word for group in text.GROUPS.values() for word in group[:4]]  # four of each kind
print(f"{len(sentences)} sentences, for example: {sentences[0]!r}")
for word in ("dog", "paris", "violin", "ate"):
    print(f"{word:7}", ", ".join(f"{other} {cosine:.2f}" for other, cosine in embedding.most_similar(word, 5)))
nearest, _ = embedding.most_similar("dog", 1)[0]
kind = next((kind for kind, group in text.GROUPS.items() if nearest in group), "other")
directions = torch.nn.functional.normalize(embedding.vectors(words).float(), dim=1)
cosines = directions @ directions.T
alike = torch.eye(len(text.GROUPS)).repeat_interleave(4, 0).repeat_interleave(4, 1).bool()  # pairs of one kind
within, apart = cosines[alike & ~torch.eye(len(words)).bool()].mean(), cosines[~alike].mean()
figure = figures.panels(1, 1).add_heatmap(z=cosines, x=words, y=words, colorscale=viz.theme.INK)
title = f"Cosine of two words: {within:.2f} within a kind, {apart:.2f} between kinds"
figure.update_layout(title_text=title, height=640)
viz.show(figure.update_xaxes(dtick=1, tickangle=-90).update_yaxes(dtick=1, autorange="reversed"))
animal = "dog" in text.GROUPS.get(kind, ())
outcome("event_driven_layers.d", "another animal, like cow" if animal else "a word beside it, like sleeps")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The blocks on the diagonal are the six kinds. Words of one kind occur in the same *contexts*, and the model learned only
# that. It does not know what a dog is.
#
# </details>

# %% [markdown]
# A sentence is a list of spikes, too. It takes less memory than float32, but here not less than one bit for each place:

# %%
spikes = embedding.sparse("the dog ate the soup")
numbers = torch.Size(spikes.shape).numel()
for form, size in {"float32": 4 * numbers, "bits": -(-numbers // 8), "events": spikes.bytes}.items():
    print(f"as {form:7} {size:6,} bytes")
with tempfile.TemporaryDirectory() as folder:
    path = embedding.save(f"{folder}/words.pt")
    again = text.SpikingEmbedding.load(path)
print("saved and loaded, the same neighbours:", again.most_similar("dog", 5) == embedding.most_similar("dog", 5))

# %% [markdown]
# ## Quiz

# %%
quiz("event_driven_layers")

# %%
scorecard("event_driven_layers")

# %% [markdown]
# ## Where next
#
# One device is now used well. **[15 · Scaling out with Lightning](15_scaling_out.ipynb)** uses several.
#
# Meanwhile: `snnkit bench sparsity` measures products and whole training steps beside other libraries. Call
# `engine.explain` on your own network: which of its layers get spikes?
#
# **Worth reading**
#
# 1. E. O. Neftci, C. Augustine, S. Paul, G. Detorakis, *Event-driven random back-propagation: enabling neuromorphic deep learning machines*,
#    Frontiers in Neuroscience 11 (2017). [doi:10.3389/fnins.2017.00324](https://doi.org/10.3389/fnins.2017.00324)
# 2. N. Perez-Nieves, D. F. M. Goodman, *Sparse spiking gradient descent*, NeurIPS (2021): the backward pass by events, too.
#    [arXiv:2105.08810](https://arxiv.org/abs/2105.08810)
# 3. T. Mikolov, I. Sutskever, K. Chen, G. Corrado, J. Dean, *Distributed representations of words and phrases and their compositionality*, NeurIPS (2013).
#    [arXiv:1310.4546](https://arxiv.org/abs/1310.4546)
# 4. G. Gallego et al., *Event-based vision: a survey*, IEEE Transactions on Pattern Analysis and Machine Intelligence 44 (2022).
#    [doi:10.1109/TPAMI.2020.3008413](https://doi.org/10.1109/TPAMI.2020.3008413)
# 5. J. Yik et al., *The NeuroBench framework for benchmarking neuromorphic computing algorithms and systems*, Nature Communications 16 (2025).
#    [doi:10.1038/s41467-025-56739-4](https://doi.org/10.1038/s41467-025-56739-4)
