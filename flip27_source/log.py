"""The logger of the library, which everything that runs in Spark's processes logs to."""

from __future__ import annotations

import logging

LOG = logging.getLogger("flip27_source")
