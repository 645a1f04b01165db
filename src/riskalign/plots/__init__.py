"""Pictures of calibration, for matplotlib.

Every function draws on the Axes it is given, or on a new figure's, and returns it. None
changes matplotlib's settings, and matplotlib is imported when a picture is made.
"""

from riskalign.plots.bandwidth import bandwidth_curve
from riskalign.plots.bars import class_bars, model_comparison
from riskalign.plots.display import ReliabilityDisplay
from riskalign.plots.reliability import reliability_diagram, reliability_grid

__all__ = [
    "ReliabilityDisplay",
    "bandwidth_curve",
    "class_bars",
    "model_comparison",
    "reliability_diagram",
    "reliability_grid",
]
