from .datatree import to_datatree as to_datatree
from .laplace import laplace as laplace
from .nuts import nuts as nuts
from .sample import sample as sample
from .summary import Summary as Summary, summarise as summarise
from .svi import svi as svi
from .target import (
    Draws as Draws,
    Gaussian as Gaussian,
    Target as Target,
    model_target as model_target,
)
from .warnings import SamplingWarning as SamplingWarning
