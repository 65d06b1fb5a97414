"""A button that stops a training while the kernel is busy with it.

A kernel runs one thing after the other. While a cell trains a network, the press of a button waits in a queue, behind
the cells that are still to run, and is read when the training is over. (JupyterLab 4.4 and ipykernel 7 can handle it in
another thread, but after the main thread has used the widget, ipykernel 7.4 still sends it to the main thread's queue.)
So the training has to read the queue itself. Fetching messages from the socket is safe. The kernel's own callback
receives each of them, queues it, and runs it in turn after the cell, so no message runs early or is lost. The idea is
that of jupyter-ui-poll by K. Kouzoubov, which also runs the messages.
"""

from __future__ import annotations

import threading
import time
from typing import Any

SECONDS = 0.25  # between two looks into the queue; a press is answered within that and an update


class StopRequest:
    """Whether a stop of the run has been requested.

    A press arrives in one of two ways: by the button's callback, if the kernel runs it in another thread, or by reading
    the messages that wait for this thread. A press that arrives after the run has no effect.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._running = False
        self._comm_id: str | None = None
        self._kernel: Any = None
        self._next = 0.0

    def begin(self) -> None:
        """A run begins; earlier requests do not count."""
        self._requested.clear()
        self._running = True

    def end(self) -> None:
        self._running = False

    def listen(self, button: Any) -> None:
        """To an ipywidgets Button."""
        from IPython import get_ipython  # type: ignore[attr-defined]

        button.on_click(lambda _: self.request())
        self._comm_id = button.model_id
        self._kernel = getattr(get_ipython(), "kernel", None)

    def request(self) -> None:
        if self._running:
            self._requested.set()

    def requested(self) -> bool:
        """Quick enough to be called after each update."""
        if self._comm_id and not self._requested.is_set() and (now := time.perf_counter()) >= self._next:
            self._fetch_messages()
            self._next = now + SECONDS
        return self._requested.is_set()

    def _fetch_messages(self) -> None:
        """Do nothing outside a kernel's main thread, and in kernels of another kind."""
        stream = _stream(self._kernel)
        deliver = getattr(stream, "_recv_callback", None)
        if deliver is None or threading.current_thread() is not threading.main_thread():
            return

        def inspect(frames: Any) -> Any:
            self._inspect(frames)
            return deliver(frames)

        stream._recv_callback = inspect  # in place of on_recv, which would also set how frames are copied
        try:
            stream.flush(1)  # zmq.POLLIN: incoming only
        finally:
            stream._recv_callback = deliver

    def _inspect(self, frames: Any) -> None:
        session = self._kernel.session
        try:
            # Not session.deserialize: that remembers signatures, and would refuse the message when its turn comes.
            _, (_, header, _, _, content, *_) = session.feed_identities(frames, copy=False)
            if session.unpack(_bytes(header))["msg_type"] != "comm_msg":
                return
            content = session.unpack(_bytes(content))
            data = content["data"]
            if (
                content["comm_id"] == self._comm_id
                and data["method"] == "custom"
                and data["content"]["event"] == "click"
            ):
                self.request()
        except (ValueError, KeyError, TypeError):
            return  # no message as the protocol has them: the kernel will complain


def _stream(kernel: Any) -> Any:
    """The stream of requests to the main thread: since ipykernel 7 the end of a pipe, before that the shell socket."""
    thread = getattr(kernel, "shell_channel_thread", None)
    if thread is None:
        return getattr(kernel, "shell_stream", None)
    pair = getattr(thread.manager, "get_shell_channel_to_subshell_pair", None)
    return None if pair is None else pair(None).to_stream


def _bytes(frame: Any) -> bytes:
    return bytes(getattr(frame, "buffer", frame))
