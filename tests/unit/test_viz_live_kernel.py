"""In a real kernel that is busy: a press of the button gets through, and nothing else is touched."""

import time

import pytest

pytest.importorskip("ipykernel")
pytest.importorskip("ipywidgets")
manager = pytest.importorskip("jupyter_client.manager")

BEGIN = """
import time
import ipywidgets
from snnkit.lab.viz.live.stop import StopRequest

order, stop = [], StopRequest()
button, other = ipywidgets.Button(), ipywidgets.Button()
button.on_click(lambda _: order.append("press"))
other.on_click(lambda _: order.append("other"))
stop.listen(button)
print(button.model_id, other.model_id, "subshell" if hasattr(get_ipython().kernel, "shell_channel_thread") else "")
"""
TRAIN = """
stop.begin()
print("begun", flush=True)
began = time.monotonic()
while not stop.requested() and time.monotonic() - began < 30:
    time.sleep(0.01)
print("stopped" if stop.requested() else "never")
stop.end()
order.append("trained")
"""


class Kernel:
    def __init__(self, client):
        self.client = client

    def run(self, code):
        """Request a cell; the id of the message."""
        return self.client.execute(code)

    def press(self, comm_id, subshell=None):
        """As the front end says that a button was pressed."""
        data = {"method": "custom", "content": {"event": "click"}}
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def subshell(self):
        message = self.client.session.msg("create_subshell_request")
        self.client.control_channel.send(message)
        return self.client.control_channel.get_msg(timeout=20)["content"]["subshell_id"]

    def printed(self, request, until=None):
        """What a cell prints, to its end or to a line."""
        text = ""
        while until is None or until not in text:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            assert kind != "error", "\n".join(content["traceback"])
            text += content["text"] if kind == "stream" else ""
            if kind == "status" and content["execution_state"] == "idle":
                return text
        return text


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    # In a process of its own: this one's environment (JUPYTER_*, IPYTHONDIR) stays out of it where tests set it.
    started, client = manager.start_new_kernel(cwd=str(tmp_path_factory.mktemp("kernel")))
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        started.shutdown_kernel(now=True)


@pytest.mark.parametrize("way", ["main", "subshell"])
def test_a_press_stops_a_busy_kernel_and_all_else_keeps_its_order(kernel, way):
    button, other, *able = kernel.printed(kernel.run(BEGIN)).split()
    if way == "subshell" and not able:
        pytest.skip("this ipykernel has no subshells")
    subshell = kernel.subshell() if way == "subshell" else None
    training = kernel.run(TRAIN)
    following = kernel.run("order.append('next'); print('here')")
    kernel.printed(training, until="begun")
    kernel.press(other)
    kernel.press(button, subshell)
    assert "stopped" in kernel.printed(training)
    assert kernel.printed(following) == "here\n"
    kernel.press(button)  # again, when all is over
    deadline = time.monotonic() + 20
    while (words := kernel.printed(kernel.run("print(*order)")).split()).count("press") < 2:
        assert time.monotonic() < deadline, words
    assert [word for word in words if word != "press"] == ["trained", "next", "other"]
    assert kernel.printed(kernel.run("print(stop.requested())")) == "True\n"  # of the run that is over
    assert kernel.printed(kernel.run("stop.begin(); print(stop.requested())")) == "False\n"
