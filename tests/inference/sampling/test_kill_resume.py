"""A sampler killed with SIGKILL resumes from its stored blocks to the same draws."""

import signal
import subprocess
import sys

import numpy as np
import pytest

CHILD = """
import logging, os, signal, sys
from dataclasses import replace
import numpy as np
from sklearn.datasets import load_iris
from probmetric import LCA, NUTS
from probmetric.inference.lca import Bootstrap

method, out, folder, blocks = sys.argv[1:]

class Killer(logging.Handler):
    left = int(blocks)
    def emit(self, record):
        if record.getMessage().startswith("block "):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

logging.basicConfig(level=logging.INFO, handlers=[Killer()])
samplers = {
    "nuts": (NUTS(n_warmup=20, block_size=5), {"n_draws": 40, "n_chains": 2}),
    "bootstrap": (Bootstrap(block_size=3), {"n_draws": 30, "n_chains": 1}),
}
sampler, sizes = samplers[method]
if folder:
    sampler = replace(sampler, checkpoint=folder, resume=True)
fitted = LCA(n_components=2).fit(*load_iris(return_X_y=True))
tree = fitted.sample(sampler, seed=1, progress=False, **sizes)
np.savez(out, **{k: v.to_numpy() for k, v in tree["posterior"].data_vars.items()})
"""


def run(method, out, folder="", blocks=0):
    """Run the child, which kills itself after so many blocks; return its exit code."""
    words = [sys.executable, "-c", CHILD, method, out, folder, blocks]
    return subprocess.run([*map(str, words)]).returncode


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "bootstrap"])
def test_a_killed_run_resumes_to_the_same_draws(method, tmp_path):
    whole, resumed, folder = tmp_path / "a.npz", tmp_path / "b.npz", tmp_path / "blocks"
    assert run(method, whole) == 0
    for blocks in (3, 2):
        assert run(method, resumed, folder, blocks) == -signal.SIGKILL
    stored = {path: path.read_bytes() for path in folder.glob("block_*.npz")}
    assert len(stored) == 5
    assert run(method, resumed, folder) == 0
    assert {path: path.read_bytes() for path in stored} == stored
    with np.load(whole) as a, np.load(resumed) as b:
        assert a.files == b.files
        assert all(np.array_equal(a[name], b[name]) for name in a.files)
