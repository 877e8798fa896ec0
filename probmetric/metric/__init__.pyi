from .class_distribution import ClassDistribution as ClassDistribution
from .fisher import LocalFisher as LocalFisher
from .local import LocalMahalanobis as LocalMahalanobis, local_metric as local_metric
from .mahalanobis import Link as Link, Mahalanobis as Mahalanobis
from .mean import MeanDissimilarity as MeanDissimilarity, mean_metric as mean_metric
from .pair_similarity import PairSimilarity as PairSimilarity
from .protocol import Dissimilarity as Dissimilarity, Metric as Metric
