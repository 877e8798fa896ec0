"""Links: the probability that two points are *same*, given their squared distance D.

    model        P = exp(-(b + scale · D))                                   (1)
    calibrated   log odds = a - γ log max(D, D_min): P = 1/(1 + (D/D₀)^γ)    (2)
    calibrated   P = a decreasing function of D, linear between knots        (3)

Link (1) is the link of Latent Coincidence Analysis (maths A2). Links (2) and (3) are
fitted to the squared distances of held-out pairs. They are valid for pairs chosen in
the same way as the held-out pairs (``pairs``). In (2), D₀ is exp(a/γ), and D_min is the
smallest positive D of the held-out pairs. Equal points are treated as points at D_min.

Prior odds. If pairs are chosen regardless of their distance, ``prior_odds`` adds
log(prior odds / odds of the fitted pairs) to the log odds, because choosing pairs given
y changes only the intercept of a logistic regression (Prentice and Pyke 1979). A link
fitted to nearest pairs does not support prior odds, because these pairs are chosen by
their distance. The model's link does not support them, because b includes prior odds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import logit, xlogy
from jaxtyping import Float, Shaped

from probmetric.arguments import check_number
from probmetric.precision import numpy_in_numpy_out, one_program, store_native
from probmetric.typing import Array, ArrayLike, Scalar

AT_RANDOM = "all"
"""Value of ``pairs`` for a link calibrated on all held-out pairs, near and far."""

# A dataclass field of type str: the pairs that a link was fitted to ("": unknown).
_PAIRS: str = field(default="", metadata={"static": True})

NO_LINK = (
    "P(same) is not available, because this metric only has distances. After a fit to "
    "class labels, call same_probability of the learner, or load the metric file that "
    "`probmetric fit --store-votes` writes."
)


def check_odds(prior_odds: object) -> None:
    """Raise unless ``prior_odds`` is a number above 0. Skip traced values."""
    if isinstance(prior_odds, Tracer):
        return
    if isinstance(prior_odds, np.ndarray | jax.Array) and prior_odds.ndim == 0:
        prior_odds = prior_odds.item()
    check_number("prior_odds", prior_odds, 0, open_low=True)


def _check_odds_of(link: "AnyLink", prior_odds: Scalar | None) -> None:
    if prior_odds is None:
        return
    check_odds(prior_odds)
    if link.kind != "calibrated" or link.pairs != AT_RANDOM:
        raise ValueError(
            f"prior_odds must be None for this metric, got {prior_odds}. Its P(same) "
            "is for the odds of same among the fitted pairs. After a fit to class "
            "labels, use same_probability(..., new_classes=True, prior_odds=...). "
            "After a fit to pairs, multiply the odds P/(1 - P) by prior_odds, and "
            "divide them by the odds of same among the fitted pairs."
        )


def _of_squares[L](
    function: Callable[[L, Array], Array],
) -> Callable[[L, ArrayLike], Array]:
    """Compile a link's function of squared distances, and convert lists to arrays."""
    program = one_program(function)

    @numpy_in_numpy_out
    @wraps(function)
    def of_squares(self: L, squared: ArrayLike) -> Float[Array, "*n"]:
        return program(self, jnp.asarray(squared))

    return of_squares


class _Base:
    kind: ClassVar[str]
    __post_init__ = store_native

    def __repr__(self) -> str:
        values = dict(vars(self))
        kind = f"{self.kind} on {pairs} pairs" if (pairs := values.pop("pairs")) else ""
        words = [
            f"{k}={v if jnp.ndim(v) == 0 else jnp.shape(v)}" for k, v in values.items()
        ]
        return f"{type(self).__name__}({kind or self.kind}: {', '.join(words)})"

    @numpy_in_numpy_out
    def probability(
        self, squared: ArrayLike, prior_odds: Scalar | None = None
    ) -> Float[Array, "*n"]:
        """Compute P(same), the probability of *same*, at squared distances.

        ``prior_odds`` are the odds of *same* among your pairs, if they differ from the
        odds among the fitted pairs. They require a calibrated link with
        ``pairs == "all"``.
        """
        link = cast("AnyLink", self)
        _check_odds_of(link, prior_odds)
        return _probability(link, jnp.asarray(squared), prior_odds)


