#!/usr/bin/env bash
# Starts the query in cluster mode: the driver is a pod, too. SPARK_HOME and KUBERNETES, such as
# https://kubernetes.example.com:6443, are set by the caller, whose kubeconfig may create pods in the namespace.
set -euo pipefail

exec "$SPARK_HOME"/bin/spark-submit \
    --master "k8s://$KUBERNETES" --deploy-mode cluster --name orders \
    --properties-file "$(dirname "$0")"/orders.properties \
    local:///opt/flip27/orders.py \
    --landing s3://shop-landing/orders \
    --checkpoint s3a://shop-queries/orders \
    --state s3://shop-queries/orders/flip27 \
    --lake s3a://shop-lake/orders
