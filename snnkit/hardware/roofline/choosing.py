"""Which engine runs each layer of neurons, as ``engine.select`` would choose it."""

from __future__ import annotations

from .work import Work


def engines_of(work: Work, engine: str, kind: str, fitted: tuple[str, ...]) -> dict[int, str]:
    """Number of a layer to its engine; "eager" for what can't be compiled or, with "auto", is too small.

    Args:
        engine: "eager", "auto" or a compiled one.
        kind: of the device, "cpu" or "cuda".
        fitted: compiled engines that a machine knows.
    """
    if engine == "eager":
        return dict.fromkeys(range(len(work.layers)), "eager")
    fusible = {op.layer for op in work.fused().of("fused")}
    if engine != "auto":
        return {i: engine if i in fusible else "eager" for i in range(len(work.layers))}
    from ...engine.select import AUTO
    from ...engine.worth import FEWEST

    taken = {}
    for i, layer in enumerate(work.layers):
        paying = [name for name, least in AUTO[kind] if layer.steps * layer.neurons >= least and name in fitted]
        # A training run is long enough for kernels of small layers to be there, too (see ``engine.worth``; layers with
        # learnable numbers stay in the eager engine there, which is not looked at here).
        if kind == "cpu" and "cpp" in fitted and layer.steps >= FEWEST and not layer.static:
            paying = ["cpp"]
        taken[i] = paying[0] if paying and i in fusible else "eager"
    return taken
