"""The page of a validation, as a whole, of tables written by hand.

Read against the tables below: each count, largest |error| and |z|, color and place.
"""

import numpy as np
import pandas as pd

from probmetric.checks.compare import entry_table
from probmetric.checks.criticism import Finding, ModelVerdict, Part
from probmetric.checks.validation import Judgement, Validation
from probmetric.report.model_fit import parts_of, verdict_in
from probmetric.report.validate import agreement_table, described, khat_words
from tests.expected import assert_expected

NAN = [np.nan] * 3
COMPARED = {
    "reference": [0.5, -0.2, 1.1],
    "estimate": [0.48, -0.13, 1.09],
    "z": [-1.3, 2.2, -0.4],
    "detectable": [0.05, 0.12, 0.07],
    "verdict": ["agree", "inconclusive", "agree"],
}


def judged(check, kind, error, seconds, *, control="", problem="toy <1>", **more):
    attrs = {k: more.pop(k) for k in ("bound", "unreliable") if k in more}
    if "z" in more:
        attrs |= {"alpha": 0.01, "tol": 0.1, "z_crit": 2.5}
    layer = "sampling" if "z" in more else "quadrature"
    attrs = {"check": check, "kind": kind, "layer": layer, "control": control} | attrs
    names = ("reference", "estimate", "z", "detectable", "khat")
    columns = {name: more.get(name, NAN) for name in names}
    columns |= {"error": error, "verdict": more["verdict"]}
    order = ["reference", "estimate", "error", "z", "detectable", "khat", "verdict"]
    table = entry_table({k: columns[k] for k in order}, ["a", "b[0]", "b[1]"], attrs)
    return Judgement("lca", problem, table, seconds)


def claims():
    agree, within = {"verdict": ["agree"] * 3}, {"verdict": ["within"] * 3}
    open_ = {"verdict": ["inconclusive"] * 3, "unreliable": True}
    outside = {"verdict": ["within", "outside", "within"]}
    return (
        judged("integral & <more>", "exact", [1e-11, -3.4e-10, 2e-12], 1.26, **agree),
        judged("moments", "exact", [-0.02, 0.07, -0.01], 30.04, **COMPARED),
        judged("gradient", "exact", [0.5, -1e-9, 0.25], 0.31, problem="iris",
               verdict=["disagree", "agree", "disagree"]),
        judged("Hessian", "exact", [3e-8, 2e-8, -5e-8], 2.22, problem="iris", **agree),
        judged("Laplace", "approximate", [0.11, -0.21, 0.02], 4.0, bound=0.3,
               khat=[0.72, 0.95, 0.71], **open_),
        judged("guide", "approximate", [0.01, 0.02, -0.15], 5.5, bound=0.2, **within),
        judged("far guide", "approximate", [0.1, -0.7, 0.2], 6.5, bound=0.4, **outside),
    )  # fmt: skip


def verdict():
    bins = pd.DataFrame({
        "at": [0.4, 1.3, 2.9], "observed": [0.81, 0.55, 0.08], "pairs": [40, 25, 11],
        "expected": [0.9, 0.5, 0.2], "low": [0.85, 0.3, 0.1], "high": [0.97, 0.7, 0.33],
    })  # fmt: skip
    prior = Finding("prior", 0.5, 0.61, 0.4, 2.0, "b is 0.4 sd out", "Widen it")
    predicted = Finding("predictive", 9.5, 2e-4, 0.12, 0.05, "too few", "Add", bins)
    held_out = Finding("calibration", 4.5, 0.006, 0.03, 0.07, "a bit off", "Look", bins)
    words = (0.61, "adequate"), (6e-4, "conflict"), (0.012, "doubtful")
    parts = zip((prior, predicted, held_out), words, strict=True)
    return ModelVerdict("lca", tuple(Part(f, *word) for f, word in parts))


def shown(made, judgements, fit=None, *, broken=False):
    found = Validation("lca", judgements, broken)
    about = {"model": "lca", "lead": "Latent <coincidence>", "where": "iris"}
    table = agreement_table(found, fit)
    page = made("validate", about | described(found, fit), agreement=table)
    return table, page


def test_the_page_of_claims_and_of_the_model(made):
    table, page = shown(made, claims(), verdict())
    assert_expected(page, "report/validate.html")
    assert_expected(table.to_csv(index=False), "report/agreement.csv")


def test_the_page_of_claims_without_bounds(made):
    page = shown(made, (claims()[0], claims()[1], claims()[3]))[1]
    assert_expected(page, "report/validate_exact.html")


def test_the_page_of_wrong_claims(made):
    wrong = [
        j._replace(table=j.table.assign_attrs(control=f"without {k}"))
        for k, j in enumerate(claims())
    ]
    page = shown(made, (wrong[2], wrong[6], wrong[1]), broken=True)[1]
    assert_expected(page, "report/validate_broken.html")
    page = shown(made, (wrong[2], wrong[6]), broken=True)[1]
    assert '<div class="verdict agree"><strong>2 of 2 wrong claims were' in page


def test_a_verdict_of_an_old_run_is_read():
    old = parts_of(verdict())
    for entry in old:
        entry["said"] = entry.pop("summary")
    summary = {"model": "lca", "fit": old}
    assert str(verdict_in(summary)) == str(verdict())
    assert verdict_in({"model": "lca"}) is None


def test_a_high_khat_in_words():
    said = khat_words(claims()[4])
    assert said.startswith("Laplace: k-hat 0.95 is not below 0.7. The measured")
