# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/08_open_challenge.ipynb)

# %% [markdown] tags=["slide"]
# # 08 · The open challenge: XOR in time
#
# All exercises so far had a right answer. This notebook has an open question: a task that a laptop learns in seconds, a
# score, and a leaderboard. Training the given network does not reach the first place.
#
# **Afterwards you can**
#
# - say why one leaky neuron cannot solve XOR in time, and what two can do;
# - score a network by its accuracy and its spikes, with an error of the score;
# - find the price of a spike from which silence is the best answer;
# - train with a penalty on spikes without silencing the network;
# - take part in the open challenge: XOR in time with the fewest spikes.
#
# | | |
# |---|---|
# | Time | 65 minutes, and as long as you like for the challenge |
# | GPU minutes | 0. The networks are far too small for one |
# | Before this | 04 training; 02 helps when you design a network by hand |

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
QUICK: bool = True  # False: longer trainings
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights, samples and batches
DEVICE: str = "auto"  # "cpu", "cuda" or "auto": the CPU here, as these networks are too small for a GPU
NAME: str = "me"  # your name on the leaderboard
BOARD: str = ""  # folder of the leaderboard, which a class may share; "": a temporary one

# %%
import tempfile
from pathlib import Path

import polars
import torch

from snnkit import neuron, nn, train
from snnkit.lab import challenge, course, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("open_challenge", solve=SOLVE)
device = torch.device("cpu" if DEVICE == "auto" else DEVICE)
polars.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_rows=30, float_precision=4)
torch.set_num_threads(1)  # on tensors this small, several threads mostly wait for each other

# %% [markdown] tags=["slide"]
# ## 1 · One neuron, four cues
#
# Two bits arrive one after the other, eleven steps apart. The answer is their XOR: 1 if they differ. To compare the
# second bit with the first, something must remember the first.
#
# Try it with one leaky neuron, which answers 1 if it fires. Each bit charges it for three steps: a *zero* by one weight,
# a *one* by the other. **Move the sliders. Can you get all four right?**


# %% tags=["slide"]
pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]


def one_neuron(weight_of_zero=0.1, weight_of_one=0.3, tau=20.0):
    """The membrane of a leaky neuron for each pair of bits, up to its first spike."""
    curves, right = {}, 0
    for a, b in pairs:
        curve = [0.0]
        for t in range(1, 24):
            bit = a if 1 <= t < 4 else b if 12 <= t < 15 else None
            charge = 0.0 if bit is None else (weight_of_zero, weight_of_one)[bit]
            curve.append((1 - 1 / tau) * curve[-1] + charge)
            if fires := curve[-1] >= 1:
                break
        right += fires == (a != b)
        name = f"{a} then {b}: {'fires' if fires else 'silent'}, {'right' if fires == (a != b) else 'wrong'}"
        curves[name] = range(len(curve)), curve
    axes = {"x_title": "time step", "y_title": "membrane", "levels": {"threshold": 1.0}, "between": (-1.0, 1.6)}
    return figures.lines(curves, title=f"{right} of 4 answers are right", **axes).update_xaxes(range=[-0.5, 24])


viz.explore(one_neuron, weight_of_zero=(-0.2, 0.5, 0.05), weight_of_one=(-0.2, 0.5, 0.05), tau=(2.0, 50.0, 1.0))

# %% [markdown]
# Three of four is the most. Section 4 shows why, and what a second neuron does about it.
#
# ## 2 · What it costs
#
# In the task itself, the bits are noisier. Channels 0 to 3 encode *zero*, channels 4 to 7 encode *one*. For three steps,
# each of the four channels fires with a probability of 0.8 per step. Either bit may be up to two steps late, and each
# channel adds a false spike now and then. Two output neurons vote. The one that fires more gives the answer, and a tie
# means 0.

# %% tags=["slide"]
x, y = challenge.samples(1000, seed=1000 + SEED)  # spikes [24, 1000, 8], labels [1000]: for figures and validation
first = (x[:5, :, 4:].sum((0, 2)) > x[:5, :, :4].sum((0, 2))).long()
second = (x[11:16, :, 4:].sum((0, 2)) > x[11:16, :, :4].sum((0, 2))).long()
members = {pair: ((first == pair[0]) & (second == pair[1])).nonzero().flatten() for pair in pairs}


