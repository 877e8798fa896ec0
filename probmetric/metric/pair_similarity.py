"""Similarity as the probability of a common source, under a two-stage mixture.

Scores of a query Q and a database element Y; larger is more similar:

* ``log_ratio``    log Pr(Q, Y) - log Pr(Q) - log Pr(Y), the log odds that they share
  a source, up to the prior odds. For stored elements each with its own source it
  ranks as the Bayes rule does (erratum Y10 of seed 002, which ranks by the joint);
* ``joint``        log Pr(Q, Y), the paper's;
* ``conditional``  log Pr(Q | Y);
* ``kernel``       log of Pr(Q, Y) / √(Pr(Q, Q) Pr(Y, Y)) ≤ 0, zero for Y = Q: the
  only one that always recognises Q itself (erratum Y11);
* ``vq``           log Pr(Q, k(Y) | Y) with the likeliest component k(Y): a lower bound
  of ``conditional`` that is off by -log P(k(Y) | Q, Y).

None is a distance: there is no triangle inequality, and under all but ``kernel`` the
best match of Q need not be Q. ``dissimilarity`` is minus the score.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, Int

from probmetric.densities import pair as density
from probmetric.metric import pair_tiles as tiles
from probmetric.metric.link import check_odds
from probmetric.metric.protocol import log_measured, measured, said, two_points
from probmetric.precision import store_native
from probmetric.typing import Array, Scalar

type Score = Literal["log_ratio", "joint", "conditional", "kernel", "vq"]
SCORES = ("log_ratio", "joint", "conditional", "kernel", "vq")


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class PairSimilarity:
    """Log probability (ratio) of two observations under a common source.

    Parameters
    ----------
    log_weights : array of shape (k,)
        log c_k; in a blend of models, log π_n + log c_nk with model after model.
    means : array of shape (k, d)
    between : array of shape (k, d, d)
        Covariance B_k of the representatives.
    noise : array of shape (k, d, d)
        Covariance W_k of an instance about its representative.
    noise_other : array of shape (k, d, d), optional
        The same for database elements, where it differs from that of queries.
    score : str, default="log_ratio"
        What ``dissimilarity`` and ``pairwise`` are minus of; see the module.
    blocks : tuple of int, optional
        Component counts of blended models; () for one model. A model is common to Q
        and Y also where they do not share a source, so the log ratio's denominator
        is blended as Pr_n(Q) Pr_n(Y).

    Notes
    -----
    NaN entries are integrated out, outside ``jit``. ``symmetric`` is False of the
    class: joint, log ratio and kernel are symmetric up to rounding unless
    ``noise_other`` is given; the others are not.

    Examples
    --------
    Sources spread with variance 4, their instances with variance 1: two instances half
    a unit apart speak for one source, two that are three units apart against it.

    >>> import numpy as np
    >>> of_one = np.ones((1, 1, 1))
    >>> alike = PairSimilarity(np.zeros(1), np.zeros((1, 1)), 4 * of_one, of_one)
    >>> alike.log_ratio(np.array([[0.0], [-1.5]]), np.array([[0.5], [1.5]])).round(2)
    array([ 0.47, -1.29])
    """

    log_weights: Float[Array, "k"]
    means: Float[Array, "k d"]
    between: Float[Array, "k d d"]
    noise: Float[Array, "k d d"]
    noise_other: Float[Array, "k d d"] | None = None
    score: Score = field(default="log_ratio", metadata={"static": True})
    blocks: tuple[int, ...] = field(default=(), metadata={"static": True})
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False
    __post_init__ = store_native
    __repr__ = said

    @property
    def n_features(self) -> int:
        """Number of features d of the points it takes."""
        return self.means.shape[-1]

    @measured
    def log_marginal(
        self, X: Float[Array, "*n d"], *, other: bool = False
    ) -> Float[Array, "*n"]:
        """Return log Pr(x) of every row; ``other`` takes them as database elements."""
        rows = jnp.asarray(X)
        flat, missing = rows.reshape(-1, rows.shape[-1]), _has_missing(X)
        log_p = tiles.marginal(self._model, flat, other=other, missing=missing)
        return log_p.reshape(rows.shape[:-1])

    @log_measured
    def log_responsibilities(self, X: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """Return log P(k | x) of every row."""
        return tiles.responsibilities(
            self._model, jnp.asarray(X), missing=_has_missing(X)
        )

    @measured
    def log_joint(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Return log Pr(Q, Y) of matching rows, by the exact EQ-2."""
        return self._rows(A, B, "joint")

    @measured
    def log_conditional(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Return log Pr(Q | Y) of matching rows."""
        return self._rows(A, B, "conditional")

    @measured
    def log_ratio(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Return the log likelihood ratio of one source against two."""
        return self._rows(A, B, "log_ratio")

    @measured
    def log_kernel(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Return log Pr(Q, Y) / √(Pr(Q, Q) Pr(Y, Y)), at most 0."""
        return self._rows(A, B, "kernel")

    @measured
    def pair_score(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Return this metric's own score of matching rows; higher is more similar."""
        return self._rows(A, B, self.score)

    @measured
    def same_probability(
        self,
        A: Float[Array, "*n d"],
        B: Float[Array, "*n d"],
        *,
        prior_odds: Scalar = 1.0,
    ) -> Float[Array, "*n"]:
        """Return P(same source | Q, Y), given the odds before Q and Y were seen."""
        check_odds(prior_odds)
        return jax.nn.sigmoid(self._rows(A, B, "log_ratio") + jnp.log(prior_odds))

    @measured
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return minus the scores of one query with the rows of Y (difference form)."""
        return -self._rows(jnp.broadcast_to(q, Y.shape), Y, self.score)

    @measured
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return minus the scores of all pairs, shape (m, n).

        One GEMM a component, streamed in tiles: memory is the result, 2 k (d + 2)
        numbers a row, and some ten tiles of 256 by 256. Loses eps · ‖S‖/‖W‖
        (absolute) by cancellation; ``refine`` does not.
        """
        args = self._model, self.score, self.blocks
        if _has_missing(Q) or _has_missing(P):
            return tiles.pairwise_missing(*args, np.asarray(Q), np.asarray(P))
        return tiles.pairwise(*args, jnp.asarray(Q), jnp.asarray(P))

    @measured
    def refine(
        self,
        Q: Float[Array, "m d"],
        P: Float[Array, "n d"],
        idx: Int[Array, "m s"],
    ) -> Float[Array, "m s"]:
        """Return minus the scores of each query with its short list P[idx], exactly.

        By the mean-difference form, which has no cancellation for small W.
        """
        Y = jnp.asarray(P)[jnp.asarray(idx)]
        A = jnp.broadcast_to(jnp.asarray(Q)[:, None], Y.shape)
        return -self._rows(A, Y, self.score)

    def __call__(self, u: Float[Array, "d"], v: Float[Array, "d"]) -> float:
        """Return the dissimilarity (minus the score) of two observations."""
        u, v = two_points(self, u, v)
        return float(self.dissimilarity(u, v[None])[0])

    @property
    def _model(self) -> density.PairModel:
        other = self.noise if self.noise_other is None else self.noise_other
        return density.PairModel(
            self.log_weights, self.means, self.between, self.noise, other
        )

    def _rows(self, A: Any, B: Any, score: str) -> Any:
        missing = _has_missing(A) or _has_missing(B)
        a, b = jnp.asarray(A), jnp.asarray(B)
        flat = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
        args = self._model, score, self.blocks
        return tiles.matching(*args, *flat, missing=missing).reshape(a.shape[:-1])


def _has_missing(X: Any) -> bool:
    return not isinstance(X, Tracer) and bool(np.isnan(np.asarray(X)).any())
