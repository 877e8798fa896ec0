"""The derivations, one learner a file, and what is generic to all of them."""
