"""Every table, verdict, line and message of ``checks`` equals a stored text.

Tables were computed a second time with SciPy, ArviZ and loops, mostly below.
"""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace as Bag

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import stats

import probmetric as pm
from probmetric.checks import claims, problems, ranks, sides, values
from probmetric.checks.check import (
    Check,
    Problem,
    by_sampling,
    judge,
    near_sampling,
    zero,
)
from probmetric.checks.compare import (
    compare,
    distance,
    entry_table,
    holm,
    overall,
    without_skew,
)
from probmetric.checks.criticism import (
    Finding,
    ModelVerdict,
    check_model,
    surprise,
    verdict_of,
)
from probmetric.checks.gaussian_classes import criticism as of_classes
from probmetric.checks.lca import criticism as of_lca
from probmetric.checks.own import calibration
from probmetric.checks.own import criticism as of_draws
from probmetric.checks.own.calibration import Calibration
from probmetric.checks.summary import align, flatten, select, summarize
from probmetric.checks.uniformity import Ranks, uniformity
from probmetric.checks.validation import Judgement, Validation, validate
from probmetric.data.containers import Groups, Labeled, Pairs, Points, Triplets
from probmetric.models.lca import LCAPrior
from probmetric.registry import MODELS
from tests.dump import outcomes, text
from tests.expected import assert_expected

DIMS = ("chain", "draw")


def drawn(shift=0.0, seed=0, n=400, chains=3, khat=None):
    """Three chains of two numbers, a skewed one and a constant."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(chains, n, 2)) * [1.0, 3.0] + [0.5 + shift, -2.0]
    table = {"x": ((*DIMS, "i"), x), "g": (DIMS, rng.gamma(2.0, size=(chains, n))),
             "c": (DIMS, np.full((chains, n), 1.5))}  # fmt: skip
    return xr.Dataset(
        table, {"i": ["left", "right"]}, {} if khat is None else {"khat": khat}
    )


ABOUT = {"x": np.array([0.5, -2.2]), "g": 2.1, "c": 1.5}


def test_compare():
    """z is the gap over sd/√ESS; ESS and R-hat are ArviZ's."""
    draws, other = drawn(), drawn(0.15, 1, 300)
    error = {"x": np.array([0.02, 0.3]), "g": 0.0, "c": 0.1}
    table = xr.Dataset({"a": (DIMS, np.arange(12.0).reshape(3, 4) ** 2)})
    calls = {
        "numbers": lambda: compare(ABOUT, draws, ess_min=500),
        "error": lambda: compare(ABOUT, draws, reference_mcse=error, tol=0.2,
            alpha=0.05),
        "draws": lambda: compare(other, draws, ess_min=700, power=0.8),
        "strict": lambda: compare(other, draws, rhat_max=1.0001, ess_min=100),
        "few": lambda: compare(other, draws),
        "distance": lambda: distance(other, draws),
        "constants": lambda: distance(other * 0 + 1, draws * 0 + 1),
        "summary": lambda: summarize(select(draws, None, "draws")),
        "one chain": lambda: summarize(select(draws.isel(chain=[0]), ["g"], "d",
            min_chains=1)),
        "holm": lambda: holm(np.array([0.03, np.nan, 0.001, 0.2, 0.02])),
        "skew": lambda: without_skew(np.array([-2.0, 1.0, 3.0]), np.array([0.1, -0.05,
            0.2])),
        "overall": lambda: [overall(v) for v in (
            ["agree", "inconclusive"], ["agree", "within"], ["outside", "disagree"], [
                "within"], [])],
        "names": lambda: select(draws, ["y"], "draws"),
        "no names": lambda: select(draws, [], "draws"),
        "group": lambda: select(xr.DataTree.from_dict({"prior": draws}), None,
            "reference"),
        "dims": lambda: select(draws.isel(chain=0), None, "draws"),
        "short": lambda: select(draws.isel(draw=[0, 1]), None, "draws"),
        "chains": lambda: select(draws.isel(chain=[1]), None, "draws"),
        "infinite": lambda: select(draws.where(draws["g"] < 3), ["g"], "draws"),
        "equal": lambda: select(draws.isel(chain=[0, 2, 0]), None, "draws"),
        "shape": lambda: align(draws, draws.isel(i=0), "draws"),
        "flat": lambda: flatten(ABOUT, select(draws, None, "draws"), "reference"),
        "no value": lambda: flatten({"x": [1.0, 2.0]}, draws, "reference"),
        "shape of value": lambda: flatten(ABOUT | {"x": 1.0}, draws, "reference"),
        "finite": lambda: flatten(ABOUT | {"g": np.nan}, draws, "reference"),
        "negative": lambda: compare(ABOUT, draws, reference_mcse=ABOUT),
        "two errors": lambda: compare(other, draws, reference_mcse=error),
        "table": lambda: summarize(table),
        "empty": lambda: compare({}, draws),
        "alpha": lambda: compare(ABOUT, draws, alpha=0.0),
        "tol": lambda: compare(ABOUT, draws, tol=0.0),
        "no error": lambda: compare(ABOUT, draws, reference_mcse={}),
        "other names": lambda: distance(draws[["g"]].rename(g="h"), draws),
        "other shape": lambda: distance(draws, draws.isel(i=[0, 1, 0])),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "checks/compare.txt")
    x, made = draws["g"].to_numpy(), found["numbers"]
    ess, rhat = (
        float(f(draws["g"])) for f in (partial(az.ess, method="mean"), az.rhat)
    )
    mcse, k = x.std(ddof=1) / np.sqrt(ess), list(made["entry"].to_numpy()).index("g")
    plain = (x.mean() - 2.1) / mcse
    q = stats.skew(x.ravel()) / np.sqrt(ess)
    for name, value in {
        "mcse": mcse,
        "ess": ess,
        "rhat": rhat,
        "estimate": x.mean(),
    }.items():
        assert made[name].to_numpy()[k] == pytest.approx(value, rel=1e-8)
    z = plain + q * plain**2 / 3 + q**2 * plain**3 / 27 + q / 6
    assert made["z"].to_numpy()[k] == pytest.approx(z, rel=2e-3)
    critical = stats.norm.isf(0.005 / 3)
    assert made.attrs["z_crit"] == pytest.approx(critical)
    wide = (critical + stats.norm.ppf(0.9)) * mcse / x.std(ddof=1)
    assert made["detectable"].to_numpy()[k] == pytest.approx(wide)


