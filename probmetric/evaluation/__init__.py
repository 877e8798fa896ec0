"""Held-out judgements: scores of neighbours and probabilities, and leave-one-out."""
