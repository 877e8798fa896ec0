"""The default prior where sources are few: W and B about multiples of one diagonal.

Of G sources in d dimensions their means span G - 1 directions, so that with G ≤ d the
data leave B singular, and a prior decides. Sources are then mostly classes, which the
model fits badly: under the weak prior (``mixture.prior``), whose scale is that of one
point, W is taken to be tiny wherever n points happen not to vary. So with G ≤ d

    W ~ IW(8d, 8d w V),      B ~ IW(d + 2, (d + 2) b V),                            (1)
    E[W⁻¹] = V⁻¹/w,          E[B⁻¹] = V⁻¹/b,

V the diagonal of the features' variances, I where they are standardised, and w and b
the shares of them within and between sources, Eq. (2) of ``strength`` in units of V.
8d points say that the variances of W along its axes lie between .4 w and 1.8 w, for
those of a sample of 8d are that uneven where all are w; d + 2 are the fewest whole
degrees of freedom by which B has a mean. Constant columns are not counted in d, and
leave the prior of the others as it is; not the mode, whose denominators grow with each.

8d was chosen, among 4d to 16d, with this B, among six, on splits 0 to 2 of eleven data
sets at 20 to 160 points; ``benchmarks/accuracy.py`` judges them on others. With more
sources than features, several components, or W = αΣ, the weak prior stays; so it does
where no feature is seen twice in one source, and nothing tells w from b.
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
"""Points a feature that the prior of W counts as."""


def prior_of_groups(
    data: Groups, n_components: int, covariance: Covariance = "free"
) -> TwoStagePrior:
    """Return the default prior of grouped points: Eq. (1), or the weak one.

    Parameters
    ----------
    data : Groups
        NaN entries are left out. Weights are not looked at.
    n_components : int
    covariance : "free" or "proportional"

    Examples
    --------
    Two sources in two dimensions, apart along the first and varying along the second,
    so that w = 1; the features' variances are 81 and 1/4:

    >>> import numpy as np
    >>> from probmetric.data import Groups
    >>> from probmetric.inference.two_stage.few import prior_of_groups
    >>> X = np.array([[-9.0, 0.0], [-9.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    >>> prior = prior_of_groups(Groups(X, np.array([0, 0, 1, 1])), 1)
    >>> float(prior.within_df), prior.within_scale.diagonal().tolist()
    (16.0, [1296.0, 4.0])
    """
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
    """Say whether Eq. (1) is the prior of so many sources.

    Parameters
    ----------
    n_sources : int
    live : array of shape (d,)
        Columns that are not constant.
    n_components : int
    covariance : "free" or "proportional"
    """
    one = n_components == 1 and covariance == "free"
    return bool(one and 1 < n_sources <= np.sum(live))


def few_prior(
    weak: TwoStagePrior, w: float, b: float, live: Bool[Array, "d"]
) -> TwoStagePrior:
    """Return Eq. (1), all else as in a weak prior.

    Parameters
    ----------
    weak : TwoStagePrior
        Its scale is V.
    w, b : float
        Variances within and between sources, in units of V.
    live : array of shape (d,)
    """
    d = int(np.sum(live))
    V, still = np.asarray(weak.scale), len(live) - d
    within = {"within_df": POINTS * d + still, "within_scale": POINTS * d * w * V}
    between = {"df": d + 2 + still, "scale": (d + 2) * b * V}
    typed = {name: np.asarray(v, weak.scale.dtype) for name, v in within.items()}
    typed |= {name: np.asarray(v, weak.scale.dtype) for name, v in between.items()}
    return weak._replace(**typed)
