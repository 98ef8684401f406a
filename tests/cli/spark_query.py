"""A query of Spark's own file source as it is stored on disk, made without Spark."""

from __future__ import annotations

from pathlib import Path

from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import Said


class SparkQuery:
    """The landing folder of a query, and its checkpoint in Spark's format."""

    def __init__(self, root: Path, *, source: str = "0") -> None:
        self.landing, self.checkpoint = root / "landing", root / "old"
        self.state = root / "state"
        self._source = source
        for folder in (self.landing, self.checkpoint / "offsets", self.checkpoint / "commits"):
            folder.mkdir(parents=True)
        (self.checkpoint / "sources" / source).mkdir(parents=True)

    def land(self, *names: str) -> None:
        """Write files that contain their own names."""
        for name in names:
            (self.landing / name).parent.mkdir(parents=True, exist_ok=True)
            (self.landing / name).write_text(name)

    def log(self, file: str, *entries: str) -> None:
        (self.checkpoint / "sources" / self._source / file).write_text("\n".join(["v1", *entries]))

    def entry(self, name: str, batch: int) -> str:
        """Return a line of the log for a percent-encoded name."""
        modified_ms = 1_767_312_000_000 + batch
        return f'{{"path":"file://{self.landing}/{name}","timestamp":{modified_ms},"batchId":{batch}}}'

    def batch(self, number: int, *lines: str, committed: bool = True) -> None:
        """Write the offsets of a batch, for its file source or for all of its sources."""
        logged = lines or (f'{{"logOffset":{number}}}',)
        (self.checkpoint / f"offsets/{number}").write_text("\n".join(["v1", '{"conf":{}}', *logged]))
        if committed:
            (self.checkpoint / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":0}')

    def read(self, *names: str) -> None:
        """Write the seen-file log and the logs of batch 0, which has read these files and is committed."""
        self.log("0", *(self.entry(name, 0) for name in names))
        self.batch(0)

    def read_by(self, said: Said, **more: str) -> list[str]:
        """Return the rows that a new query with the options of the answer reads first."""
        assert said.code == 0, said.err
        engine = MicroBatchEngine({"enumerator": "files", "reader": "text", **said.data["options"], **more})
        engine.process_all_available()
        engine.stop()
        return sorted(row[0] for row in engine.rows)
