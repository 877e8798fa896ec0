"""Log densities that metrics, models and inference share."""
