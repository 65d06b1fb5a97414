"""Whether a kernel may take tensors by their addresses.

PyTorch does not see what our kernels read and write. So they run only where nothing records or rewrites its operations:
what ``torch.jit.trace`` or ``make_fx`` recorded would be the allocation of a result without the call that fills it. And
they take only tensors that have memory of their own, in the usual form. Every kernel of this package asks here. Where
the answer is no, PyTorch's own operations run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext

_functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]

# A tensor with other keys is a wrapper, or is stored in another form: sparse, nested, quantised, conjugate, meta, …
_PLAIN_KEYS = ("CPU", "CUDA", "ADInplaceOrView", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA")
_PLAIN = reduce(or_, (torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)).raw_repr() for key in _PLAIN_KEYS))
_OTHER = ~(_PLAIN | torch._C.DispatchKeySet(torch._C.DispatchKey.Negative).raw_repr())
_keys = torch._C._dispatch_keys
FREED = "a tensor whose memory was freed"
_BEFORE = torch._C.DispatchKey.PreDispatch
_HAS_FLAG = hasattr(torch.compiler, "_is_exporting_flag")


def untraced(function: Callable) -> None:
    """Keep ``torch.compile`` from compiling a function by itself, or what it calls.

    It does that where it has given up the call around it, as a step prints, say: it goes on with each function that is
    called from there. What these ask of PyTorch would be answered for the compiler, and not for their caller.
    """
    frames = torch._C._dynamo.eval_frame  # pyright: ignore[reportAttributeAccessIssue]
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))  # type: ignore[attr-defined]


def recorder() -> str:
    """Who records or rewrites PyTorch's operations in this thread, with a verb, or an empty string.

    ``vmap`` and the gradients of ``torch.func`` are not meant: an ``autograd.Function`` tells them what to do.
    ``torch.compile`` is not, either; ask ``torch.compiler.is_compiling()`` before.
    """
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace records PyTorch's operations"
    for i in range(torch._C._len_torch_dispatch_stack()):
        mode = torch._C._get_dispatch_stack_at(i)
        if not hasattr(mode, "observes"):  # one of ours, which expects kernels
            return f"{type(mode).__name__} sees PyTorch's operations"
    if torch._C._len_torch_function_stack():
        for mode in torch.overrides._get_current_function_mode_stack():
            # Neither that of torch.set_default_device nor one of ours.
            if type(mode) is not DeviceContext and not hasattr(mode, "observes"):
                return f"{type(mode).__name__} sees PyTorch's functions"
    if torch._C._dispatch_tls_is_dispatch_key_included(_BEFORE):
        return "a mode sees PyTorch's operations before they are dispatched"
    if inside_functional_transform():
        kinds = [interpreter.key() for interpreter in _functorch.get_interpreter_stack()]
        if _functorch.TransformType.Functionalize in kinds:
            return "torch.func.functionalize rewrites PyTorch's operations"
    return ""


def is_exporting() -> bool:
    """As ``torch.compiler.is_exporting``, which older versions of ``torch.compile`` (2.8 and 2.11) take for True."""
    return torch.compiler._is_exporting_flag if _HAS_FLAG else torch.compiler.is_exporting()


def is_captured() -> bool:
    """Whether operations are recorded to be run again, with other tensors of the same shapes.

    ``torch.compile`` is not meant: it compiles again for tensors with other strides.
    """
    if torch.compiler.is_compiling():
        return is_exporting()
    if torch._C._get_tracing_state() is not None:
        return True
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")  # which loads in half a second
    return proxies is not None and proxies.get_proxy_mode() is not None


def is_in_graph(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured. What is computed then has no values before the graph is replayed, so it
    must not be stored for other calls."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def inside_functional_transform() -> bool:
    """Whether a ``torch.func`` transform (vmap, grad, …) is active."""
    return _functorch.peek_interpreter_stack() is not None


def is_watched() -> bool:
    """Whether operations are recorded, rewritten or transformed by code that knows those of PyTorch."""
    return is_dual() or inside_functional_transform() or recorder() != ""


def is_dual() -> bool:
    """Whether forward-mode derivatives go along with PyTorch's operations (``torch.func.jvp``, too)."""
    return forward_ad._current_level >= 0


