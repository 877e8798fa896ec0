"""``MODELS``: the registry of models, one ``ModelSpec`` each.

Tests, ``validate``, the command line, the table of learners in the documentation and
the notebooks all read ``MODELS``. A missing field is a type error, not a surprise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from probmetric.checks import (
    eig_dml as eig_dml_checks,
)
from probmetric.checks import (
    gaussian_classes as gaussian_classes_checks,
)
from probmetric.checks import (
    lca as lca_checks,
)
from probmetric.checks import (
    lda as lda_checks,
)
from probmetric.checks import (
    mds as mds_checks,
)
from probmetric.checks import (
    pair_lda as pair_lda_checks,
)
from probmetric.checks import (
    two_stage as two_stage_checks,
)
from probmetric.checks.check import Check, Problem
from probmetric.checks.dca_gm import (
    density as dca_gm_checks,
)
from probmetric.checks.dca_gm import (
    problems as dca_gm_problems,
)
from probmetric.checks.gaussian_classes import problems as gaussian_classes_problems
from probmetric.checks.lca import problems as lca_problems
from probmetric.checks.two_stage import problems as two_stage_problems
from probmetric.data.containers import Distances, Groups, Labelled, Pairs
from probmetric.inference import pair_lda
from probmetric.inference.eig_dml import fit as eig_dml
from probmetric.inference.mds import fit as mds
from probmetric.metric import LocalMahalanobis, Mahalanobis, PairSimilarity
from probmetric.models import dca_gm as dca_gm_model
from probmetric.models import gaussian_classes as gaussian_model
from probmetric.models import lca as lca_model
from probmetric.models import lda as lda_model
from probmetric.models import two_stage as two_stage_model

__all__ = ["MODELS", "ModelSpec"]


@dataclass(frozen=True)
class ModelSpec:
    """What the rest of the package needs to know of a model.

    Parameters
    ----------
    name : str
        Its name in every folder.
    data_kind : type
        One of the containers of ``probmetric.data.containers``.
    params : type
        The ``Params`` NamedTuple.
    model : callable or None
        The NumPyro model ``model(data, prior, ...)``; None where there is none.
    simulate : callable or None
        ``simulate(key, params, data) -> data`` with fresh labels or observations.
    fit : callable
        ``fit(problem) -> Fit``: the default closed form on the problem's data, prior
        and options, started as a user's fit would be (not at ``problem.params``).
    to_metric : callable
        ``to_metric(params) -> Metric``.
    metric_kind : type
        The class of that metric.
    toy : callable
        ``toy(seed) -> Problem``: a small simulated problem with true parameters.
    invariants : mapping of str to callable
        ``name -> f(problem) -> problem``: changes of a problem that must leave the
        learned metric unchanged (permuting points, translating inputs, ...).
    checks : tuple of Check
        What is claimed of it.
    from_labels : callable or None
        ``from_labels(X, y) -> Problem``: the fitted problem of a labelled data set,
        for ``validate --data``.
    summary : str
        One line for the table of learners.
    """

    name: str
    data_kind: type
    params: type
    model: Callable[..., None] | None
    simulate: Callable[..., Any] | None
    fit: Callable[[Problem], Any]
    to_metric: Callable[[Any], Any]
    metric_kind: type
    toy: Callable[[int], Problem]
    invariants: Mapping[str, Callable[[Problem], Problem]]
    checks: tuple[Check, ...]
    from_labels: Callable[..., Problem] | None
    summary: str


MODELS: dict[str, ModelSpec] = {
    "lca": ModelSpec(
        name="lca",
        data_kind=Pairs,
        params=lca_model.LCAParams,
        model=lca_model.lca,
        simulate=lca_model.simulate,
        fit=lca_problems.fit_problem,
        to_metric=lca_model.to_metric,
        metric_kind=Mahalanobis,
        toy=lca_problems.toy,
        invariants=lca_problems.invariants,
        checks=lca_checks.CHECKS,
        from_labels=lca_problems.from_labels,
        summary="pairs that coincide: a Mahalanobis metric with P(same)",
    ),
    "glml": ModelSpec(
        name="glml",
        data_kind=Labelled,
        params=gaussian_model.GaussianClassesParams,
        model=gaussian_model.gaussian_classes,
        simulate=gaussian_model.simulate,
        fit=gaussian_classes_problems.fit_problem,
        to_metric=gaussian_model.to_metric,
        metric_kind=LocalMahalanobis,
        toy=gaussian_classes_problems.toy,
        invariants=gaussian_classes_problems.invariants,
        checks=gaussian_classes_checks.CHECKS,
        from_labels=gaussian_classes_problems.from_labels,
        summary="Gaussian classes: a local metric that removes the neighbours' bias",
    ),
    "two_stage": ModelSpec(
        name="two_stage",
        data_kind=Groups,
        params=two_stage_model.TwoStageParams,
        model=two_stage_model.two_stage,
        simulate=two_stage_model.simulate,
        fit=two_stage_problems.fit_problem,
        to_metric=two_stage_model.to_metric,
        metric_kind=PairSimilarity,
        toy=two_stage_problems.toy,
        invariants=two_stage_problems.invariants,
        checks=two_stage_checks.CHECKS,
        from_labels=two_stage_problems.from_labels,
        summary="common source under a normal mixture: a similarity with P(same)",
    ),
    "dca_gm": ModelSpec(
        name="dca_gm",
        data_kind=Labelled,
        params=dca_gm_model.DCAGMParams,
        model=dca_gm_model.dca_gm,
        simulate=dca_gm_model.simulate,
        fit=dca_gm_problems.fit_problem,
        to_metric=dca_gm_model.to_metric,
        metric_kind=Mahalanobis,
        toy=dca_gm_problems.toy,
        invariants=dca_gm_problems.invariants,
        checks=dca_gm_checks.CHECKS,
        from_labels=dca_gm_problems.from_labels,
        summary="class mixtures in a projection: their average Fisher metric",
    ),
    "lda": ModelSpec(
        name="lda",
        data_kind=Labelled,
        params=lda_model.LDAParams,
        model=lda_model.model,
        simulate=lda_model.simulate,
        fit=lda_checks.fit_problem,
        to_metric=lda_model.to_metric,
        metric_kind=Mahalanobis,
        toy=lda_checks.toy,
        invariants=lda_checks.invariants,
        checks=lda_checks.CHECKS,
        from_labels=lda_checks.from_labels,
        summary="Gaussian classes of one covariance: whitened discriminants (LDA, RCA)",
    ),
    "pair_lda": ModelSpec(
        name="pair_lda",
        data_kind=Pairs,
        params=pair_lda.PairLDAParams,
        model=None,
        simulate=None,
        fit=pair_lda_checks.fit_problem,
        to_metric=pair_lda.to_metric,
        metric_kind=Mahalanobis,
        toy=pair_lda_checks.toy,
        invariants=pair_lda_checks.invariants,
        checks=pair_lda_checks.CHECKS,
        from_labels=pair_lda_checks.from_labels,
        summary="close and far pairs: a Mahalanobis metric in closed form (KISSME)",
    ),
    "eig_dml": ModelSpec(
        name="eig_dml",
        data_kind=Pairs,
        params=eig_dml.EigDMLParams,
        model=None,
        simulate=None,
        fit=eig_dml_checks.fit_problem,
        to_metric=eig_dml.to_metric,
        metric_kind=Mahalanobis,
        toy=eig_dml_checks.toy,
        invariants=eig_dml_checks.invariants,
        checks=eig_dml_checks.CHECKS,
        from_labels=eig_dml_checks.from_labels,
        summary="nearest far pair as far as can be, with a certificate",
    ),
    "mds": ModelSpec(
        name="mds",
        data_kind=Distances,
        params=mds.MDSParams,
        model=None,
        simulate=None,
        fit=mds_checks.fit_problem,
        to_metric=mds.to_metric,
        metric_kind=Mahalanobis,
        toy=mds_checks.toy,
        invariants={},
        checks=mds_checks.CHECKS,
        from_labels=mds_checks.from_labels,
        summary="dissimilarities: points that reproduce them, and a place for new ones",
    ),
}
