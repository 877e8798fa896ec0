"""What a model is fitted to: containers, pairs, groups, scaling, padding."""
