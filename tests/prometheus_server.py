"""A Prometheus server on this machine, for tests, and ``promtool``: from Debian's package, unpacked."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.debian_packages import finished, unpack, unpacked
from tests.postgres_server import free_port
from tests.server_process import ServerProcess, kept_folder


class PrometheusServer(ServerProcess):
    """A server that keeps what it has scraped until it ends."""

    def start(self, config: str, rules: str) -> None:
        """Start the server and wait until it answers; ``rules`` are in the file rules.yml of its folder."""
        (self._folder / "prometheus.yml").write_text(config)
        (self._folder / "rules.yml").write_text(rules)
        self.url = f"http://127.0.0.1:{free_port()}"
        listen = f"--web.listen-address={self.url.removeprefix('http://')}"
        command = [_program("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data", listen]
        self._started(self._spawn(command, environment={}), self._refusal)

    def _refusal(self) -> Exception | None:
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=10).close()
        except OSError as error:
            return error
        return None

    def values(self, query: str) -> dict[tuple[str, ...], float]:
        """The values of an instant query, by the values of their labels other than job and instance."""
        left_out = {"__name__", "job", "instance"}
        return {
            tuple(value for name, value in sorted(item["metric"].items()) if name not in left_out): float(
                item["value"][1]
            )
            for item in self._get("query", query=query)["result"]
        }

    def labels(self, query: str) -> list[set[str]]:
        """The names of the labels of each value of an instant query."""
        return [set(item["metric"]) for item in self._get("query", query=query)["result"]]

    def firing(self) -> set[tuple[str, str | None]]:
        """The alerts that fire, each with its query."""
        alerts = self._get("alerts")["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"].get("query"))
            for alert in alerts
            if alert["state"] == "firing"
        }

    def _get(self, what: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{what}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus_server(config: str, rules: str) -> Iterator[PrometheusServer]:
    """Run a server with this configuration."""
    with kept_folder("flip27-prometheus-", ended_by="TERM") as (folder, keeper):
        server = PrometheusServer(folder, keeper)
        server.start(config, rules)
        try:
            yield server
        finally:
            if server.process is not None:
                server.process.kill()
                server.process.wait()


def promtool(*words: str | Path, folder: Path) -> str:
    """What ``promtool`` prints; raises RuntimeError if it refuses."""
    return finished([_program("promtool"), *words], cwd=folder)


def _program(name: str) -> Path:
    return unpacked("prometheus", _install) / "usr/bin" / name


def _install(home: Path) -> None:
    unpack(["prometheus"], into=home, downloads=home)
