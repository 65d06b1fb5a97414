"""Inference with int8 weights, by torchao (extra ``snnkit[quantize]``).

A weight of four bytes becomes one byte, with a float32 scale per output: weight ≈ scale * int8. Neurons, biases,
convolutions and norms stay as they are, and so does training: quantize what has been trained::

    small, report = quantize.quantize(net)
    print(report)
    print(quantize.compare(net, small, data.load("mnist", "test"), encode=partial(encode.repeat, steps=25)))
    quantize.save("small.pt", small)
    small = quantize.load("small.pt", models.mlp())

torchao has int8 weights for ``torch.nn.Linear`` only.
"""

from .accuracy import Comparison, compare
from .int8 import Quantized, QuantizedLayer, Report, load, quantize, save

__all__ = ["Comparison", "Quantized", "QuantizedLayer", "Report", "compare", "load", "quantize", "save"]
