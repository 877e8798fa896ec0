from .checks import (
    calibration as calibration,
    model_check as model_check,
    predictive_check as predictive_check,
    sbc as sbc,
)
from .curves import curves as curves
from .draws import eigenvalues as eigenvalues, metric as metric
from .fit import (
    before_after as before_after,
    importance as importance,
    matrix as matrix,
    pair_histogram as pair_histogram,
)
from .local import local_ellipses as local_ellipses
from .space import (
    embedding as embedding,
    neighbor_probabilities as neighbor_probabilities,
    objects as objects,
)
from .verification import (
    det as det,
    likelihood_ratios as likelihood_ratios,
    typicality as typicality,
)
