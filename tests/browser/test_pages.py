"""Pages that run without Python: neurons as JavaScript in a browser."""

from tests.engine import javascript
from tests.engine.test_js import check_zoo


def test_every_neuron_in_chromium_as_eager(page):
    def run(sources, cases):
        page.set_content("<title>neurons</title>")
        return javascript.read(page.evaluate(f"() => {{ {javascript.module(sources, cases)}; return results; }}"))

    check_zoo(run)
