"""Local learning: weights that change by the spikes on both sides of them, without a loss and without backward.

``PairSTDP``, ``TripletSTDP`` and ``RewardSTDP`` are the rules; tests compare them with sums over all pairs or triplets
of spikes. The ``connection`` of a rule is ``Dense()`` or ``Convolution(...)``.

``CompetitiveLayer`` learns without a teacher: STDP between inputs and neurons that compete (``Competition``).
``assign_labels`` and ``vote`` give the neurons classes afterwards; ``learn_locally`` does all of it with a data set.
"""

from .competition import Competition, CompetitionState, CompetitiveLayer, LayerState, assign_labels, similarity, vote
from .connection import Convolution, Dense
from .reward import RewardState, RewardSTDP
from .spike_timing import PairSTDP, STDPState, TripletState, TripletSTDP
from .unsupervised import LAYERS, MAX_RATE, STEPS, LocalRun, Snapshot, learn_locally

__all__ = [
    "LAYERS",
    "MAX_RATE",
    "STEPS",
    "Competition",
    "CompetitionState",
    "CompetitiveLayer",
    "Convolution",
    "Dense",
    "LayerState",
    "LocalRun",
    "PairSTDP",
    "RewardSTDP",
    "RewardState",
    "STDPState",
    "Snapshot",
    "TripletSTDP",
    "TripletState",
    "assign_labels",
    "learn_locally",
    "similarity",
    "vote",
]