def test_values():
    """The largest gap of each name, relative to its largest reference, by hand."""
    both = (
        {"a": np.array([1.0, -4.0, 2.0]), "b": 0.0, "c": [np.inf, 2.0]},
        {"a": np.array([1.001, -4.0, 2.003]), "b": 1e-5, "c": [np.inf, 2.5]},
    )
    near = {"rtol": 1e-3, "atol": 1e-4}
    calls = {
        "close": lambda: values.compare_values(*both, **near),
        "far": lambda: values.compare_values(*both, rtol=1e-6, atol=0),
        "words": lambda: values.compare_values(*both, rtol=0.9, atol=0.0, words=(
            "within", "outside")),
        "missing": lambda: values.compare_values({"d": 1.0}, both[1], **near),
        "shape": lambda: values.compare_values({"a": 1.0}, both[1], **near),
        "none": lambda: values.compare_values({}, both[1], **near),
        "nan": lambda: values.compare_values({"b": np.nan}, both[1], **near),
        "bound": lambda: values.within_bound(drawn(n=900), drawn(0.2, 1, 900), 0.5),
        "outside": lambda: values.within_bound(drawn(n=900), drawn(0.9, 1, 900), 0.3),
        "weak": lambda: values.within_bound(drawn(n=90), drawn(0.2, 1), 0.5),
        "khat": lambda: values.within_bound(drawn(n=900), drawn(0, 1, 900, khat=0.9),
            0.5),
        "good khat": lambda: values.within_bound(drawn(n=900), drawn(0, 1, 900,
            khat=0.6), 0.5),
        "far khat": lambda: values.within_bound(drawn(n=900), drawn(0.9, 1, 900,
            khat=0.9), 0.5),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "checks/values.txt")
    np.testing.assert_allclose(found["close"]["error"], [0.003 / 4, 1e-5, 0.5 / 2])


