"""The acceleration toolkit: place a model, move its tensors, train it in less memory, run it in batches, and measure.

===========================  ==========================================================================
``accelerate``               a model on the best device, in a precision that suits it
``move_tensors_to_device``   any nest of modules, dataclasses, dicts, lists, …
``optimize_memory_usage``    the same training in less memory, each saving measured
``explain_memory``           which tensors take the memory of a training step, predicted and measured
``batch_process``            runs more inputs than fit at once, and catches out-of-memory
``get_gpu_memory_usage``     of a GPU or of this process
``empty_cache``              returns memory that is reserved for later calls
``truncated``                truncated backpropagation through time
``packed_spikes``            spikes saved as bits, in any PyTorch model
``memory_limit``             makes the device small, to practise and test running out of memory
``MemoryTracker``            counts the bytes of tensors that are alive, on any device
``timeline``                 the same after each operation
===========================  ==========================================================================
"""

from snnkit import lazy
from snnkit.device.accelerate import (
    Accelerated as Accelerated,
    accelerate as accelerate,
    setup_gpu_acceleration as setup_gpu_acceleration,
)
from snnkit.device.batch_processing import batch_process as batch_process
from snnkit.device.memory_table import MemoryTable as MemoryTable, explain_memory as explain_memory
from snnkit.device.optimize import (
    MemoryReport as MemoryReport,
    optimize_memory_usage as optimize_memory_usage,
    restore_memory_usage as restore_memory_usage,
    truncated as truncated,
)
from snnkit.device.placement import Precision as Precision, move_tensors_to_device as move_tensors_to_device
from snnkit.device.spike_packing import packed_spikes as packed_spikes
from snnkit.device.usage import (
    MemoryUsage as MemoryUsage,
    StepMemory as StepMemory,
    empty_cache as empty_cache,
    get_gpu_memory_usage as get_gpu_memory_usage,
    timeline as timeline,
    training_step as training_step,
    untouched as untouched,
)
from snnkit.measure.tracker import MemoryTracker as MemoryTracker, memory_limit as memory_limit

__getattr__, __dir__, __all__ = lazy.attach(__name__)
