"""The command `snnkit`; of `snnkit train` the updates take their time until the job has been requeued once.

So the first run of a job meets its time limit on a machine of any speed, and burns no CPU time in waiting for it.
"""

import os
import time

from snnkit.lab.cli import main

PAUSE = float(os.environ.get("PAUSE", "0"))  # seconds

if PAUSE and "SLURM_RESTART_COUNT" not in os.environ:
    from snnkit.train.lit import SpikingModule

    quick = SpikingModule.training_step

    def slow(self, batch, batch_idx):
        time.sleep(PAUSE)
        return quick(self, batch, batch_idx)

    SpikingModule.training_step = slow

main()
