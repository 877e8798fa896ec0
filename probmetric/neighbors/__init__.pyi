from .classifier import KNeighborsClassifier as KNeighborsClassifier
from .regressor import KNeighborsRegressor as KNeighborsRegressor
from .search import nearest as nearest
from .shortlist import shortlist_recall as shortlist_recall
from .table import neighbor_table as neighbor_table
from .votes import soft_votes as soft_votes
