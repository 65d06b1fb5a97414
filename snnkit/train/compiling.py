"""A model under ``torch.compile``, which gives way to the model itself where that fails."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn


class Compiled:
    """Calls ``model`` compiled as a whole. Where compiling fails it says so once and calls ``model`` as it is.

    Sizes are constants of the compiled code: hand it batches of one size only, or each other size is compiled anew.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._run: Any = torch.compile(model, dynamic=False)

    def __call__(self, *arguments: Any) -> Any:
        if self._run is self.model:
            return self.model(*arguments)
        from torch._dynamo.exc import BackendCompilerFailed  # here, as torch's compiler takes a second to import

        try:
            return self._run(*arguments)
        except BackendCompilerFailed as error:  # an error of the model itself comes as it is
            reason = str(getattr(error, "inner_exception", error)).strip().partition("\n")[0]
            warnings.warn(f"compile=True, but torch.compile failed ({reason}): the model runs as it is", stacklevel=2)
            self._run = self.model
            return self.model(*arguments)