def test_uniformity():
    """A normal test of the mean rank and chi-square over ten bins, by SciPy."""
    rng = np.random.default_rng(3)
    rows = {"a": rng.integers(0, 40, 120), "low": rng.integers(0, 25, 120),
            "fixed": np.zeros(120, int), "off": np.full(120, 3)}  # fmt: skip
    ranked = Ranks(rows, 39, {"fixed": True, "off": False})
    calls = {
        "ranks": lambda: uniformity(ranked),
        "long": lambda: uniformity(Ranks({"a": np.tile(rows["a"], 9)}, 39), tol=0.2,
            power=0.8),
        "few": lambda: uniformity(Ranks({"a": rows["a"] % 8}, 7), alpha=0.05),
        "four a bin": lambda: uniformity(Ranks({"a": np.arange(40) % 10}, 9), tol=9.0),
        "five a bin": lambda: uniformity(Ranks({"a": np.arange(50) % 10}, 9), tol=9.0),
        "none": lambda: uniformity(Ranks({}, 9)),
        "floats": lambda: uniformity(Ranks({"a": rows["a"] * 1.0}, 9)),
        "range": lambda: uniformity(ranked._replace(n_draws=24)),
        "rank": lambda: ranks._rank(jnp.asarray(0.7), jnp.asarray(2.0), jnp.asarray([
            1.0, 2, 2, 2, 5])),
        "constant": lambda: ranks._rank(jnp.asarray(0.2), jnp.asarray(2.0), jnp.asarray(
            [1.0, 1, 1])),
        "distinct": lambda: ranks._distinct({
            "M": ranks._Ranked(np.arange(12).reshape(3, 2, 2) % 5, np.zeros((3, 2, 2),
                bool), np.ones((3, 2, 2), bool)),
            "copy": ranks._Ranked(np.arange(0, 12, 4) % 5, np.zeros(3, bool), np.ones(3,
                bool)),
            "c": ranks._Ranked(np.arange(3), np.ones(3, bool), np.array([True, False,
                True])),
            "log_likelihood": ranks._Ranked(np.arange(0, 12, 4) % 5, np.zeros(3, bool),
                np.ones(3, bool)),
        }, 9),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "checks/uniformity.txt")
    made, mean = found["ranks"], (rows["low"].mean() + 0.5) / 40
    error = np.sqrt(np.var(np.arange(40) / 40) / 120)
    assert made["estimate"].to_numpy()[1] == pytest.approx(mean)
    assert made["z"].to_numpy()[1] == pytest.approx((mean - 0.5) / error)
    chi2 = stats.chisquare(np.histogram(rows["low"], np.arange(0, 41, 4))[0]).statistic
    assert made["estimate"].to_numpy()[5] == pytest.approx(chi2)


def checks_of():
    near = {"reference": lambda p: drawn(n=900), "bound": 0.5}
    wrong = {"wrong": lambda p: {"m": p.data.X.sum(0)}}
    mean = Check("mean", "exact", lambda p: {"m": p.data.X.mean(0)},
                 lambda p: {"m": p.data.X.sum(0) / 3}, wrong)  # fmt: skip
    return [
        mean,
        replace(mean, name="sum", estimate=wrong["wrong"], controls={
            "right": mean.reference}),
        by_sampling("ranked", reference=lambda p: ABOUT, estimate=lambda p: drawn(
            n=900),
                    controls={"shifted": lambda p: drawn(1, n=900)}, tol=0.3,
                        slow=True),
        by_sampling("turned", reference=lambda p: drawn(n=900),
            estimate=lambda p: ABOUT,
                    controls={"shifted": lambda p: ABOUT | {"g": 9.0}}, tol=0.2,
                        ess_min=50),
        near_sampling("near", estimate=lambda p: drawn(0.1, 1, 900), **near),
        near_sampling("khat", estimate=lambda p: drawn(0.1, 1, 900, khat=0.8), **near),
        Check("zero", "exact", zero, lambda p: {"z": np.array([1e-12, 0.0])},
              {"one": lambda p: {"z": 1.0}}, atol=1e-9),
        Check("values", "approximate", lambda p: {"m": 2.0}, lambda p: {"m": 2.4},
            bound=0.1),
    ]  # fmt: skip


