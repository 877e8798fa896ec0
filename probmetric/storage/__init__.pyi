from .draws_file import (
    load_draws as load_draws,
    posterior_of as posterior_of,
    save_draws as save_draws,
)
from .metric_file import load_metric as load_metric, save_metric as save_metric
