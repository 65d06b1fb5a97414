"""A hint for each of the errors that beginners meet in PyTorch, whose own messages do not say what to do."""

from __future__ import annotations

import re

# The first pattern that occurs in "TypeError: …" decides.
_HINTS: list[tuple[str, str]] = [
    (r"^RecursionError", "The function calls itself without end."),
    (r"^SystemExit", "A function ends with `return`; `exit()` ends the program, here the kernel."),
    (
        r"Boolean value of Tensor",
        "`if`, `and` and `or` need one truth, but a tensor has one for each element. Compute with the comparison: "
        "`(a >= b).to(a.dtype)` is 0 or 1, and `torch.where(a >= b, yes, no)` chooses for each element.",
    ),
    (
        r"condition to be a boolean tensor",
        "The first argument of `torch.where` is a comparison, for example `spike > 0`.",
    ),
    (
        r"must be Tensor, not (float|int)|arguments - got \((int, )?float",
        "A function of `torch` needs a tensor. For a Python number there is `math` (`math.exp`, `math.sqrt`, …), and "
        "Python's own `max` and `min`.",
    ),
    (
        r"^(NameError|UnboundLocalError)",
        "A function may use its arguments, and what is defined in it or in a cell above. Is the name spelled in the "
        "same way?",
    ),
    (
        r"'tuple' object|not tuple|sequence by non-int|element can be converted to an index",
        "There are two things in one name. A neuron or network returns two: `out, state = net(x)`.",
    ),
    (
        r"return_types\.(max|min|sort|median|topk)",
        "This returns two tensors, values and indices. Take `.values`, or `.amax(0)` and `.amin(0)`.",
    ),
    (
        r"^TypeError.*invalid combination of arguments",
        "Look at the arguments of the call. Several axes go in together, `dim=(0, 1)`.",
    ),
    (r"values? to unpack", "How many things does the call on the right return, and how many names are on the left?"),
    (r"NoneType", "Something here is None. Which argument may be None? Which call returns nothing?"),
    (
        r"only be implicitly created|grad can be implicitly created",
        "`backward()` starts from one number: a loss, or the `.sum()` of a tensor.",
    ),
    (
        r"does not require grad",
        "No gradient gets here. A comparison, `.detach()`, `.item()` and `torch.no_grad()` cut the graph.",
    ),
    (
        r"leaf Variable that requires grad",
        "Change weights under `with torch.no_grad():`, so that the change is no part of the graph.",
    ),
    (
        r"modified by an inplace operation",
        "The way back needs the old values. Make a new tensor, `v = v + x`, instead of changing one by `v += x`.",
    ),
    (
        r"batch_size|1D target|target with class probabilities",
        "Cross-entropy takes one number for each class, [B, C], then the labels, [B]. Which axes are left?",
    ),
    (r"through the graph a second time", "Each `backward()` needs a forward pass of its own. Call it once."),
    (
        r"size of tensor|shapes cannot be multiplied|must match the size|expected size|[Ss]izes of tensors",
        "Two shapes do not fit. Print both. Which axis is time, which the batch, which the neurons?",
    ),
    (r"^ZeroDivisionError", "Something is divided by 0. With which arguments?"),
    (
        r"with a bool tensor|Got: Bool|not implemented for 'Bool'",
        "Compute with numbers: `.float()` makes 1 of True and 0 of False.",
    ),
    (r"^IndexError.*out of (bounds|range)", "An index is too large. The last one of n is n - 1."),
    (
        r"not implemented for '(Float|Double|Half|BFloat16)'|slice indices must be integers|interpreted as an integer",
        "This needs whole numbers. `//` divides into whole numbers, `/` does not; `.long()` makes them.",
    ),
    (r"used as indices", "An index is a whole number: `.long()` makes one."),
]


def hint(kind: str, text: str) -> str:
    """What to do about an error of this kind with this message; "" if its message says it all."""
    whole = f"{kind}: {text}"
    return next((advice for pattern, advice in _HINTS if re.search(pattern, whole)), "")
