"""Pages that open in any browser, without a server: a trained network that draws and explains itself, a playground.

| function | result |
|---|---|
| ``page`` | an HTML file that draws, runs and explains a network |
| ``reader`` | the page of a network that comes with the package |
| ``reader_network`` | that network |
| ``playground`` | a page that trains small networks |

``web`` makes pages and scripts of the modules in ``snnkit/lab/web/``.
"""

from snnkit import lazy
from snnkit.lab.pages import web as web
from snnkit.lab.pages.page import page as page, reader as reader, reader_network as reader_network
from snnkit.lab.pages.playground import playground as playground

__getattr__, __dir__, __all__ = lazy.attach(__name__, "web")
