"""Accuracy and log loss of learners beside their peers: one study a question.

    python benchmarks/accuracy.py peers --data DIR
    python benchmarks/accuracy.py few_labels --data DIR --seeds 10 --first 0

Studies, each with the protocol of ``harness.py``:

peers                 every learner, n = 20 to all, beside Euclid, LDA, NCA, and
                      metric-learn's LMNN, ITML, LFDA (maps by peers_metric_learn.py)
few_labels            20 to 160 labels: the prior chosen by the data, LDA, RCA, PairLDA
few_classes           the same of GaussianClasses and GLML
few_others            the same of EigDML and LCAClassifier
few_mixtures          the same of DCAGM
few_prior_mean        the prior mean of LCA by folds, beside W₀ = cI
few_sources           the prior of TwoStageMixture
lca_accuracy          LCA, its cross-validated form and the paper's recipe; 3-NN
posterior_few_labels  votes averaged over draws of LCA's metric
dca_gm                1-NN after a projection to two dimensions
stacking              a stack of five, its parts and their mean, from the same fits
stacked_votes         stacked votes under four metrics, and votes under each
none_of_these         each class left out in turn (three at most): is a point novel?

A method is a function of (A, a, seed) that returns ``predict_proba``. ``votes`` gives
the learned metric to ``pm.KNeighborsClassifier`` (soft votes, k = 5, bandwidth by
leave-one-out); ``own`` uses the learner's probabilities. Seconds are CPU seconds of the
fit and the predictions.
"""

import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from harness import BUILT_IN, BY_PATH, Study, main, problems, sets
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import (
    KNeighborsClassifier,
    LocalOutlierFactor,
    NeighborhoodComponentsAnalysis,
)

import probmetric as pm
from probmetric.evaluation.ranking import class_figures, class_sums
from probmetric.inference.mixture import default_prior

LARGE = (20, 40, 80, 160, "large")
METRIC_LEARN = ("LMNN", "ITML", "LFDA")
PEERS = Path("out/peers")


def metric_of(learner, A, a):
    """Fit and return the metric; a linear map of another library becomes one."""
    if isinstance(learner, pm.TwoStageMixture):
        return learner.fit(A, groups=a).get_metric()
    learner.fit(A, a)
    if hasattr(learner, "get_metric"):
        return learner.get_metric()
    basis = np.eye(A.shape[1])
    return pm.Mahalanobis((learner.transform(basis) - learner.transform(0 * basis)).T)


def votes(make, k=5, plain=False):
    """Return a method: neighbors vote under the metric of a learner (None: Euclid)."""

    def method(A, a, seed):
        learner = make(A, seed)
        euclid = pm.Mahalanobis(np.eye(A.shape[1]))
        metric = euclid if learner is None else metric_of(learner, A, a)
        if plain:
            knn = KNeighborsClassifier(k).fit(metric.transform(A), a)
            return lambda B: knn.predict_proba(metric.transform(B))
        return pm.KNeighborsClassifier(metric, k).fit(A, a).predict_proba

    return method


def own(make):
    """Return a method: probabilities of the learner."""
    return lambda A, a, seed: make(A, seed).fit(A, a).predict_proba


def drawn(mean=False, **options):
    """Return a method: votes averaged over draws of LCA's metric, or of their mean."""

    def method(A, a, seed):
        draws = pm.LCA(**options).fit(A, a).posterior_metric("prediction", seed=seed)
        metric = draws.mean_metric() if mean else draws
        return pm.KNeighborsClassifier(metric, 5).fit(A, a).predict_proba

    return method


def stored(name):
    """Return a method: votes under a map that peers_metric_learn.py has stored."""

    def method(A, a, seed):
        for path in (PEERS / "problems").glob(f"*-{seed}.npz"):
            with np.load(path) as problem:
                same = np.array_equal(problem["A"], A)
            if same:
                with np.load(PEERS / "maps" / path.name) as maps:
                    L = maps[name]
                return votes(lambda *_: None)(A @ L.T, a, seed)
        raise ValueError(f"{name}: no stored map; run `make peers` first")

    return method


