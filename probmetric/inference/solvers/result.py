"""``Fit`` and ``Result``: what every fit returns, with a remedy where it failed.

Inside ``jit`` a failure is a value. ``Result`` codes are plain integers there; the
estimators turn them into warnings or errors with the remedy.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, PyTree

from probmetric.typing import Array, ArrayLike


class Result(IntEnum):
    """How a fit ended.

    Examples
    --------
    >>> Result(1).name, REMEDY[Result.MAX_STEPS][:26]
    ('MAX_STEPS', 'the step limit was reached')
    """

    CONVERGED = 0
    MAX_STEPS = 1
    DECREASED = 2
    NONFINITE = 3


REMEDY = {
    Result.CONVERGED: "the stopping rule on the gradient or the gap was met",
    Result.MAX_STEPS: (
        "the step limit was reached before the stopping rule was met: raise max_steps "
        "or tol or, where the learner has them, set a stronger prior or another solver"
    ),
    Result.DECREASED: (
        "the objective fell under EM by more than rounding of ordinary data: columns "
        "far from 0 for their range do so (standardize=True, or subtract a constant); "
        "with others it is a bug in the update, please report it with the data"
    ),
    Result.NONFINITE: (
        "the objective or its gradient became infinite or NaN: look for features of "
        "very different scale (standardize=True), or set a prior (the likelihood may "
        "have no maximum)"
    ),
}


class Fit(NamedTuple):
    """A fitted model and its provenance.

    Attributes
    ----------
    params : NamedTuple of arrays
        The model's own ``Params``.
    objective : array of shape ()
        Log joint density (log posterior up to its constant) at ``params``.
    result : array of shape (), int
        A ``Result`` code.
    n_steps, n_evaluations : array of shape (), int
        Steps of the solver; evaluations of the EM map, or of value and gradient.
    trace : array of shape (max_steps,)
        Objective after each step, NaN beyond the last one.

    Examples
    --------
    >>> found = Fit.closed((np.eye(2),), objective=-3.5)
    >>> Result(int(found.result)).name, int(found.n_steps), float(found.objective)
    ('CONVERGED', 0, -3.5)
    """

    params: PyTree
    objective: Float[Array, ""]
    result: Int[Array, ""]
    n_steps: Int[Array, ""]
    n_evaluations: Int[Array, ""]
    trace: Float[Array, "t"]

    @classmethod
    def closed(cls, params: PyTree, objective: ArrayLike) -> "Fit":
        """Return a fit in closed form: no steps, converged if the objective is finite.

        Parameters
        ----------
        params : NamedTuple of arrays
        objective : array of shape ()
        """
        value = np.asarray(objective)
        code = Result.CONVERGED if np.isfinite(value) else Result.NONFINITE
        result, steps, evaluations = (np.asarray(int(n)) for n in (code, 0, 1))
        return cls(params, value, result, steps, evaluations, np.empty(0, value.dtype))
