"""Operations of a step on values that bring out how engines differ: signed zeros, subnormal numbers, tenths, halves,
whole numbers at the edge of a mantissa, infinity and NaN. Results and gradients are those of eager PyTorch,
but for 4 units in the last place."""

import pytest
import torch
import torch.nn.functional as F

from snnkit.engine import js
from snnkit.engine.autograd import Pass, backend
from snnkit.engine.trace import _EXAMPLES, _REWRITTEN, Equation, _forget_shape, graph_of, undisturbed

from . import javascript

OPERATIONS = {
    # One argument.
    "neg": lambda a, b: -a,
    "abs": lambda a, b: torch.abs(a),
    "sign": lambda a, b: torch.sign(a),
    "sgn": lambda a, b: torch.sgn(a),
    "square": lambda a, b: torch.square(a),
    "reciprocal": lambda a, b: torch.reciprocal(a),
    "1/a": lambda a, b: 1 / a,
    "0-a": lambda a, b: 0 - a,
    "a+0": lambda a, b: a + 0.0,
    "a*0": lambda a, b: a * 0.0,
    "a*-1": lambda a, b: a * -1.0,
    "a/0.1": lambda a, b: a / 0.1,
    "a/4": lambda a, b: a / 4,
    "sqrt": lambda a, b: torch.sqrt(a),
    "rsqrt": lambda a, b: torch.rsqrt(a),
    "exp": lambda a, b: torch.exp(a),
    "exp2": lambda a, b: torch.exp2(a),
    "expm1": lambda a, b: torch.expm1(a),
    "log": lambda a, b: torch.log(a),
    "log2": lambda a, b: torch.log2(a),
    "log10": lambda a, b: torch.log10(a),
    "log1p": lambda a, b: torch.log1p(a),
    "erf": lambda a, b: torch.erf(a),
    "erfc": lambda a, b: torch.erfc(a),
    "sin": lambda a, b: torch.sin(a),
    "cos": lambda a, b: torch.cos(a),
    "tan": lambda a, b: torch.tan(a),
    "asin": lambda a, b: torch.asin(a),
    "acos": lambda a, b: torch.acos(a),
    "atan": lambda a, b: torch.atan(a),
    "sinh": lambda a, b: torch.sinh(a),
    "cosh": lambda a, b: torch.cosh(a),
    "tanh": lambda a, b: torch.tanh(a),
    "asinh": lambda a, b: torch.asinh(a),
    "acosh": lambda a, b: torch.acosh(a),
    "atanh": lambda a, b: torch.atanh(a),
    "floor": lambda a, b: torch.floor(a),
    "ceil": lambda a, b: torch.ceil(a),
    "trunc": lambda a, b: torch.trunc(a),
    "frac": lambda a, b: torch.frac(a),
    "round": lambda a, b: torch.round(a),
    "round-to-tenths": lambda a, b: torch.round(a, decimals=1),
    "round-to-tens": lambda a, b: torch.round(a, decimals=-1),
    "isnan": lambda a, b: torch.isnan(a).to(a.dtype),
    "isinf": lambda a, b: torch.isinf(a).to(a.dtype),
    "isfinite": lambda a, b: torch.isfinite(a).to(a.dtype),
    "signbit": lambda a, b: torch.signbit(a).to(a.dtype),
    "nan_to_num": lambda a, b: torch.nan_to_num(a),
    "logical_not": lambda a, b: torch.logical_not(a).to(a.dtype),
    "pow-0": lambda a, b: a**0,
    "pow-0.5": lambda a, b: a**0.5,
    "pow-1.5": lambda a, b: a**1.5,
    "pow-2": lambda a, b: a**2,
    "pow-3": lambda a, b: a**3,
    "pow-4": lambda a, b: a**4,
    "pow--0.5": lambda a, b: a**-0.5,
    "pow--1": lambda a, b: a**-1,
    "pow--2": lambda a, b: a**-2,
    "2-pow": lambda a, b: 2.0**a,
    # Activations.
    "relu": lambda a, b: torch.relu(a),
    "relu6": lambda a, b: F.relu6(a),
    "leaky_relu": lambda a, b: F.leaky_relu(a),
    "elu": lambda a, b: F.elu(a),
    "selu": lambda a, b: F.selu(a),
    "celu": lambda a, b: F.celu(a),
    "gelu": lambda a, b: F.gelu(a),
    "silu": lambda a, b: F.silu(a),
    "mish": lambda a, b: F.mish(a),
    "sigmoid": lambda a, b: torch.sigmoid(a),
    "logsigmoid": lambda a, b: F.logsigmoid(a),
    "softplus": lambda a, b: F.softplus(a),
    "softsign": lambda a, b: F.softsign(a),
    "tanhshrink": lambda a, b: F.tanhshrink(a),
    "softshrink": lambda a, b: F.softshrink(a),
    "hardshrink": lambda a, b: F.hardshrink(a),
    "hardtanh": lambda a, b: F.hardtanh(a),
    "hardsigmoid": lambda a, b: F.hardsigmoid(a),
    "hardswish": lambda a, b: F.hardswish(a),
    "threshold": lambda a, b: F.threshold(a, 0.1, -2.0),
    # Two arguments.
    "add": lambda a, b: a + b,
    "add-alpha": lambda a, b: torch.add(a, b, alpha=0.3),
    "sub": lambda a, b: a - b,
    "rsub": lambda a, b: torch.rsub(a, b, alpha=0.3),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "div-trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "div-floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div-floor-0.1": lambda a, b: torch.div(a, 0.1, rounding_mode="floor"),
    "div-floor--3": lambda a, b: torch.div(a, -3, rounding_mode="floor"),
    "div-trunc-0.1": lambda a, b: torch.div(a, 0.1, rounding_mode="trunc"),
    "floor_divide": lambda a, b: torch.floor_divide(a.detach(), b.detach()),
    "a//0.1": lambda a, b: a.detach() // 0.1,
    "7//a": lambda a, b: 7 // a.detach(),
    "remainder": lambda a, b: torch.remainder(a, b),
    "remainder-0.1": lambda a, b: a % 0.1,
    "remainder--0.7": lambda a, b: a % -0.7,
    "5%a": lambda a, b: 5 % a.detach(),
    "fmod": lambda a, b: torch.fmod(a, b),
    "fmod-0.1": lambda a, b: torch.fmod(a, 0.1),
    "pow": lambda a, b: torch.pow(a, b),
    "float_power": lambda a, b: torch.float_power(a, b).to(a.dtype),
    "maximum": lambda a, b: torch.maximum(a, b),
    "minimum": lambda a, b: torch.minimum(a, b),
    "fmax": lambda a, b: torch.fmax(a, b),
    "fmin": lambda a, b: torch.fmin(a, b),
    "clamp-numbers": lambda a, b: torch.clamp(a, -0.5, 0.7),
    "clamp_min": lambda a, b: torch.clamp(a, min=0.1),
    "clamp_max": lambda a, b: torch.clamp(a, max=0.0),
    "clamp_min-tensor": lambda a, b: a.clamp_min(b).clamp_max(0.0),
    "clamp_max-tensor": lambda a, b: a.clamp_max(b).clamp_min(0.0),
    "clamp-tensors": lambda a, b: torch.clamp(a, b, b + 0.5),
    "clamp-min-tensor": lambda a, b: torch.clamp(a, min=b),
    "clamp-max-tensor": lambda a, b: torch.clamp(a, max=b),
    "copysign": lambda a, b: torch.copysign(a, b),
    "copysign-number": lambda a, b: torch.copysign(a, -0.0),
    "atan2": lambda a, b: torch.atan2(a, b),
    "hypot": lambda a, b: torch.hypot(a, b),
    "heaviside": lambda a, b: torch.heaviside(a.detach(), b.detach()),
    "xlogy": lambda a, b: torch.xlogy(a, b),
    "logaddexp": lambda a, b: torch.logaddexp(a, b),
    "ldexp": lambda a, b: torch.ldexp(a, b),
    "ge": lambda a, b: (a >= b).to(a.dtype),
    "gt": lambda a, b: (a > b).to(a.dtype),
    "le": lambda a, b: (a <= b).to(a.dtype),
    "lt": lambda a, b: (a < b).to(a.dtype),
    "eq": lambda a, b: (a == b).to(a.dtype),
    "ne": lambda a, b: (a != b).to(a.dtype),
    "logical_and": lambda a, b: torch.logical_and(a, b).to(a.dtype),
    "logical_or": lambda a, b: torch.logical_or(a, b).to(a.dtype),
    "logical_xor": lambda a, b: torch.logical_xor(a, b).to(a.dtype),
    "bitwise": lambda a, b: (((a > b) & ~(a > 1)) | ((a < 2) ^ (b < 2))).to(a.dtype),
    "where": lambda a, b: torch.where(a > b, a, 0.0),
    "where-two": lambda a, b: torch.where(a >= 0.1, b, a),
    "masked_fill": lambda a, b: a.masked_fill(b > 1, 0.25),
    "half": lambda a, b: a.half().to(a.dtype),
    "bfloat16": lambda a, b: a.bfloat16().to(a.dtype),
    "to-bool": lambda a, b: a.bool().to(a.dtype),
    "addcmul": lambda a, b: torch.addcmul(a, b, b, value=0.25),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.25),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "lerp-late": lambda a, b: torch.lerp(a, b, 0.7),
    "lerp-tensor": lambda a, b: torch.lerp(a, b, torch.sigmoid(a)),
}

