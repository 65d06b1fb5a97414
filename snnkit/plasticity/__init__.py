"""Local learning: weights that change by the spikes on both sides of them, without a loss and without backward.

``PairSTDP``, ``TripletSTDP`` and ``RewardSTDP`` are the rules; ``pairwise``, ``tripletwise`` and ``rewarded`` are the
same as sums over all pairs or triplets of spikes, slow and plain, which tests compare with them.
"""

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
    "PairSTDP",
    "RewardSTDP",
    "RewardState",
    "STDPState",
    "Trace",
    "TraceState",
    "TripletSTDP",
    "TripletState",
    "pairwise",
    "rewarded",
    "tripletwise",
]
