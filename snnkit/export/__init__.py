"""Trained networks outside the kit: a program of plain PyTorch operations, or a page that opens in any browser.

| function | result | runs in |
|---|---|---|
| ``page`` | an HTML file that draws, runs and explains a network | any browser |
| ``reader`` | the page of a network that comes with the package | any browser |
| ``reader_network`` | that network | PyTorch and this package |
| ``export`` | a ``torch.export`` program | PyTorch, without this package |
| ``playground`` | a page that trains small networks | any browser |

``web`` makes pages and scripts of the modules in ``snnkit/web/``.
"""

from snnkit import lazy

from . import web as web
from .page import page as page
from .page import reader as reader
from .page import reader_network as reader_network
from .playground import playground as playground
from .program import export as export
from .program import plain as plain
from .program import resting_state as resting_state

__getattr__, __dir__, __all__ = lazy.attach(__name__, "web")
