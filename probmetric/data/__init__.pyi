from .containers import (
    Distances as Distances,
    Groups as Groups,
    Labeled as Labeled,
    OddOneOut as OddOneOut,
    Pairs as Pairs,
    Points as Points,
    Triplets as Triplets,
)
from .pairs import (
    all_pairs as all_pairs,
    impostor_pairs as impostor_pairs,
    nearest_pairs as nearest_pairs,
)
from .sites import site_pairs as site_pairs
from .triplets import nearest_triplets as nearest_triplets
