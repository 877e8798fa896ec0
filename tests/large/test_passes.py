"""Passes kept on disk: what is read again, and what is refused."""

import numpy as np
import pytest

from probmetric.files import locked
from probmetric.large import checkpointed
from probmetric.large.passes import Pass, kept


def climb(start=0.0, step="square", parts="these", passes=3, seen=None):
    """Make passes, each a function of what the one before gave."""
    x = np.full(3, start)
    for index in range(passes):

        def compute(x=x, index=index):
            if seen is not None:
                seen.append(index)
            return {"a": x**2 + 1, "n": np.int64(index)}

        like = {"a": x, "n": np.int64(0)}
        x = kept(Pass(step, parts, {"x": x}), lambda like=like: like, compute)["a"]
    return x


def test_without_a_folder_nothing_is_kept():
    with checkpointed(None):
        assert climb().tolist() == [5.0] * 3


def test_resumed_passes_are_read_and_the_rest_computed(tmp_path):
    whole = climb()
    with checkpointed(tmp_path / "ck"):
        climb(passes=2)
    seen = []
    with checkpointed(tmp_path / "ck", resume=True):
        assert climb(seen=seen).tobytes() == whole.tobytes()
    assert seen == [2]
    seen.clear()
    with checkpointed(tmp_path / "ck", resume=True):
        climb(seen=seen)
    assert seen == []


def test_a_missing_pass_in_between_is_computed_with_those_after_it(tmp_path):
    with checkpointed(tmp_path):
        whole = climb()
    (tmp_path / "pass_00001.npz").unlink()
    seen = []
    with checkpointed(tmp_path, resume=True):
        assert climb(seen=seen).tobytes() == whole.tobytes()
    assert seen == [1, 2]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"start": 0.5}, "other parameters"),
        ({"start": 1e-5}, "other parameters"),
        ({"parts": "those"}, "other data"),
        ({"step": "cube"}, "the step square instead of cube"),
    ],
)
def test_passes_of_another_run_are_refused(tmp_path, other, message):
    with checkpointed(tmp_path):
        climb()
    with (
        pytest.raises(ValueError, match=f"another run \\(pass 0 has {message}"),
        checkpointed(tmp_path, resume=True),
    ):
        climb(**other)


def test_parameters_that_differ_by_rounding_are_the_same_run(tmp_path):
    with checkpointed(tmp_path):
        whole = climb(1.0)
    with checkpointed(tmp_path, resume=True):
        assert climb(1.0 + 1e-15).tobytes() == whole.tobytes()


def test_sums_of_another_form_are_refused(tmp_path):
    with checkpointed(tmp_path):
        climb()
    with (
        pytest.raises(ValueError, match="sums of other shapes"),
        checkpointed(tmp_path, resume=True),
    ):
        kept(Pass("square", "these", {"x": np.zeros(3)}), lambda: np.zeros(3), dict)


@pytest.mark.parametrize("left", [0, 10, 300, -1])
def test_a_pass_cut_short_is_refused(tmp_path, left):
    with checkpointed(tmp_path):
        climb()
    path = tmp_path / "pass_00002.npz"
    path.write_bytes(path.read_bytes()[:left])
    with (
        pytest.raises(ValueError, match=r"checkpoint: the file .*pass_00002"),
        checkpointed(tmp_path, resume=True),
    ):
        climb()


def test_passes_of_a_former_run_are_not_written_over(tmp_path):
    with checkpointed(tmp_path):
        climb()
    with (
        pytest.raises(ValueError, match=r"checkpoint: .* 3 saved passes"),
        checkpointed(tmp_path),
    ):
        pass


def test_to_resume_needs_a_folder():
    with (
        pytest.raises(ValueError, match=r"checkpoint must .* got None"),
        checkpointed(None, resume=True),
    ):
        pass


def test_a_folder_that_another_run_holds_is_refused(tmp_path):
    import threading

    said = []

    def second():
        try:
            with checkpointed(tmp_path):
                pass
        except ValueError as error:
            said.append(str(error))

    with locked(tmp_path, "checkpoint"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert "checkpoint" in said[0]


def test_a_pass_that_cannot_be_written_says_which_stand(tmp_path):
    with checkpointed(tmp_path):
        climb(passes=1)
        (tmp_path / "pass_00001.npz" / "x").mkdir(parents=True)
        with pytest.raises(OSError, match=r"write pass 1: .*The 1 earlier passes"):
            climb(passes=1)
