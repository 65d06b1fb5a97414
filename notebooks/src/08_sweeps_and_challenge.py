# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/08_sweeps_and_challenge.ipynb)

# %% [markdown] tags=["slide"]
# # 08 · Sweeps and the open challenge
#
# All exercises so far had a right answer. This notebook ends with an open question: a task that a laptop learns in
# seconds, a score, and a leaderboard. Training the given network does not reach the first place. Before that you learn
# to run fifty trainings overnight, and to conclude from the results only what they support. The second is harder.
#
# **Afterwards you can**
#
# - describe a sweep in a file, run it in parallel, kill it, resume it, and identify failed runs;
# - read a Pareto front: which networks can be the best, and at which price of a spike;
# - say how certain a difference is, from paired seeds, and why the best of 24 looks better than it is;
# - take part in the open challenge: XOR in time with the fewest spikes.
#
# | | |
# |---|---|
# | Time | 50 minutes, and as long as you like for the challenge |
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
QUICK: bool = True  # False: a sweep of 24 trainings instead of four
SOLVE: bool = False  # True: the exercises are filled in with their solutions
SEED: int = 0  # seed of weights, samples and batches
DEVICE: str = "auto"  # "cpu", "cuda" or "auto": the CPU here, as these networks are too small for a GPU
NAME: str = "me"  # your name on the leaderboard
BOARD: str = ""  # folder of the leaderboard, which a class may share; "": a temporary one

# %%
import os
import tempfile
from pathlib import Path

import polars
import torch

from snnkit import neuron, nn, train
from snnkit.lab import challenge, course, sweep, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

train.seed_everything(SEED)
course.start("sweeps_and_challenge", solve=SOLVE)
device = torch.device("cpu" if DEVICE == "auto" else DEVICE)
torch.set_num_threads(1)  # on tensors this small, several threads mostly wait for each other
polars.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_rows=30, float_precision=4)
folder = Path(tempfile.mkdtemp(prefix="snnkit-13-"))

# %% [markdown] tags=["slide"]
# ## 1 · XOR in time, and what it costs
#
# Two bits arrive as spikes, one after the other. Channels 0 to 3 encode *zero*, channels 4 to 7 encode *one*. For three
# steps, each of the four channels fires with a probability of 0.8 per step. The second bit comes eleven steps after the
# first. Either may be up to two steps late, and each channel adds a false spike now and then. The answer is the XOR of
# the bits: 1 if they differ. Two output neurons vote. The one that fires more gives the answer, and a tie means 0.

# %% tags=["slide"]
x, y = challenge.samples(1000, seed=1000 + SEED)  # spikes [24, 1000, 8], labels [1000]: for figures and validation
first = (x[:5, :, 4:].sum((0, 2)) > x[:5, :, :4].sum((0, 2))).long()
second = (x[11:16, :, 4:].sum((0, 2)) > x[11:16, :, :4].sum((0, 2))).long()
pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
members = {pair: ((first == pair[0]) & (second == pair[1])).nonzero().flatten() for pair in pairs}


def one_of_each(spikes, title):
    """A sample of each pair of bits, one after the other: spikes [T, B, N]."""
    figure = figures.raster(torch.cat([spikes[:, members[pair][0]] for pair in pairs]), title)
    for i, (a, b) in enumerate(pairs):
        note = {"annotation_text": f"{a} then {b}: answer {a ^ b}", "annotation_position": "top right"}
        figure.add_vline(x=24 * i - 0.5, line={"color": viz.theme.TEXT, "width": 1}, **note)
    return figure.update_yaxes(range=[-0.7, spikes.shape[2] + 0.5])  # room for the notes


viz.show(one_of_each(x, "Four samples of 24 steps").update_yaxes(title={"text": "channel"}))

# %% [markdown] tags=["slide"]
# On a neuromorphic chip every spike costs energy, and in a brain, too. So we set a price. With the accuracy $a$ (a
# fraction), and $n$, the spikes per sample of *all* neurons together (the input is free),
#
# $$S = a - \lambda\, n, \qquad \lambda = 0.01 \text{ for one spike}. \tag{1}$$
#
# One spike per sample costs as much as one percentage point of accuracy. $S$ is without units and at most 1.
#
# **Predict first.** We train 32 hidden neurons and the two output neurons by backpropagation through time, as in
# notebook 04, and ignore the price of spikes. A network that never fires always answers 0. Which of the two has the
# higher score?

