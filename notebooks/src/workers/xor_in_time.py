# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/workers/xor_in_time.ipynb)

# %% [markdown]
# # A notebook for sweeps: XOR in time
#
# Two bits arrive as spikes, one after the other; a network of spiking neurons answers with their XOR, and every spike it
# fires has a price. This notebook trains one such network, and says how good it is and what it costs. It is made to be
# run many times with other parameters, by `snnkit sweep`:
#
# ```yaml
# notebook: xor_in_time
# out: results/xor
# parameters:
#   HIDDEN: [16, 32]
#   RATE_PENALTY: [0.0, 0.001, 0.01]
# seeds: [0, 1, 2]
# pareto: {maximise: accuracy, minimise: spikes}
# ```
#
# To sweep a notebook of your own it needs two things that this one has: a cell tagged `parameters` with typed literals,
# and a call of `sweep.record`. By hand it runs like any other.

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
QUICK: bool = True  # True: 200 updates. False: 1000
SEED: int = 0  # of weights, training samples and their order; the samples of the test depend on it, too
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
HIDDEN: int = 32  # neurons in the hidden layer
TAU: float = 20.0  # time constant of the membranes, in time steps
LEARNING_RATE: float = 0.01
RATE_PENALTY: float = 0.0  # price of one spike per sample in the loss
UPDATES: int = 0  # steps of the optimiser; 0: as many as QUICK says

# %%
import torch

from snnkit import challenge, sweep, train

torch.set_num_threads(1)  # layers this small are done before a second thread has been woken
train.seed_everything(SEED)
updates = UPDATES or (200 if QUICK else 1000)

# %% [markdown]
# ## Train
#
# Input → `HIDDEN` leaky integrate-and-fire neurons → 2 more, one for each answer; the one that fires more often is believed.
# `RATE_PENALTY` times the number of spikes is added to the loss.

# %%
net = challenge.network(HIDDEN, tau=TAU)
challenge.train(
    net, RATE_PENALTY, learning_rate=LEARNING_RATE, updates=updates, seed=SEED, device=DEVICE, progress=True
)

# %% [markdown]
# ## Test, and put it on record
#
# On samples that the training never saw. What is recorded becomes a column of the sweep's table.

# %%
net.cpu()
found = challenge.evaluate(net, *challenge.samples(1000, seed=1000 + SEED))
sweep.record(accuracy=found.accuracy, spikes=found.spikes)
