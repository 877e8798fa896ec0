from .checks import (
    agreement as agreement,
    calibration as calibration,
    predictive_check as predictive_check,
)
from .draws import (
    eigenvalues as eigenvalues,
    metric as metric,
    rank as rank,
    trace as trace,
)
from .local import local_ellipses as local_ellipses
from .space import (
    class_probabilities as class_probabilities,
    embedding as embedding,
    neighbor_probabilities as neighbor_probabilities,
)
