"""What a report says of a model: the first screen, as text, HTML, Markdown, JUnit and JSON."""

from riskalign.report.screen import Options, Screen
from riskalign.report.surveying import screen_of, summarize, survey

__all__ = ["Options", "Screen", "screen_of", "summarize", "survey"]
