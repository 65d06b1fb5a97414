"""Spyx's LIF layer in its own process, with JAX and without PyTorch or this kit: ``python spyx_worker.py FOLDER``.

FOLDER holds ``x.npy`` [T, B, n], ``d_out.npy`` of the same shape and, for a layer with a matrix product before the
neurons, ``weight.npy`` [n, n]; ``job.json`` has "mode" (inference or training), "beta" and the "precision" of products.
The worker writes ``out.npy`` and, in training, ``gradient.npy`` (of the weight, without one of x), and prints a line of
JSON about its first call. Then each line that it reads is a number of calls, and each line that it prints the seconds
of one of them.
"""

import json
import sys
import time
from pathlib import Path

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import numpy as np
import spyx.axn  # pyright: ignore[reportMissingImports]
import spyx.nn  # pyright: ignore[reportMissingImports]
from flax import nnx  # pyright: ignore[reportMissingImports]


def main(folder: Path) -> None:
    """Compile, answer with the result, and time calls until there is no more input."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    jax.config.update("jax_default_matmul_precision", job["precision"])  # JAX's own on a GPU is TF32
    x, d_out = (jnp.asarray(np.load(folder / f"{name}.npy")) for name in ("x", "d_out"))
    weight = folder / "weight.npy"
    weight = jnp.asarray(np.load(weight)) if weight.exists() else None
    # The derivative of snnTorch's ATan at alpha = 2, which all contestants of this equation have.
    surrogate = spyx.axn.custom(lambda u: 1 / (1 + (jnp.pi * u) ** 2))
    neurons = spyx.nn.LIF(x.shape[2:], beta=job["beta"], activation=surrogate, rngs=nnx.Rngs(0))

    def layer(x, weight):
        return spyx.nn.run(neurons, x if weight is None else x @ weight.T)[0]

    def train(x, weight, d_out):
        alone = weight is None
        out, back = jax.vjp((lambda x: layer(x, None)) if alone else (lambda w: layer(x, w)), x if alone else weight)
        return out, back(d_out)[0]

    function, arguments = (layer, (x, weight)) if job["mode"] == "inference" else (train, (x, weight, d_out))
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    result = jax.block_until_ready(compiled(*arguments))
    first = time.perf_counter() - start
    memory = compiled.memory_analysis()
    parts = dict(zip(("out", "gradient"), result if job["mode"] == "training" else (result,)))  # noqa: B905
    for name, value in parts.items():
        np.save(folder / f"{name}.npy", np.asarray(value))
    peak = memory.temp_size_in_bytes + memory.output_size_in_bytes
    print(json.dumps({"first_s": first, "peak_bytes": peak, "backend": jax.default_backend()}), flush=True)
    del result, parts
    for line in sys.stdin:
        calls = int(line)
        start = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(compiled(*arguments))
        print((time.perf_counter() - start) / calls, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
