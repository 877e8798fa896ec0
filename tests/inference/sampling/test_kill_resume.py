"""A sampler killed with SIGKILL loses no block that it said was saved."""

import pytest

from benchmarks.kill_resume import SAMPLERS, kill_and_resume


@pytest.mark.slow
@pytest.mark.parametrize("method", SAMPLERS)
def test_a_killed_run_is_resumed_to_the_same_draws(method, tmp_path):
    outcome = kill_and_resume(method, n_kills=3, seed=7, scratch=tmp_path)
    assert outcome.sound, outcome
    assert outcome.lost == outcome.changed == 0