def scored(method, A, a, B, b, seed):
    """Yield accuracy, log loss and calibration error of a method on test points."""
    began = time.process_time()
    try:
        P = method(A, a, seed)(B)
    except (ValueError, np.linalg.LinAlgError) as error:
        yield {"failure": f"{type(error).__name__}: {error}"}
        return
    P = P / P.sum(1, keepdims=True)
    yield {
        "accuracy": np.mean(P.argmax(1) == b),
        "log_loss": log_loss(b, P, labels=np.arange(P.shape[1])),
        "ece": class_figures(class_sums([(b, P, np.ones(len(b)))], 15))["ece"],
        "seconds": time.process_time() - began,
    }


def stacked(make, A, a, B, b, seed):
    """Yield the figures of a stack, of its parts, and of their mean."""
    stack = make().fit(A, a)
    P = [part.predict_proba(B) for part in stack.classifiers_]
    P = dict(zip(stack.names_, P, strict=True))
    P["equal mean"] = np.mean(list(P.values()), 0)
    for name, probabilities in P.items():
        made = scored(lambda *_, p=probabilities: lambda _: p, A, a, B, b, seed)
        yield next(made) | {"method": name}
    yield from scored(lambda *_: stack.predict_proba, A, a, B, b, seed)


def log_score(model, X, y):
    """Return the mean log probability of the classes."""
    P = model.predict_proba(X)
    return np.log(P[np.arange(len(y)), np.searchsorted(model.classes_, y)]).mean()


def five():
    """Make the stack of five parts."""
    tuned = GridSearchCV(
        LogisticRegression(max_iter=1000),
        {"C": np.logspace(-3, 3, 7)},
        scoring=log_score,
        cv=3,
    )
    parts = {"LCA, identity": pm.LCA(prior_mean="identity"), "LCA": pm.LCA()}
    parts |= {"PairLDA": pm.PairLDA(), "GaussianClasses": pm.GaussianClasses()}
    return pm.StackingClassifier([*parts.items(), ("logistic", tuned)])


def without_class(method, A, a, B, b, seed):
    """Yield figures of novelty at nominal 5%, means over classes that are left out."""
    figures, classes = [], np.unique(a)
    for c in np.random.default_rng(seed).permutation(classes)[:3]:
        known, rows = a != c, np.concatenate([A[a == c], B])
        kept = A[known].std(0) > 0
        score = method(A[known][:, kept], a[known], seed)
        typical, novel = score(rows[:, kept])
        new = np.append(a[a == c], b) == c
        figures.append({
            "auroc": roc_auc_score(~new, typical),
            "false_alarms": np.mean(novel[~new]),
            "caught": np.mean(novel[new]),
        })  # fmt: skip
    yield pd.DataFrame(figures).mean().to_dict()


def typical(make, **options):
    """Return a method of ``without_class``: the p-values of the classifier."""

    def method(A, a, seed):
        knn = pm.KNeighborsClassifier(make(A, seed), **options).fit(A, a)
        return lambda B: ((p := knn.typicality(B)), p <= 0.05)

    return method


def detector(kind, **options):
    """Return a method of ``without_class``: a novelty detector of scikit-learn."""

    def method(A, a, seed):
        found = kind(contamination=0.05, **options).fit(A)
        return lambda B: (found.score_samples(B), found.predict(B) < 0)

    return method


def shrunk(A, seed):
    return LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")


def nca(A, seed, p=10):
    p = min(p, A.shape[1])
    return NeighborhoodComponentsAnalysis(p, max_iter=100, random_state=seed)


def of(kind, *given, seeded=False, **options):
    """Return a function of points and seed that makes a learner."""
    return lambda A, seed: kind(
        *given, **options, **({"random_state": seed} if seeded else {})
    )


def paper(A, seed):
    """Make LCA as the paper describes it: impostors, no prior, the PCA start."""
    options = {"regularization": 1e-6, "learning_rate": 1.0, "prior_mean": "pca"}
    p = min(A.shape[1], 10)
    return pm.LCA(p, pairs="impostors", max_impostors=10, n_refresh=0, **options)


