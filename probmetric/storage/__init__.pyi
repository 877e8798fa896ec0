from .draws_file import (
    draws_feature_names as draws_feature_names,
    load_draws as load_draws,
    posterior_of as posterior_of,
    save_draws as save_draws,
)
from .metric_file import (
    Stored as Stored,
    load_metric as load_metric,
    read_metric as read_metric,
    save_metric as save_metric,
)
