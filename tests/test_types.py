"""What a type checker says of scripts: wrong choices are found, right ones pass.

Run by pyright, which reads the package's annotations as an editor would.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WRONG = """
import probmetric as pm

lca = pm.LCA(pairs="wrong")
lca.posterior_metric("wrong")
pm.LCA(max_iter="many")
pm.EigDML(solver="wrong")
pm.TwoStageMixture(blend="wrong")
lca.posterior_metric("prediction", n_draws="wrong")
pm.load_metric("metric.npz").no_such_thing
"""
RIGHT = """
import probmetric as pm

lca = pm.LCA(2, pairs="all", regularization=3, tol=None)
lca.posterior_metric("prediction", n_draws=9)
pm.EigDML(solver="pdhg")
pm.TwoStageMixture((1, 2), blend="bic", prior="flat")
reveal_type(lca.sample())
reveal_type(pm.TwoStageMixture().sample("laplace"))
reveal_type(lca.posterior_metric("intervals"))
reveal_type(pm.load_metric("metric.npz"))
reveal_type(pm.load_metric("metric.npz", kinds=[pm.Mahalanobis]))
reveal_type(pm.load_draws("draws.nc"))
pm.load_metric("metric.npz").pairwise
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Return what pyright says of both scripts: (line of the script, kind, message)."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, text in (("wrong.py", WRONG), ("right.py", RIGHT)):
        (folder / name).write_text(text)
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    words = ("-m", "pyright", "--outputjson", "--pythonpath", sys.executable)
    done = subprocess.run(
        [sys.executable, *words, "--project", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    texts = {"wrong.py": WRONG.splitlines(), "right.py": RIGHT.splitlines()}
    found = {name: [] for name in texts}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        name = Path(one["file"]).name
        line = texts[name][one["range"]["start"]["line"]]
        found[name].append((line, one["severity"], one["message"]))
    return found


@pytest.mark.long
def test_every_wrong_choice_is_an_error(said):
    wrong = WRONG.strip().splitlines()[2:]
    messages = dict.fromkeys(wrong, "")  # Of one call there may be several.
    for line, kind, message in said["wrong.py"]:
        assert kind == "error"
        messages[line] += message
    assert list(messages) == wrong
    assert all(messages.values())
    first, second = messages[wrong[0]], messages[wrong[1]]
    assert '"pairs"' in first
    assert all(f"'{word}'" in first for word in ("nearest", "impostors", "all"))
    assert all(f"'{word}'" in second for word in ("prediction", "intervals"))


@pytest.mark.long
def test_right_calls_pass_and_what_they_return_is_known(said):
    """The negative control, and the types of draws and of their metric."""
    assert {kind for _, kind, _ in said["right.py"]} == {"information"}
    kinds = [message.split('" is "')[1] for _, _, message in said["right.py"]]
    assert kinds == [
        *['DataTree"', 'DataTree"', 'PosteriorMetric | IntervalMetric"'],
        'Metric | PosteriorMetric | IntervalMetric"',
        'Dissimilarity | PosteriorMetric | IntervalMetric"',
        'DataTree"',
    ]
