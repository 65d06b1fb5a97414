"""From a step function to two elementwise graphs: the step, and its vector-Jacobian product.

The step runs once on a few numbers while every PyTorch operation is recorded, then once more together with its
backward pass. Both graphs are functions of plain tensors, one value per neuron::

    forward(x, *state, *parameters)                    -> out, *state
    backward(x, *state, *parameters, d_out, *d_state)  -> d_x, *d_state, *d_parameters

If an absent gradient must not count as zero, backward also has flags, beside the gradients of the state (``presence``).

The graphs do not depend on modules, shapes or time: an engine writes the loop over time around them. An equation can't
be traced if it mixes neurons, depends on the data in an ``if``, or reads tensors that it does not own. Then ``trace``
raises ``NotElementwise`` with the reason, and the equation runs in the eager engine.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, fx, nn
from torch.autograd import forward_ad
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from snnkit.engine.presence import operation_of, with_presence

Result = TypeVar("Result")

_lock = threading.Lock()


def renew_in_children(scope: dict[str, Any], **locks: Callable[[], Any]) -> None:
    """Make the locks in ``scope`` (of a module or an object) new after a fork: another thread may have held them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: scope.update({name: make() for name, make in locks.items()}))


renew_in_children(globals(), _lock=threading.Lock)


# Seconds. A step is traced in a fraction of one; a thread that waits for longer may have been started by that step.
_PATIENCE = 30.0


@contextmanager
def locked(lock: Any) -> Iterator[None]:
    """Hold ``lock``; Disturbed if it isn't free for ``_PATIENCE`` seconds."""
    if not lock.acquire(timeout=_PATIENCE):
        raise Disturbed(f"another thread has been tracing a step for {_PATIENCE:g} s")
    try:
        yield
    finally:
        lock.release()


class _Thread(threading.local):
    tracing = False  # a step: then a layer that it calls has no trace of its own


thread = _Thread()

_ENSURE = "_ensureCUDADeviceGuardSet"

# Steps of these shapes are traced. The graphs must be the same: then no shape is written into them.
_EXAMPLES = ((13,), (3, 5))

# Operations that give one value per neuron though PyTorch does not tag them as pointwise (name without overload).
_ELEMENTWISE = {
    *("_to_copy", "alias", "clone", "copy_", "detach", "lift_fresh_copy"),
    *("empty_like", "fill", "fill_", "full_like", "new_zeros", "ones_like", "scalar_tensor", "zeros_like"),
    *("addcdiv", "addcmul", "copysign", "masked_fill", "masked_fill_", "sgn", "where"),
    *("elu", "elu_backward", "hardsigmoid", "hardsigmoid_backward"),
    *("hardswish", "hardswish_backward", "hardtanh", "hardtanh_backward", "leaky_relu", "leaky_relu_backward"),
    *("log_sigmoid_backward", "log_sigmoid_forward", "mish", "mish_backward", "softplus", "softplus_backward"),
}

# Operations that make a constant of a given shape, or only name the current shape: the position of the shape.
_FACTORIES = {"zeros": 0, "ones": 0, "full": 0}
_FACTORIES |= {"new_zeros": 1, "new_ones": 1, "new_full": 1, "expand": 1}


class NotElementwise(Exception):
    """This step can't be compiled neuron by neuron; the message says why."""


class Disturbed(RuntimeError):
    """Nothing can be traced or compiled now, though perhaps in a later call; the message says why."""


@dataclass(frozen=True, eq=False)
class Equation:
    """One neuron's step and its vector-Jacobian product as graphs of elementwise operations.

    ``key`` is equal for equal equations (same operations, same constants, same dtype), so layers can share kernels.
    Equations are compared by identity, so they are quick keys of caches. ``flags``: how many flags backward takes and
    returns after the gradients of the state. ``uses``: how many gradients a step sends back to each part of the state,
    which autograd adds up.
    """

    forward: fx.GraphModule
    backward: fx.GraphModule
    states: int
    parameters: int
    dtype: torch.dtype
    key: str
    flags: int = 0
    uses: tuple[int, ...] = ()

    @property
    def carried(self) -> int:
        """How many numbers backward hands from a step to the one before it."""
        return self.states + self.flags


