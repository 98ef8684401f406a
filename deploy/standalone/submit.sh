#!/usr/bin/env bash
# Starts the query of orders.py on a standalone cluster, in client mode, from the folder that contains environment/.
# SPARK_HOME, MASTER (the master's host) and HOST (the address of this host) are set by the caller.
set -euo pipefail

# Spark looks up installed sources with the Python that the environment names: the setting spark.pyspark.python alone
# ends in DATA_SOURCE_NOT_FOUND.
unset PYSPARK_DRIVER_PYTHON
shared=$(cd "$(dirname "$0")" && pwd)
export PYSPARK_PYTHON=./environment/bin/python
export FLIP27_LOG_LEVEL=INFO

exec "$SPARK_HOME"/bin/spark-submit \
    --master "spark://$MASTER:7077" \
    --conf spark.driver.host="$HOST" \
    --archives "$shared"/environment.tar.gz#environment \
    --driver-memory 512m --executor-memory 512m \
    "$shared"/orders.py --metrics-address "$HOST" \
    --landing "$shared"/landing \
    --checkpoint "file://$shared/checkpoint" \
    --state "$shared"/checkpoint/flip27 \
    --lake "file://$shared/lake"
