"""Files and state on S3 (a local server of moto), end to end."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.s3_server import S3Bucket

from .streams import Folders, lake_lines, run_to_end, to_lake


def test_a_stream_whose_files_and_state_are_on_s3_continues_after_a_restart(
    spark: SparkSession, folders: Folders, s3_bucket: S3Bucket
) -> None:
    bucket = s3_bucket
    storage = bucket.options | {"storage.secret": "not-to-be-stored"}

    def run() -> None:
        frame = (
            spark.readStream.format("flip27")
            .options(enumerator="files", reader="text", maxFilesPerTrigger="2", **storage)
            .option("stateLocation", f"s3://{bucket.name}/state")
            .load(f"s3://{bucket.name}/landing")
        )
        run_to_end(to_lake(frame, folders))

    for number in range(5):
        bucket.file_system.pipe_file(f"{bucket.name}/landing/{number}.txt", f"{number}\n".encode())
    run()
    bucket.file_system.pipe_file(f"{bucket.name}/landing/more/skipped.txt", b"below the folder\n")
    bucket.file_system.pipe_file(f"{bucket.name}/landing/late.txt", b"late\n")
    run()
    assert lake_lines(spark, folders) == ["0", "1", "2", "3", "4", "late"]
    bucket.file_system.invalidate_cache()
    state = bucket.file_system.find(f"{bucket.name}/state")
    assert sum("/checkpoints/" in name for name in state) == 4
    stored = b"".join(bucket.file_system.cat(state).values())
    assert b"not-to-be-stored" not in stored
    offsets = (folders.checkpoint / "offsets").glob("[0-9]*")
    assert all("not-to-be-stored" not in path.read_text() for path in offsets)
