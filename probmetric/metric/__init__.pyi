from .class_distribution import ClassDistribution as ClassDistribution
from .fisher import LocalFisher as LocalFisher
from .local import LocalMahalanobis as LocalMahalanobis, local_metric as local_metric
from .link import (
    IsotonicLink as IsotonicLink,
    Link as Link,
    LogLogisticLink as LogLogisticLink,
)
from .mahalanobis import Mahalanobis as Mahalanobis
from .mean import MeanDissimilarity as MeanDissimilarity, mean_metric as mean_metric
from .pair_similarity import PairSimilarity as PairSimilarity
from .splines import SplineCityBlock as SplineCityBlock, i_splines as i_splines
from .protocol import (
    Bounded as Bounded,
    Dissimilarity as Dissimilarity,
    Metric as Metric,
    Prepared as Prepared,
    Squared as Squared,
)
