from .datatree import to_datatree as to_datatree
from .diagnostics import Finding as Finding, diagnose as diagnose
from .laplace import Laplace as Laplace
from .nuts import NUTS as NUTS
from .sample import sample as sample
from .summary import Summary as Summary, summarize as summarize
from .svi import SVI as SVI
from .target import (
    Draws as Draws,
    Gaussian as Gaussian,
    Posterior as Posterior,
    Target as Target,
    model_target as model_target,
)
from .warnings import SamplingWarning as SamplingWarning
