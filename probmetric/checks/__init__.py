"""What is claimed of each learner, and the machinery that judges it: compare, SBC, negative controls."""
