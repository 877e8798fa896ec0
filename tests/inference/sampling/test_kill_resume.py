"""A sampler killed with SIGKILL loses no block that it said was saved."""

import pytest

from benchmarks.kill_resume import SAMPLERS, kill_and_resume

N_KILLS = dict.fromkeys(SAMPLERS, 1) | {"nuts": 3}
"""The third comes before a first block, where all samplers are alike."""


@pytest.mark.slow
@pytest.mark.parametrize("method", SAMPLERS)
def test_a_killed_run_is_resumed_to_the_same_draws(method, tmp_path):
    outcome = kill_and_resume(method, N_KILLS[method], seed=7, scratch=tmp_path)
    assert outcome.sound, outcome
    assert outcome.lost == outcome.changed == 0
