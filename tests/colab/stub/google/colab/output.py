"""What reaches Colab's front end. Each call is noted as one line of JSON in the file that STUB_CALLS names."""

import json
import os


def _note(name, **arguments):
    with open(os.environ["STUB_CALLS"], "a", encoding="utf-8") as calls:
        calls.write(json.dumps({"name": name, **arguments}) + "\n")


def enable_custom_widget_manager(version=None):
    _note("enable_custom_widget_manager", version=version)


def disable_custom_widget_manager():
    _note("disable_custom_widget_manager")


def eval_js(script, ignore_result=False, timeout_sec=None):
    """None, as from a script that returns nothing: here no page answers."""
    _note("eval_js", script=script)
