"""The acceleration toolkit: placing a model, moving what it needs, training it in less memory, batching, and measuring.

===========================  ==========================================================================
``accelerate``               a model on the best device, in a precision that suits it
``move_tensors_to_device``   any nest of modules, dataclasses, dicts, lists, …
``optimize_memory_usage``    the same training in less memory, each saving measured
``explain_memory``           where the memory of a training step goes, predicted and measured
``batch_process``            more inputs than fit at once; out-of-memory is caught
``get_gpu_memory_usage``     of a GPU or of this process
``truncated``                truncated backpropagation through time
``packed_spikes``            spikes saved as bits, in any PyTorch model
``memory_limit``             a small device to run out of memory on, for drills and tests
``MemoryTracker``            bytes of tensors as they come and go, on any device
``timeline``                 the same from operation to operation; ``outline`` is its shape
===========================  ==========================================================================
"""

from ..measure.tracker import MemoryTracker, memory_limit
from .accelerate import Accelerated, accelerate, setup_gpu_acceleration
from .batch_processing import batch_process
from .memory_table import MemoryTable, explain_memory
from .move import move_tensors_to_device
from .optimize import MemoryReport, optimize_memory_usage, restore_memory_usage, truncated
from .placement import Precision
from .spike_packing import packed_spikes
from .usage import MemoryUsage, StepMemory, get_gpu_memory_usage, outline, timeline, training_step, untouched

__all__ = [
    "Accelerated",
    "MemoryReport",
    "MemoryTable",
    "MemoryTracker",
    "MemoryUsage",
    "Precision",
    "StepMemory",
    "accelerate",
    "batch_process",
    "explain_memory",
    "get_gpu_memory_usage",
    "memory_limit",
    "move_tensors_to_device",
    "optimize_memory_usage",
    "outline",
    "packed_spikes",
    "restore_memory_usage",
    "setup_gpu_acceleration",
    "timeline",
    "training_step",
    "truncated",
    "untouched",
]