# %%
predict("sweeps_and_challenge.a")

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
outcome("sweeps_and_challenge.a", "the silent one" if scores["silent"] > scores["trained"] else "the trained one")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The trained network is nearly always right and still has the lower score: its loss does not
# include the price of spikes. Silence is also an answer. It is right for half of the samples, and it is free.
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


score_of = attempt("sweeps_and_challenge.1", score_of)

# %%
for name, one in results.items():
    value, error = score_of(one.correct, one.counts, challenge.PRICE)
    print(f"{name:8} {value:.3f} ± {error:.3f}")

# %% [markdown] tags=["slide"]
# ## 2 · A sweep in a file
#
# A *penalty* $p$ on spikes in the loss should help: cross-entropy + $p \cdot n$. But which $p$? And is one training
# enough to decide? Such questions need dozens of runs. A loop in a cell is a bad way to do them. A crash at run 37 loses 36
# results, a typing error appears only during the night, and next week you no longer know what was run.
#
# A **manifest** contains everything: which notebook, which values, which seeds. The worker notebook is an ordinary
# notebook with a parameters cell. It reports its results with `sweep.record(accuracy=…, spikes=…)` (see
# `notebooks/workers/xor_in_time.ipynb` in the repository). Before anything starts, every name and every type is
# compared with that cell.

# %%
question = {
    "notebook": "xor_in_time",
    "out": str(folder / "sweep"),
    "parameters": {"RATE_PENALTY": [0.0, 0.01] if QUICK else [0.0, 0.001, 0.003, 0.01, 0.03, 0.1]},
    "fixed": {"HIDDEN": 32, "UPDATES": 150 if QUICK else 400, "DEVICE": device.type},
    "seeds": [SEED, SEED + 1] if QUICK else [SEED, SEED + 1, SEED + 2, SEED + 3],
    "workers": min(2, os.cpu_count() or 1),
}
typing_error = question | {"parameters": {"RATE_PENALTIES": [0.0, 0.01]}}
try:
    sweep.load(typing_error)
except sweep.ManifestError as error:
    print(error, end="\n\n")
manifest = sweep.load(question)
for run in manifest.runs:
    print(run.id, {name: run.parameters[name] for name in ("RATE_PENALTY", "SEED")})

# %% [markdown] tags=["slide"]
# Each run is a process with its own kernel, identified by the hash of its parameters. On a cluster you would write the
# manifest to a file and call `snnkit sweep manifest.yaml`.
#
# **Predict first.** A penalty of 0.01 in the loss: by what factor does it reduce the number of spikes?

# %%
predict("sweeps_and_challenge.b")

# %%
table = sweep.run(manifest)
shown = ["RATE_PENALTY", "SEED", "accuracy", "spikes"]
spikes = {penalty: table.filter(RATE_PENALTY=penalty)["spikes"].mean() for penalty in (0.0, 0.01)}
outcome("sweeps_and_challenge.b", spikes[0.0] / spikes[0.01])
table.select(shown).with_columns(score=polars.col("accuracy") - challenge.PRICE * polars.col("spikes"))

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# Most of the spikes were unnecessary. Without a penalty, the network had no reason to save any.
#
# </details>
#
# Now we add a run: one penalty is negative, which is invalid and will fail. The folder is the same.
#
# **Predict first.** Which runs are executed? What does the table contain for those that fail?

# %%
predict("sweeps_and_challenge.c")

# %%
penalties = [*question["parameters"]["RATE_PENALTY"], -0.01]
more = sweep.load(question | {"parameters": {"RATE_PENALTY": penalties}})
table = sweep.run(more)
print()
for failure in sweep.failures(folder / "sweep"):
    print(f"RATE_PENALTY {failure.parameters['RATE_PENALTY']}, SEED {failure.parameters['SEED']}: {failure.error}")
