"""The open challenge: XOR in time with the fewest spikes.

```python
x, y = challenge.samples(2000, seed=0)               # spikes [24, 2000, 8], labels [2000]
net = challenge.train(challenge.network(hidden=16), penalty=0.01)
print(challenge.evaluate(net, x, y))                 # accuracy, and spikes per sample of all neurons
print(challenge.score(net))                          # accuracy - 0.01 · spikes, on hidden samples
challenge.submit("Ada", net, "challenge", note="two LIF")
challenge.board("challenge")                         # the best of each participant; .figure() draws accuracy and spikes
```

An answer is a count: the output neuron that fired more often, or 0 if both fired equally often. So no network does with
less than half a spike per sample: to answer 1, which is right for half of the samples, a neuron has to fire.

With decaying membranes (``IF``, ``LIF``, ``Leaky``, ``CubaLIF``) behind synapses without delay, at least 0.75 spikes
are needed. Assume that a cue looks the same whenever it comes. Until the first spike, a membrane is the sum
K₁ a(first) + K₂ a(second) of what both cues contribute, with K₁, K₂ ≥ 0. For the pair 0, 1 that is K₁ a(0) + K₂ a(1),
which is at most the larger of (K₁ + K₂) a(0) and (K₁ + K₂) a(1), the sums for 0, 0 and for 1, 1. So at the first spike
for 0, 1, there has been a spike for 0, 0 or for 1, 1, too. One spike each for 0, 1 and 1, 0, and one for one of the
other two: three for four samples.
"""

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
