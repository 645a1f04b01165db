"""Runs as `python -m riskalign`."""

import sys

from riskalign_command import main

if __name__ == "__main__":
    sys.exit(main())
