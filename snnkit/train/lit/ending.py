"""The end of a process that trained with others: its connections are closed before Python is taken apart.

Lightning leaves a gloo group as it is, whose threads then may end the process by SIGABRT ("terminate called without an
active exception") after all is done.
"""

from __future__ import annotations

import atexit
import sys

import torch.distributed as dist


@atexit.register
def close_connections() -> None:
    """Unless an error ends the process: then others may be gone, and closing would wait for them."""
    failed = hasattr(sys, "last_value")
    if not failed and dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()
