"""The manifests in deploy/kubernetes."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

from tests.pages.running import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "kubernetes"


def manifest(name: str) -> dict[str, Any]:
    (loaded,) = yaml.safe_load_all((FOLDER / name).read_text())
    return loaded


def properties() -> dict[str, str]:
    lines = (FOLDER / "orders.properties").read_text().split("\n")
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def arguments() -> list[str]:
    command = (FOLDER / "spark-submit.sh").read_text().partition("orders.py")[2]
    return shlex.split(command.replace("\\\n", ""))


def test_the_rights_are_valid_for_kubernetes() -> None:
    # Every collection of tests would wait for this import: it compiles grammars for seconds.
    import kubernetes_validate

    parts = list(yaml.safe_load_all((FOLDER / "rights.yaml").read_text()))
    for part in parts:
        kubernetes_validate.validate(part, kubernetes_validate.latest_version(), strict=True)
    parts[0]["automount"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(parts[0], kubernetes_validate.latest_version(), strict=True)


def test_the_operator_of_spark_gets_what_spark_submit_gets() -> None:
    spec = manifest("spark-application.yaml")["spec"]
    assert spec["sparkConf"] == properties()
    assert spec["driverArgs"] == arguments()


def test_the_operator_of_kubeflow_gets_what_spark_submit_gets() -> None:
    found = manifest("kubeflow-spark-application.yaml")
    spec, driver, executor = found["spec"], found["spec"]["driver"], found["spec"]["executor"]
    assert spec["arguments"] == arguments()
    assert properties() == {
        "spark.kubernetes.namespace": found["metadata"]["namespace"],
        "spark.kubernetes.container.image": spec["image"],
        "spark.kubernetes.authenticate.driver.serviceAccountName": driver["serviceAccount"],
        "spark.kubernetes.authenticate.executor.serviceAccountName": executor["serviceAccount"],
        "spark.driver.memory": driver["memory"],
        "spark.driver.memoryOverhead": driver["memoryOverhead"],
        "spark.executor.instances": str(executor["instances"]),
        "spark.executor.cores": str(executor["cores"]),
        "spark.executor.memory": executor["memory"],
    }


def test_the_image_has_the_spark_of_the_manifests_and_the_service_accounts_exist() -> None:
    image = (FOLDER / "Dockerfile").read_text()
    (spark,) = re.findall(r"^FROM apache/spark:([0-9.]+)-", image, re.MULTILINE)
    kubeflow, operator = manifest("kubeflow-spark-application.yaml"), manifest("spark-application.yaml")
    assert kubeflow["spec"]["sparkVersion"] == operator["spec"]["runtimeVersions"]["sparkVersion"] == spark
    parts = yaml.safe_load_all((FOLDER / "rights.yaml").read_text())
    accounts = {part["metadata"]["name"] for part in parts if part["kind"] == "ServiceAccount"}
    assert accounts == {value for name, value in properties().items() if name.endswith("serviceAccountName")}