def test_validation():
    """Counts by hand: 5 exact claims, of which one disagrees, and 3 approximations."""
    data = Points(np.array([[1.0, 2.0], [4.0, -1.0], [0.5, 3.0]]))
    problem = Problem("three points", None, data)

    def said(*args, **kwargs):
        found = validate(*args, progress=False, **kwargs)
        found = replace(found, judgements=tuple(j._replace(seconds=k / 4)
                        for k, j in enumerate(found.judgements)))  # fmt: skip
        tables = [found.to_dataframe(), found.summary(), found.by_model()]
        return {"str": str(found), "code": found.exit_code, "verdict": found.verdict,
                "counts": found.counts, "unreliable": found.unreliable,
                    "tables": tables,
                "attrs": [str(j.table.attrs) for j in found.judgements]}  # fmt: skip

    every = checks_of()
    calls = {
        "all": lambda: said(every, problem),
        "broken": lambda: said(every, [problem], break_=True),
        "good": lambda: said([every[0], every[6], every[4], every[5]], data,
            alpha=0.05),
        "quick": lambda: said(every[:1] + every[2:3], data, quick=True),
        "missed": lambda: said(every[1:2], data, break_=True),
        "weak": lambda: said(every[2:3], data, alpha=0.001)["verdict"],
        "nothing": lambda: [str(Validation("x", ())), Validation("x", ()).to_dataframe(
            )],
        "none quick": lambda: validate(every[2:3], data, quick=True),
        "no checks": lambda: validate([], data),
        "model": lambda: validate(3, data),
        "name": lambda: validate("nothing", data),
        "data": lambda: validate("lca", data),
        "weights": lambda: validate("lda", Labeled(data.X, np.arange(3), np.ones(3))),
        "matrix": lambda: validate("mds", 3),
        "control": lambda: judge(every[0], problem, control="other"),
        "sides": lambda: judge(replace(every[4], estimate=every[0].estimate), problem),
        "no controls": lambda: Check("x", "exact", zero, zero),
        "no bound": lambda: Check("x", "approximate", zero, zero),
        "kind": lambda: Check("x", "near", zero, zero),
        "layer": lambda: Check("x", "exact", zero, zero, {"a": zero}, layer="guess"),
        "tol": lambda: Check("x", "exact", zero, zero, {"a": zero}, tol=0),
        "rtol": lambda: Check("x", "exact", zero, zero, {"a": zero}, rtol=-1),
        "tests": lambda: [str(c.tests) for c in every],
        "judged": lambda: [Judgement("m", "p", entry_table({"z": [np.nan], "error": [
            np.nan]}, ["a"], {
            "verdict": v, "control": c, "unreliable": True}), 0.5).verdict
            for v, c in (("agree", ""), ("outside", "c"), ("disagree", "c"), (
                "inconclusive", "c"))],
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "checks/validation.txt")