def one_of_each(spikes, title):
    """A sample of each pair of bits, one after the other: spikes [T, B, N]."""
    figure = figures.raster(torch.cat([spikes[:, members[pair][0]] for pair in pairs]), title)
    for i, (a, b) in enumerate(pairs):
        note = {"annotation_text": f"{a} then {b}: answer {a ^ b}", "annotation_position": "top right"}
        figure.add_vline(x=24 * i - 0.5, line={"color": viz.theme.TEXT, "width": 1}, **note)
    return figure.update_yaxes(range=[-0.7, spikes.shape[2] + 0.5])  # room for the notes


viz.show(one_of_each(x, "Two bits, one after the other: a sample of each pair").update_yaxes(title={"text": "channel"}))

# %% [markdown] tags=["slide"]
# On a neuromorphic chip every spike costs energy, and in a brain, too. So we set a price. With the accuracy $a$ (a
# fraction), and $n$, the spikes per sample of *all* neurons together (the input is free),
#
# $$S = a - \lambda\, n, \qquad \lambda = 0.01 \text{ for one spike}. \tag{1}$$
#
# One spike per sample costs as much as one percentage point of accuracy. $S$ is without units and at most 1.
#
# **Predict first.** We train 32 hidden neurons and the two output neurons as in notebook 04, and ignore the price of
# spikes. A network that never fires always answers 0. Which of the two has the higher score?

# %%
predict("open_challenge.a")

# %%
updates = 200 if QUICK else 1000
train.seed_everything(SEED)
plain = challenge.train(challenge.network(hidden=32), updates=updates, seed=SEED, device=device)
silent = challenge.network(hidden=1)
torch.nn.utils.vector_to_parameters(torch.zeros(sum(w.numel() for w in silent.parameters())), silent.parameters())
results = {name: challenge.evaluate(net, x, y) for name, net in {"trained": plain, "silent": silent}.items()}
scores = {name: one.accuracy - challenge.PRICE * one.spikes for name, one in results.items()}
for name, one in results.items():
    print(f"{name}: {one}: score {scores[name]:.3f}")
outcome("open_challenge.a", "the silent one" if scores["silent"] > scores["trained"] else "the trained one")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The trained network is nearly always right and still has the lower score: its loss does not
# include the price of spikes. Silence is also an answer. It is right for half of the samples, and it is free. (In
# brackets are the spikes of each layer, by its place in the network: 1 is the hidden layer, 3 the output.)
#
# </details>
#
# ### Exercise 08.1 · A score with its error (5 minutes, ●○○)
#
# Another 1000 samples would give a slightly different score. How different? Each sample has a score: 1 if right, else
# 0, minus the price times its spikes. The score is their mean $\bar s$, and its *standard error* is
#
# $$\varepsilon = \frac{\sigma_s}{\sqrt{n_s}}, \tag{2}$$
#
# with the standard deviation $\sigma_s$ of the scores of $n_s$ samples. The difference of two such scores is less certain
# than each: its standard error is $\sqrt2\,\varepsilon$ if both have $\varepsilon$. So two scores that differ by less
# than about $3\varepsilon$ may well be equal. By chance alone, one difference in twenty exceeds $2.8\varepsilon$.


# %% tags=["exercise"]
def score_of(correct, spikes, price):
    """Score and its standard error, from `correct` [N] (bool) and the `spikes` of each sample [N]."""
    return ..., ...


score_of = attempt("open_challenge.1", score_of)

# %%
for name, one in results.items():
    value, error = score_of(one.correct, one.counts, challenge.PRICE)
    print(f"{name:8} {value:.3f} ± {error:.3f}")