@one_program
def _probability(link: "AnyLink", squared: Array, prior_odds: Scalar | None) -> Array:
    if isinstance(link, Link):
        return jnp.exp(link.log_probability(squared))
    log_odds = link.log_odds(squared)
    if prior_odds is not None:
        log_odds = log_odds + jnp.log(prior_odds) - jnp.log(link.odds)
    return jax.nn.sigmoid(log_odds)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Link(_Base):
    """Link of a model: P(same) = exp(-(b + scale · D)) at squared distance D.

    A link computes P(same), the probability that two points are *same* (of one class,
    or judged to be the same). For pairs made from class labels this link is not
    calibrated: P(same) decreases more steeply with D than the observed frequency of
    *same*.

    Parameters
    ----------
    b, scale : arrays of shape ()
        Intercept b ≥ 0 and scale > 0.
    pairs : str, default=""
        How the pairs of the fit were chosen, such as "nearest". Empty if this is
        unknown, as in files of version 0.1.0.

    Examples
    --------
    >>> Link(b=0.0, scale=0.5).probability(np.array([0.0, 2.0])).round(3).tolist()
    [1.0, 0.368]
    """

    b: Scalar
    scale: Scalar
    pairs: str = _PAIRS
    kind: ClassVar[str] = "model"

    @_of_squares
    def log_probability(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Compute log P(same), the log probability of *same*, at squared distances."""
        return -(self.b + self.scale * squared)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LogLogisticLink(_Base):
    """Calibrated link: log odds of *same* are a - γ log D at squared distance D.

    P(same), the probability that two points are *same*, is therefore 1 / (1 + (D/D₀)^γ)
    with D₀ = exp(a/γ). The link was fitted to held-out pairs, and is valid for pairs
    chosen in the same way.

    Parameters
    ----------
    intercept, slope : arrays of shape ()
        Coefficients a and γ ≥ 0 of the log odds.
    floor : array of shape ()
        Smallest positive squared distance of the fitted pairs. Below it, P(same) is
        constant.
    odds : array of shape ()
        Odds of *same* among the fitted pairs.
    pairs : str
        How the fitted pairs were chosen: "nearest", "impostors" or "all", as the
        parameter ``pairs`` of ``LCA``. "all" means regardless of their distance.

    Examples
    --------
    >>> link = LogLogisticLink(intercept=0.0, slope=2.0, floor=1e-3, odds=1.0)
    >>> link.probability(np.array([0.5, 1.0, 2.0])).round(3).tolist()
    [0.8, 0.5, 0.2]
    """

    intercept: Scalar
    slope: Scalar
    floor: Scalar
    odds: Scalar
    pairs: str = _PAIRS
    kind: ClassVar[str] = "calibrated"

    @_of_squares
    def log_odds(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Compute the log odds of *same* at squared distances."""
        # xlogy: for γ = 0 the link is constant, even at D = infinity.
        raised = jnp.maximum(squared, self.floor)
        return self.intercept - xlogy(self.slope, raised)

    @_of_squares
    def log_probability(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Compute log P(same), the log probability of *same*, at squared distances."""
        return jax.nn.log_sigmoid(self.log_odds(squared))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class IsotonicLink(_Base):
    """Calibrated link: P(same) is a nonincreasing function of the squared distance.

    P(same) is the probability that two points are *same*.

    Parameters
    ----------
    squared, same : arrays of shape (m,)
        ``squared`` contains increasing squared distances, the knots. ``same`` contains
        P(same) at the knots, nonincreasing values in (0, 1). P(same) is linear between
        knots and constant outside the knots.
    odds, pairs
        See ``LogLogisticLink``.

    Examples
    --------
    >>> link = IsotonicLink(np.array([0.0, 4.0]), np.array([0.9, 0.1]), np.array(1.0))
    >>> np.exp(link.log_probability(np.array([0.0, 1.0, 9.0]))).round(2)
    array([0.9, 0.7, 0.1])
    """

    squared: Float[Array, "m"]
    same: Float[Array, "m"]
    odds: Scalar
    pairs: str = _PAIRS
    kind: ClassVar[str] = "calibrated"

    @_of_squares
    def log_odds(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Compute the log odds of *same* at squared distances."""
        return logit(jnp.interp(squared, self.squared, self.same))

    @_of_squares
    def log_probability(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Compute log P(same), the log probability of *same*, at squared distances."""
        return jnp.log(jnp.interp(squared, self.squared, self.same))


type AnyLink = Link | LogLogisticLink | IsotonicLink
