"""For PyTorch: a metric whose state does not grow, and a calibration error to train with."""

from riskalign.torch.loss import CalibrationLoss
from riskalign.torch.metric import CalibrationError

__all__ = ["CalibrationError", "CalibrationLoss"]
