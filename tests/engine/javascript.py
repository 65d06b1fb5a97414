"""Runs generated neurons in a JavaScript engine, beside PyTorch's eager one."""

import base64
import json

import torch

from snnkit.engine import js

from ..javascript import run

RUN = """
const array = (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
};
const text = (a) => btoa(Array.from(new Uint8Array(a.buffer), (byte) => String.fromCharCode(byte)).join(""));
const results = cases.map(([T, N, x, first, params, dOut, dState], i) => {
  const neuron = neurons[i], inputs = array(x), p = params.map(array), state = first.map(array);
  const out = new Float32Array(T * N);
  neuron.forward(T, N, inputs, out, state, p);
  const d = dState.map(array), dX = new Float32Array(T * N), dParams = p.map((a) => new Float32Array(a.length));
  if (neuron.backward) neuron.backward(T, N, inputs, first.map(array), p, array(dOut), d, dX, dParams);
  return [[out], state, [dX], d, dParams].map((part) => part.map(text));
});
"""


def module(sources, cases):
    """The text of a script that leaves ``results``; a case: T, N, x, first state, params, d_out, d_state."""
    lines = ",\n".join(sources)
    plain = [[T, N, *map(_written, arrays)] for T, N, *arrays in cases]
    return f"{js.PRELUDE}\nconst neurons = [{lines}];\nconst cases = {json.dumps(plain)};\n{RUN}"


def read(results):
    """Tensors of ``results``: for each case out, state, d_x, d_state, d_params, each a list."""
    return [
        [[torch.frombuffer(bytearray(base64.b64decode(a)), dtype=torch.float32) for a in p] for p in r] for r in results
    ]


def node(sources, cases):
    return read(run(module(sources, cases) + "return results;"))


def _written(value):
    if isinstance(value, torch.Tensor):
        return base64.b64encode(value.detach().float().contiguous().numpy().tobytes()).decode()
    return [_written(part) for part in value]
