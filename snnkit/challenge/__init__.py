"""The open challenge: XOR in time with the fewest spikes.

```python
x, y = challenge.samples(2000, seed=0)               # spikes [24, 2000, 8], labels [2000]
net = challenge.train(challenge.network(hidden=16), penalty=0.01)
print(challenge.evaluate(net, x, y))                 # accuracy, and spikes per sample of all neurons
print(challenge.score(net))                          # accuracy - 0.01 · spikes, on hidden samples
challenge.submit("Ada", net, "challenge", note="two LIF")
challenge.board("challenge")                         # everybody's best; .figure() draws accuracy against spikes
```

An answer is a count: the output neuron that fired more, 0 if both fired equally often. So no network does with less
than half a spike per sample: who answers 1, which is right for half of the samples, has to fire.

With fading membranes (``IF``, ``LIF``, ``Leaky``, ``CubaLIF``) behind synapses without delay, at least 0.75 are needed.
Take cues that look the same whenever they come. Until the first spike, a membrane is the sum K₁ a(first) + K₂ a(second)
of what both cues bring, with K₁, K₂ ≥ 0. For the pair 0, 1 that is K₁ a(0) + K₂ a(1): no more than the larger of
(K₁ + K₂) a(0) and (K₁ + K₂) a(1), which are the sums for 0, 0 and for 1, 1. So before the first spike comes for 0, 1,
one has come for 0, 0 or for 1, 1, or comes at the same time. A spike each for 0, 1 and 1, 0, and one for one of the
other two: three for four samples.
"""

from .board import Board as Board
from .board import board as board
from .counting import RuleError as RuleError
from .delays import Delays as Delays
from .entries import Entry as Entry
from .entries import submit as submit
from .kept import kept_sweep as kept_sweep
from .references import reference as reference
from .references import reference_score as reference_score
from .rules import Found as Found
from .rules import evaluate as evaluate
from .scoring import PRICE as PRICE
from .scoring import Score as Score
from .scoring import score as score
from .task import samples as samples
from .training import network as network
from .training import train as train
