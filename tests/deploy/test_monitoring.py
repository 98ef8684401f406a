"""deploy/monitoring: rules, their tests and the dashboard, with Debian's promtool and a real Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from flip27_source.metrics import CATALOG, Kind, QueryMetrics, export_to_prometheus
from flip27_source.metrics.exporters import Samples
from tests.child_processes import ChildProcess
from tests.deadline import until
from tests.metrics.events import FIRST
from tests.metrics.test_states import Exported, failed_query
from tests.postgres_server import free_port
from tests.prometheus_server import prometheus_server, promtool

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = yaml.safe_load((FOLDER / "rules.yml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}
RECORDS = {rule["record"] for group in RULES["groups"] for rule in group["rules"] if "record" in rule}
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
LABELS = {
    f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name: set(metric.labels)
    for metric in CATALOG
}


def in_dashboard() -> dict[str, str]:
    """The expressions of the dashboard, as Prometheus gets them."""
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in PANELS
        for target in panel["targets"]
    }
    return {name: expr.replace("$__rate_interval", "5m").replace("$", "") for name, expr in found.items()}


def expressions() -> dict[str, str]:
    of_rules = {
        rule.get("alert") or rule["record"]: rule["expr"]
        for group in RULES["groups"]
        for rule in group["rules"]
    }
    return of_rules | in_dashboard()


def selectors(expr: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of flip27 in an expression, each with the labels that it is selected by."""
    for name, inside in re.findall(r"\b(flip27[\w:]+)(?:\{([^}]*)\})?", re.sub(r'"flip27-\w+"', '""', expr)):
        yield name, set(re.findall(r"(\w+)\s*=", inside))


@pytest.mark.parametrize("name", expressions(), ids=str)
def test_expressions_name_only_metrics_and_labels_that_exist(name: str) -> None:
    expr = expressions()[name]
    used = list(selectors(expr))
    assert used or "up{" in expr, "the expression is about something else"
    for metric, labels in used:
        assert metric in LABELS or metric in RECORDS, metric
        assert labels <= LABELS.get(metric, set()) | {"job"}, (metric, labels)
    known = {label for metric, _ in used for label in LABELS.get(metric, {"query", "source", "status"})}
    grouped = {label for found in re.findall(r"by \(([^)]*)\)", expr) for label in found.split(", ")}
    assert grouped <= known


def test_each_alert_says_who_is_called_what_to_do_and_where_to_read_on() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in (FOLDER / "README.md").read_text().splitlines()
        if line.startswith("#")
    }
    for name, alert in ALERTS.items():
        assert alert["labels"]["severity"] in ("page", "ticket"), name
        assert alert["annotations"]["summary"], name
        assert alert["annotations"]["remedy"].endswith("."), name
        page, anchor = alert["annotations"]["runbook_url"].split("#")
        assert page == "FLIP27_DOCS/deploy/monitoring/README.md"
        assert anchor in anchors, name
        assert anchor == name.lower()


@pytest.mark.thorough
def test_promtool_accepts_the_rules_and_their_tests_and_the_configuration(tmp_path: Path) -> None:
    assert f"{len(ALERTS) + len(RECORDS)} rules found" in promtool(
        "check", "rules", "rules.yml", folder=FOLDER
    )
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml", folder=FOLDER)
    assert "SUCCESS" in promtool("test", "rules", "tests.yml", folder=FOLDER)
    rules = [{"record": f"a:{number}", "expr": expr} for number, expr in enumerate(in_dashboard().values())]
    checked = tmp_path / "dashboard.yml"
    checked.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", checked, folder=tmp_path)


def told(query: str) -> str:
    """The alert of a query in the tests of the rules, by the selector of its series."""
    return re.findall(r'alertname=~?"([^"]+)"', query)[0]


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_series_for_which_it_fires_and_for_which_it_does_not(alert: str) -> None:
    fires = stays = False
    for test in yaml.safe_load((FOLDER / "tests.yml").read_text())["tests"]:
        series = " ".join(item["series"] for item in test["input_series"])
        cases = [
            *((told(case["expr"]), len(case["exp_samples"])) for case in test.get("promql_expr_test", ())),
            *((case["alertname"], len(case["exp_alerts"])) for case in test.get("alert_rule_test", ())),
        ]
        for name, fired in cases:
            if re.fullmatch(name, alert):
                fires |= bool(fired)
                # A case with a good query expects no alert of it.
                stays |= not fired or 'query="good"' in series
    assert fires
    assert stays


