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
from snnkit.lab.challenge.leaderboard import Board as Board, Entry as Entry, board as board, submit as submit
from snnkit.lab.challenge.networks import (
    Delays as Delays,
    network as network,
    recorded_sweep as recorded_sweep,
    reference as reference,
    reference_score as reference_score,
    train as train,
)
from snnkit.lab.challenge.scoring import (
    PRICE as PRICE,
    Evaluation as Evaluation,
    RuleError as RuleError,
    Score as Score,
    evaluate as evaluate,
    samples as samples,
    score as score,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__)