DIVISIONS = [name for name in OPERATIONS if "//" in name or "%" in name or name.startswith(("div-", "rem", "fmod"))]
# Near a zero of theirs, units in the last place of the values that they subtract; and zeros have any sign. Of these,
# eager computes some with a fused multiply-add.
DIFFERENCES = {"tanh", "gelu", "silu", "mish", "tanhshrink"}
DIFFERENCES |= {"add-alpha", "rsub", "lerp", "lerp-late", "lerp-tensor", "addcmul", "logaddexp"}

# Operations for which no kernel is written: layers with them run in the next engine.
REFUSED = {
    "half",
    "bfloat16",
    "isinf",
    "signbit",
    "logsigmoid",
    "softshrink",
    "hardshrink",
    "fmax",
    "fmin",
    "heaviside",
    "ldexp",
}
# Those that Inductor can't compile for any number of neurons.
NOT_COMPILED = {"softshrink", "hardshrink"}


def subnormal(a, b):
    return a.abs() <= torch.finfo(a.dtype).smallest_normal


# The ends of the range, where Inductor's C++ differs from eager; and so do its signs of zeros.
ENDS = {
    "acosh": lambda a, b: a > torch.finfo(a.dtype).max / 2,
    "round-to-tens": lambda a, b: a.abs() > 2**52,
    "pow-0.5": lambda a, b: a == -torch.inf,
    "pow--0.5": lambda a, b: a == -torch.inf,
    "addcdiv": lambda a, b: (a / b).isinf(),
}