outcome("sweeps_and_challenge.c")
table.group_by("status").len()

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# Finished runs were skipped. A run that fails does not stop the others. It is listed with its traceback
# (`failure.traceback`; the executed notebook is in the folder), and is not tried again until you pass `retry=True`.
# This also works after `kill -9`: each run's file is written completely or not at all.
#
# </details>
#
# ## 3 · The Pareto front
#
# A handful of runs proves little. The kit contains a recorded sweep of 96: six penalties, 8 or 32 hidden neurons, eight
# seeds each.

# %% tags=["slide"]
columns, origin = challenge.recorded_sweep()
recorded = polars.DataFrame(columns).with_columns(score=polars.col("accuracy") - challenge.PRICE * polars.col("spikes"))
machine = origin["machine"]
print(f"{origin['runs']} runs of {origin['notebook']} with {origin['fixed']}")
print(f"{machine['processor']}, torch {machine['packages']['torch']}, {machine['date'][:10]}, no run failed")
axes = {"maximise": "accuracy", "minimise": "spikes"}
trained = recorded.filter(polars.col("spikes") > 0)  # a logarithmic axis cannot show 0 spikes
viz.show(figures.pareto(trained, **axes, log="x", title="Single runs: accuracy against spikes"))

# %% [markdown]
# A network *dominates* (beats) another if it is at least as accurate with at most as many spikes, and not equal in both.
# The networks that no other dominates are the **Pareto front**. Whatever the price of a spike, the best network is one
# of them. You can ignore all others.
#
# ### Exercise 08.2 · The front (7 minutes, ●●○)
#
# Which networks are these? Compare each with each. Faster methods exist, but for so few networks you do not need them.


# %% tags=["exercise"]
def front(accuracy, spikes):
    """Indices of the networks that no other dominates, by ascending spikes. Both are lists of numbers."""

    def dominated(i):
        return any(... for k in range(len(spikes)))

    return ...


front = attempt("sweeps_and_challenge.2", front)

# %%
best = front(recorded["accuracy"].to_list(), recorded["spikes"].to_list())
some = recorded[best].unique(["accuracy", "spikes"], keep="first", maintain_order=True)
print(f"{len(best)} of {len(recorded)} are on the front; of those that are equal in both, one:")
some.select("RATE_PENALTY", "HIDDEN", "SEED", "accuracy", "spikes", "score")

# %% [markdown] tags=["slide"]
# **Explorer: the price of a spike.** The dashed line joins all points of equal score. (It is curved, because the axis is
# logarithmic.) The network that it touches, the star, wins.
#
# **Predict first.** At which price is it best not to fire at all? Which network wins when spikes are nearly free?

# %%
predict("sweeps_and_challenge.d")


# %%
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
outcome("sweeps_and_challenge.d", limits.max())

# %% [markdown] tags=["slide"]
# ## 4 · What can we conclude?
#
# Every point above is one training, with its own random weights and samples. But the question of the sweep is about
# *settings*. Here are the means over eight seeds, with the spread of a single run:

# %% tags=["slide"]
means = recorded.group_by("RATE_PENALTY", "HIDDEN", maintain_order=True).agg(
    polars.col("accuracy", "spikes", "score").mean(),
    score_std=polars.col("score").std(),
    silent=(polars.col("spikes") < 0.01).sum(),
)
viz.show(figures.pareto(trained, **axes, seeds="SEED", log="x", title="Means over the seeds that did not go silent"))
means

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Look at the last column. If some seeds became silent, the mean describes none of the networks:
# some are good, and the others are dead. Look at single runs before you look at means.
#
# </details>
#
# Is a bigger network better? The same seed means the same training samples and the same test for both sizes. So compare
# **in pairs**.
#
# ### Exercise 08.3 · A fair comparison (5 minutes, ●●○)
#
# `a` and `b` are scores of two settings with the same seeds, in the same order. Return the mean of $a - b$ and its
# standard error: equation (2), for the differences.


# %% tags=["exercise"]
def paired(a, b):
    """Mean of a - b and its standard error, for scores with the same seeds [n]."""
    return ..., ...


paired = attempt("sweeps_and_challenge.3", paired)

