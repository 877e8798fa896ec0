"""The estimators LCA and LCAClassifier."""
