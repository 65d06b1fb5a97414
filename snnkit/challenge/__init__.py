"""The open challenge: XOR in time with the fewest spikes.

    net = challenge.train(challenge.network(hidden=16), penalty=0.01)
    print(challenge.evaluate(net, *challenge.samples(2000)))     # accuracy, and spikes per sample of all neurons
    print(challenge.score(net))                          # accuracy - 0.01 · spikes, on hidden samples
    challenge.submit("Ada", net, "challenge", note="two LIF")
    challenge.board("challenge")                         # the best of each participant

The answer is the output neuron that fired more often, or 0 if both fired equally often. So every network needs at least
half a spike per sample: to answer 1, a neuron has to fire. With decaying membranes and synapses without delay it needs
at least 0.75: at the first spike for the cues 0, 1 the membrane is K₁ a(0) + K₂ a(1), at most the larger of (K₁ + K₂)
a(0) and (K₁ + K₂) a(1), so there has been a spike for 0, 0 or for 1, 1, too: three for four samples.
"""

from snnkit import lazy

from .leaderboard import Board as Board
from .leaderboard import Entry as Entry
from .leaderboard import board as board
from .leaderboard import submit as submit
from .networks import Delays as Delays
from .networks import network as network
from .networks import recorded_sweep as recorded_sweep
from .networks import reference as reference
from .networks import reference_score as reference_score
from .networks import train as train
from .scoring import PRICE as PRICE
from .scoring import Evaluation as Evaluation
from .scoring import RuleError as RuleError
from .scoring import Score as Score
from .scoring import evaluate as evaluate
from .scoring import samples as samples
from .scoring import score as score

__getattr__, __dir__, __all__ = lazy.attach(__name__)