# %%
print("score with 8 hidden neurons minus that with 32, for the same penalty and seed:")
for penalty in sorted(set(columns["RATE_PENALTY"])):
    same = recorded.filter(polars.col("RATE_PENALTY") == penalty).sort("SEED")
    small, large = (torch.tensor(same.filter(HIDDEN=size)["score"].to_list()) for size in (8, 32))
    difference, error = paired(small, large)
    verdict = "may be chance" if abs(difference) < 2 * error else "8 is better" if difference > 0 else "32 is better"
    print(f"  penalty {penalty:<6} {difference:+.3f} ± {error:.3f}   {verdict}")

# %% [markdown] tags=["slide"]
# "Less than $2\varepsilon$" is a rule of thumb: with eight seeds, about 9 % of differences exceed it by chance alone.
# Here are six comparisons. With twenty, one or two of them will look significant by chance.
#
# ## 5 · The winner's curse
#
# You sweep 24 settings and choose the one that is best on 200 validation samples. Suppose that all 24 are equally good,
# right in 97 % of all cases. The validation accuracy of each varies around this value with the standard deviation
# $\sigma = \sqrt{a(1-a)/m}$, with $m$ samples. The best of $k$ networks looks better than it is by at most about
#
# $$\Delta \lesssim \sigma \sqrt{2 \ln k}. \tag{3}$$
#
# **Predict first.** 24 networks, 200 samples, $a$ = 97 %: what is the winner's validation accuracy? And its accuracy
# on a fresh test?

# %%
predict("sweeps_and_challenge.e")


# %%
def looks_like(samples, networks, accuracy):
    """Validation accuracy of the best of 1, 2, … equally good networks, the mean of 400 trials: [networks]."""
    trials = torch.full((400, networks), float(samples))
    draw = torch.Generator().manual_seed(0)
    seen = torch.binomial(trials, torch.full_like(trials, accuracy), generator=draw) / samples
    return seen.cummax(dim=1).values.mean(0)


def curse(samples=200, networks=24, accuracy=0.97):
    """The best of k equally good networks, on the samples by which it was chosen."""
    looks, k = looks_like(samples, 100, accuracy), torch.arange(1, 101)
    sigma = (accuracy * (1 - accuracy) / samples) ** 0.5
    bound = accuracy + sigma * (2 * k.log()).sqrt()
    bound[bound > 1] = torch.nan  # no network is right more often than always
    series = {"looks like": 100 * looks, "equation (3)": 100 * bound, "is": 0 * k + 100 * accuracy}
    title = f"Best of {networks}: looks like {looks[networks - 1]:.1%}, is {accuracy:.1%}"
    axes = {"x_title": "networks tried", "y_title": "accuracy of the chosen one (%)"}
    between = (100 * accuracy - 1, 101 - accuracy)
    return figures.lines(series, x=k, title=title, marks={"you": networks}, between=between, **axes)


viz.explore(curse, samples=(50, 2000, 50), networks=(1, 100, 1), accuracy=[0.9, 0.97, 0.99])
outcome("sweeps_and_challenge.e", 100 * looks_like(samples=200, networks=24, accuracy=0.97)[-1].item())

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The formula is an upper bound. For 24 networks it says $2.5\,\sigma$, while the best of 24 normal
# numbers is $1.95\,\sigma$ above their mean on average. (And accuracy ends at 1, which a normal distribution does not.)
# But the conclusion is right: the more networks you try, the better the best one *looks*. More samples reduce this
# effect, but only with the square root of their number.
#
# </details>
#
# ### Exercise 08.4 · An honest winner (4 minutes, ●○○)
#
# `valid[i]` and `test[i]` are accuracies of network $i$ on two sets of samples. Which network do you choose, and which
# accuracy do you report?


# %% tags=["exercise"]
def honest_winner(valid, test):
    """The index of the chosen network and the accuracy to report for it, from two tensors [n]."""
    return ..., ...


honest_winner = attempt("sweeps_and_challenge.4", honest_winner)

