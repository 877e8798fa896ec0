"""Similarity as the evidence for a common source, under a two-stage mixture.

``PairSimilarity`` defines the scores of a query Q and a database element Y.

* ``log_ratio``  is the log odds of a common source for even prior odds. If every
  database element has a different source, ranking by this score is the Bayes rule. (The
  paper ranks by ``joint``: erratum Y10.)
* ``kernel``     is 0 if Y = Q, so the best match of a point is always the point itself
  (erratum Y11). For the other scores, the best match of Q may be another point.
* ``vq``         is below ``conditional`` by -log P(k | Q, Y), with the most probable
  component k of Y.

No score is a distance, because the triangle inequality does not hold.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.core import Tracer
from jaxtyping import Float, Int
from scipy.special import expit

from probmetric.densities import pair as density
from probmetric.metric import pair_tiles as tiles
from probmetric.metric.feature_names import check_columns
from probmetric.metric.items import items_of, log_ratios
from probmetric.metric.link import check_odds
from probmetric.metric.protocol import (
    MetricBase,
    check_features,
    log_measured,
    measured,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, ArrayLike, Scalar

type Score = Literal["log_ratio", "joint", "conditional", "kernel", "vq"]
SCORES: tuple[Score, ...] = get_args(Score.__value__)


class Calibration(NamedTuple):
    """Calibration of log likelihood ratios by a nondecreasing function.

    A log ratio l is limited to [-bound, bound]. It becomes a + b₁ l if l ≥ 0, and
    a + b₂ l if l < 0. The result is limited to [-bound, bound] again.

    Parameters
    ----------
    intercept : float
        Intercept a, in natural logarithms.
    slope_for, slope_against : float
        Slopes b₁ ≥ 0 for l ≥ 0 (a common source is more likely) and b₂ ≥ 0 for l < 0
        (a common source is less likely).
    bound : float
        Largest absolute value (> 0) of a calibrated log ratio.

    Examples
    --------
    >>> Calibration(0.5, 1.0, 0.25, bound=3.0)(np.array([-20.0, -2.0, 8.0])).tolist()
    [-0.25, 0.0, 3.0]
    """

    intercept: Scalar
    slope_for: Scalar
    slope_against: Scalar
    bound: Scalar

    @numpy_in_numpy_out
    def __call__(self, log_ratio: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return calibrated log ratios."""
        low, high = -self.bound, self.bound
        limited = jnp.clip(jnp.asarray(log_ratio), low, high)
        line = jnp.where(limited > 0, self.slope_for, self.slope_against) * limited
        return jnp.clip(self.intercept + line, low, high)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class PairSimilarity(MetricBase):
    """Similarity of two observations: how well a common source explains them.

    In the model, a source belongs to one of k components and has a representative: its
    observations without noise. The theory page *The two-stage
    normal mixture* derives the densities.

    Densities ignore missing values (NaN), but only outside ``jit``. ``symmetric`` is
    False for all scores. Without ``noise_other``, the scores "joint", "log_ratio" and
    "kernel" are symmetric up to rounding.

    Parameters
    ----------
    log_weights : array of shape (k,)
        Log weight of each component. For a blend (a weighted mean of several models),
        list the components model by model, and multiply each weight by the weight of
        its model.
    means : array of shape (k, d)
        Means of the components.
    between : array of shape (k, d, d)
        Covariances of the representatives of sources.
    noise : array of shape (k, d, d)
        Covariances of an observation around the representative of its source.
    noise_other : array of shape (k, d, d), optional
        Covariances of database elements around their representatives. Default:
        ``noise``.
    score : str, default="log_ratio"
        Similarity of a query Q and a database element Y. ``dissimilarity`` and
        ``pairwise`` return minus the score. Pr(Q, Y) is the joint density given one
        source, and Pr(Q) and Pr(Y) are the densities of each.

        - "log_ratio": log Pr(Q, Y) - log Pr(Q) - log Pr(Y), the log likelihood ratio of
          one source to two sources.
        - "joint": log Pr(Q, Y), the score of Yianilos (1995).
        - "conditional": log Pr(Q | Y).
        - "kernel": log of Pr(Q, Y) / √(Pr(Q, Q) Pr(Y, Y)). It is at most 0, and 0 if
          Y = Q.
        - "vq": as "conditional", with only the most probable component of Y:
          log Pr(Q, k | Y) for this component k.
    blocks : tuple of int, optional
        Number of components of each model of a blend, or () for one model. In a blend,
        both observations are assumed to come from one model, even if they have
        different sources. The denominator of the likelihood ratio is then
        Σ_n π_n Pr_n(Q) Pr_n(Y), for models n with weights π_n and densities Pr_n.
    calibration : Calibration, optional
        Function that corrects the log likelihood ratios of the model. Default: no
        correction. A calibration changes ``log_ratio``, ``likelihood_ratios``,
        ``same_probability``, and ``pair_score`` for the score "log_ratio". It does not
        change ``dissimilarity``, ``pairwise`` and ``refine``, where bounded log ratios
        would cause ties.

    Examples
    --------
    Representatives have variance 4, and observations of a source have variance 1.

    >>> W = np.ones((1, 1, 1))
    >>> similarity = PairSimilarity(np.zeros(1), np.zeros((1, 1)), 4 * W, W)
    >>> A, B = np.array([[0.0], [-1.5]]), np.array([[0.5], [1.5]])
    >>> similarity.log_ratio(A, B).round(2)  # Evidence for, and against
    array([ 0.47, -1.29])
    """

    log_weights: Float[Array, "k"]
    means: Float[Array, "k d"]
    between: Float[Array, "k d d"]
    noise: Float[Array, "k d d"]
    noise_other: Float[Array, "k d d"] | None = None
    score: Score = field(default="log_ratio", metadata={"static": True})
    blocks: tuple[int, ...] = field(default=(), metadata={"static": True})
    calibration: Calibration | None = None
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.means.shape[-1]

    @measured
    def log_marginal(
        self, X: Float[Array, "*n d"], *, other: bool = False
    ) -> Float[Array, "*n"]:
        """Compute the log density of rows, with ``noise_other`` if ``other=True``."""
        rows = jnp.asarray(X)
        flat, missing = rows.reshape(-1, rows.shape[-1]), _has_missing(X)
        log_p = tiles.marginal(self._model, flat, other=other, missing=missing)
        return log_p.reshape(rows.shape[:-1])

    @log_measured
    def log_responsibilities(self, X: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """Compute the log probability of each component given a row, shape (n, k)."""
        return tiles.responsibilities(
            self._model, jnp.asarray(X), missing=_has_missing(X)
        )

    @measured
    def log_joint(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Compute the log joint density of matching rows of A and B, given one source.

        It is EQ-2 of the paper (Yianilos 1995), computed exactly.
        """
        return self._rows(A, B, "joint")

    @measured
    def log_ratio(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Compute the log likelihood ratio of one source to two for matching rows.

        The result is calibrated if ``calibration`` is set.
        """
        return self.calibrated(self._rows(A, B, "log_ratio"))

    def calibrated(self, log_ratio: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Apply ``calibration``, if set, to log likelihood ratios of the model."""
        return log_ratio if self.calibration is None else self.calibration(log_ratio)

    @measured
    def pair_score(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Compute the score of matching rows of A and B. Larger is more similar.

        The parameter ``score`` selects the score. Only "log_ratio" is calibrated.
        """
        score = self._rows(A, B, self.score)
        return self.calibrated(score) if self.score == "log_ratio" else score

    @measured
    def same_probability(
        self,
        A: Float[Array, "*n d"],
        B: Float[Array, "*n d"],
        *,
        prior_odds: Scalar = 1.0,
    ) -> Float[Array, "*n"]:
        """Compute the probability that matching rows of A and B have one source.

        ``prior_odds`` are the prior odds of one source.
        """
        check_odds(prior_odds)
        ratio = self.calibrated(self._rows(A, B, "log_ratio"))
        return jax.nn.sigmoid(ratio + jnp.log(prior_odds))

    def likelihood_ratios(
        self,
        questioned: ArrayLike,
        known: ArrayLike,
        *,
        questioned_items: ArrayLike | None = None,
        known_items: ArrayLike | None = None,
        prior_odds: Scalar | int | None = None,
    ) -> pd.DataFrame:
        """Compute the likelihood ratio of one source to two for every pair of items.

        An item is a set of one or more measurements. The measurements of an item are
        assumed to have one source, and to be independent given this source. The
        calibration was learned from pairs of single measurements. It is also applied to
        items with several measurements (see Benchmarks: likelihood_ratios).

        Parameters
        ----------
        questioned, known : array-like of shape (n, d) and (m, d)
            Measurements, without missing values.
        questioned_items, known_items : array-like of shape (n,) and (m,), optional
            Name of the item of each measurement. Default: each row is an item, named by
            its row number.
        prior_odds : float > 0, optional
            Prior odds of one source. They add the column ``posterior`` to the result.

        Returns
        -------
        DataFrame
            One row per pair of items, with columns

            - ``questioned``, ``known``: names of the items.
            - ``n_questioned``, ``n_known``: numbers of measurements.
            - ``log10_lr``: log10 of the likelihood ratio.
            - ``limit``: largest possible absolute value of ``log10_lr``. It is
              log10(n + 1) for n training sources with two or more rows (at most 1000
              are counted), or NaN without calibration.
            - ``posterior``: posterior probability of one source.

        Raises
        ------
        ValueError
            If ``noise_other`` is set, or if measurements, items or odds are not valid.

        Examples
        --------
        >>> W = np.ones((1, 1, 1))
        >>> similarity = PairSimilarity(np.zeros(1), np.zeros((1, 1)), 4 * W, W)
        >>> table = similarity.likelihood_ratios(
        ...     [[2.0], [3.0]], [[2.5], [-1.0]], questioned_items=["a", "a"]
        ... )
        >>> table["log10_lr"].round(2).tolist()
        [0.53, -1.25]
        """
        coded = check_columns(self, questioned=questioned, known=known)
        questioned, known = coded.values()
        check_features(self, questioned=questioned, known=known)
        if self.noise_other is not None:
            raise ValueError(
                "noise_other must be None for likelihood_ratios, got an array. "
                "likelihood_ratios uses the same noise for questioned and known items. "
                "Fit TwoStageMixture(database_noise=1)."
            )
        left = items_of(questioned, questioned_items, "questioned")
        right = items_of(known, known_items, "known")
        ratios = np.asarray(self.calibrated(log_ratios(self, left, right))).ravel()
        pairs = pd.MultiIndex.from_product([left.names, right.names])
        limit = np.nan if self.calibration is None else float(self.calibration.bound)
        table = pd.DataFrame(
            {
                "questioned": pairs.get_level_values(0),
                "known": pairs.get_level_values(1),
                "n_questioned": np.repeat(left.sizes, len(right.names)),
                "n_known": np.tile(right.sizes, len(left.names)),
                "log10_lr": ratios / np.log(10),
                "limit": limit / np.log(10),
            }
        )
        if prior_odds is None:
            return table
        check_odds(prior_odds)
        return table.assign(posterior=expit(ratios + np.log(float(prior_odds))))

    @measured
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return minus the score (not calibrated) of a query q and each row of Y."""
        return -self._rows(jnp.broadcast_to(q, Y.shape), Y, self.score)

    @measured
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return minus the score (not calibrated) of each pair of rows, shape (m, n).

        For k components, this needs 2 k (d + 2) numbers per row and about ten tiles of
        512 · 512 numbers in memory. The absolute rounding error is about the machine
        precision times the norm of ``between + noise`` divided by the norm of
        ``noise``.
        """
        args = self._model, self.score, self.blocks
        if _has_missing(Q) or _has_missing(P):
            return tiles.pairwise_missing(*args, np.asarray(Q), np.asarray(P))
        return tiles.pairwise(*args, jnp.asarray(Q), jnp.asarray(P))

    @measured
    def refine(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"], idx: Int[Array, "m s"]
    ) -> Float[Array, "m s"]:
        """Return minus the scores (not calibrated) of query i and the rows P[idx[i]].

        They have smaller rounding errors than ``pairwise``.
        """
        Y = jnp.asarray(P)[jnp.asarray(idx)]
        A = jnp.broadcast_to(jnp.asarray(Q)[:, None], Y.shape)
        return -self._rows(A, Y, self.score)

    @property
    def _model(self) -> density.PairModel:
        other = self.noise if self.noise_other is None else self.noise_other
        return density.PairModel(
            self.log_weights, self.means, self.between, self.noise, other
        )

    def _rows(self, A: Array, B: Array, score: Score) -> Array:
        missing = _has_missing(A) or _has_missing(B)
        a, b = jnp.asarray(A), jnp.asarray(B)
        flat = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
        args = self._model, score, self.blocks
        return tiles.matching(*args, *flat, missing=missing).reshape(a.shape[:-1])


def _has_missing(X: Array) -> bool:
    return not isinstance(X, Tracer) and bool(np.isnan(np.asarray(X)).any())
