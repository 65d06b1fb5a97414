# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["badge"]
# [![Open In Colab](drawings/open_in_colab.svg)](https://colab.research.google.com/github/snnkit/snnkit/blob/main/notebooks/workers/xor_in_time.ipynb)

# %% [markdown]
# # A notebook for sweeps: XOR in time
#
# Two bits arrive as spikes, one after the other; a network of spiking neurons answers with their XOR, and every spike
# it fires has a price. This notebook trains one such network and reports its accuracy and its number of spikes.
# `snnkit sweep` runs it many times with different parameters:
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
# To sweep your own notebook, give it the two things that this one has: a cell tagged `parameters` with typed literals,
# and a call of `sweep.record`. You can also run it by hand like any other notebook.

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
QUICK: bool = True  # True: 200 updates. False: 1000
SEED: int = 0  # seed of weights, training samples and their order; the test samples depend on it, too
DEVICE: str = "auto"  # "auto", "cpu" or "cuda"
HIDDEN: int = 32  # neurons in the hidden layer
TAU: float = 20.0  # time constant of the membranes, in time steps
LEARNING_RATE: float = 0.01
RATE_PENALTY: float = 0.0  # price of one spike per sample in the loss
UPDATES: int = 0  # steps of the optimiser; 0: as many as QUICK says

# %%
import torch

from snnkit import train
from snnkit.lab import challenge, sweep

torch.set_num_threads(1)  # for layers this small, starting a second thread takes longer than the work
train.seed_everything(SEED)
updates = UPDATES or (200 if QUICK else 1000)

# %% [markdown]
# ## Train
#
# Input → `HIDDEN` leaky integrate-and-fire neurons → 2 more, one for each answer; the one that fires more often gives
# the answer. `RATE_PENALTY` times the number of spikes is added to the loss.

# %%
net = challenge.network(HIDDEN, tau=TAU)
challenge.train(
    net, RATE_PENALTY, learning_rate=LEARNING_RATE, updates=updates, seed=SEED, device=DEVICE, progress=True
)

# %% [markdown]
# ## Test and record
#
# The test uses new samples. Each recorded value becomes a column of the sweep's table.

# %%
net.cpu()
result = challenge.evaluate(net, *challenge.samples(1000, seed=1000 + SEED))
sweep.record(accuracy=result.accuracy, spikes=result.spikes)