def test_criticism():
    """Holm's p-values are 3 × 0.004, 2 × 0.009 and 0.3."""
    found = [Finding("prior", 2.0, 0.004, 0.3, 0.05, "far", "widen"),
             Finding("predictive", 1.0, 0.3, 0.9, 0.1, "near", "look"),
             Finding("location", 3.0, 0.009, 0.01, 0.1, "varies", "group")]  # fmt: skip
    judged = verdict_of("lca", found)
    strict = verdict_of("lda", [found[0]._replace(p_value=0.003), *found[1:]])
    replicates = np.random.default_rng(0).normal(size=(30, 3))
    calls = {
        "table": lambda: judged.to_dataframe(),
        "strict": lambda: [str(strict), strict.overall],
        "lines": lambda: [str(judged), judged.overall, ModelVerdict("m", judged.parts[
            1:2]).overall],
        "surprise": lambda: surprise(np.array([1.0, -2.2, 0.4]), replicates, np.array([
            1.0, 0.8, 2.0])),
        "kind": lambda: check_model(pm.EigDML()),
        "array": lambda: check_model(replicates),
        "seed": lambda: check_model(pm.LDA(), seed=-1),
    }  # fmt: skip
    made = outcomes(calls)
    assert_expected(text(made), "checks/criticism.txt")
    largest = np.abs(replicates / [1.0, 0.8, 2.0]).max(1)
    share = (1 + np.sum(largest >= 2.2 / 0.8)) / 31
    assert made["surprise"] == pytest.approx((2.2 / 0.8, share))


def own_draws(shift=0.0, two=False):
    """Draws of a line through 60 points, with prior and replicated data by hand."""
    rng = np.random.default_rng(7)
    n, x = 60, np.linspace(-1, 2, 60)
    w = 1.2 + shift + 0.1 * rng.normal(size=(2, 60, 1))
    mean = w * x
    y = rng.normal(size=n) * 0.5 + 1.2 * x
    new = mean + 0.5 * rng.normal(size=(2, 60, n))
    if two:
        y, new = (y > 0).astype(float), (new > 0).astype(float)
    prior = rng.normal(size=(1, 200, 1))
    groups = {
        "posterior": {"w": ((*DIMS, "k"), w)}, "prior": {"w": ((*DIMS, "k"), prior)},
        "log_prior": {"w": (DIMS, -(w[..., 0] ** 2) / 2)},
        "posterior_predictive": {"y": ((*DIMS, "n"), new)},
        "observed_data": {"y": ("n", y), "none": ("m", np.full(3, np.nan))},
    }  # fmt: skip
    groups["posterior_predictive"]["none"] = ((*DIMS, "m"), np.zeros((2, 60, 3)))
    tree = xr.DataTree.from_dict({k: xr.Dataset(v) for k, v in groups.items()})
    tree.attrs["model"] = "line"
    return tree


def test_criticism_of_draws():
    """Scores and residual sums by SciPy, below; p-values count replicates."""
    scores = of_draws._scores(
        np.array([0.5, 2.0, -9.0]), np.array([1.0, 0.0, 2.0, 3.0, 2.0])
    )
    np.testing.assert_allclose(scores, stats.norm.ppf([1.5 / 6, 3.5 / 6, 0.5 / 6]))
    which = np.array([0, 1, 0, 1])
    x, m, s = (
        np.array([[1.0, 2, 4, 3]]),
        np.array([0.5, 3, 3, 2]),
        np.array([1, 2, 0.5, 4.0]),
    )
    calls = {
        "right": lambda: str(check_model(own_draws())),
        "far": lambda: of_draws.criticize(own_draws(2.0)),
        "two": lambda: of_draws._predictive(own_draws(1.0, two=True), "y"),
        "missing": lambda: str(of_draws._predictive(own_draws(), "none")),
        "groups": lambda: of_draws.criticize(xr.DataTree.from_dict({"prior": None})),
        "sums": lambda: [of_draws._residuals(x, m, s, which, two) for two in (True,
            False)],
        "departure": lambda: [of_draws._departure(v) for v in (scores, scores / 9)],
        "mean": lambda: [of_draws._mean(x[0], which, k) for k in (0, 1)],
        "flat": lambda: of_draws._flat(drawn(n=4)["x"]),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "checks/own.txt")
    e = ((x - m) / s)[0]
    sums = [
        e[::2].sum(),
        e[1::2].sum(),
        (e[::2] ** 2 - 1).sum(),
        (e[1::2] ** 2 - 1).sum(),
    ]
    np.testing.assert_allclose(found["sums"][1][0], sums)


