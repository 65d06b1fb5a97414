"""Sweeps: a notebook run with every combination of its parameters, several runs at a time, and a table of results.

    from snnkit.lab import sweep

    table = sweep.run("manifest.yaml")            # a polars DataFrame; called again, it continues where it was
    sweep.failures("results/xor")                  # failed runs, with tracebacks

and in the notebook that is run, which has its parameters in a cell tagged ``parameters``:

    sweep.record(accuracy=0.97, spikes=812.0)

From a shell it is ``snnkit sweep manifest.yaml``. A manifest:

```yaml
notebook: xor_in_time          # a name, or the path of an .ipynb file from here
out: results/xor               # folder of the results, from here
mode: grid                     # every combination; or random, some of them: samples: 20, seed: 0
parameters:
  HIDDEN: [16, 32]
  LEARNING_RATE: [0.01, 0.003]
fixed: {QUICK: true}           # the same in each run
seeds: [0, 1, 2]               # each is passed as SEED
workers: 2                     # runs at a time
seconds: 600                   # limit of one run
pareto: {maximise: accuracy, minimise: spikes}
```

A sweep may continue with more values, seeds or samples, and other ``workers``, ``seconds`` and ``pareto``. Finished
runs stay. Another notebook, changed code, and other ``fixed`` values or names of parameters are refused. Several
processes, tasks of a job array (``snnkit slurm --array``) or machines with a shared folder may do one sweep at the same
time. What one was doing when it was killed, another does.
"""

from snnkit import lazy
from snnkit.lab.sweep.execute import run as run
from snnkit.lab.sweep.manifest import Manifest as Manifest, ManifestError as ManifestError, load as load
from snnkit.lab.sweep.recorded_values import record as record
from snnkit.lab.sweep.results import (
    RunResult as RunResult,
    SweepError as SweepError,
    failures as failures,
    results as results,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__)
