"""Local learning: weights that change by the spikes on both sides of them, without a loss and without backward.

``PairSTDP``, ``TripletSTDP`` and ``RewardSTDP`` are the rules; tests compare them with sums over all pairs or triplets
of spikes. The ``connection`` of a rule is ``Dense()`` or ``Convolution(...)``.

``CompetitiveLayer`` learns without labels: STDP between inputs and neurons that compete (``Competition``). Afterwards
``assign_labels`` and ``vote`` give the neurons classes. ``learn_locally`` does all this with a data set.
"""

from snnkit import lazy
from snnkit.plasticity.competition import (
    Competition as Competition,
    CompetitionState as CompetitionState,
    CompetitiveLayer as CompetitiveLayer,
    LayerState as LayerState,
    assign_labels as assign_labels,
    similarity as similarity,
    vote as vote,
)
from snnkit.plasticity.connection import Convolution as Convolution, Dense as Dense
from snnkit.plasticity.reward import RewardState as RewardState, RewardSTDP as RewardSTDP
from snnkit.plasticity.spike_timing import (
    PairSTDP as PairSTDP,
    STDPState as STDPState,
    TripletState as TripletState,
    TripletSTDP as TripletSTDP,
)
from snnkit.plasticity.unsupervised import (
    LAYERS as LAYERS,
    MAX_RATE as MAX_RATE,
    STEPS as STEPS,
    LocalRun as LocalRun,
    Snapshot as Snapshot,
    learn_locally as learn_locally,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__)
lazy.instead(
    __name__,
    {
        "STDPLearner": "plasticity.PairSTDP, which is a function of spikes and weights, not of a module",
        "MSTDPLearner": "plasticity.RewardSTDP",
        "MSTDPETLearner": "plasticity.RewardSTDP",
        "stdp_step_linear": "plasticity.PairSTDP(...).step",
        "stdp_step_conv2d": "plasticity.PairSTDP(..., connection=plasticity.Convolution()).step",
    },
)