def test_calibration():
    """Read: counts of quantities, simulations and wrong posteriors."""
    rng = np.random.default_rng(3)
    ranked = Ranks({"a": rng.integers(0, 40, 400), "b": rng.integers(0, 40, 400)}, 39)
    leaning = uniformity(Ranks({"a": rng.integers(0, 25, 400)}, 39))
    good, few = uniformity(ranked), uniformity(Ranks({"a": ranked.ranks["a"][:50]}, 39))
    made = {
        "good": Calibration("line", ranked, good, {"η = 2": leaning, "prior": leaning}),
        "missed": Calibration("line", ranked, good, {"η = 2": good, "prior": leaning}),
        "bad": Calibration("line", ranked, leaning, {"η = 2": leaning}),
        "few": Calibration("line", ranked, few, {}),
    }
    shown = {k: [str(v), v.verdict, *v.missed, *v.left_out] for k, v in made.items()}
    assert_expected(text(shown), "checks/calibration.txt")
    assert ranks.CONTROLS == {"posterior = prior": (0.0, False), "η = 2": (2.0, False),
                              "shuffled observations": (1.0, True)}  # fmt: skip


@pytest.mark.parametrize("matters", [True, False])
def test_settings_of_simulations(monkeypatch, matters):
    """Which posteriors are simulated, and how often; read."""
    asked = []

    class Simulated:
        def __init__(self, model, data, *rest):
            asked.append(str(rest))

        def __call__(self, wrong="", **settings):
            asked.append(f"{wrong} {sorted(settings.items())}")
            rows = np.arange(60) % (20 if wrong == "η = 2" else 40)
            return Ranks({"a": rows}, 39)

        def rows_matter(self):
            return matters

    def line(data):
        pass

    monkeypatch.setattr(calibration, "simulation", Simulated)
    some = {"n_simulations": 60, "n_control": 20, "n_draws": 39, "thin": 2}
    check = calibration.sbc_check(line)
    problem = Problem("p", None, None, "prior", {"k": 2})
    calls = {
        "default": lambda: pm.sbc(line, None),
        "some": lambda: pm.sbc(line, None, args=(2.0,), kwargs={"k": 1}, seed=5,
                               identified=["a"], n_warmup=9, dtype="float32", **some),
        "no controls": lambda: pm.sbc(line, None, n_control=0),
        "negative": lambda: pm.sbc(line, None, n_control=-1),
        "check": lambda: check.estimate(problem).ranks,
        "no prior": lambda: check.controls["η = 2"](replace(problem, prior=None)).ranks,
        "about": lambda: [check.name, *check.controls, check.layer, check.kind],
    }  # fmt: skip
    found = {k: v if isinstance(v, dict | list | str) else [str(v), *v.left_out,
        *v.controls]
             for k, v in outcomes(calls).items()}  # fmt: skip
    assert_expected(text(found | {"asked": asked}), f"checks/sbc_{matters}.txt")


