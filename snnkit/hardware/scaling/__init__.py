"""What a training run on many ranks will reach, in one namespace: predict, fit to what was measured, plan.

work = scaling.Workload("conv", samples=128, step_s=0.021, gradient_bytes=4 * 33_000_000)
juwels = scaling.cluster("juwels-booster")
[p.efficiency for p in scaling.curve(work, juwels, (1, 4, 8, 64, 1024))]
print(scaling.plan(work, juwels, nodes=2, samples=60_000, epochs=10))

here = scaling.this_machine(cores=2)
fitted = scaling.fit([scaling.Measured(1, 0.30), scaling.Measured(2, 0.33), scaling.Measured(4, 0.67)], work, here)
fitted.error, fitted.predict(8).efficiency
"""

from .allreduce import ALGORITHMS as ALGORITHMS
from .allreduce import all_reduce_s as all_reduce_s
from .fitting import Fit as Fit
from .fitting import Measured as Measured
from .fitting import fit as fit
from .fitting import fit_link as fit_link
from .networks import CLUSTERS as CLUSTERS
from .networks import LINKS as LINKS
from .networks import cluster as cluster
from .networks import link as link
from .networks import this_machine as this_machine
from .planning import Plan as Plan
from .planning import curve as curve
from .planning import plan as plan
from .step import Prediction as Prediction
from .step import Workload as Workload
from .step import predict as predict
from .step import slowdown as slowdown
from .topology import Cluster as Cluster
from .topology import Link as Link
