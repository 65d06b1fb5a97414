# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/21_sweeps.ipynb)

# %% [markdown] tags=["slide"]
# # 21 · Sweeps
#
# A question about a setting needs dozens of trainings. You learn to run them overnight, and to conclude from the results
# only what they support. The second is harder.
#
# **Afterwards you can**
#
# - describe a sweep in a file, run it in parallel, kill it, resume it, and identify failed runs;
# - read a Pareto front: which networks can be the best, whatever a spike costs;
# - say how certain a difference is, from paired seeds;
# - explain why the best of 24 looks better than it is.
#
# | | |
# |---|---|
# | Time | 50 minutes |
# | GPU minutes | 0. The networks are far too small for one |
# | Before this | 04 training |

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
SEED: int = 0  # the first of the sweep's seeds
DEVICE: str = "auto"  # "cpu", "cuda" or "auto": the CPU here, as these networks are too small for a GPU

# %%
import os
import tempfile
import textwrap
from pathlib import Path

import polars
import torch

from snnkit.lab import challenge, course, sweep, viz
from snnkit.lab.course import attempt, hint, outcome, predict, quiz, scorecard, solution
from snnkit.lab.viz import figures

course.start("sweeps", solve=SOLVE)
polars.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_rows=30, float_precision=4)
columns, origin = challenge.recorded_sweep()
recorded = polars.DataFrame(columns).with_columns(score=polars.col("accuracy") - challenge.PRICE * polars.col("spikes"))
trained = recorded.filter(polars.col("spikes") > 0)  # a logarithmic axis cannot show 0 spikes
folder = Path(tempfile.mkdtemp(prefix="snnkit-sweep-"))

# %% [markdown] tags=["slide"]
# ## 1 · One setting, eight networks
#
# The task is *XOR in time*, that of the open challenge (notebook 08). Two bits arrive as spikes, one after the other.
# Channels 0 to 3 encode *zero*, channels 4 to 7 encode *one*, and there is some noise. A network of 8 or 32 hidden neurons
# answers 1 if the bits differ. Every spike that it fires costs one percentage point of accuracy. With the accuracy $a$
# (a fraction) and $n$ spikes per sample, its score is
#
# $$S = a - \lambda\, n, \qquad \lambda = 0.01 \text{ for one spike}, \tag{1}$$
#
# without units, and at most 1. A *penalty* $p$ in the loss, cross-entropy $+\; p \cdot n$, makes the network save spikes.
# Which penalty is best, and which size? Choose both: the green marks are eight networks with the *same* setting, which
# differ only in their seed.


# %% tags=["slide"]
def one_setting(penalty=0.003, hidden=8, runs=trained):
    """All networks of the recorded sweep, and those of one setting."""
    eight = runs.filter(RATE_PENALTY=penalty, HIDDEN=hidden)
    figure = figures.pareto(runs, maximise="accuracy", minimise="spikes", log="x")
    mark = {"symbol": "star", "size": 13, "color": viz.theme.GREEN}
    figure.add_scatter(x=eight["spikes"].to_list(), y=eight["accuracy"].to_list(), mode="markers", marker=mark)
    count = 8 - len(eight)
    silent = f"; {count} never fire{'s' * (count == 1)}" if count else ""
    title = f"Same setting, scores from {eight['score'].min():.2f} to {eight['score'].max():.2f}{silent}"
    figure.update_layout(title={"text": title}, showlegend=False)
    return figure.update_yaxes(range=[0.45, 1.03])


viz.explore(one_setting, penalty=[0.0, 0.001, 0.003, 0.01, 0.03], hidden=[8, 32])

# %% [markdown] tags=["slide"]
# One training says little about a setting: chance decides, too. So you need many.
#
# ## 2 · A sweep in a file
#
# A *sweep* trains with each combination of some values and seeds. A loop in a cell is a bad way to do it. A crash at run
# 37 loses 36 results, a typing error appears only during the night, and next week you no longer know what was run.
#
# A *manifest* contains everything: which notebook, which values, which seeds. The worker notebook is an ordinary
# notebook with a parameters cell. It reports its results with `sweep.record(accuracy=…, spikes=…)` (see
# `notebooks/workers/xor_in_time.ipynb`). Before anything starts, every name and every type is compared with that cell.

# %%
question = {
    "notebook": "xor_in_time",
    "out": str(folder / "sweep"),
    "parameters": {"RATE_PENALTY": [0.0, 0.01] if QUICK else [0.0, 0.001, 0.003, 0.01, 0.03, 0.1]},
    "fixed": {"HIDDEN": 32, "UPDATES": 150 if QUICK else 400, "DEVICE": "cpu" if DEVICE == "auto" else DEVICE},
    "seeds": [SEED, SEED + 1] if QUICK else [SEED, SEED + 1, SEED + 2, SEED + 3],
    "workers": min(2, os.cpu_count() or 1),
}
try:
    sweep.load(question | {"parameters": {"RATE_PENALTIES": [0.0, 0.01]}})  # a typing error