def trace(
    step: Callable | nn.Module, like: Any, names: Sequence[str], dtype: torch.dtype, device: torch.device
) -> Equation:
    """Trace ``step(x, state) -> (out, state)``, a function or a module with a method ``step``, or raise NotElementwise.

    ``like`` is any state of it: the step's result must have the same structure. ``names`` are the names of the module's
    tensors (as in ``named_parameters``/``named_buffers``) that become arguments of the graphs.
    """
    return undisturbed(_trace, step, like, names, dtype, device)


def _trace(
    step: Callable | nn.Module, like: Any, names: Sequence[str], dtype: torch.dtype, device: torch.device
) -> Equation:
    states = len(like)
    _require_registered(step)
    functional = _functional(step, like, names)
    arguments, uses = 1 + states + len(names), ()

    def forward(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        return functional(x, rest[:states], rest[states:])

    def backward(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        inputs = [t.detach().requires_grad_() for t in (x, *rest[: states + len(names)])]
        with torch.enable_grad():
            outputs = functional(inputs[0], inputs[1 : 1 + states], inputs[1 + states :])
        gradients = rest[states + len(names) :]
        with torch._C.DisableTorchFunction():  # a step may not ask, but we may
            pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if o.requires_grad]
            nonlocal uses
            uses = _uses([o for o, _ in pairs], inputs[1 : 1 + states])
        if not pairs:
            return tuple(torch.zeros_like(t) for t in inputs)
        # As torch.autograd.grad does, but without its import of sympy to compare shapes.
        result = _engine_run_backward(
            tuple(o for o, _ in pairs), tuple(g for _, g in pairs), False, False, tuple(inputs), True,
            accumulate_grad=False,
        )  # fmt: skip
        return tuple(torch.zeros_like(t) if g is None else g for t, g in zip(inputs, result, strict=True))

    pairs = []
    for shape in _EXAMPLES:
        example = [torch.ones(shape, dtype=dtype, device=device) for _ in range(arguments + 1 + states)]
        pairs.append((_graph(forward, example[:arguments]), _graph(backward, example)))
        for graph in pairs[-1]:
            _forget_shape(graph, shape)
    (graph, gradient), others = pairs
    for graphs in (graph, gradient):
        _require_elementwise(graphs, has_parameters=bool(names))
    if [graph.code, gradient.code] != [g.code for g in others]:
        raise NotElementwise("it depends on the shape of its input, or on the number of neurons")
    try:
        flags = with_presence(gradient, arguments, states)
    except RecursionError:
        raise NotElementwise("each of its operations needs the one before, and there are too many in a row") from None
    key = "\n".join([str(dtype), device.type, graph.code, gradient.code, str(uses)])
    return Equation(graph, gradient, states, len(names), dtype, key, flags, uses)


def _uses(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> tuple[int, ...]:
    """How many edges of autograd's graph of ``outputs`` lead to each leaf."""
    nodes, seen, variables = [o.grad_fn for o in outputs], set(), []
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if hasattr(following, "variable"):
                variables.append(following.variable)  # type: ignore[union-attr]
            else:
                nodes.append(following)
    return tuple(sum(v is leaf for v in variables) for leaf in leaves)


def undisturbed(function: Callable[..., Result], *arguments: Any) -> Result:
    """``function(*arguments)`` without the transforms, hooks and modes that are active here.

    They belong to a thread (``torch.func``'s levels, saved-tensor hooks, autocast, grad mode), so it runs in another.

    Raises:
        Disturbed: no thread can be started (``ulimit -u``, WebAssembly), and what is active here can't be set aside;
            or another thread has been tracing for long.
    """
    try:
        _hold_device_guard()
        with ThreadPoolExecutor(1, initializer=lambda: setattr(thread, "tracing", True)) as clean:
            done = clean.submit(function, *arguments)
    except RuntimeError:
        return _in_this_thread(function, *arguments)
    return done.result()


def _in_this_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    if active := _active():
        raise Disturbed(f"no thread can be started to trace its step in, and {active} active in this one")
    tracing, thread.tracing = thread.tracing, True
    try:
        # Leaving inference mode also records gradients again.
        with torch.inference_mode(False), torch._C._DisableAutocast():  # pyright: ignore[reportAttributeAccessIssue]
            return function(*arguments)
    finally:
        thread.tracing = tracing


def _active() -> str:
    """What would see, or change, all operations of this thread, with its verb; an empty string if nothing does."""
    if torch._C._functorch.peek_interpreter_stack() is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return "a transform of torch.func is"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation is"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace is"
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return "a mode that sees all operations is"
    if torch._C._autograd._top_saved_tensors_default_hooks(True):  # pyright: ignore[reportAttributeAccessIssue]
        return "hooks for saved tensors are"
    return ""


@functools.cache
def _hold_device_guard() -> None:
    """Without a GPU, the first thread that compiles owns an object that all later ones use. In PyTorch 2.9 to 2.12 for
    CUDA they crash once that thread has ended (pull request 178950). So it is one that waits forever."""
    if torch.version.cuda is None or torch.__version__ >= "2.13" or not hasattr(torch._C, _ENSURE):
        return
    done = threading.Event()

    def hold() -> None:
        getattr(torch._C, _ENSURE)()
        done.set()
        threading.Event().wait()

    threading.Thread(target=hold, name="snnkit device guard", daemon=True).start()
    done.wait()


class _Recorder(TorchDispatchMode):
    """Records each PyTorch operation, like ``make_fx``, but ``make_fx`` takes a second to import the compiler."""

    def __init__(self, table: Mapping[Any, Callable]) -> None:
        super().__init__()
        self.table = table
        self.graph = fx.Graph()
        self.nodes: dict[int, fx.Node] = {}
        self.tensors: list[Tensor] = []  # or an id might be given out twice
        self.given: set[int] = set()  # the memory of inputs
        self.constants: dict[str, Tensor] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch would import its compiler, to shield it from this class

    def input(self, tensor: Tensor) -> None:
        self._note(tensor, self.graph.placeholder(f"input_{len(self.tensors)}"))
        self.given.add(_memory_of(tensor))

    def output(self, results: Sequence[Tensor]) -> fx.GraphModule:
        self.graph.output([self._node_of(result) for result in results])
        self.graph.eliminate_dead_code()
        return fx.GraphModule(self.constants, self.graph)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with self:
            result = self.table[func](*args, **kwargs) if func in self.table else func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        if torch.Tag.data_dependent_output in func.tags:
            raise _DataDependent
        if torch.Tag.nondeterministic_seeded in func.tags:  # if it ran here, it would change the next random numbers
            raise NotElementwise(f"{func} draws random numbers")
        if func._schema.is_mutable and args and _memory_of(args[0]) in self.given:
            raise NotElementwise("it changes x, the state or a parameter in place; return new tensors")
        if func is torch.ops.aten._efficientzerotensor.default:  # the slope of sgn; operations would read its memory
            func = torch.ops.aten.zeros.default
        given = pytree.tree_map_only(Tensor, self._node_of, (args, kwargs))
        result = func(*args, **kwargs)
        self._note(result, self.graph.call_function(func, *given))
        return result

    def _note(self, result: Any, node: fx.Node) -> None:
        if isinstance(result, Tensor):
            node.meta["val"] = result.detach()  # without the graph of autograd, which it gets after this
            self.nodes[id(result)] = node
            self.tensors.append(result)
        elif isinstance(result, (tuple, list)):
            for i, part in enumerate(result):
                self._note(part, self.graph.call_function(operator.getitem, (node, i)))

    def _node_of(self, tensor: Tensor) -> fx.Node:
        if id(tensor) not in self.nodes:
            name = f"constant_{len(self.constants)}"
            self.constants[name] = tensor
            self._note(tensor, self.graph.get_attr(name))
        return self.nodes[id(tensor)]


def _memory_of(tensor: Tensor) -> int:
    with torch._C.DisableTorchFunction():  # a step may not ask for it
        return tensor.untyped_storage()._cdata


def _floored(a: Tensor | float, b: Tensor | float, *, rounding_mode: str | None = "floor") -> Tensor:
    """Division rounded down, as PyTorch's own kernel computes it: 1 // 0.1 is 9, while floor(1 / 0.1) is 10.

    ``torch.compile`` has the latter. In these operations, all engines agree with eager to the bit.
    """
    if rounding_mode != "floor":
        return NotImplemented
    a, b = _both(a, b)
    quotient, rest = a / b, torch.fmod(a, b)
    exact = torch.where((quotient.abs() == math.inf) & (a.abs() != math.inf), a, a - rest) / b
    exact = torch.where((rest != 0) & ((b < 0) ^ (rest < 0)), exact - 1, exact)
    down = torch.floor(exact)
    down = torch.where(exact - down > 0.5, down + 1, down)
    down = torch.where(exact == 0, torch.copysign(torch.zeros_like(quotient), quotient), down)
    return torch.where(b == 0, quotient, down)


def _remainder(a: Tensor | float, b: Tensor | float) -> Tensor:
    """What is left of such a division."""
    a, b = _both(a, b)
    rest = torch.fmod(a, b)
    return torch.where((rest != 0) & ((b < 0) ^ (rest < 0)), rest + b, rest)


def _both(a: Tensor | float, b: Tensor | float) -> tuple[Tensor, Tensor]:
    if not isinstance(a, Tensor):
        return torch.full_like(b, a), b  # type: ignore[arg-type, return-value]
    return a, b if isinstance(b, Tensor) else torch.full_like(a, b)


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def changed(a: Tensor, b: Tensor | float, **settings: Any) -> Tensor:
        result = function(a, b, **settings)
        return result if result is NotImplemented else a.copy_(result)

    return changed


def _rewritten() -> dict[Any, Callable]:
    aten = torch.ops.aten
    table = dict.fromkeys((aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default), _floored)
    table |= dict.fromkeys((aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor), _remainder)
    places = (aten.div_.Tensor_mode, aten.div_.Scalar_mode, aten.floor_divide_.Tensor, aten.floor_divide_.Scalar)
    table |= dict.fromkeys(places, _in_place(_floored))
    return table | dict.fromkeys((aten.remainder_.Tensor, aten.remainder_.Scalar), _in_place(_remainder))


# Operations that some engine computes in another way than eager PyTorch, by others in which all agree.
_REWRITTEN = _rewritten()


class _DataDependent(Exception):
    """An operation that takes a value out of a tensor."""


_READS = {Tensor.numpy, Tensor.tolist, Tensor.data_ptr, Tensor.__array__, Tensor.__dlpack__}

# What else a tensor tells of itself, and what is different between the trace and a run, or between runs.
_FORMS = {Tensor.dim, Tensor.numel, Tensor.nelement, Tensor.__len__, Tensor.stride, Tensor.is_contiguous, torch.numel}
_FORMS |= {Tensor.storage, Tensor.storage_offset, Tensor.untyped_storage, Tensor.is_inference, Tensor.is_pinned}
_ATTRIBUTES = ("ndim", "nbytes", "requires_grad", "is_leaf", "grad", "grad_fn", "_version", "output_nr", "retains_grad")
_FORMS |= {getattr(Tensor, name).__get__ for name in _ATTRIBUTES}
_SHAPES = {Tensor.size, Tensor.shape.__get__}  # pyright: ignore[reportAttributeAccessIssue]


class _OnlyOperations(TorchFunctionMode):
    """All but operations on tensors is an error: reading their memory, or deciding something from their form.

    Their shape may be read, but only to make a tensor of that shape.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _READS:
            raise _DataDependent
        if func in _FORMS:
            name = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__.strip("_")
            raise NotElementwise(f"it asks for {name} of a tensor, and other tensors may have another")
        result = func(*args, **(kwargs or {}))
        if func in _SHAPES:
            return _Length(result) if isinstance(result, int) else _Shape(map(_Length, result))
        return result


class _Shape(tuple):
    """A shape that PyTorch's operations can take, or that can be compared with another, but not read."""

    def __getitem__(self, at: Any) -> Any:
        part = super().__getitem__(at)
        return _Shape(part) if isinstance(part, tuple) else part


class _Length(int):
    """A part of it."""


class _Unsized(NotElementwise, TypeError):
    """A TypeError, so that a shape can be unpacked (``torch.zeros(*x.shape)``): its length is only a hint there."""


def _refuse(*_: Any) -> Any:
    raise _Unsized("it decides something from the shape of its input, or from the number of neurons")


def _hide(kind: type, names: set[str]) -> None:
    """Let methods of ``kind`` with these names refuse to answer; all neurons have one shape, so it may be compared."""
    for name in names:
        setattr(kind, name, _refuse)
    equal, unequal = kind.__base__.__eq__, kind.__base__.__ne__  # type: ignore[union-attr]
    kind.__eq__ = lambda a, b: equal(a, b) if type(b) is kind else _refuse()  # type: ignore[assignment]
    kind.__ne__ = lambda a, b: unequal(a, b) if type(b) is kind else _refuse()  # type: ignore[assignment]


_ORDER = {"__lt__", "__le__", "__gt__", "__ge__", "__hash__"}
_hide(_Length, _ORDER | (set(dir(int)) - set(dir(object))))
_hide(_Shape, _ORDER | {"__len__", "__contains__", "__add__", "__mul__", "count", "index", "numel"})


def graph_of(
    function: Callable, example: Sequence[Tensor], table: Mapping[Any, Callable] | None = None
) -> fx.GraphModule:
    """The operations of ``function(*example)``; ``table``: operation to a function that takes it apart."""
    recorder = _Recorder(table or {})
    for tensor in example:
        recorder.input(tensor)
    with locked(_lock), recorder:  # PyTorch notes in a global variable that a mode is active
        results = function(*example)
    return recorder.output(results)


def _functional(step: Callable | nn.Module, like: Any, names: Sequence[str]) -> Callable:
    rebuild = getattr(type(like), "_make", tuple)

    def functional(x: Tensor, state: Sequence[Tensor], parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
        state, call = rebuild(state), step
        if isinstance(step, nn.Module):
            every = (step.named_parameters(remove_duplicate=False), step.named_buffers(remove_duplicate=False))
            own = dict(itertools.chain(*every))
            call = _with_tensors(step, {id(own[name]): p for name, p in zip(names, parameters, strict=True)})
            before = [[dict(part) for part in _parts(module)] for module in call.modules()]
        result = (call.step if isinstance(call, nn.Module) else call)(x, state)  # type: ignore[operator]
        with torch._C.DisableTorchFunction():  # it is the shapes that are checked
            check_step_result(result, x, state, step)
        if isinstance(call, nn.Module):
            _require_unchanged(call, before)
        return (result[0], *result[1])

    return functional


def _with_tensors(module: nn.Module, others: dict[int, Tensor]) -> nn.Module:
    """A copy of ``module`` with other tensors in place of those with these ids; another thread may be running it.

    ``torch.func.functional_call`` would call the module and the hooks for all modules, set by a profiler or a counter
    of operations. These can't be traced.
    """
    copy = module.__new__(type(module))
    copy.__dict__.update(vars(module))
    for store in ("_parameters", "_buffers"):
        copy.__dict__[store] = {name: others.get(id(own), own) for name, own in vars(module)[store].items()}
    children = module._modules.items()
    copy.__dict__["_modules"] = {name: child and _with_tensors(child, others) for name, child in children}
    return copy


def _parts(module: nn.Module) -> tuple[dict[str, Any], ...]:
    return vars(module), module._parameters, module._buffers


def _require_unchanged(module: nn.Module, before: list[list[dict[str, Any]]]) -> None:
    """A step that sets attributes gives another result each time; here it has set those of a copy."""
    for now, then in zip(module.modules(), before, strict=True):
        for part, old in zip(_parts(now), then, strict=True):
            changed = [name for name in {**old, **part} if part.get(name, old) is not old.get(name, part)]
            changed = [name for name in changed if not is_computed_once(module, name)]
            if changed:
                raise NotElementwise(f"it sets its attribute {changed[0]!r}; what changes from step to step is state")


def is_computed_once(owner: Any, name: str) -> bool:
    """Whether this attribute is a ``functools.cached_property``, which may be set by whoever reads it first."""
    return isinstance(getattr(type(owner), name, None), functools.cached_property)


def _graph(function: Callable, example: list[Tensor]) -> fx.GraphModule:
    try:
        # On CUDA, backward runs in a thread of the device, and that thread may be waiting for this trace.
        one_thread = torch.autograd.set_multithreading_enabled(False)
        with torch.no_grad(), one_thread, torch.autograd.set_detect_anomaly(False), _OnlyOperations():
            return graph_of(function, example, _REWRITTEN)
    except _DataDependent:
        text = "it decides something from the values of a tensor (if, while, float(...)); use torch.where"
        raise NotElementwise(text) from None
    except (NotElementwise, Disturbed):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}".strip()
        raise NotElementwise("it can't be traced: " + text.splitlines()[0][:200]) from error


def _forget_shape(graph: fx.GraphModule, shape: tuple[int, ...]) -> None:
    """Constants of the shape of the input, such as ``torch.zeros(x.shape)``, become constants like the input."""
    aten = torch.ops.aten
    x = next(iter(graph.graph.nodes))
    for node in graph.graph.nodes:
        name = operation_of(node)
        if node.op != "call_function" or name not in _FACTORIES:
            continue
        size = tuple(node.args[_FACTORIES[name]])
        value = node.args[-1] if "full" in name else float("ones" in name)
        if name == "expand":
            same = node.args[0]
            if size == tuple(same.meta["val"].shape):
                node.replace_all_uses_with(same)
                continue
            if operation_of(same) != "scalar_tensor":
                continue
            value = same.args[0]
        if size in (shape, ()):
            call = (aten.full_like.default, (x, value)) if size else (aten.scalar_tensor.default, (value,))
            with graph.graph.inserting_before(node):
                same = graph.graph.call_function(*call, {"dtype": node.meta["val"].dtype})
            same.meta.update(node.meta)
            node.replace_all_uses_with(same)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _require_registered(step: Callable | nn.Module) -> None:
    for module in step.modules() if isinstance(step, nn.Module) else ():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                raise NotElementwise(
                    f"its attribute {name!r} is a tensor but neither parameter nor buffer; "
                    f"use self.register_buffer({name!r}, …)"
                )
        for name, value in module.named_buffers(recurse=False):
            if not value.is_floating_point():
                raise NotElementwise(f"its buffer {name!r} is {value.dtype}; make it floating point")


def _require_elementwise(graph: fx.GraphModule, has_parameters: bool) -> None:
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            raise NotElementwise(
                "it reads or makes a tensor that is neither its parameter nor its buffer; "
                "use a Python number, or register it"
            )
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        name = operation_of(node)
        dtypes = {t.meta["val"].dtype for t in node.all_input_nodes if t.meta["val"].is_floating_point()}
        if len(dtypes) > 1 and has_parameters and name != "copy_":
            raise NotElementwise(
                f"{node.target} takes {' and '.join(sorted(map(str, dtypes)))}: which of them its result has depends "
                "on whether a parameter is one number"
            )
        if torch.Tag.pointwise not in getattr(node.target, "tags", ()) and name not in _ELEMENTWISE:
            raise NotElementwise(f"{node.target} is not elementwise, as far as is known: it may mix neurons")


def name_of(step: Any) -> str:
    """The name of a step in messages: its class, its function's name, or the text itself."""
    if isinstance(step, str):
        return step
    return type(step).__name__ if isinstance(step, nn.Module) else getattr(step, "__name__", type(step).__name__)


def field_names(state: Any) -> Sequence[str]:
    """Names of the parts of a state, for messages."""
    return getattr(state, "_fields", tuple(str(i) for i in range(len(state))))


def check_step_result(result: Any, x: Tensor, state: Any, step: Any) -> None:
    """A step must return ``(out, state)``: out of the shape of ``x``, state of its own structure, shapes and dtypes."""
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)):
        raise TypeError(
            f"the step of {name_of(step)} must return (out, state), but it returned a {type(result).__name__}"
        )
    if result[0].shape != x.shape:
        raise ValueError(
            f"the step of {name_of(step)} must return out of the shape of its input, {list(x.shape)}, "
            f"but it returned {list(result[0].shape)}"
        )
    new = result[1]
    if not isinstance(new, type(state)) or len(new) != len(state):
        raise TypeError(
            f"the step of {name_of(step)} must return a state like the one it was given, {type(state).__name__} of "
            f"{len(state)} tensors, but it returned a {type(new).__name__}"
        )
    for i, (before, after) in enumerate(zip(state, new, strict=True)):
        if isinstance(after, Tensor) and after.shape == before.shape and after.dtype == before.dtype:
            continue
        name = field_names(state)[i]
        if not isinstance(after, Tensor):
            raise TypeError(
                f"the step of {name_of(step)} returned state.{name} as a {type(after).__name__}, not a tensor"
            )
        if after.shape != before.shape:
            raise ValueError(
                f"the step of {name_of(step)} changed the shape of state.{name} from {list(before.shape)} to "
                f"{list(after.shape)}"
            )
        raise TypeError(
            f"the step of {name_of(step)} changed the dtype of state.{name} from {before.dtype} to {after.dtype}"
        )
