from . import (
    checks as checks,
    data as data,
    datasets as datasets,
    densities as densities,
    evaluation as evaluation,
    inference as inference,
    large as large,
    metric as metric,
    models as models,
    neighbors as neighbors,
    plots as plots,
    posterior as posterior,
    storage as storage,
)
from .checks.criticism import check_model as check_model
from .checks.own.calibration import sbc as sbc
from .checks.validation import validate as validate
from .compilation import compilation_cache as compilation_cache
from .data.containers import (
    Labeled as Labeled,
    Pairs as Pairs,
    Triplets as Triplets,
)
from .estimators.dca_gm import DCAGM as DCAGM
from .estimators.eig_dml import EigDML as EigDML
from .estimators.gaussian_classes import GaussianClasses as GaussianClasses
from .estimators.gdm.estimator import GDM as GDM
from .estimators.glml import GLML as GLML
from .estimators.hierarchical_lca import HierarchicalLCA as HierarchicalLCA
from .estimators.point_effects.estimator import PointEffectsLCA as PointEffectsLCA
from .estimators.lca.classifier import LCAClassifier as LCAClassifier
from .estimators.lca.estimator import LCA as LCA
from .estimators.lda import LDA as LDA, RCA as RCA
from .estimators.mds import ClassicalMDS as ClassicalMDS
from .estimators.pair_lda import PairLDA as PairLDA
from .estimators.stacking import StackingClassifier as StackingClassifier
from .estimators.triplet_comparisons.embedding import (
    TripletEmbedding as TripletEmbedding,
)
from .estimators.triplet_comparisons.estimator import TripletMetric as TripletMetric
from .estimators.two_stage.estimator import TwoStageMixture as TwoStageMixture
from .evaluation.cross_validate import held_out as held_out
from .evaluation.evaluate import evaluate as evaluate
from .evaluation.loo import loo as loo
from .inference.sampling.laplace import Laplace as Laplace
from .inference.sampling.nuts import NUTS as NUTS
from .inference.sampling.sample import sample as sample
from .inference.sampling.svi import SVI as SVI
from .large.engine import distributed as distributed
from .large.files import open as open
from .metric.mahalanobis import Mahalanobis as Mahalanobis
from .metric.protocol import Metric as Metric
from .neighbors.classifier import KNeighborsClassifier as KNeighborsClassifier
from .neighbors.regressor import KNeighborsRegressor as KNeighborsRegressor
from .neighbors.search import nearest as nearest
from .posterior.draws import draws_to_metric as draws_to_metric
from .posterior.interval_metric import (
    with_intervals as with_intervals,
)
from .posterior.next_pairs import next_pairs as next_pairs
from .registry import MODELS as MODELS
from .report.explore import explore as explore
from .storage.draws_file import load_draws as load_draws, save_draws as save_draws
from .storage.metric_file import load_metric as load_metric, save_metric as save_metric

__version__: str
