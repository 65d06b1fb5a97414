"""Text as spikes: a vocabulary, and an embedding whose vectors are the firing rates of spiking neurons.

```python
from snnkit import text

sentences = text.corpus(seed=0)
embedding = text.SpikingEmbedding(text.Vocabulary.build(sentences), features=64, steps=16)
embedding.fit(sentences, seed=0)
embedding.most_similar("dog", k=5)
embedding.sparse("the dog eats bread")      # the spikes themselves, as a list of events
```
"""

from .agreement import Agreement, agreement
from .corpus import GROUPS, corpus
from .embedding import SpikingEmbedding
from .events import SparseSpikes
from .skipgram import Training
from .vocabulary import UNKNOWN, Vocabulary, split_sentences, tokenize

__all__ = [
    "GROUPS",
    "UNKNOWN",
    "Agreement",
    "SparseSpikes",
    "SpikingEmbedding",
    "Training",
    "Vocabulary",
    "agreement",
    "corpus",
    "split_sentences",
    "tokenize",
]
