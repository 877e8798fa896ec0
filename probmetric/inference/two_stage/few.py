"""The default prior for few sources: W and B near multiples of one diagonal matrix.

The means of G sources in d dimensions span G - 1 directions. With G ≤ d the estimate of
B is singular without a prior, so the prior matters. Such sources are mostly classes,
which the model fits badly. The weak prior (``mixture.prior``) counts as one point.
Under this prior W becomes tiny in directions in which n points vary little by chance.
With G ≤ d the prior is therefore

    W ~ IW(8d, 8d w V),      B ~ IW(d + 2, (d + 2) b V),                            (1)
    E[W⁻¹] = V⁻¹/w,          E[B⁻¹] = V⁻¹/b,

V is the diagonal matrix of the variances of the features (I if they are standardized).
In units of V, w and b are the variances within and between sources, Eq. (2) of
``strength``. A sample of 8d points with equal variances has variances along its
principal axes between 0.4 w and 1.8 w. d + 2 is the smallest whole number of degrees of
freedom for which B has a mean. Constant columns do not count in d and do not change the
prior of other columns. But each constant column increases the denominators of W and B,
and so changes the mode.

For the data on which 8d was chosen and tested, see Benchmarks: few sources. The weak
prior is used with more sources than features, several components, or W = αΣ. It is also
used if no feature is observed twice in one source: w and b are not identified.
"""

import numpy as np
from jaxtyping import Bool

from probmetric.data.containers import Groups
from probmetric.data.scaling import constant_columns
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.two_stage.strength import seen_entries, variances
from probmetric.models.two_stage import Covariance, TwoStagePrior
from probmetric.typing import Array

POINTS = 8
"""Number of points per feature of the prior of W."""


def prior_of_groups(
    data: Groups, n_components: int, covariance: Covariance = "free"
) -> TwoStagePrior:
    """Make the default prior of groups: Eq. (1), or the weak prior; NaN is skipped."""
    X = np.asarray(data.X)
    weak = default_prior(X, n_components)
    codes = np.unique(np.asarray(data.group), return_inverse=True)[1]
    live = ~constant_columns(X)
    if not are_few(int(np.max(codes)) + 1, live, n_components, covariance):
        return weak
    Z = X[:, live] / np.sqrt(np.diag(weak.scale)[live])
    if seen_entries(Z, codes).max() < 2:
        return weak
    return few_prior(weak, *variances(Z, codes), live)


def are_few(
    n_sources: int, live: Bool[Array, "d"], n_components: int, covariance: Covariance
) -> bool:
    """Check whether Eq. (1) applies; ``live`` marks the columns that vary."""
    single = n_components == 1 and covariance == "free"
    return bool(single and 1 < n_sources <= np.sum(live))


def few_prior(
    weak: TwoStagePrior, w: float, b: float, live: Bool[Array, "d"]
) -> TwoStagePrior:
    """Replace the priors of W and B in the weak prior, whose scale is V, by Eq. (1)."""
    d = int(np.sum(live))
    V, still = np.asarray(weak.scale), len(live) - d
    values = {
        "within_df": POINTS * d + still,
        "within_scale": POINTS * d * w * V,
        "df": d + 2 + still,
        "scale": (d + 2) * b * V,
    }
    typed = {name: np.asarray(v, weak.scale.dtype) for name, v in values.items()}
    return weak._replace(**typed)
