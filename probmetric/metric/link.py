"""Links: how a squared distance becomes a probability that two points are *same*.

    model        P = exp(-(b + scale · D))                                   (1)
    calibrated   log odds = a - γ log max(D, D_min), so 1/(1 + (D/D₀)^γ)     (2)
    calibrated   P = a decreasing function of D, linear between knots        (3)

(1) is what Latent Coincidence Analysis is fitted with (maths A2). (2), with
D₀ = exp(a/γ), and (3) are fitted afterwards, to the distances of pairs that the metric
had not seen, and refer to pairs chosen as those were: ``pairs`` says how. D_min is the
smallest positive distance seen; equal points are taken for points that far apart.

Odds. Where pairs are chosen without a look at their distance, p(D | y) is that of the
population whatever the share of *same* among them, so that log odds move by
log(prior odds / odds of the pairs): a choice of pairs given y moves the intercept of a
logistic regression alone (Prentice and Pyke 1979). Nearest pairs are chosen *by* their
distance, and the model's b carries its prior: there prior odds are refused.
"""

from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar

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
"""The pairs that are chosen given y alone: all pairs of held-out points."""

DESIGN: Any = field(default="", metadata={"static": True})
"""The pairs that a link refers to; "" where nobody said."""


def _said(self: Any) -> str:
    """Write which link it is, and of which pairs; also under jit."""
    held = {k: v for k, v in vars(self).items() if k != "pairs"}
    parts = [f"{k}={v if jnp.ndim(v) == 0 else jnp.shape(v)}" for k, v in held.items()]
    of = f"{self.kind} on {self.pairs} pairs" if self.pairs else self.kind
    return f"{type(self).__name__}({of}: {', '.join(parts)})"


def check_odds(prior_odds: Any) -> None:
    """Raise for prior odds that are no number above 0; traced ones pass."""
    if isinstance(prior_odds, Tracer):
        return
    is_array = isinstance(prior_odds, np.ndarray | jax.Array)
    one = is_array and prior_odds.ndim == 0
    given = prior_odds.item() if one else prior_odds
    check_number("prior_odds", given, 0, open_low=True)


def _refuse_odds(link: Any, prior_odds: Any) -> None:
    """Raise where prior odds are given that a link has no use for."""
    if prior_odds is None:
        return
    check_odds(prior_odds)
    if link.kind != "calibrated" or link.pairs != AT_RANDOM:
        raise ValueError(
            "prior_odds: expected a link calibrated on pairs drawn at random given y, "
            f"got the {link.kind} link of {link.pairs or 'unnamed'} pairs, which is of "
            "these pairs' odds alone (nearest pairs are chosen by their distance); "
            "LCA(link_pairs='all').fit(X, y) calibrates one, and of pairs of your own "
            "multiply the odds by yours over those of the pairs"
        )


def _of_squares(function: Any) -> Any:
    """Compile a link's function of squared distances, whatever array-like holds them.

    As lists they would be an argument each, and a program for every length.
    """
    program = one_program(function)

    @numpy_in_numpy_out
    @wraps(function)
    def of_squares(self: Any, squared: ArrayLike) -> Float[Array, "*n"]:
        return program(self, jnp.asarray(squared))

    return of_squares


@numpy_in_numpy_out
def _at_odds(
    self: Any, squared: ArrayLike, prior_odds: Scalar | None = None
) -> Float[Array, "*n"]:
    """Return P(same) at squared distances, at other odds if asked."""
    _refuse_odds(self, prior_odds)
    return _odds_to_probability(self, jnp.asarray(squared), prior_odds)


@one_program
def _odds_to_probability(link: Any, squared: Any, prior_odds: Any) -> Any:
    log_odds = link.log_odds(squared)
    if prior_odds is not None:
        log_odds = log_odds + jnp.log(prior_odds) - jnp.log(link.odds)
    return jax.nn.sigmoid(log_odds)


