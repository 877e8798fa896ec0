from .em import run_em as run_em
from .lbfgs_traced import Minimum as Minimum, minimize as minimize
from .result import Fit as Fit, REMEDY as REMEDY, Result as Result