# %%
generator = torch.Generator().manual_seed(SEED)
equal = torch.full((2, 24), 200.0)
valid, test = torch.binomial(equal, torch.full_like(equal, 0.97), generator=generator) / 200
chosen, report = honest_winner(valid, test)
print(f"network {chosen}: {valid.max():.1%} in validation, {report:.1%} on fresh samples; all are at 97 %")

# %% [markdown]
# ## 6 · The open challenge
#
# **Solve XOR in time with the highest score $S$ of equation (1).** The score is computed on 2000 hidden samples:
# `challenge.score(net)`. *Hidden* means that you do not use them by accident. Their seeds are in the source, and you
# could look them up. You would only fool yourself. (An instructor who wants stronger protection scores the class with
# `salt=…`.)
#
# The rules are checked, so that you cannot break them by mistake:
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
# for any network. With leaky membranes and synapses without delay, even this is impossible. Take cues without noise.
# Until the first spike, a membrane is the sum of what is left of both cues, $v = K_1 w_{b_1} + K_2 w_{b_2}$. Here $w_0$,
# $w_1$ are the weights for the two kinds of cues. The factors $K_1, K_2 \ge 0$ say how much of the earlier and the later
# cue is left. So
#
# $$v(0,1) = K_1 w_0 + K_2 w_1 \;\le\; \max\big\{(K_1 + K_2)\,w_0,\; (K_1 + K_2)\,w_1\big\} = \max\big\{v(0,0),\; v(1,1)\big\}. \tag{4}$$
#
# The neuron that fires first for *0 then 1* also fires for *0, 0* or for *1, 1*, unless a spike of another neuron
# inhibits it there. One spike each for *0, 1* and for *1, 0*, and at least one for the other two: **three spikes for
# four samples, 0.75**.
#
# Backpropagation with a penalty stays far above this. A network of ten numbers reaches it. An evolution strategy, which
# needs no gradient [1], chose these ten:

# %% tags=["slide"]
print("spikes per sample      ", "   ".join(f"{a},{b}" for a, b in pairs))
for name in ("plain", "thrifty", "two neurons"):
    seen = challenge.evaluate(challenge.reference(name), x, y)
    each = "  ".join(f"{seen.counts[members[pair]].mean():4.1f}" for pair in pairs)
    print(f"{name:12} {seen.spikes:6.2f}    {each}   ", str(challenge.reference_score(name)).partition(",")[0])
fired = challenge.reference("two neurons")(x)[0]
figure = one_of_each(fired, "All spikes of two neurons, for the four samples")
viz.show(figure.update_yaxes(title={"text": "output"}).update_layout(height=260))

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Output 1 would fire for all inputs except *1, 1*. For *0, 0*, output 0 fires slightly earlier,
# votes for the other answer, and inhibits output 1. This is the third spike of equation (4). It serves as memory, vote
# and inhibition at the same time.
#
# </details>
#
# ### Your network
#
# Replace the body of the function. Validate on `x, y` as often as you like. Compute the score when you have decided.
# With `BOARD` and `NAME` in the parameters cell you share a leaderboard with others.


# %%
def my_network():
    """A network from spikes [24, B, 8] to spikes [24, B, 2]: replace it by yours."""
    train.seed_everything(SEED)
    net = challenge.network(hidden=8, tau=50.0)
    return challenge.train(net, penalty=0.01, learning_rate=0.02, updates=2 * updates, seed=SEED, device=device)


mine = my_network()
print("validation:", challenge.evaluate(mine, x, y))
place = Path(BOARD) if BOARD else folder / "board"
entry = challenge.submit(NAME, mine, place, note="a small thrifty network")
print("submitted: ", entry)

# %%
board = challenge.board(place)
viz.show(board.figure())
board

