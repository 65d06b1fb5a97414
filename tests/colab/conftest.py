"""The environment with Colab's versions, once for all workers; without pip or network these tests are skipped."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e '.[all]'")

from .environment import ROOT, Environment, Unavailable, environment


@pytest.fixture(scope="session")
def colab() -> Environment:
    try:
        made = environment(ROOT / ".cache" / "colab")
    except Unavailable as error:
        pytest.skip(f"Colab's versions can't be installed here: {error}")
    for pin, why in made.left_out.items():
        warnings.warn(f"not Colab's, but this environment's {pin}: {why}", stacklevel=1)
    return made
