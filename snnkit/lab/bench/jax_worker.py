"""A contestant in its own process, with JAX and without PyTorch or this kit: ``python jax_worker.py FOLDER``.

FOLDER holds arrays, each in a file NAME.npy, and ``job.json``. This says "what" it is:

- "layer": Spyx's LIF neurons for x [T, B, n], after a product with weight [n, n] if there is one; d_out [T, B, n].
- "step": a network of Spyx's in training: x [T, B, n], labels [B], weight0 [hidden, n], weight1 ..., and recurrent
  [hidden, hidden] if the first layer has it.
- "product": brainevent's spikes x [B, I] with weight [O, I] and bias [O]; d_out [B, O].

It also has "mode" (inference or training), the names of the arrays whose gradients are "wanted", the "precision" of
products and, for Spyx, "beta". The worker writes ``out.npy`` and, in training, ``gradient.npy`` (flat, one array after
the other), and prints a line of JSON about its first call. Then each line that it reads is a number of calls, answered
by a line with the seconds of one of them; or "again", after which it takes ``x.npy`` and writes its files again.
"""

import json
import sys
import time
from pathlib import Path

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import numpy as np


def main(folder: Path) -> None:
    """Compile, answer with the result, and time calls until there is no more input."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    jax.config.update("jax_default_matmul_precision", job["precision"])  # JAX's own on a GPU is TF32
    forward = {"layer": layer, "step": network, "product": product}[job["what"]]
    others = {file.stem: jnp.asarray(np.load(file)) for file in folder.glob("*.npy")}
    weights = {name: others.pop(name) for name in job["wanted"]}

    def train(weights, others):
        out, back = jax.vjp(lambda weights: forward(job, weights | others), weights)
        if job["what"] != "step":
            return out, back(others["d_out"])[0]
        gradients = back(jax.grad(cross_entropy)(out, others["labels"]))[0]
        return out, gradients, {name: weight - 0.0 * gradients[name] for name, weight in weights.items()}

    function = train if job["mode"] == "training" else lambda weights, others: (forward(job, weights | others),)
    start = time.perf_counter()
    compiled = jax.jit(function).lower(weights, others).compile()
    write(folder, job, compiled(weights, others))
    first = time.perf_counter() - start
    memory = compiled.memory_analysis()
    peak = memory.temp_size_in_bytes + memory.output_size_in_bytes
    print(json.dumps({"first_s": first, "peak_bytes": peak, "backend": jax.default_backend()}), flush=True)
    for line in sys.stdin:
        if line.startswith("again"):
            others["x"] = jnp.asarray(np.load(folder / "x.npy"))
            write(folder, job, compiled(weights, others))
            print("written", flush=True)
            continue
        calls = int(line)
        start = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(compiled(weights, others))
        print((time.perf_counter() - start) / calls, flush=True)


def write(folder, job, results):
    """The files of results, once they are there."""
    out, *gradients = jax.block_until_ready(results)
    np.save(folder / "out.npy", np.asarray(out))
    if job["mode"] == "training":
        np.save(folder / "gradient.npy", np.concatenate([np.ravel(gradients[0][name]) for name in job["wanted"]]))


def layer(job, arrays):
    """Spikes [T, B, n]."""
    x = arrays["x"]
    return neurons(job, x @ arrays["weight"].T if "weight" in arrays else x)


def network(job, arrays):
    """Spikes [T, B, classes], one layer after the other."""
    out = arrays["x"]
    for i in range(sum(name.startswith("weight") for name in arrays)):
        out = neurons(job, out @ arrays[f"weight{i}"].T, None if i else arrays.get("recurrent"))
    return out


def neurons(job, x, recurrent=None):
    """Those of Spyx for x [T, B, n], with recurrent weights [n, n] or none."""
    import spyx.axn  # pyright: ignore[reportMissingImports]
    import spyx.nn  # pyright: ignore[reportMissingImports]
    from flax import nnx  # pyright: ignore[reportMissingImports]

    # The derivative of snnTorch's ATan at alpha = 2, which all contestants of this equation have.
    surrogate = spyx.axn.custom(lambda u: 1 / (1 + (jnp.pi * u) ** 2))
    kind = spyx.nn.LIF if recurrent is None else spyx.nn.RLIF
    made = kind(x.shape[2:], beta=job["beta"], activation=surrogate, rngs=nnx.Rngs(0))
    if recurrent is not None:
        made.recurrent_w = nnx.Param(recurrent.T)
    return spyx.nn.run(made, x)[0]


def cross_entropy(out, labels):
    """Of the counts of spikes [T, B, classes], as ``snnkit.loss.count_cross_entropy``."""
    logs = jax.nn.log_softmax(out.sum(0))
    return -logs[jnp.arange(len(labels)), labels].mean()


def product(job, arrays):
    """[B, O]."""
    import brainevent  # pyright: ignore[reportMissingImports]

    return brainevent.BinaryArray(arrays["x"]) @ arrays["weight"].T + arrays["bias"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