# %% [markdown] tags=["slide"]
# **Ideas to start with**, from easy to open:
#
# - *Fewer neurons, other time constants, a higher penalty.* How good does training alone become? Is a penalty that rises
#   more slowly better?
# - *Prune.* Take a trained network; silence its hidden neurons one by one; remove those that cost more than they
#   contribute.
# - *By hand.* Two neurons, equation (4), paper and pencil. A bias acts as a clock: it raises a membrane step by step,
#   so that a neuron can wait.
# - *Improve without gradients.* Start from a good network, change a weight at random, and accept the change if the
#   score on your own samples is better.
# - *Your own neuron.* A subclass of `neuron.Neuron` may do a lot in one step, and only its spikes are counted. The
#   board marks it with a star. Is this way of counting fair?
# - *Change an assumption.* The argument above assumed synapses without delay. `challenge.Delays` has delays, and so
#   have biological synapses [2, 3]. Can you get below 0.75?
# - *Your own data.* Which two-step decision in your field looks like this one? Write about fifty lines of code for its
#   data, and leave the rest of the notebook unchanged.
#
# **Discussion**, in groups of three, five minutes. Take an idea of your own: could a spiking network solve it, and
# would time matter? What would the data look like, and who labels them? Would you learn with gradients, with local
# rules (notebook 07), or not at all? What does a spike cost *there*: energy, bandwidth, nothing? And what would
# convince you that it failed?
#
# ## 7 · What broke?
#
# A colleague also swept penalties, with her own training loop. All runs end with status *ok*, without a warning. Every
# network with a penalty of 0.01 or more is right in exactly 50 % of cases. "Regularisation destroys the representation",
# says her draft.
#
# **Predict first.** Her loop has the same loss, optimizer and data. Where is the mistake, and which number would you
# look at first?

# %%
predict("sweeps_and_challenge.f")

# %%
for name, warm_up in {"her loop": 0.0, "the kit's": 0.5}.items():
    train.seed_everything(SEED)
    how = {"updates": updates, "warm_up": warm_up, "seed": SEED, "device": device}
    net = challenge.train(challenge.network(hidden=32), 0.01, **how)
    print(f"{name:9} {challenge.evaluate(net, x, y)}")  # 1: hidden layer, 3: output
outcome("sweeps_and_challenge.f")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# No neuron fires. Her penalty was active from the first update, when spikes cost something but do not help yet. The
# quickest way to a lower loss is silence, and the network can hardly recover from it: without spikes in the hidden
# layer, the output gets no input, whatever its weights are. In the kit's loop the penalty *rises* during the first half
# of the training: first learn, then save. So look at activity, not only at accuracy. The sweep of section 4 has such
# runs, too, in its last column. Exactly 50.0 % is not bad luck, it is a constant answer.
#
# </details>
#
# ## Quiz

# %%
quiz("sweeps_and_challenge")

# %%
scorecard("sweeps_and_challenge")

# %% [markdown]
# ## Where next
#
# **[09 · Blank pages](09_blank_pages.ipynb)**: build a neuron, a surrogate, a training and STDP from an empty cell.
#
# Meanwhile: a network, a sweep, an honest number of your own. Begin with `snnkit sweep --help` and `notebooks/workers/`.
# To look for our mistakes, begin with `tests/course/answers`. If your entry is better than ours, please open an issue.
#
# **Worth reading**
#
# 1. P.-T. de Boer, D. P. Kroese, S. Mannor, R. Y. Rubinstein, *A tutorial on the cross-entropy method*, Annals of Operations Research 134 (2005).
#    [doi:10.1007/s10479-005-5724-z](https://doi.org/10.1007/s10479-005-5724-z)
# 2. L. A. Jeffress, *A place theory of sound localization*, Journal of Comparative and Physiological Psychology 41 (1948), on delays and coincidence.
#    [doi:10.1037/h0061495](https://doi.org/10.1037/h0061495)
# 3. I. Hammouamri, I. Khalfaoui-Hassani, T. Masquelier, *Learning delays in spiking neural networks using dilated convolutions with learnable spacings*
#    (2023). [arXiv:2306.17670](https://arxiv.org/abs/2306.17670)
# 4. T. G. Dietterich, *Approximate statistical tests for comparing supervised classification learning algorithms*, Neural Computation 10 (1998).
#    [doi:10.1162/089976698300017197](https://doi.org/10.1162/089976698300017197)
# 5. P. Henderson, R. Islam, P. Bachman, J. Pineau, D. Precup, D. Meger, *Deep reinforcement learning that matters*, AAAI (2018), on seeds.
#    [doi:10.1609/aaai.v32i1.11694](https://doi.org/10.1609/aaai.v32i1.11694)
