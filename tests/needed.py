"""Programs that tests need besides Python: a test without one is skipped on a user's machine, and fails where CI is."""

import os
import shutil

import pytest


def needs(*programs: str) -> str:
    """The path of the first of these programs (or names of one program) that is installed."""
    for program in programs:
        if path := shutil.which(program):
            return path
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{programs[0]} is not installed")
