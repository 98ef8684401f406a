#!/usr/bin/env bash
# Runs the Spark tests on the oldest supported PySpark. Only pyspark itself differs: PYTHONPATH, which Spark's
# worker processes inherit, puts it before the one in .venv.
set -euo pipefail

readonly OLDEST=4.2.1
readonly OVERLAY=.venv/compat/pyspark-$OLDEST

if [ ! -f "$OVERLAY/.complete" ]; then
    rm -rf "$OVERLAY"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$OVERLAY" "pyspark==$OLDEST"
    # Its commands are not used: Spark's are found on the PATH, which leads to .venv.
    rm -rf "$OVERLAY/bin"
    touch "$OVERLAY/.complete"
fi
if [ "${1:-}" = --install-only ]; then
    exit
fi
export PYTHONPATH=$PWD/$OVERLAY FLIP27_TEST_SPARK_VERSION=$OLDEST
.venv/bin/python -m pytest tests/spark/test_streaming.py tests/spark/test_authors.py "$@"