def uncompiled(backward: Callable) -> Callable:
    """The backward pass of an ``autograd.Function`` with a kernel, which compiled autograd must leave to Python."""

    @functools.wraps(backward)
    def run(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.compiler.is_compiling():
            from snnkit.engine.uncompiled_call import uncompiled_call

            return uncompiled_call(backward, ctx, *gradients)
        return backward(ctx, *gradients)

    return run


def is_left_to_pytorch(gradient: Tensor) -> bool:
    """Whether a backward pass is PyTorch's: for second derivatives, several gradients at once, and foreign ones."""
    return torch.is_grad_enabled() or is_watched() or bool(foreign(gradient))


def tensors_of(step: Callable | nn.Module) -> dict[str, Tensor]:
    """A module's floating-point parameters and buffers, which become arguments of the kernel."""
    if not isinstance(step, nn.Module) or not (step._parameters or step._buffers or step._modules):
        return {}
    named = parameters_and_buffers(step)
    return {name: tensor for name, tensor in named if tensor is not None and tensor.is_floating_point()}


def parameters_and_buffers(module: nn.Module) -> tuple[tuple[str, Tensor | None], ...]:
    """All of them with their names, submodules' included."""
    if any(child is not None for child in module._modules.values()):
        return *module.named_parameters(), *module.named_buffers()
    # The same for a neuron alone, ten times as fast.
    return *module._parameters.items(), *module._buffers.items()


def foreign(*tensors: Tensor) -> str:
    """What the first tensor is that a kernel can't read, or an empty string.

    A kernel reads plain tensors of a CPU or a CUDA device, with any strides. It can't read subclasses, which may have
    no memory (wrappers of other tensors, fake ones, distributed ones) or mean something else by it, and none that is
    sparse, nested, quantised, conjugate or without values (meta, or its memory was freed). A negative bit is
    ``as_stored``'s to resolve. Inside a transform, the tensor that it wraps is meant.
    """
    for tensor in tensors:
        known = (type(tensor) is Tensor or type(tensor) is nn.Parameter) and not _keys(tensor).raw_repr() & _OTHER
        if known and _has_memory(tensor):
            continue  # most of a short call would be spent on what follows
        while _is_wrapped(tensor):
            tensor = _functorch.get_unwrapped(tensor)
        if type(tensor) not in (Tensor, nn.Parameter):
            return f"a {type(tensor).__name__}"
        if _keys(tensor).raw_repr() & _OTHER:
            return f"a tensor of another form ({_keys(tensor)})"
        if not _has_memory(tensor):
            return FREED
    return ""


def _has_memory(tensor: Tensor) -> bool:
    # Sharded training frees the memory of parameters while they aren't used: untyped_storage().resize_(0).
    return tensor.data_ptr() != 0 or tensor.numel() == 0


def _is_wrapped(tensor: Tensor) -> bool:
    # Functionalize's wrappers are not unwrapped: their memory is not yet up to date.
    return _functorch.is_batchedtensor(tensor) or _functorch.is_gradtrackingtensor(tensor)


def as_stored(tensor: Tensor) -> Tensor:
    """The imaginary part of a conjugate is stored with the other sign, which kernels would not know."""
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def keys_of(tensor: Tensor) -> int:
    """PyTorch's dispatch keys of a tensor: its device, form and wrappers, and whether it is of inference mode."""
    return _keys(tensor).raw_repr()


def as_saved(tensor: Tensor) -> tuple:
    """How a tensor is stored: hooks of autograd may return what was saved in another form, or without its memory."""
    return tensor.shape, tensor.dtype, tensor.stride(), keys_of(tensor), is_plain(tensor)


def check_shape(saved: Tensor | None, shape: torch.Size | None) -> None:
    """A kernel would read beyond the end of a smaller tensor than was saved for backward."""
    if saved is not None and saved.shape != shape:
        raise RuntimeError(
            f"a tensor saved for backward must have shape {list(shape or ())}, but it is {list(saved.shape)}: a hook "
            "of autograd's, or an assignment to its .data, has changed it"
        )


def is_plain(tensor: Any) -> bool:
    """Whether a kernel may read it just as it is stored: no ``foreign`` one, none with a negative bit."""
    known = type(tensor) in (Tensor, nn.Parameter) and not _keys(tensor).raw_repr() & ~_PLAIN
    return known and _has_memory(tensor)


def shows_values(*tensors: Tensor) -> bool:
    """Whether a check may look at the values now: they exist, cheaply, and nothing records the look."""
    return (
        not torch.compiler.is_compiling()
        and not is_watched()
        and all(tensor.device.type == "cpu" for tensor in tensors)
        and not foreign(*tensors)
    )


for _function in (recorder, is_captured, inside_functional_transform, is_watched, foreign, is_plain, shows_values):
    untraced(_function)
