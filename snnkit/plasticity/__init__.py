"""Local learning: weights that change by the spikes on both sides of them, without a loss and without backward.

``PairSTDP``, ``TripletSTDP`` and ``RewardSTDP`` are the rules; tests compare them with sums over all pairs or triplets
of spikes. The ``connection`` of a rule is ``Dense()`` or ``Convolution(...)``.

``CompetitiveLayer`` learns without labels: STDP between inputs and neurons that compete (``Competition``). Afterwards
``assign_labels`` and ``vote`` give the neurons classes. ``learn_locally`` does all this with a data set.
"""

from snnkit import lazy

from .competition import Competition as Competition
from .competition import CompetitionState as CompetitionState
from .competition import CompetitiveLayer as CompetitiveLayer
from .competition import LayerState as LayerState
from .competition import assign_labels as assign_labels
from .competition import similarity as similarity
from .competition import vote as vote
from .connection import Convolution as Convolution
from .connection import Dense as Dense
from .reward import RewardState as RewardState
from .reward import RewardSTDP as RewardSTDP
from .spike_timing import PairSTDP as PairSTDP
from .spike_timing import STDPState as STDPState
from .spike_timing import TripletState as TripletState
from .spike_timing import TripletSTDP as TripletSTDP
from .unsupervised import LAYERS as LAYERS
from .unsupervised import MAX_RATE as MAX_RATE
from .unsupervised import STEPS as STEPS
from .unsupervised import LocalRun as LocalRun
from .unsupervised import Snapshot as Snapshot
from .unsupervised import learn_locally as learn_locally

__getattr__, __dir__, __all__ = lazy.attach(__name__)
