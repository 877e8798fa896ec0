"""Those of scikit-learn's checks that depend on the kind and the shape of the data.

A learner that chooses its prior by folds spends most of its time there: all checks are
run with a given prior, and these with the choice as well.
"""

from sklearn.utils import estimator_checks as checks

OF_TRANSFORMERS = (
    checks.check_estimators_dtypes,
    checks.check_f_contiguous_array_estimator,
    checks.check_fit2d_1feature,
    checks.check_fit2d_1sample,
    checks.check_fit_idempotent,
    checks.check_readonly_memmap_input,
    checks.check_transformer_data_not_an_array,
)
OF_CLASSIFIERS = (*OF_TRANSFORMERS, checks.check_classifiers_classes)