# %% [markdown] tags=["slide"]
# ## 3 · The price of a spike
#
# Between these two lies everything that is worth having. A *penalty* $p$ on spikes in the loss, cross-entropy $+\; p \cdot n$,
# makes a network save them. The kit has the results of 96 such trainings: six penalties, 8 or 32 hidden neurons, eight
# seeds each. Each mark below is one network. No other network beats those on the line: none is as accurate with fewer
# spikes, or more accurate with as many. The line is called the *Pareto front*.
#
# Below, you set the price. The dashed line joins all points of equal score. (It is curved, because the axis is
# logarithmic.) The network that it touches, the star, wins. Which one wins when spikes are nearly free?
#
# **Predict first.** At which price is it best not to fire at all?

# %%
predict("open_challenge.b")


# %%
columns, origin = challenge.recorded_sweep()
recorded = polars.DataFrame(columns)
trained = recorded.filter(polars.col("spikes") > 0)  # a logarithmic axis cannot show 0 spikes
print(f"{origin['runs']} runs of {origin['notebook']}, recorded on {origin['machine']['date'][:10]}")


def at_price(log10_price=-2.0, runs=trained):
    """The run that wins if a spike costs 10 ** log10_price of accuracy."""
    price = 10.0**log10_price
    scores = runs["accuracy"] - price * runs["spikes"]
    winner = int(scores.arg_max())
    figure = figures.pareto(runs, maximise="accuracy", minimise="spikes", log="x")
    spikes = torch.logspace(0, 2.2, 60)
    equal = scores[winner] + price * spikes
    seen = equal <= 1.02
    line = {"color": viz.theme.TEXT, "dash": "dash"}
    figure.add_scatter(x=spikes[seen], y=equal[seen], mode="lines", line=line, name="equal score")
    row = runs.row(winner, named=True)
    mark = {"symbol": "star", "size": 17, "color": viz.theme.GREEN}
    figure.add_scatter(x=[row["spikes"]], y=[row["accuracy"]], mode="markers", marker=mark, name="winner")
    result = f"{row['spikes']:.1f} spikes, {row['accuracy']:.1%}: score {scores[winner]:.3f}"
    result += "; silence would have 0.5" if scores[winner] < 0.5 else ""
    figure.update_layout(title={"text": f"A spike costs {price:.2g}. Winner: {result}"}, showlegend=False)
    return figure.update_yaxes(range=[0.45, 1.03])


viz.explore(at_price, log10_price=(-4.0, -0.5, 0.25))

# %%
limits = (trained["accuracy"] - 0.5) / trained["spikes"]  # of each network: above this price, silence is better
print(f"from a price of {limits.max():.3f} on, silence is better than every one of these networks")
outcome("open_challenge.b", limits.max())

# %% [markdown]
# ## 4 · The open challenge
#
# **Solve XOR in time with the highest score $S$ of equation (1).** `challenge.score(net)` computes it on 2000 hidden
# samples. Their seeds are in the source. If you looked them up, you would only fool yourself.
#
# The rules are checked, so that you hardly break them by mistake:
#
# 1. `net(x)` takes spikes `[24, B, 8]` and returns spikes `[24, B, 2]`, fired by neurons of the network. Every spike of
#    every neuron counts.
# 2. A spike is 0 or 1. Between neurons there are only synapses: weights, sums, delays. Every nonlinear operation must
#    be a spiking neuron.
# 3. Samples are independent: no state remains from the last call, and no result depends on other samples of the batch.
# 4. Any method to obtain the network is allowed: training, evolution, design by hand.

# %%
linear, cell = torch.nn.Linear, neuron.LIF(20.0, v_reset=None, decay_input=False)
for invalid in (
    nn.Sequential(linear(8, 16), torch.nn.ReLU(), linear(16, 2), cell),
    nn.Sequential(linear(8, 16), cell, linear(16, 2), neuron.LI()),
    nn.Sequential(linear(8, 16), cell, linear(16, 3), cell),
):
    try:
        challenge.score(invalid)
    except challenge.RuleError as error:
        print("rejected:", error, end="\n\n")

