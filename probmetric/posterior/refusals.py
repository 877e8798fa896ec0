"""Questions that draws of a metric do not answer, and the measured reasons."""

__all__ = [
    "MATRIX_REFUSAL",
    "check_names",
    "need_intervals",
    "need_meaningful_link",
]

PURPOSES = ("prediction", "intervals")
SOURCES = ("laplace", "nuts", "svi", "bootstrap", "exact")

MATRIX_REFUSAL = (
    "matrix_interval: no {prob:.0%} interval for entries of a metric can be given: "
    "nominal 90 % covered at most 60 % whatever made the draws (squares are biased "
    "upwards near the boundary of the positive matrices); ask for distances (interval) "
    "or ratios of them (ratio_interval)"
)


def check_names(purpose: str, source: str) -> None:
    """Refuse unknown names."""
    if purpose not in PURPOSES:
        raise ValueError(f"purpose: wanted one of {PURPOSES}, got {purpose!r}")
    if source not in SOURCES:
        raise ValueError(f"source: wanted one of {SOURCES}, got {source!r}")


def need_intervals(name: str, purpose: str) -> None:
    """Refuse intervals from draws that were made to be averaged in votes."""
    if purpose != "intervals":
        raise ValueError(
            f"{name}: wanted draws made for intervals (purpose='intervals', as the "
            f"product-weight bootstrap gives), got purpose={purpose!r}; nominal 90 % "
            "intervals from Laplace draws covered 37 to 68 %"
        )


def need_meaningful_link(source: str, pairs_independent: bool) -> None:
    """Refuse averages of P(same) that are worse than the point estimate."""
    if source != "bootstrap" and not pairs_independent:
        raise ValueError(
            "same_probability: wanted source='bootstrap' or pairs_independent=True, "
            f"got source={source!r} over pairs that are not independent; averaging "
            "P(same) over such draws is worse than the point estimate, because the "
            "prior's spread is added to every distance"
        )
