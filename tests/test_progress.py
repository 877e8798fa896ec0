"""Bars where someone watches, a line now and then in a log, silence when asked for."""

import itertools

import IPython
import IPython.display

from probmetric import progress
from probmetric.progress import progress_bar


def test_what_is_quick_leaves_nothing_in_a_log(capfd):
    assert list(progress_bar(range(3), "quick", None)) == [0, 1, 2]
    assert capfd.readouterr().err == ""


def test_a_bar_that_is_asked_for_is_shown_at_once(capfd):
    list(progress_bar(range(3), "loud", True))
    assert "loud" in capfd.readouterr().err


def test_a_log_gets_a_line_every_ten_seconds(capfd, monkeypatch):
    clock = itertools.count(0.0, 4.0)  # Four seconds a step.
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    bar = progress_bar(range(8), "validate lda", None, "check")
    for item in bar:
        bar.set_postfix_str(f"number {item}")
    assert capfd.readouterr().err.splitlines() == [
        "validate lda: 2 of 8 checks in 12 s, number 1",
        "validate lda: 5 of 8 checks in 24 s, number 4",
    ]


def test_a_bar_of_slow_steps_is_removed_at_the_end(capfd, monkeypatch):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    bar = progress_bar(range(2), "validate lda", None, "check")
    bar.start_t -= 2.0  # It has begun two seconds ago.
    for item in bar:
        bar.set_postfix_str(f"number {item}")
    drawn, left = capfd.readouterr().err.rsplit("number 1", 1)
    assert "validate lda:   0%" in drawn
    assert left.split("\r")[-1] == ""
    assert left.split("\r")[-2].strip() == ""


def test_silence_holds_for_bars_that_nobody_asked_for(capfd, monkeypatch):
    items = range(3)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    with progress.silent():
        assert progress_bar(items, "quiet", None) is items
        list(progress_bar(items, "loud", True))
    assert "loud" in capfd.readouterr().err
    assert progress_bar(items, "later", None) is not items


def test_a_notebook_is_left_without_a_bar(monkeypatch):
    seen = []

    class Handle:
        def display(self, data, raw):
            seen.append(data)

        update = display

    class Shell:
        kernel = True

    monkeypatch.setattr(IPython, "get_ipython", Shell)
    monkeypatch.setattr(IPython.display, "DisplayHandle", Handle)
    assert list(progress_bar(range(4), "bootstrap", True, "block")) == [0, 1, 2, 3]
    texts = [data.get("text/plain") for data in seen]
    assert texts[2] == "bootstrap: " + "█" * 10 + "░" * 10 + " 2 of 4 blocks in 0 s"
    assert texts[-1] is None
    seen.clear()
    list(progress_bar(range(4), "quick", None))
    assert seen == []
