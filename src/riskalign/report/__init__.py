"""What a report says of a model, in words and as one HTML page."""

from riskalign.report.page import to_html

__all__ = ["to_html"]
