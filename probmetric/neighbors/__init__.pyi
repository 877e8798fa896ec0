from .classifier import KNeighborsClassifier as KNeighborsClassifier
from .regressor import KNeighborsRegressor as KNeighborsRegressor
from .search import nearest as nearest
from .table import neighbor_table as neighbor_table
