"""The exercises of the course: a module for each notebook, named after it, and beside it its predictions and quiz.

``snnkit.lab.course`` knows their order and reads them; content only is here.
"""

from snnkit import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
