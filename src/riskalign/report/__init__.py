"""A report as one HTML page, and the words that it shares with the terminal."""

from riskalign.report.page import to_html

__all__ = ["to_html"]