def values(dtype):
    """Every pair of awkward numbers, a and b."""
    info = torch.finfo(dtype)
    whole = 2.0 ** (24 if dtype == torch.float32 else 53)  # from half of it on there are no fractions
    small = [0.0, -0.0, info.smallest_normal / 8, -info.smallest_normal / 8, info.smallest_normal, 1e-20, -1e-20]
    small += [10.0**-k for k in range(2, 10)]
    tenths = [k / 10 for k in range(-20, 36)]
    large = [6.0, 7.0, -7.0, 10.0, 25.0, 89.0, -20.0, -89.0, -105.0, 1e4, -1e4, whole / 2 - 0.5, 0.45 * whole]
    large += [whole - 1, whole + 2, -whole, 2.0**31, 2.0**63, 1e19, -1e30, info.max, -info.max]
    outside = [float("inf"), float("-inf"), float("nan")]
    a = torch.tensor([*small, *tenths, 1 - info.eps / 2, 1 + info.eps, *large, *outside], dtype=torch.float64)
    b = [*small[:4], 0.1, -0.1, 0.3, 0.5, 0.7, -0.7, 1, -1, 2, -2, 2.5, 3, -7, 10, 1e8, -1e8, info.max, *outside]
    pairs = torch.meshgrid(a.to(dtype), torch.tensor(b, dtype=torch.float64).to(dtype), indexing="ij")
    return tuple(v.flatten().contiguous() for v in pairs)


def with_gradients(name, a, b):
    """(result, gradient of a, gradient of b)."""
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    with torch.enable_grad():
        out = OPERATIONS[name](a, b)
    gradients = (torch.zeros_like(a), torch.zeros_like(b))
    if out.requires_grad:
        weight = torch.full_like(a, 0.75)
        gradients = torch.autograd.grad(out, (a, b), weight, allow_unused=True, materialize_grads=True)
    return out.detach(), *gradients


def equation_of(names, dtype):
    """An equation that compiles once for all ``names``: x is a, the first state is b, the others take what
    ``with_gradients`` gives. It has no gradients of its own."""
    states = 1 + 3 * len(names)

    def forward(x, b, *rest):
        return x, b, *(part for name in names for part in with_gradients(name, x, b))

    def backward(x, *rest):
        return tuple(torch.zeros_like(x) for _ in range(1 + states))

    graphs = []
    for function, count in ((forward, 1 + states), (backward, 2 + 2 * states)):
        example = [torch.ones(_EXAMPLES[0], dtype=dtype) for _ in range(count)]
        graphs.append(undisturbed(graph_of, function, example, _REWRITTEN))
        _forget_shape(graphs[-1], _EXAMPLES[0])
    return Equation(*graphs, states, 0, dtype, f"{names} {dtype}")


