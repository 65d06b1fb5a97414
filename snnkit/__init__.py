"""snnkit: learn and experiment with spiking neural networks on accelerators.

Each room is loaded when it is first named, so ``import snnkit`` costs nothing by itself: the neurons bring PyTorch,
plotting and notebooks what they need.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import lazy as _lazy

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from . import (
        bench as bench,
    )
    from . import (
        challenge as challenge,
    )
    from . import (
        course as course,
    )
    from . import (
        data as data,
    )
    from . import (
        device as device,
    )
    from . import (
        encode as encode,
    )
    from . import (
        engine as engine,
    )
    from . import (
        export as export,
    )
    from . import (
        hardware as hardware,
    )
    from . import (
        interop as interop,
    )
    from . import (
        loss as loss,
    )
    from . import (
        measure as measure,
    )
    from . import (
        models as models,
    )
    from . import (
        neuron as neuron,
    )
    from . import (
        nn as nn,
    )
    from . import (
        plasticity as plasticity,
    )
    from . import (
        quantize as quantize,
    )
    from . import (
        records as records,
    )
    from . import (
        surrogate as surrogate,
    )
    from . import (
        sweep as sweep,
    )
    from . import (
        text as text,
    )
    from . import (
        tools as tools,
    )
    from . import (
        train as train,
    )
    from . import (
        viz as viz,
    )

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    "bench",
    "challenge",
    "course",
    "data",
    "device",
    "encode",
    "engine",
    "export",
    "hardware",
    "interop",
    "loss",
    "measure",
    "models",
    "neuron",
    "nn",
    "plasticity",
    "quantize",
    "records",
    "surrogate",
    "sweep",
    "text",
    "tools",
    "train",
    "viz",
)
