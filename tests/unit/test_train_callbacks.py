"""Several callbacks as one, and who is told that training is over."""

import pytest

from snnkit.train.callbacks import finish, in_turn


class Listener:
    def __init__(self, heard, name):
        self.heard, self.name = heard, name

    def __call__(self, *told):
        self.heard.append((self.name, *told))

    def finish(self):
        self.heard.append((self.name, "over"))


def test_all_are_called_in_their_order_and_told_of_the_end():
    heard = []
    both = in_turn("on_epoch", Listener(heard, "a"), [lambda *told: heard.append(("b", *told)), Listener(heard, "c")])
    both(1, 2)
    finish(both)
    assert heard == [("a", 1, 2), ("b", 1, 2), ("c", 1, 2), ("a", "over"), ("c", "over")]


def test_one_stays_itself_and_none_is_none():
    assert in_turn("on_batch", None, [], ()) is None
    assert in_turn("on_batch", None, [print]) is print
    finish(None)
    finish(print)


def test_a_group_shows_progress_if_one_of_it_does():
    def bar():
        pass

    assert not in_turn("on_batch", print, bar).shows_progress
    bar.shows_progress = True
    assert in_turn("on_batch", print, bar).shows_progress


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="on_batch must be a function; got 3"):
        in_turn("on_batch", print, [3])


def test_the_owner_of_a_method_hears_of_the_end():
    class Panel:
        ended = 0

        def on_batch(self, info):
            pass

        def finish(self):
            self.ended += 1

    panel = Panel()
    finish(panel.on_batch)
    finish(in_turn("on_batch", panel.on_batch, print))
    finish(None)
    assert panel.ended == 2
