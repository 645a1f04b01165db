"""Runs as `python -m riskalign.cli` too."""

import sys

from riskalign.cli import main

sys.exit(main())