FOUR = [None, pm.LCA(prior_mean="identity"), pm.RCA(), pm.LCA(prior_mean="within")]
EUCLID = {"Euclid": votes(lambda *_: None)}
SHRUNK = {"LDA (scikit-learn, Ledoit-Wolf), own": own(shrunk)}
EIG_DML = partial(of, pm.EigDML, solver="pdhg", tol=1e-2)
CV = partial(of, pm.LCA, regularization="cv", seeded=True)
GLML = partial(of, pm.GLML, 5, votes="soft", seeded=True)
BEFORE = of(pm.DCAGM, 2, prior_strength=0)
NEAREST_3 = partial(votes, k=3, plain=True)
NEAREST_1 = partial(votes, k=1, plain=True)
FEW_GROUPS = (range(3), range(3, 6), range(6, 10), range(10, 14))
"""Seeds: a default was chosen on the first, and judged on the others."""
FRESH = (
    *("iris", "wine", "twonorm", "image_segmentation", "usps_8x8", "vowel", "heart"),
    *("satimage", "texture", "phoneme", "spambase", "movement_libras", "ring"),
    *("letter", "australian", "bupa", "magic"),
)
"""Sets on which no prior mean was chosen."""

MANY = (
    *("vehicle", "vowel", "satimage", "penbased", "led7digit", "movement_libras"),
    *("texture", "tae", "contraceptive", "hayes-roth", "letter", "marketing"),
)
"""Sets of at least three classes on which no rule of novelty was chosen."""

few = partial(Study, rows=scored)