except sweep.ManifestError as error:
    print(textwrap.fill(str(error), 100), end="\n\n")
manifest = sweep.load(question)
for run in manifest.runs:
    print(run.id, {name: run.parameters[name] for name in ("RATE_PENALTY", "SEED")})

# %% [markdown] tags=["slide"]
# Each run is a process with its own kernel, identified by a *hash* of its parameters, a short fingerprint. On a cluster you would write the
# manifest to a file and call `snnkit sweep manifest.yaml`.
#
# **Predict first.** A penalty of 0.01 in the loss: by what factor does it reduce the number of spikes?

# %%
predict("sweeps.a")

# %%
table = sweep.run(manifest)
spikes = {penalty: table.filter(RATE_PENALTY=penalty)["spikes"].mean() for penalty in (0.0, 0.01)}
outcome("sweeps.a", spikes[0.0] / spikes[0.01])
table.select("RATE_PENALTY", "SEED", "accuracy", "spikes")

# %% [markdown] tags=["slide"]
# <details>
# <summary><b>What to notice</b></summary>
#
# Most of the spikes were unnecessary. Without a penalty, the network had no reason to save any.
#
# </details>

# %% [markdown] tags=["slide-more"]
# Now we add a negative penalty. It is invalid, so its runs will fail. The folder is the same.
#
# **Predict first.** Which runs are executed? What does the table contain for those that fail?

# %%
predict("sweeps.b")

# %%
penalties = [*question["parameters"]["RATE_PENALTY"], -0.01]
more = sweep.load(question | {"parameters": {"RATE_PENALTY": penalties}})
table = sweep.run(more)
print()
for failure in sweep.failures(folder / "sweep"):
    print(f"RATE_PENALTY {failure.parameters['RATE_PENALTY']}, SEED {failure.parameters['SEED']}: {failure.error}")
outcome("sweeps.b")
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
# Back to the recorded sweep of 96 networks: six penalties, two sizes, eight seeds each. A network
# *dominates* (beats) another if it is at least as accurate with at most as many spikes, and not equal in both. The
# networks that no other dominates are the *Pareto front*: the diamonds of the first figure, and the silent networks,
# which its logarithmic axis cannot show. Whatever the price of a spike, the best network is on the front. You can ignore
# all others.
#
# ### Exercise 21.1 · The front (7 minutes, ●●○)
#
# Which networks are these? Compare each with each.


# %% tags=["exercise"]
def front(accuracy, spikes):
    """Indices of the networks that no other dominates, by ascending spikes. Both are lists of numbers."""

    def dominated(i):
        return any(... for k in range(len(spikes)))

    return ...


front = attempt("sweeps.1", front)

# %%
best = front(recorded["accuracy"].to_list(), recorded["spikes"].to_list())
print(f"{len(best)} of {len(recorded)} are on the front; these five have the best scores:")
recorded[best].select("RATE_PENALTY", "HIDDEN", "SEED", "accuracy", "spikes", "score").sort("score").tail(5)

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The front leads from silence, right in half of the cases at no cost, to a network that fires ten times as many spikes for
# the last half percentage point. The price decides which one is best.
#
# </details>

# %% [markdown] tags=["slide"]
# ## 4 · A fair comparison
#
# The question of the sweep is about *settings*. Is a bigger network better? Each score depends on its seed: random
# weights, training samples, test samples. The same seed means the same samples for both sizes. So compare **in pairs**:
# the effect of a hard seed cancels. The mean of $n$ differences $d$ is uncertain by its *standard error*
#
# $$\varepsilon = \frac{\sigma_d}{\sqrt{n}}, \tag{2}$$
#
# with their standard deviation $\sigma_d$. By chance alone, about one mean in twenty is more than $2\varepsilon$ from its
# true value, if $n$ is not very small.

# %% [markdown]
# ### Exercise 21.2 · A fair comparison (5 minutes, ●●○)
#
# `a` and `b` are scores of two settings with the same seeds, in the same order. Return the mean of $a - b$ and its
# standard error.


# %% tags=["exercise"]
def paired(a, b):
    """Mean of a - b and its standard error, for scores with the same seeds [n]."""
    return ..., ...