# %% [markdown] tags=["slide"]
# ### How low can it go?
#
# A network must fire to answer 1, and 1 is right for half of the samples. So **half a spike** per sample is the minimum
# for a perfect network. With leaky membranes and synapses without delay, even this is impossible. Take bits without noise, as
# in section 1. Until the first spike, a membrane is the sum of what is left of both bits, $v = K_1 w_{b_1} + K_2
# w_{b_2}$. Here $w_0$, $w_1$ are the weights for a *zero* and a *one*. The factors $K_1, K_2 \ge 0$ say how much of the
# earlier and the later bit is left. So
#
# $$v(0,1) = K_1 w_0 + K_2 w_1 \;\le\; \max\big\{(K_1 + K_2)\,w_0,\; (K_1 + K_2)\,w_1\big\} = \max\big\{v(0,0),\; v(1,1)\big\}. \tag{3}$$
#
# The first neuron to fire for *0 then 1* also fires for *0, 0* or for *1, 1*, unless a spike of another neuron inhibits it
# there. That is why the sliders of section 1 stop at three of four. One spike each for *0, 1* and for *1, 0*, and at
# least one for the other two: **three spikes for four samples, 0.75**.
#
# Backpropagation with a penalty stays far above this. A network of two neurons and ten numbers reaches it. An evolution
# strategy, which needs no gradient, chose these ten, much as the cross-entropy method does [1]:

# %% tags=["slide"]
print("spikes per sample      ", "   ".join(f"{a},{b}" for a, b in pairs))
for name in ("plain", "thrifty", "two neurons"):
    seen = challenge.evaluate(challenge.reference(name), x, y)
    each = "  ".join(f"{seen.counts[members[pair]].mean():4.1f}" for pair in pairs)
    print(f"{name:12} {seen.spikes:6.2f}    {each}   ", str(challenge.reference_score(name)).partition(",")[0])
fired = challenge.reference("two neurons")(x)[0]
most = max(int(fired[:, members[pair][0]].sum()) for pair in pairs)
figure = one_of_each(fired, f"Two neurons answer with {most} spike{'s' * (most != 1)} a sample at most")
viz.show(figure.update_yaxes(title={"text": "output"}).update_layout(height=260))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Output 1 would fire for all inputs except *1, 1*. For *0, 0*, output 0 fires slightly earlier,
# votes for the other answer, and inhibits output 1. This is the third spike of equation (3). It serves as memory, vote
# and inhibition at the same time.
#
# </details>
#
# ### Your network (15 minutes)
#
# Replace the body of the function. *Validate* it, that is, test it on `x, y`, as often as you like. Compute the score
# when you have decided. With `BOARD` and `NAME` in the parameters cell you share a leaderboard with others.


# %%
def my_network():
    """A network from spikes [24, B, 8] to spikes [24, B, 2]: replace it by yours."""
    train.seed_everything(SEED)
    net = challenge.network(hidden=8, tau=50.0)
    return challenge.train(net, penalty=0.01, learning_rate=0.02, updates=2 * updates, seed=SEED, device=device)


mine = my_network()
print("validation:", challenge.evaluate(mine, x, y))
place = Path(BOARD or tempfile.mkdtemp(prefix="snnkit-board-"))
entry = challenge.submit(NAME, mine, place, note="a small thrifty network")
print("submitted: ", entry)

# %%
board = challenge.board(place)
viz.show(board.figure())
board

# %% [markdown] tags=["slide"]
# **Ideas to start with**, from easy to open:
#
# - *Fewer neurons, other time constants, a higher penalty.* How good does training alone become?
# - *Prune.* Take a trained network; silence its hidden neurons one by one; remove those that cost more than they
#   contribute.
# - *By hand.* Two neurons, equation (3), paper and pencil. A bias acts as a clock: it raises a membrane step by step,
#   so that a neuron can wait.
# - *Improve without gradients.* Start from a good network, change a weight at random, and accept the change if the
#   score on your own samples is better.
# - *Your own neuron.* A subclass of `neuron.Neuron` may do a lot in one step, and only its spikes are counted. The
#   board marks it with a star. Is this way of counting fair?
# - *Change an assumption.* The argument above assumed synapses without delay. `challenge.Delays` has delays, and so
#   have biological synapses [2, 3]. Can you get below 0.75?
#
# **Discussion**, in groups of three. Take an idea of your own: could a spiking network solve it, and would time matter?
# Would you learn with gradients, with local rules (notebook 07), or not at all? What does a spike cost *there*: energy,
# or nothing? And what would convince you that it failed?
#
# ## 5 · What broke?
#
# A colleague also trained with penalties, in her own training loop. There is no error and no warning. Every network with
# a penalty of 0.01 or more is right in exactly 50 % of cases. "A penalty destroys what the network has learned", says
# her draft.
#
# **Predict first.** Her loop has the same loss, optimizer and data. Where is the mistake, and which number would you
# look at first?

