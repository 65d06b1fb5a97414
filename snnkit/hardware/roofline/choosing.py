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

    taken = {}
    for i, layer in enumerate(work.layers):
        paying = [name for name, least in AUTO[kind] if layer.steps * layer.neurons >= least and name in fitted]
        taken[i] = paying[0] if paying and i in fusible else "eager"
    return taken
