"""Jobs for SLURM: write an sbatch script, explain its every line, find its mistakes.

    from snnkit.train import slurm

    request = slurm.Request("snnkit train workshop --checkpoint run.pt", nodes=2, gpus_per_node=4, time="02:00:00")
    text = slurm.script(request)
    for line, why in slurm.explain(text):
        print(line, why)
    slurm.check(text)                      # []: no problems

A sweep may be a job array: ``Request("snnkit sweep xor.yaml --out results", array=8)``. ``snnkit slurm`` does the same
from a shell.
"""

from snnkit import lazy
from snnkit.train.slurm.explain import explain as explain
from snnkit.train.slurm.request import Request as Request, script as script
from snnkit.train.slurm.script_rules import Problem as Problem, check as check
from snnkit.train.slurm.syntax import parse as parse, seconds as seconds

__getattr__, __dir__, __all__ = lazy.attach(__name__)