def test_the_dashboard_has_panels_that_do_not_overlap_and_uses_its_variables() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    variables = {item["name"] for item in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used == variables
    for panel in PANELS:
        assert all("$query" in target["expr"] for target in panel["targets"]), panel["title"]
        assert panel["description"].endswith("."), panel["title"]


def quick(rules: str) -> str:
    """The rules without their waiting times."""
    return re.sub(r"for: \w+", "for: 0s", rules)


def config(targets: Mapping[str, int]) -> str:
    text = (FOLDER / "prometheus.yml").read_text().replace("15s", "1s")
    for job, port in targets.items():
        text = re.sub(rf"(job_name: {job}.*\n.*)localhost:\d+", rf"\g<1>127.0.0.1:{port}", text)
    return text


@contextmanager
def exporter(*words: str) -> Iterator[str]:
    """Run ``flip27 export-metrics``; yields its URL."""
    command = [sys.executable, "-m", "flip27_source.cli.main", "export-metrics", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[0]
        finally:
            process.kill()


@contextmanager
def serving(metrics: Samples) -> Iterator[int]:
    """The port at which the metrics are scraped."""
    registry = CollectorRegistry()
    export_to_prometheus(metrics, registry)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.thorough
def test_each_panel_of_the_dashboard_shows_what_exporter_and_listener_tell(tmp_path: Path) -> None:
    """Also by the labels in its legend."""
    exported, listened = Exported(orders=failed_query(tmp_path).checkpoint), QueryMetrics()
    exported.look("orders")
    listened.progressed(FIRST)
    legends = {
        f"{panel['title']} {target['refId']}": set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        for panel in PANELS
        for target in panel["targets"]
    }
    all_of_them = {
        name: re.sub('=~"(query|source)"', '=~".*"', expr) for name, expr in in_dashboard().items()
    }
    with serving(exported.metrics) as exporter, serving(listened) as driver:
        ports = {"flip27-exporter": exporter, "flip27-driver": driver}
        with prometheus_server(config(ports), "groups: []") as prometheus:

            def shown() -> dict[str, list[set[str]]]:
                return {name: prometheus.labels(expr) for name, expr in all_of_them.items()}

            until(lambda: all(shown().values()), shown)
            assert all(legends[name] <= one for name, labels in shown().items() for one in labels)


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_query_is_scraped_as_lost_by_a_real_prometheus_and_its_alerts_end_with_its_restart(
    tmp_path: Path,
) -> None:
    """What the query's own endpoint cannot tell: it is gone with the query."""
    landing, driver_port, port = tmp_path / "landing", free_port(), free_port()
    landing.mkdir()

    def land(number: int) -> None:
        (landing / f"{number}.json").write_text(json.dumps({"id": number, "amount": 1.0}) + "\n")

    arguments = [
        "--landing", str(landing), "--checkpoint", str(tmp_path / "checkpoint"), "--state",
        str(tmp_path / "checkpoint/flip27"), "--lake", str(tmp_path / "lake"),
        "--metrics-address", "127.0.0.1", "--metrics-port", str(driver_port),
    ]  # fmt: skip

    def query() -> Any:
        return ChildProcess("tests.deploy.watched_orders", arguments, log=tmp_path / "query.log")

    land(1)
    place = ["--checkpoint-location", f"orders={tmp_path / 'checkpoint'}", "--interval", "1"]
    targets = {"flip27-exporter": port, "flip27-driver": driver_port}
    rules = quick((FOLDER / "rules.yml").read_text())
    with prometheus_server(config(targets), rules) as server:

        def waits_for(expr: str, expected: Mapping[tuple[str, ...], float]) -> None:
            until(lambda: server.values(expr) == expected, lambda: (expr, server.values(expr)), 120)

        until(lambda: ("Flip27ExporterDown", None) in server.firing(), server.firing)
        with exporter(*place, "--port", str(port)):
            with query() as first:
                source = ("orders", "files")
                waits_for("max by (query) (flip27_query_active)", {("orders",): 1})
                waits_for('flip27_rows_total{job="flip27-driver"}', {source: 1})
                for job in targets:  # both tell the same of the checkpoint
                    waits_for(f'flip27_checkpoint_id{{job="{job}"}}', {source: 1})
                until(lambda: not server.firing(), server.firing)
                land(2)
                waits_for('flip27_checkpoint_id{job="flip27-exporter"}', {source: 2})
                first.kill()
                waits_for('flip27_driver_condition{condition="lost"}', {("lost", *source): 1})
                waits_for('up{job="flip27-driver"}', {(): 0})
                expected = {
                    ("Flip27QueryLost", "orders"),
                    ("Flip27QueryNotRunning", "orders"),
                    ("Flip27ListenerDown", None),
                }
                until(lambda: server.firing() == expected, server.firing)
                # What the listener told is gone with its program.
                assert server.values("flip27_rows_total") == {}
                waits_for("flip27_checkpoint_id", {source: 2})
            with query():
                waits_for('flip27_driver_condition{condition="running"}', {("running", *source): 1})
                until(lambda: not server.firing(), server.firing, 120)
                (landing / "bad.json.gz").write_bytes(b"no gzip")  # a task fails, and the program with it
                expected = {
                    ("Flip27QueryFailed", "orders"),
                    ("Flip27QueryNotRunning", "orders"),
                    ("Flip27ListenerDown", None),
                }
                until(lambda: server.firing() == expected, server.firing, 120)
                assert server.values("flip27_driver_error") == {("CorruptFileError", *source): 1}
        until(lambda: ("Flip27ExporterDown", None) in server.firing(), server.firing)
