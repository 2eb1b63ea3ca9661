"""Entry point of ``python -m explorer``, which runs the command line."""

import sys

from explorer.cli import main

sys.exit(main())
