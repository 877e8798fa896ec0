from .lbfgs_traced import minimize as minimize
from .result import Fit as Fit, Result as Result
