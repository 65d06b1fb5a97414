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

from snnkit import lazy

from .embedding import SparseSpikes as SparseSpikes
from .embedding import SpikingEmbedding as SpikingEmbedding
from .embedding import agreement as agreement
from .vocabulary import GROUPS as GROUPS
from .vocabulary import Vocabulary as Vocabulary
from .vocabulary import corpus as corpus
from .vocabulary import split_sentences as split_sentences
from .vocabulary import tokenize as tokenize

__getattr__, __dir__, __all__ = lazy.attach(__name__)
