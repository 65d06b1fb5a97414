"""Local learning: weights that change by the spikes on both sides of them, without a loss and without backward.

``PairSTDP``, ``TripletSTDP`` and ``RewardSTDP`` are the rules; ``pairwise``, ``tripletwise`` and ``rewarded`` are the
same as sums over all pairs or triplets of spikes, slow and plain, which tests compare with them. ``connection``
says who is connected: ``Dense()`` or ``Convolution(...)``.

``CompetitiveLayer`` learns without a teacher: STDP between inputs and neurons that compete (``Competition``). What they
stand for is found out afterwards, by ``assign_labels`` and ``vote``.
"""

from .competition import Competition as Competition
from .competition import CompetitionState as CompetitionState
from .competitive_layer import CompetitiveLayer as CompetitiveLayer
from .competitive_layer import LayerState as LayerState
from .competitive_layer import similarity as similarity
from .connection import Convolution as Convolution
from .connection import Dense as Dense
from .labels import assign_labels as assign_labels
from .labels import vote as vote
from .local import learn_locally as learn_locally
from .local_run import LocalHistory as LocalHistory
from .local_run import LocalRun as LocalRun
from .local_run import RateCode as RateCode
from .local_run import Snapshot as Snapshot
from .pair import PairSTDP as PairSTDP
from .pair import STDPState as STDPState
from .reference import pairwise as pairwise
from .reference import rewarded as rewarded
from .reference import tripletwise as tripletwise
from .reward import RewardState as RewardState
from .reward import RewardSTDP as RewardSTDP
from .trace import Trace as Trace
from .trace import TraceState as TraceState
from .triplet import TripletState as TripletState
from .triplet import TripletSTDP as TripletSTDP

__all__ = [
    "Competition",
    "CompetitionState",
    "CompetitiveLayer",
    "Convolution",
    "Dense",
    "LayerState",
    "LocalHistory",
    "LocalRun",
    "PairSTDP",
    "RateCode",
    "RewardSTDP",
    "RewardState",
    "STDPState",
    "Snapshot",
    "Trace",
    "TraceState",
    "TripletSTDP",
    "TripletState",
    "assign_labels",
    "learn_locally",
    "pairwise",
    "rewarded",
    "similarity",
    "tripletwise",
    "vote",
]