def refusal(engine, name, dtype):
    """Why the engine does not take the operation, or an empty string."""
    equation = equation_of([name], dtype)
    if engine != "js":
        return backend(engine).supports(equation, torch.device("cpu"))
    try:
        js._forward(equation, ())
    except js.Untranslatable as reason:
        return str(reason)
    return ""


def compiled(engine, names, a, b):
    equation, x = equation_of(names, a.dtype), a[None]
    state = [b, *(torch.zeros_like(a) for _ in range(equation.states - 1))]
    if engine == "js":
        source = "\n".join(["({", *js._forward(equation, ()), "})"])
        ((_, last, *_),) = javascript.node([source], [[1, len(a), x, state, [], x, []]])
    else:
        last = backend(engine).forward(Pass(equation, x, state, []), a.dtype, save=False)[1]
    return [last[i : i + 3] for i in range(1, len(last), 3)]


def compared(name, what, a, b):
    """Where eager itself gives one result, in vectors and in what is left of them."""
    if what != "result":
        return ~(a.isnan() | b.isnan())
    if name in DIVISIONS or name == "floor_divide":  # where a quotient overflows, the vectors have NaN for the rest
        smallest = torch.fmin(torch.fmin(a.abs(), b.abs()), torch.full_like(a, 0.1))
        return ~(a.isfinite() & (a.abs().clamp_min(7.0) / smallest).isinf())
    if name == "gelu":  # of infinity: NaN in vectors of AVX-512, infinity in what is left of them
        return ~a.isinf()
    return (a.isfinite() & (b * b).isfinite()) | torch.tensor(name != "addcmul")


def wrong(engine, name, what, found, wanted, a, b):
    """Where they differ: in more units in the last place, in NaN, or in the sign of a result that is zero."""
    info, size = torch.finfo(wanted.dtype), wanted.abs()
    # A sum of gradients may begin with 0; frac of -0.0 is 0.0 in torch 2.11, and -0.0 in 2.13.
    any_sign = what != "result" or name in DIFFERENCES or name == "frac" or engine == "block"
    if name in DIFFERENCES:
        size = size.maximum(torch.maximum(a.abs(), b.abs()).nan_to_num(0, 0, 0).clamp_min(1))
    if name == "sigmoid" and what == "d_a":  # s (1 - s)
        size = size.clamp_min(1)
    eps = torch.finfo(torch.float32).eps if name == "hardsigmoid" and what == "d_a" else info.eps  # 1 / 6 in eager
    equal = (found == wanted) & ((torch.signbit(found) == torch.signbit(wanted)) | any_sign)
    close = (found != wanted) & ((found - wanted).abs() <= 4 * eps * size.clamp_min(info.smallest_normal))
    differ = ~(equal | close | (found.isnan() & wanted.isnan())) & compared(name, what, a, b)
    return differ & ~ENDS[name](a, b) if engine == "block" and name in ENDS else differ


def check(engine, names, dtype):
    a, b = values(dtype)
    # Triton has no powers and few functions.
    names = [name for name in names if not ((engine == "triton" or name in REFUSED) and refusal(engine, name, dtype))]
    names = [name for name in names if not (engine == "block" and name in NOT_COMPILED)]
    differences = []
    for name, every in zip(names, compiled(engine, names, a, b), strict=True):
        for what, found, wanted in zip(("result", "d_a", "d_b"), every, with_gradients(name, a, b), strict=True):
            for i in wrong(engine, name, what, found, wanted, a, b).nonzero().flatten().tolist()[:3]:
                differences.append((name, what, a[i].item(), b[i].item(), found[i].item(), wanted[i].item()))
    assert not differences, "name, what, a, b, found, in eager:\n" + "\n".join(map(str, differences))


def test_operations_in_javascript():
    check("js", OPERATIONS, torch.float32)


def test_divisions():
    check("cpp", DIVISIONS, torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("engine", ["cpp", "block", "triton"])
def test_operations(engine, dtype, monkeypatch):
    if engine == "triton":
        pytest.importorskip("triton", reason="Triton is not installed: it is made for Linux")
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    names = list(OPERATIONS)
    for start in range(0, len(names), 30):
        check(engine, names[start : start + 30], dtype)
