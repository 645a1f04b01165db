"""Where the command `riskalign` starts: beside the package, whose import takes a while.

Ctrl-C during that import ends the command as it does later, with one line and the code 130.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code; see `riskalign.cli.main`."""
    try:
        from riskalign.cli import main
    except KeyboardInterrupt:
        print("riskalign: interrupted", file=sys.stderr)
        return 130
    return main()
