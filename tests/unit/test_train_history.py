"""Callbacks of a run: several as one, and TensorBoard's files, read back by TensorBoard's own reader."""

import sys

import pytest

from snnkit import train
from snnkit.train import TensorBoard
from snnkit.train.history import CallbackList

pytest.importorskip("tensorboard")


class Listener:
    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    def __call__(self, *arguments):
        self.calls.append((self.name, *arguments))

    def finish(self):
        self.calls.append((self.name, "over"))


def test_all_are_called_in_order_and_finished():
    calls = []
    both = CallbackList("on_epoch", Listener(calls, "a"), [lambda *x: calls.append(("b", *x)), Listener(calls, "c")])
    both(1, 2)
    CallbackList("on_batch", both).finish()
    assert calls == [("a", 1, 2), ("b", 1, 2), ("c", 1, 2), ("a", "over"), ("c", "over")]
    assert len(both) == 3 and len(CallbackList("on_batch", None, [], ())) == 0


def history(epochs):
    return train.History(
        train_loss=[1.0 / (i + 1) for i in range(epochs)],
        train_accuracy=[0.5 + i / 10 for i in range(epochs)],
        test_loss=[2.0 / (i + 1) for i in range(epochs)],
        test_accuracy=[0.4 + i / 10 for i in range(epochs)],
        output_rate=[0.1] * epochs,
        seconds=[3.0] * epochs,
        samples_per_second=[100.0] * epochs,
    )


def curves(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder)).Reload()
    scalars = {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    texts = {tag: reader.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in reader.Tags()["tensors"]}
    return scalars, texts


def test_every_epoch_is_written_at_once(tmp_path):
    board = TensorBoard(tmp_path / "run", {"lr": 0.1, "name": "x"})
    for epochs in (1, 2):
        board(history(epochs))
        assert len(curves(tmp_path / "run")[0]["loss/train"]) == epochs
    board.finish()
    scalars, texts = curves(tmp_path / "run")
    assert scalars["loss/train"] == [(1, 1.0), (2, 0.5)] and scalars["loss/test"] == [(1, 2.0), (2, 1.0)]
    assert scalars["accuracy/test"] == [(1, pytest.approx(0.4)), (2, pytest.approx(0.5))]
    assert set(scalars) == {
        "loss/train", "loss/test", "accuracy/train", "accuracy/test", "output_rate",
        "speed/seconds_per_epoch", "speed/samples_per_second",
    }  # fmt: skip
    assert '"lr": 0.1' in texts["settings/text_summary"]


def test_a_resumed_run_has_each_epoch_once(tmp_path):
    first = TensorBoard(tmp_path, {"lr": 0.1})
    first(history(1))
    first(history(2))
    first.finish()
    second = TensorBoard(tmp_path)  # killed after epoch 3 was saved, and before it was written here
    second(history(4))
    second.finish()
    scalars, texts = curves(tmp_path)
    assert [step for step, _ in scalars["loss/train"]] == [1, 2, 3, 4]
    assert '"lr": 0.1' in texts["settings/text_summary"]


def test_without_the_package_it_says_how_to_get_it(monkeypatch, tmp_path):
    for name in [*sys.modules]:
        if name.partition(".")[0] == "tensorboard" or name.startswith("torch.utils.tensorboard"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r'TensorBoard needs its package .* pip install "snnkit\[scale\] @ git'):
        TensorBoard(tmp_path)
    with pytest.raises(ValueError, match=r"folder must be a folder for TensorBoard's files, but .* is a file"):
        TensorBoard(__file__)
