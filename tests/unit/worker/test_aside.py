from __future__ import annotations

import threading

from rlark.worker.aside import Aside


def test_each_name_is_done_once_and_waited_for():
    aside, done = Aside(), []
    for name in ("facts", "facts", "stacks"):
        aside.once(name, lambda name=name: done.append(name))
    aside.finish(5)
    assert sorted(done) == ["facts", "stacks"]


def test_what_fails_is_told_and_fails_nothing(capsys):
    aside = Aside()
    aside.once("facts", lambda: 1 / 0)
    aside.finish(5)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_what_hangs_is_not_waited_for_without_end():
    aside, go, done = Aside(), threading.Event(), []
    aside.once("stacks", lambda: done.append(go.wait(60)))
    aside.finish(0.01)
    assert done == []
    go.set()
    aside.finish(5)
    assert done == [True]
