from .diagnostics import diagnose as diagnose
from .laplace import Laplace as Laplace
from .nuts import NUTS as NUTS
from .sample import sample as sample
from .target import (
    Draws as Draws,
    Gaussian as Gaussian,
    Posterior as Posterior,
    Target as Target,
)
from .warnings import SamplingWarning as SamplingWarning
