"""Text as spikes: a vocabulary, and an embedding whose vectors are the firing rates of spiking neurons.

```python
from snnkit.lab import text

sentences = text.corpus(seed=0)
embedding = text.SpikingEmbedding(text.Vocabulary.build(sentences), features=64, steps=16)
embedding.fit(sentences, seed=0)
embedding.most_similar("dog", k=5)
embedding.sparse("the dog eats bread")      # the spikes themselves, as a list of events
```
"""

from snnkit import lazy
from snnkit.lab.text.embedding import (
    SparseSpikes as SparseSpikes,
    SpikingEmbedding as SpikingEmbedding,
    agreement as agreement,
)
from snnkit.lab.text.vocabulary import (
    GROUPS as GROUPS,
    Vocabulary as Vocabulary,
    corpus as corpus,
    split_sentences as split_sentences,
    tokenize as tokenize,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__)