def test_problems():
    """Components by the singular values; permutations keep rows together, read."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(7, 3)).round(2) * [1, 2, 0]
    y = np.array([2, 5, 2, 9, 5, 5, 2])
    pairs = Pairs(X, np.array([0, 4, 2]), np.array([3, 1, 6]), np.array([1, 0, 1]),
                  np.array([0.5, 2, 1]), np.array([1, 0, 2]))  # fmt: skip
    one = Problem(
        "one",
        None,
        pairs,
        LCAPrior(problems.MEAN, c=0.8, lam=2.0),
        {"learning_rate": 0.4},
    )
    triplets = Problem(
        "t", None, Triplets(X, *np.array([[0, 1], [2, 3], [4, 5]]), np.array([1, 0]))
    )
    labeled = Problem(
        "l", None, Labeled(X, y), Bag(mean=np.ones(3), _replace=lambda **k: k)
    )
    grouped = Problem(
        "g", None, Groups(X, y), Bag(mean=np.ones(3), _replace=lambda **k: k)
    )
    at = {"W": np.array([[1.0, -2.0], [0.5, 0.1]]), "s": np.array(0.3)}
    calls = {
        "standardized": lambda: problems.standardized(X, y),
        "principal": lambda: np.abs(problems.principal(X, y, 2)[0]),
        "random": lambda: [problems.random_pairs(np.random.default_rng(2), 4, 5,
            d) for d in (3, 2)],
        "correlated": lambda: problems.correlated(4, 2),
        "permuted": lambda: [problems.permuted(p).data for p in (one, triplets,
            labeled)],
        "renumbered": lambda: [problems.renumbered(p).data for p in (one, triplets)],
        "swapped": lambda: problems.swapped(one).data,
        "renamed": lambda: [problems.renamed(p).data for p in (one, labeled, grouped)],
        "translated": lambda: [problems.translated(p) for p in (one, labeled)],
        "times": lambda: claims.prior_times(lam=1.5, c=2.0)(one).prior,
        "reweighted": lambda: claims.reweighted(one).data.w,
        "untempered": lambda: claims.untempered(one).options,
        "around": lambda: claims.around(at, ("s",)),
        "size": lambda: claims.size_of(one),
        "tabulated": lambda: claims.tabulated([(1.0, {"a": 2.0}), (3.0, {"a": 4.0})]),
        "dataset": lambda: sides.as_dataset({"a": np.ones((2, 3, 1, 2)), "b": np.zeros((
            2, 3))}, {"k": 1}),
        "stretched": lambda: sides.stretched(lambda p: drawn(n=4, khat=0.3))(one,
            wide=3.0),
        "inverse": lambda: sides.inverse(np.array([[[2.0, 1], [0, 4]], [[1, 3], [0,
            5]]])),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "checks/problems.txt")


def test_criticism_of_classes(monkeypatch):
    """Third moments over all triples and kurtosis have tests of their own."""
    monkeypatch.setattr(of_classes, "N_REPLICATES", 39)
    rng = np.random.default_rng(8)
    y = np.repeat([0, 1, 2], [9, 14, 11])
    X = rng.gamma(2, size=(34, 3)) * [1, 2, 0.5] + y[:, None] * [1.0, -0.5, 2]
    X[3, 1] = np.nan
    for kind in ("full", "tied", "diagonal"):
        fit = Bag(covariance=kind, _found=Bag(points=X, codes=y, data=Bag(w=None)))
        found = outcomes({
            "findings": lambda fit=fit: of_classes.criticize(fit, seed=2),
            "blocks": lambda kind=kind: [b._replace(U=np.abs(b.U[:3]), toward=np.abs(
                b.toward)) for b in
                                         of_classes.blocks_of(X[4:], y[4:], kind)],
        })  # fmt: skip
        assert_expected(text(found), f"checks/classes_{kind}.txt")
    fit._found.data.w = np.ones(34)
    calls = {
        "weights": lambda: of_classes.criticize(fit),
        "mixtures": lambda: of_classes.criticize(Bag(covariance="full",
            n_components=2)),
        "few": lambda: of_classes.criticize(
            Bag(covariance="full", _found=Bag(points=X[:2], codes=y[:2], data=Bag(
                w=None)))),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "checks/classes_refused.txt")


def test_criticism_of_lca():
    """Sums by point and bins by hand below; the rest was read."""
    rng = np.random.default_rng(9)
    P = rng.uniform(0.05, 0.95, 40)
    y = (rng.random(40) < P).astype(int)
    m = rng.integers(1, 4, 40)
    point, w = rng.integers(0, 9, 40), rng.uniform(0.5, 2, 40)
    which = of_lca._bins(-P, P, w)
    terms = rng.normal(size=(40, 2))
    held = of_lca.Held(P, y, point)
    calls = {
        "bins": lambda: which,
        "table": lambda: of_lca._table(1 / P, y / m, P, w, which),
        "directions": lambda: of_lca._directions(np.array([0.01, 0.3, 0.99]), np.array([
            0.0, 0.4, 2.0])),
        "by point": lambda: of_lca._by_point(terms, point),
        "places": lambda: np.abs(of_lca._places(rng.normal(size=(9, 3)) * [1, 2, 0])[:,
            2:]),
        "calibration": lambda: of_lca._calibration(held, np.random.default_rng(1)),
        "counts": lambda: of_lca._calibration(held._replace(same=np.minimum(y + 1, m),
            trials=m), np.random.default_rng(1)),
        "location": lambda: of_lca._location(np.array([3.0, -8.0]), rng.normal(size=(50,
            2)) * 3, np.array([3.0, 2.5]), np.array([40.0, 90.0])),
        "trials": lambda: [of_lca._trials(t, 3) for t in (None, np.arange(3))],
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "checks/lca.txt")
    sums = [terms[point == k].sum(0) for k in range(9)]
    np.testing.assert_allclose(found["by point"], np.sqrt(np.sum(np.square(sums), 0)))
    first = which == 1
    assert found["table"]["expected"][1] == pytest.approx(
        np.average(P[first], weights=w[first])
    )


def test_simulated_worlds(monkeypatch):
    """Data, prior and settings of each claim of calibration, by learner; read."""
    asked, problem = {}, Problem("p", None, None)

    class Simulated:
        def __init__(self, model, data, args, options, identified):
            leaves = jax.tree.leaves((data, args))
            world = [[np.shape(v), float(np.mean(v)), float(np.std(v))] for v in leaves]
            about = f"{model.__name__} {dict(options)} {identified}"
            self.world = [about, world]

        def __call__(self, wrong="", **settings):
            asked[f"{self.learner} {wrong}"] = [*self.world, str(settings)]
            return Ranks({"a": np.arange(40)}, 39)

    monkeypatch.setattr(claims, "simulation", Simulated)
    for Simulated.learner, spec in MODELS.items():
        for check in spec.checks:
            if check.layer == "sbc" and check.estimate.__module__ == claims.__name__:
                for claim in (check.estimate, *check.controls.values()):
                    claim(problem)
    assert_expected(text(asked), "checks/worlds.txt")


QUICK = {"glml": 1}
"""Claims of learners whose other claims take seconds."""

COMPILED = {"dca_gm", "hierarchical_lca", "lca", "point_effects", "triplet_comparisons",
            "triplet_embedding", "two_stage"}  # fmt: skip
"""Learners whose densities take seconds to compile; gates check their claims."""


@pytest.mark.parametrize("name", sorted({*MODELS} - COMPILED))
def test_claims(name):
    """Toy data, the reference of each quick claim, and which wrong claims are rejected.

    References come from the NumPyro model, quadrature or algebra, as each claim states.
    """
    spec, shown = MODELS[name], {}
    with jax.enable_x64(True):
        problem = spec.toy(0)
        data = problem.data._asdict()
        shown = {k: None if v is None else [np.shape(v), np.asarray(v)[:2], np.mean(v)]
                 for k, v in data.items()}  # fmt: skip
        shown |= {"options": str(dict(problem.options)), "name": problem.name}
        quick = [
            c for c in spec.checks if not c.slow and c.layer not in ("sampling", "sbc")
        ]
        for check in quick[: QUICK.get(name)]:
            reference = check.reference(problem)
            table = judge(check, problem, reference=reference)
            wrong = [
                judge(check, problem, control=c, reference=reference)
                for c in check.controls
            ]
            shown[check.name] = {
                "verdict": table.attrs["verdict"],
                "wrong": {w.attrs["control"]: w.attrs["verdict"] for w in wrong},
                "reference": {
                    k: float(np.mean(v)) for k, v in (reference or {}).items()
                },
            }
    assert_expected(text(shown), f"checks/claims/{name}.txt")
