from .choice import choose_strength as choose_strength, shrunk as shrunk
from .fit import (
    EigDMLParams as EigDMLParams,
    fit as fit,
    game as game,
    to_metric as to_metric,
)
