"""Distances learned from data as probability models.

The public names, each found in its module on first use: importing the package loads
neither JAX nor NumPy and changes no configuration.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probmetric import datasets, plots
    from probmetric.checks.compare import compare as compare
    from probmetric.compilation import compilation_cache as compilation_cache
    from probmetric.estimators.dca_gm import DCAGM as DCAGM
    from probmetric.estimators.eig_dml import EigDML as EigDML
    from probmetric.estimators.gaussian_classes import (
        GaussianClasses as GaussianClasses,
    )
    from probmetric.estimators.glml import GLML as GLML
    from probmetric.estimators.lca.classifier import LCAClassifier as LCAClassifier
    from probmetric.estimators.lca.estimator import LCA as LCA
    from probmetric.estimators.lda import LDA as LDA
    from probmetric.estimators.lda import RCA as RCA
    from probmetric.estimators.mds import ClassicalMDS as ClassicalMDS
    from probmetric.estimators.pair_lda import PairLDA as PairLDA
    from probmetric.estimators.two_stage.estimator import (
        TwoStageMixture as TwoStageMixture,
    )
    from probmetric.evaluation.cross_validate import held_out as held_out
    from probmetric.evaluation.evaluate import evaluate as evaluate
    from probmetric.evaluation.loo import loo as loo
    from probmetric.inference.sampling.sample import sample as sample
    from probmetric.metric import ClassDistribution as ClassDistribution
    from probmetric.metric import LocalFisher as LocalFisher
    from probmetric.metric import LocalMahalanobis as LocalMahalanobis
    from probmetric.metric import Mahalanobis as Mahalanobis
    from probmetric.metric import PairSimilarity as PairSimilarity
    from probmetric.neighbors import KNeighborsClassifier as KNeighborsClassifier
    from probmetric.neighbors import nearest as nearest
    from probmetric.posterior.metric import PosteriorMetric as PosteriorMetric
    from probmetric.registry import MODELS as MODELS
    from probmetric.storage.metric_file import load_metric as load_metric
    from probmetric.storage.metric_file import save_metric as save_metric
    from probmetric.validation import validate as validate

__version__ = "0.1.0"

__all__ = [
    "DCAGM",
    "GLML",
    "LCA",
    "LDA",
    "MODELS",
    "RCA",
    "ClassDistribution",
    "ClassicalMDS",
    "EigDML",
    "GaussianClasses",
    "KNeighborsClassifier",
    "LCAClassifier",
    "LocalFisher",
    "LocalMahalanobis",
    "Mahalanobis",
    "PairLDA",
    "PairSimilarity",
    "PosteriorMetric",
    "TwoStageMixture",
    "__version__",
    "compare",
    "compilation_cache",
    "datasets",
    "evaluate",
    "held_out",
    "load_metric",
    "loo",
    "nearest",
    "plots",
    "sample",
    "save_metric",
    "validate",
]

# Name -> module that holds it; a module stands for itself.
_HOME = {
    "ClassDistribution": "probmetric.metric",
    "ClassicalMDS": "probmetric.estimators.mds",
    "DCAGM": "probmetric.estimators.dca_gm",
    "EigDML": "probmetric.estimators.eig_dml",
    "GLML": "probmetric.estimators.glml",
    "GaussianClasses": "probmetric.estimators.gaussian_classes",
    "KNeighborsClassifier": "probmetric.neighbors",
    "LCA": "probmetric.estimators.lca.estimator",
    "LCAClassifier": "probmetric.estimators.lca.classifier",
    "LDA": "probmetric.estimators.lda",
    "LocalFisher": "probmetric.metric",
    "LocalMahalanobis": "probmetric.metric",
    "MODELS": "probmetric.registry",
    "Mahalanobis": "probmetric.metric",
    "PairLDA": "probmetric.estimators.pair_lda",
    "PairSimilarity": "probmetric.metric",
    "PosteriorMetric": "probmetric.posterior.metric",
    "RCA": "probmetric.estimators.lda",
    "TwoStageMixture": "probmetric.estimators.two_stage.estimator",
    "compare": "probmetric.checks.compare",
    "compilation_cache": "probmetric.compilation",
    "datasets": "probmetric.datasets",
    "evaluate": "probmetric.evaluation.evaluate",
    "held_out": "probmetric.evaluation.cross_validate",
    "loo": "probmetric.evaluation.loo",
    "load_metric": "probmetric.storage.metric_file",
    "nearest": "probmetric.neighbors",
    "plots": "probmetric.plots",
    "sample": "probmetric.inference.sampling.sample",
    "save_metric": "probmetric.storage.metric_file",
    "validate": "probmetric.validation",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds a public name, once."""
    if name not in _HOME:
        raise AttributeError(f"module 'probmetric' has no attribute {name!r}")
    home = _HOME[name]
    module = import_module(home)
    value = module if home == f"probmetric.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
