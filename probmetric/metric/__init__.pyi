from .class_distribution import ClassDistribution as ClassDistribution
from .fisher import LocalFisher as LocalFisher
from .link import Link as Link, LogLogisticLink as LogLogisticLink
from .local import LocalMahalanobis as LocalMahalanobis
from .mahalanobis import Mahalanobis as Mahalanobis
from .pair_similarity import PairSimilarity as PairSimilarity
from .protocol import Dissimilarity as Dissimilarity, Metric as Metric
from .splines import SplineCityBlock as SplineCityBlock