STUDIES = {
    "peers": few(
        EUCLID
        | {"LDA (scikit-learn)": votes(shrunk), "NCA (scikit-learn)": votes(nca)}
        | {name: stored(name) for name in METRIC_LEARN}
        | {name: votes(of(getattr(pm, name))) for name in ("LCA", "LDA", "RCA")}
        | {"PairLDA": votes(of(pm.PairLDA)), "EigDML": votes(EIG_DML())}
        | {"LCA (32 draws)": drawn(), "LCAClassifier, own": own(of(pm.LCAClassifier))}
        | {"DCAGM": votes(of(pm.DCAGM)), "DCAGM, own": own(of(pm.DCAGM))}
        | {"GaussianClasses, own": own(of(pm.GaussianClasses))}
        | {"TwoStageMixture": votes(of(pm.TwoStageMixture))}
        | {"GLML": own(GLML(n_draws=0)), "GLML (24 draws)": own(GLML(n_draws=24))}
        | {"LDA (scikit-learn), own": own(shrunk)},
        sizes=LARGE,
        values=("log_loss", "accuracy", "ece"),
    ),
    "few_labels": few(
        EUCLID
        | {name: votes(of(getattr(pm, name))) for name in ("LDA", "RCA", "PairLDA")}
        | {"LDA, one point": votes(of(pm.LDA, prior_strength=1))}
        | {"RCA, one point": votes(of(pm.RCA, prior_strength=1))}
        | {"PairLDA, no prior": votes(of(pm.PairLDA, prior_strength=0))}
        | {"LCA": votes(of(pm.LCA)), "LDA (scikit-learn, Ledoit-Wolf)": votes(shrunk)},
        groups=FEW_GROUPS,
        chosen=range(3),
    ),
    "few_classes": few(
        EUCLID
        | {"GaussianClasses, own": own(of(pm.GaussianClasses))}
        | {"GaussianClasses by evidence, own": own(
            of(pm.GaussianClasses, prior="evidence"))}
        | SHRUNK
        | {"GLML": own(of(pm.GLML, random_state=0))},
        groups=FEW_GROUPS,
        chosen=range(3),
    ),
    "few_others": few(
        EUCLID
        | {"EigDML": votes(EIG_DML())}
        | {"EigDML, no prior": votes(EIG_DML(prior_strength=0))}
        | {"LCAClassifier, own": own(of(pm.LCAClassifier))}
        | {"LCAClassifier of 0.1, own": own(
            of(pm.LCAClassifier, regularization="auto", prior_scale=None))}
        | SHRUNK,
        groups=FEW_GROUPS,
        chosen=range(3),
    ),
    "few_mixtures": few(
        EUCLID
        | {"DCAGM": votes(of(pm.DCAGM)), "DCAGM, own": own(of(pm.DCAGM))}
        | {"DCAGM, no prior": votes(BEFORE), "DCAGM, no prior, own": own(BEFORE)}
        | SHRUNK,
        groups=FEW_GROUPS,
        chosen=range(3),
    ),
    "few_prior_mean": few(
        EUCLID
        | {"LCA, identity": votes(of(pm.LCA, prior_mean="identity"))}
        | {"LCA": votes(of(pm.LCA)), "RCA": votes(of(pm.RCA))}
        | {"NCA (scikit-learn)": votes(nca)},
        sizes=LARGE,
        values=("log_loss", "accuracy"),
        sets=FRESH,
    ),
    "few_sources": few(
        EUCLID
        | {"default prior": votes(of(pm.TwoStageMixture))}
        | {"prior chosen": votes(of(pm.TwoStageMixture, prior="cv"))}
        | {"weak prior": votes(
            lambda A, seed: pm.TwoStageMixture(prior=default_prior(A, 1)))},
        groups=FEW_GROUPS,
        chosen=range(3),
    ),
    "lca_accuracy": few(
        {"Euclid": NEAREST_3(lambda *_: None)}
        | {"LDA": NEAREST_3(of(LinearDiscriminantAnalysis)), "NCA": NEAREST_3(nca)}
        | {"paper": NEAREST_3(paper), "LCA": NEAREST_3(of(pm.LCA))}
        | {"LCA, cv": NEAREST_3(CV())}
        | {"LCA, cv, identity": NEAREST_3(CV(prior_mean="identity"))}
        | {"LCAClassifier, own": own(of(pm.LCAClassifier))},
        sizes=("large",),
        values=("accuracy",),
    ),
    "posterior_few_labels": few(
        EUCLID
        | {"map": votes(of(pm.LCA)), "fitted": drawn()}
        | {"all": drawn(pairs="all"), "E[M] fitted": drawn(mean=True)}
        | {"E[M] all": drawn(True, pairs="all")},
        sizes=(20, 40, 80),
    ),
    "dca_gm": few(
        {"NCA": NEAREST_1(partial(nca, p=2)), "LCA": NEAREST_1(of(pm.LCA, 2))}
        | {"DCA-GM": NEAREST_1(of(pm.DCAGM, 2, prior_strength=0))}
        | {"DCA-GM classifier": own(of(pm.DCAGM, 2, prior_strength=0))},
        sizes=("large",),
        baseline="NCA",
        values=("accuracy",),
        sets=("wine", "iris", "ionosphere", "balance_scale"),
    ),
    "stacking": Study(
        {"stack": five},
        rows=stacked,
        sizes=LARGE,
        baseline="stack",
        values=("log_loss", "accuracy"),
        sets=FRESH,
    ),
    "stacked_votes": few(
        EUCLID
        | {"LCA, identity": votes(of(pm.LCA, prior_mean="identity"))}
        | {"RCA": votes(of(pm.RCA)), "LCA": votes(of(pm.LCA))}
        | {"stacked votes": own(of(pm.KNeighborsClassifier, FOUR))},
        sizes=LARGE,
        baseline="stacked votes",
        sets=FRESH,
    ),
    "none_of_these": Study(
        {"LOF": detector(LocalOutlierFactor, novelty=True)}
        | {"isolation forest": detector(IsolationForest, random_state=0)}
        | {"Euclid": typical(of(lambda: None)), "RCA": typical(of(pm.RCA))}
        | {"LCA": typical(of(pm.LCA))},
        rows=without_class,
        sizes=(40, 160, "large"),
        baseline="LOF",
        values=("auroc", "false_alarms", "caught"),
        sets=MANY,
    ),
}  # fmt: skip


def write_problems(folder, seeds):
    """Store the training sets for peers_metric_learn.py, which runs elsewhere."""
    (PEERS / "problems").mkdir(parents=True, exist_ok=True)
    (PEERS / "maps").mkdir(parents=True, exist_ok=True)
    data = sets(folder, (*BUILT_IN, *BY_PATH))
    for seed, name in product(seeds, data):
        for size, A, a, *_ in problems(*data[name], seed, LARGE):
            path = PEERS / "problems" / f"{name}-{size}-{seed}.npz"
            np.savez_compressed(path, A=A, a=a)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write-problems"]:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
        write_problems(folder, range(30, 33))
    else:
        main(STUDIES, __doc__)
