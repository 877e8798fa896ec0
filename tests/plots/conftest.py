"""What tests of figures share."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def let_go():
    """Let go of the figures of each test, which pyplot keeps."""
    yield
    plt.close("all")