# %%
predict("open_challenge.c")

# %%
for name, warm_up in {"her loop": 0.0, "the kit's": 0.5}.items():
    train.seed_everything(SEED)
    how = {"updates": updates, "warm_up": warm_up, "seed": SEED, "device": device}
    net = challenge.train(challenge.network(hidden=32), 0.01, **how)
    print(f"{name:9} {challenge.evaluate(net, x, y)}")
outcome("open_challenge.c")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# No neuron fires. Her penalty was active from the first update, when spikes cost something but do not help yet. The
# quickest way to a lower loss is silence, and the network can hardly recover from it: without spikes in the hidden
# layer, the output gets only its bias, whatever its weights are. So look at activity, not only at accuracy. Exactly 50.0 % is
# not bad luck, it is a constant answer.
#
# </details>
#
# ### Exercise 08.2 · A penalty that waits (5 minutes, ●○○)
#
# First learn, then save: the price of a spike should rise evenly from 0 to `penalty` during the first part of the
# training, the share `warm_up` of all `updates`, and then stay there. With `warm_up = 0` it is `penalty` from the start.


# %% tags=["exercise"]
def penalty_at(update, updates, penalty, warm_up):
    """The price of a spike at this update, counted from 0, of so many updates."""
    return ...


penalty_at = attempt("open_challenge.2", penalty_at)

# %%
rising = {f"warm-up {w:g}": [penalty_at(i, updates, 0.01, w) for i in range(updates)] for w in (0.0, 0.25, 0.5, 1.0)}
axes = {"x": range(updates), "x_title": "update", "y_title": "price of a spike in the loss"}
viz.show(figures.lines(rising, title="Your penalty rises during the warm-up and then stays", **axes))

train.seed_everything(SEED)
how = {"updates": updates, "seed": SEED, "device": device}
net = challenge.train(challenge.network(hidden=32), lambda now, all: penalty_at(now, all, 0.01, 0.5), **how)
print("with your penalty:", challenge.evaluate(net, x, y))

# %% [markdown]
# ## Quiz

# %%
quiz("open_challenge")

# %%
scorecard("open_challenge")

# %% [markdown]
# The end of this track: what you have passed in all of its notebooks. `.save("mine.html")` writes it as a page.

# %%
course.certificate("spikes")

# %% [markdown]
# ## Where next
#
# This is the end of the track *Spikes*. Two more begin here: *Machines* with
# [10 · Moving house](10_moving_house.ipynb), and *Research* with [20 · Your own data](20_your_own_data.ipynb). In the
# latter, [21 · Sweeps](21_sweeps.ipynb) trains this task by the dozen, and says what may be concluded. If your entry is
# better than ours, please open an issue.
#
# **Worth reading**
#
# 1. P.-T. de Boer, D. P. Kroese, S. Mannor, R. Y. Rubinstein, *A tutorial on the cross-entropy method*, Annals of Operations Research 134 (2005).
#    [doi:10.1007/s10479-005-5724-z](https://doi.org/10.1007/s10479-005-5724-z)
# 2. L. A. Jeffress, *A place theory of sound localization*, Journal of Comparative and Physiological Psychology 41 (1948), on delays and coincidence.
#    [doi:10.1037/h0061495](https://doi.org/10.1037/h0061495)
# 3. I. Hammouamri, I. Khalfaoui-Hassani, T. Masquelier, *Learning delays in spiking neural networks using dilated convolutions with learnable spacings*
#    (2023). [arXiv:2306.17670](https://arxiv.org/abs/2306.17670)
