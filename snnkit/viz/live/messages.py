"""Look at what waits for a busy kernel.

A kernel runs one thing after the other. While a cell trains a network, the press of a button lies in a queue, behind
the cells that are still to run, and is read when the training is over. (JupyterLab 4.4 and ipykernel 7 can hand it to a
thread of its own, but where the main thread has used the widget last, as it has after showing it, ipykernel 7.4 sends
it to the main thread's queue all the same.) So the cell itself must look. Fetching messages from the socket is safe:
the kernel's own callback gets each of them, puts it into its queue, and runs it in turn after the cell. Nothing is run
early, nothing is lost. The idea of looking at a kernel's queue: jupyter-ui-poll by K. Kouzoubov, which also runs what
it finds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class WaitingMessages:
    """Tells about messages of a widget's front end that have come for the kernel since the last look.

    Args:
        comm_id: of the widget, its ``model_id``.
        told: called with the data of each message.
    """

    def __init__(self, comm_id: str, told: Callable[[Any], None]) -> None:
        self.comm_id, self.told = comm_id, told
        self._kernel = _kernel()

    def look(self) -> None:
        """Fetch what waits. Does nothing outside a kernel's main thread, and in kernels of another kind."""
        stream = _stream(self._kernel)
        deliver = getattr(stream, "_recv_callback", None)
        if deliver is None or threading.current_thread() is not threading.main_thread():
            return

        def see(frames: Any) -> Any:
            self._read(frames)
            return deliver(frames)

        stream._recv_callback = see  # in place of on_recv, which would also set how frames are copied
        try:
            stream.flush(1)  # zmq.POLLIN: only what comes in
        finally:
            stream._recv_callback = deliver

    def _read(self, frames: Any) -> None:
        session = self._kernel.session
        try:
            # Not session.deserialize: that remembers signatures, and would refuse the message when its turn has come.
            _, (_, header, _, _, content, *_) = session.feed_identities(frames, copy=False)
            if session.unpack(_bytes(header))["msg_type"] == "comm_msg":
                content = session.unpack(_bytes(content))
                if content["comm_id"] == self.comm_id:
                    self.told(content["data"])
        except (ValueError, KeyError, TypeError):
            return  # no message as the protocol has them: the kernel's to complain about


def _kernel() -> Any:
    from IPython import get_ipython  # type: ignore[attr-defined]

    return getattr(get_ipython(), "kernel", None)


def _stream(kernel: Any) -> Any:
    """What the main thread reads requests from: since ipykernel 7 the end of a pipe, before that the shell socket."""
    thread = getattr(kernel, "shell_channel_thread", None)
    if thread is None:
        return getattr(kernel, "shell_stream", None)
    pair = getattr(thread.manager, "get_shell_channel_to_subshell_pair", None)
    return None if pair is None else pair(None).to_stream


def _bytes(frame: Any) -> bytes:
    return bytes(getattr(frame, "buffer", frame))