@one_program
def _exp_of_log(link: Any, squared: Any) -> Any:
    return jnp.exp(link.log_probability(squared))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Link:
    """P(same | D) = exp(-(b + scale · D)) for a squared distance D: the model's link.

    Parameters
    ----------
    b, scale : arrays of shape ()
        b ≥ 0, scale > 0.
    pairs : str, default=""
        The pairs that it was fitted to. Files of 0.1.0 do not say.

    Notes
    -----
    What pairs of a label-built fit show differs from it: it is steeper.

    Examples
    --------
    >>> import numpy as np
    >>> link = Link(b=0.0, scale=0.5)
    >>> link.probability(np.array([0.0, 2.0])).round(3).tolist()
    [1.0, 0.368]
    """

    b: Scalar
    scale: Scalar
    pairs: str = DESIGN
    kind: ClassVar[str] = "model"
    __post_init__ = store_native
    __repr__ = _said

    @_of_squares
    def log_probability(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Return log P(same) at squared distances."""
        return -(self.b + self.scale * squared)

    @numpy_in_numpy_out
    def probability(
        self, squared: ArrayLike, prior_odds: Scalar | None = None
    ) -> Float[Array, "*n"]:
        """Return P(same) at squared distances; prior odds are refused."""
        _refuse_odds(self, prior_odds)
        return _exp_of_log(self, jnp.asarray(squared))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LogLogisticLink:
    """P(same | D) = 1 / (1 + (D/D₀)^γ) for a squared distance D, calibrated.

    Parameters
    ----------
    intercept, slope : arrays of shape ()
        a = γ log D₀ and γ ≥ 0 of log odds = a - γ log D.
    floor : array of shape ()
        D_min > 0: nearer pairs are given P(same) at this distance.
    odds : array of shape ()
        Same to different among the pairs that it was fitted to.
    pairs : str
        How these were chosen: "nearest", "impostors", or "all", at random given y.

    Examples
    --------
    >>> import numpy as np
    >>> link = LogLogisticLink(intercept=0.0, slope=2.0, floor=1e-3, odds=1.0)
    >>> link.probability(np.array([0.5, 1.0, 2.0])).round(3).tolist()
    [0.8, 0.5, 0.2]
    """

    intercept: Scalar
    slope: Scalar
    floor: Scalar
    odds: Scalar
    pairs: str = DESIGN
    kind: ClassVar[str] = "calibrated"
    __post_init__ = store_native
    __repr__ = _said

    @_of_squares
    def log_odds(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Return the logarithm of P/(1 - P) at squared distances."""
        # γ = 0 is constant also at D = infinity, where 0 · log D is no number.
        raised = jnp.maximum(squared, self.floor)
        return self.intercept - xlogy(self.slope, raised)

    @_of_squares
    def log_probability(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Return log P(same) at squared distances."""
        return jax.nn.log_sigmoid(self.log_odds(squared))

    probability = _at_odds


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class IsotonicLink:
    """P(same | D) decreasing in a squared distance D, calibrated, without a formula.

    Parameters
    ----------
    squared, same : arrays of shape (m,)
        Knots: squared distances, increasing, and P(same) there in (0, 1), not
        increasing. Linear between, constant beyond.
    odds : array of shape ()
        Same to different among the pairs that it was fitted to.
    pairs : str
        As for ``LogLogisticLink``.

    Examples
    --------
    >>> import numpy as np
    >>> link = IsotonicLink(np.array([0.0, 4.0]), np.array([0.9, 0.1]), np.array(1.0))
    >>> np.exp(link.log_probability(np.array([0.0, 1.0, 9.0]))).round(2)
    array([0.9, 0.7, 0.1])
    """

    squared: Float[Array, "m"]
    same: Float[Array, "m"]
    odds: Scalar
    pairs: str = DESIGN
    kind: ClassVar[str] = "calibrated"
    __post_init__ = store_native
    __repr__ = _said

    @_of_squares
    def log_odds(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Return the logarithm of P/(1 - P) at squared distances."""
        return logit(jnp.interp(squared, self.squared, self.same))

    @_of_squares
    def log_probability(self, squared: Shaped[Array, "*n"]) -> Float[Array, "*n"]:
        """Return log P(same) at squared distances."""
        return jnp.log(jnp.interp(squared, self.squared, self.same))

    probability = _at_odds


type AnyLink = Link | LogLogisticLink | IsotonicLink