paired = attempt("sweeps.2", paired)

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
# You choose the best of 24 networks on 200 validation samples. Suppose that all are equally good, right in 97 % of all
# cases. The validation accuracy of each varies around this value with the standard deviation
# $\sigma = \sqrt{a(1-a)/m}$, with $m$ samples. The best of $k$ networks looks better than it is by at most about
#
# $$\Delta \lesssim \sigma \sqrt{2 \ln k}. \tag{3}$$
#
# **Predict first.** 24 networks, 200 samples, $a$ = 97 %: what is the winner's validation accuracy? And its accuracy
# on a fresh test?

# %%
predict("sweeps.c")


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
    bound = (accuracy + sigma * (2 * k.log()).sqrt()).clamp(max=1)  # no network is right more often than always
    series = {"looks like": 100 * looks, "equation (3)": 100 * bound, "is": 0 * k + 100 * accuracy}
    title = f"Best of {networks}: looks like {looks[networks - 1]:.1%}, is {accuracy:.1%}"
    axes = {"x_title": "networks tried", "y_title": "accuracy of the chosen one (%)"}
    between = (100 * accuracy - 1, 101 - accuracy)
    return figures.lines(series, x=k, title=title, marks={"you": networks}, between=between, **axes)


viz.explore(curse, samples=(50, 2000, 50), networks=(1, 100, 1), accuracy=[0.9, 0.97, 0.99])
outcome("sweeps.c", 100 * looks_like(samples=200, networks=24, accuracy=0.97)[-1].item())

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# The formula is an upper bound: for 24 networks $2.5\,\sigma$, while the best of 24 normal numbers is $1.95\,\sigma$ above
# their mean on average. The more networks you try, the better the best one *looks*. More samples reduce this effect, but
# only with the square root of their number.
#
# </details>
#
# ### Exercise 21.3 · An honest winner (4 minutes, ●○○)
#
# `valid[i]` and `test[i]` are accuracies of network $i$ on two sets of samples. Which network do you choose, and which
# accuracy do you report?


# %% tags=["exercise"]
def honest_winner(valid, test):
    """The index of the chosen network and the accuracy to report for it, from two tensors [n]."""
    return ..., ...


honest_winner = attempt("sweeps.3", honest_winner)

# %%
generator = torch.Generator().manual_seed(SEED)
equal = torch.full((2, 24), 200.0)
valid, test = torch.binomial(equal, torch.full_like(equal, 0.97), generator=generator) / 200
chosen, report = honest_winner(valid, test)
print(f"network {chosen}: {valid.max():.1%} in validation, {report:.1%} on fresh samples; all are at 97 %")

# %% [markdown] tags=["slide"]
# ## 6 · What broke?
#
# A colleague reports the recorded sweep by its means. "With 32 neurons and a penalty of 0.1, accuracy drops to 72 %,
# with three spikes per sample", says his table. He concludes that such a network is right in about seven of ten cases.
#
# **Predict first.** The mean is over eight networks. How many of them are within five points of it?

# %%
predict("sweeps.d")

# %%
eight = recorded.filter(RATE_PENALTY=0.1, HIDDEN=32)
mean = eight["accuracy"].mean()
outcome("sweeps.d", int(((eight["accuracy"] - mean).abs() <= 0.05).sum()))
print(f"mean accuracy {mean:.1%}, mean spikes {eight['spikes'].mean():.1f}")
eight.select("SEED", "accuracy", "spikes", "score").sort("accuracy")

# %% [markdown]
# <details>
# <summary><b>What to notice</b></summary>
#
# Three seeds went silent: exactly 50 %, and no spike. The other five are right in more than 80 % of cases. The mean
# describes none of the networks. Look at single runs before you look at means, and count the silent ones apart.
#
# </details>

# %% [markdown]
# ## Quiz

# %%
quiz("sweeps")

# %%
scorecard("sweeps")

# %% [markdown]
# The end of this track: what you have passed in all of its notebooks. `.save("mine.html")` writes it as a page.

# %%
course.certificate("research")

# %% [markdown]
# ## Where next
#
# This is the last notebook of the track *Research*. [08 · The open challenge](08_open_challenge.ipynb) asks for the best
# score on this task. For a sweep of your own, begin with `snnkit sweep --help` and `notebooks/workers/`.
#
# **Worth reading**
#
# 1. T. G. Dietterich, *Approximate statistical tests for comparing supervised classification learning algorithms*, Neural Computation 10 (1998).
#    [doi:10.1162/089976698300017197](https://doi.org/10.1162/089976698300017197)
# 2. P. Henderson, R. Islam, P. Bachman, J. Pineau, D. Precup, D. Meger, *Deep reinforcement learning that matters*, AAAI (2018), on seeds.
#    [doi:10.1609/aaai.v32i1.11694](https://doi.org/10.1609/aaai.v32i1.11694)
