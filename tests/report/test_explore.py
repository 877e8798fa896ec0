"""The explorer: what it says, what it refuses, and its clicks in a real browser."""

import json
import os
import re
import shutil
import subprocess
from functools import partial
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import probmetric as pm
from probmetric.posterior.metric import PosteriorMetric
from probmetric.report.explore import MOST_POINTS, Page, _neighbors, explore
from tests.dump import assert_refused
from tests.metric_kinds import build

BROWSERS = "chromium", "chromium-browser", "google-chrome", "chrome"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,1200",
    "--virtual-time-budget=20000",
    "--dump-dom",
)
HERE = Path(__file__).parent


def data(n=12, d=3):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) + 2.0 * y[:, None], y


def draws(d=3):
    sizes = (0.5, 1.0, 2.0, 4.0)
    each = [pm.Mahalanobis(np.diag([1.0, s, *np.ones(d - 2)])) for s in sizes]
    return PosteriorMetric(each, "intervals")


def content(page):
    """Read the data of the page from its script."""
    return json.loads(re.search(r"const data = (\{.*\});", page.html)[1])


def test_intervals_have_limits_and_one_metric_has_none():
    X, y = data()
    fits = [pm.Mahalanobis(np.eye(3) * s) for s in (1.0, 0.9, 1.1)]
    made = pm.posterior.IntervalMetric(fits[0], fits[1:])
    said = content(explore(made, X, y, k=2))
    low, high = made.interval(X[0], X[said["index"][0][0]])
    limits = np.array(said["limits"])
    np.testing.assert_allclose(limits[:, 0, 0], [low, high], rtol=1e-4)
    P = made.neighbor_probability(X, X, 2, exclude_self=True)
    shown = np.take_along_axis(P, np.array(said["index"]), 1)
    np.testing.assert_allclose(said["probability"], shown, rtol=1e-4)
    assert said["probable"]
    alone = content(explore(fits[0], X, y, k=2))
    assert alone["limits"] is None
    assert not alone["probable"]


def test_draws_whose_spread_is_not_the_sampling_error_have_no_limits():
    X, y = data()
    said = content(explore(draws(), X, y, k=2))
    assert said["probable"]
    assert said["limits"] is None


@pytest.mark.long
def test_a_local_metric_says_that_the_plane_does_not_show_it():
    X, y = data(30)
    fit = SimpleNamespace(get_metric=lambda: build("LocalMahalanobis"))
    said = content(explore(fit, X, y, k=3))
    assert said["matrix"] is None
    assert "are not the distances of this metric" in said["words"]


def test_what_is_not_shown_is_counted():
    X, y = data(40)
    rng = np.random.default_rng(1)
    each = [pm.Mahalanobis(np.diag(rng.uniform(0.01, 9, 3))) for _ in range(60)]
    said = content(explore(PosteriorMetric(each, "intervals"), X, y, k=1))
    shown = np.array(said["probability"])
    assert shown.shape[1] <= 5
    np.testing.assert_allclose(shown.sum(1) + said["others"], 1, rtol=1e-4)


def test_names_cannot_leave_the_script():
    X, y = data()
    names = ["</script><b>", "b & c", "c"]
    page = explore(draws(), X, y, k=2, feature_names=names, target_names=["<i>", "&"])
    assert content(page)["names"] == names
    assert "</script><b>" not in page.html.split("const data")[1]
    assert "<iframe" in page._repr_html_()


WRONG = [
    {"learned": "lca"},
    {"X": np.zeros((4, 2))},
    {"X": np.zeros((MOST_POINTS + 1, 3))},
    {"y": np.zeros(3)},
    {"k": 12},
    {"feature_names": ["a"]},
    {"learned": pm.LDA},
    {"learned": PosteriorMetric([pm.Mahalanobis(np.eye(3))], "prediction")},
    {"y": [None, *"abababababa"]},
    {"y": np.linspace(0.1, 0.9, 12)},
    {"y": list("ab") * 6, "target_names": ["b", "a"]},
    {"target_names": ["a"]},
]


def test_wrong_input_is_named():
    X, y = data()
    given = {"learned": draws(), "X": X, "y": y, "k": 3}
    calls = [partial(explore, **{**given, **changed}) for changed in WRONG]
    assert_refused(calls, "report/explore.txt")


def test_a_page_is_saved_whole(tmp_path):
    Page("<p>ä</p>").save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == "<p>ä</p>"
    with pytest.raises(ValueError, match=r"path must end in \.html"):
        Page("").save(tmp_path / "a.txt")


@pytest.mark.long
def test_it_answers_in_a_browser(tmp_path):
    """With PROBMETRIC_BROWSER=required it fails where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        if os.environ.get("PROBMETRIC_BROWSER") == "required":
            pytest.fail(f"expected one of {', '.join(BROWSERS)} on the path, got none")
        pytest.skip("no browser on this machine")
    X, y = data()
    posterior = draws()
    page = explore(posterior, X, y, k=3, target_names=["<i>red", "green & blue"])
    assert len(page.html.encode()) < 7e6
    watch, use = (
        f"<script>{(HERE / name).read_text(encoding='utf-8')}</script>"
        for name in ("explore_watch.js", "explore_use.js")
    )
    html = page.html.replace("</head>", f"{watch}</head>", 1)
    path = tmp_path / "page.html"
    path.write_text(html.replace("</html>", f"{use}</html>"), encoding="utf-8")
    done = subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={tmp_path / 'user'}", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:]
    said = json.loads(unescape(found[1]))
    assert said["errors"] == []
    P = posterior.neighbor_probability(X, X, 3, exclude_self=True)

    def expected(i):
        return {j: f"{P[i, j]:.2f}" for j in range(len(X)) if P[i, j] >= 0.01}

    for state, i in (("first", 0), ("clicked", 3)):
        shown = said[state]
        assert shown["query"] == f"Row {i}, " + ["<i>red", "green & blue"][y[i]]
        assert {int(r[0]): r[2] for r in shown["rows"]} == expected(i)
    assert "row 3, green & blue" in said["hover"]
    assert said["colour"] == ["x1"]
    assert said["bar"] > said["buttons"]  # The color bar is below the buttons.
    assert said["last"].startswith("Row 11,")  # Beyond the last: the last.
    assert said["address"] == "#row=11&feature=1"
    # Back: the row before, and its color; before that, the class.
    assert said["back"] == ["#row=3&feature=1", said["clicked"]["query"], "1"]
    assert said["further"] == ["#row=3", said["clicked"]["query"], "-1"]
    # A page that is loaded with an address shows its row and color.
    again = subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={tmp_path / 'user'}",
         f"{path.as_uri()}#row=5&feature=2"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="said">(.*?)</pre>', again.stdout, re.S)
    assert json.loads(unescape(found[1]))["first"]["query"].startswith("Row 5,")


def test_votes_are_shares_of_the_k_neighbors():
    """Neighbors of 0 among 0, 1, 3, 7, 15 are 1, 3 and 7, of classes 1, 0 and 1."""
    X, codes = np.array([[0.0], [1.0], [3.0], [7.0], [15.0]]), np.array([0, 1, 0, 1, 1])
    found = _neighbors(pm.Mahalanobis(np.eye(1)), X, codes, 2, 3)
    np.testing.assert_allclose(found["votes"][0], [1 / 3, 2 / 3])
    np.testing.assert_array_equal(found["index"][0], [1, 2, 3])
    np.testing.assert_array_equal(found["others"], 0)
