"""Proves that a release works for those who install it, and writes it into dist/ with its list of parts.

After wheel-test, the package's metadata are checked, and docs/quickstart.md is followed word by word in new
environments outside the checkout: with the wheel on the newest Spark, and with the sdist on the oldest. pip
installs everything except Spark, which has 450 MB, from its registry; Spark is lent by .venv (4.3) and by
scripts/compat.sh (4.0). Then every extra is installed, the environment becomes an SBOM (CycloneDX), and
pip-audit looks for known vulnerabilities.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

from flip27_source import __version__
from scripts.wheel_test import CHECKOUT, build_and_try, pip_into, run
from tests.pages.running import blocks_of

SPARKS = {"4.3": "wheel", "4.0": "sdist"}
"""What is installed with which version of Spark."""

USER_EXTRAS = (
    "avro",
    "azure",
    "gcs",
    "http",
    "kafka",
    "mysql",
    "otel",
    "postgres",
    "prometheus",
    "protobuf",
    "s3",
    "sftp",
    "sql",
    "ui",
)
"""The extras of users, in addition to those of the quickstart."""

FOR_CONTRIBUTORS = ("dev", "docs", "lint", "notebooks", "release", "test", "types", "wheel")
KNOWN_EXTRAS = {"spark", "cli", *USER_EXTRAS, *FOR_CONTRIBUTORS}

ACCEPTED_VULNERABILITIES: dict[str, str] = {}
"""Ids of vulnerabilities of dependencies that do not concern this package, with the reasons."""


def check_metadata(wheel: Path, sdist: Path) -> None:
    """The metadata are complete, and name this version and the licence, which is in both archives."""
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=CHECKOUT)
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
        (name,) = (name for name in inside if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(archive.read(name))
    if str(metadata.version) != __version__:
        sys.exit(f"the wheel has version {metadata.version}, and flip27_source/_version.py {__version__}")
    if metadata.license_expression != "Apache-2.0" or metadata.license_files != ["LICENSE"]:
        sys.exit(f"the wheel names as licence {metadata.license_expression}, {metadata.license_files}")
    with tarfile.open(sdist) as source:
        if f"flip27_source-{__version__}/LICENSE" not in source.getnames():
            sys.exit(f"{sdist.name} has no LICENSE")
    unknown = set(metadata.provides_extra or ()) - KNOWN_EXTRAS
    if unknown:
        sys.exit(f"scripts/release_check.py does not say for whom these extras are: {sorted(unknown)}")
    heading = f"\n## [{__version__}] - "
    if heading not in (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8"):
        sys.exit(f"CHANGELOG.md has no section {heading.strip()} with the date of the release")
    print(f"release-check: metadata and licence of {wheel.name} and {sdist.name} are complete")


def printed(*command: str | Path) -> str:
    """What a command prints."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def lend_spark(line: str, home: Path) -> None:
    """Create the environment ``home``, in which the Spark of a line can be imported."""
    python = sys.executable
    if line != "4.3":
        python = printed("bash", "scripts/compat.sh", "--python", "--spark", line)
    module = Path(printed(python, "-c", "import pyspark; print(pyspark.__path__[0])"))
    (description,) = module.parent.glob("pyspark-*.dist-info")
    if not description.name.startswith(f"pyspark-{line}."):
        sys.exit(f"Spark {line} is needed, and there is {description.name}")
    lent = home.with_name(f"spark-{line}")
    lent.mkdir()
    for part in (module, description):
        (lent / part.name).symlink_to(part)
    run(sys.executable, "-m", "venv", home, cwd=home.parent)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(f"{lent}\n", encoding="utf-8")


def follow_the_quickstart(line: str, installed: Path, work: Path) -> Path:
    """Follow the page in an empty folder; returns the Python of the environment that the page makes.

    ``installed`` is there before the page installs the package, so pip adds only what the package needs.
    """
    folder = work / f"quickstart-{line}"
    folder.mkdir()
    python = folder / ".venv" / "bin" / "python"
    lend_spark(line, folder / ".venv")
    run(*pip_into(python), "install", "--quiet", "--no-deps", installed, cwd=folder)
    steps = ["set -eu"]
    for block in blocks_of("docs/quickstart.md"):
        if block.language == "python":
            steps.append(f"cat >>quickstart.py <<'END_OF_BLOCK'\n\n{block.text}\nEND_OF_BLOCK")
        elif block.language == "bash":
            steps.append(block.text)
    script = work / f"quickstart-{line}.sh"
    script.write_text("\n".join(steps) + "\n", encoding="utf-8")
    # What make sets for its own environment; the page starts from none.
    own = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "SPARK_HOME")
    path = [
        part for part in os.environ["PATH"].split(os.pathsep) if not Path(part).is_relative_to(sys.prefix)
    ]
    run(
        "env",
        *(f"--unset={name}" for name in own),
        "bash",
        script,
        cwd=folder,
        PATH=os.pathsep.join([str(Path(sys.base_prefix, "bin")), *path]),
        SPARK_LOCAL_IP="127.0.0.1",
    )
    ask = "import flip27_source, pyspark; print(flip27_source.__path__[0], pyspark.__version__)"
    answer = printed(python, "-P", "-c", ask).split()
    if not Path(answer[0]).is_relative_to(folder) or not answer[1].startswith(f"{line}."):
        sys.exit(f"the quickstart has run with {' and PySpark '.join(answer)}")
    print(f"release-check: the quickstart works on Spark {answer[1]} with {installed.name}")
    return python


def write_sbom(python: Path, wheel: Path, to: Path) -> None:
    """Install every extra of users, and describe the environment as CycloneDX."""
    extras = f"flip27-source[{','.join(USER_EXTRAS)}]"
    run(*pip_into(python), "install", "--quiet", extras, cwd=to.parent)
    run(*pip_into(python), "check", cwd=to.parent)
    run(*pip_into(python), "uninstall", "--quiet", "--yes", "my-source", cwd=to.parent)
    bill = ("environment", "--output-reproducible", "--output-file", to, python)
    run(sys.executable, "-m", "cyclonedx_py", *bill, cwd=to.parent)
    # The folder of the build is gone once this has run.
    to.write_text(to.read_text(encoding="utf-8").replace(wheel.as_uri(), wheel.name), encoding="utf-8")
    print(f"release-check: {to.name} lists {len(parts_of(to))} packages")


def parts_of(sbom: Path) -> dict[str, str]:
    """The packages of an SBOM with their versions, without this one."""
    components = json.loads(sbom.read_text(encoding="utf-8"))["components"]
    return {part["name"]: part["version"] for part in components if part["name"] != "flip27-source"}


def audit(sbom: Path, work: Path) -> None:
    """Look for known vulnerabilities of the packages of an SBOM."""
    wanted = work / "audited.txt"
    lines = [f"{name}=={version}\n" for name, version in parts_of(sbom).items()]
    wanted.write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(wanted), "--no-deps", "--disable-pip"]
    done = subprocess.run([*command, "--format=json"], capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except ValueError:
        sys.exit(f"release-check: pip-audit has failed: {done.stderr[-2000:]}")
    unknown = [part["name"] for part in found if "skip_reason" in part]
    if unknown:
        sys.exit(
            f"release-check: there are no advisories for {len(unknown)} of {len(found)} packages: "
            f"{', '.join(unknown)}\n  What to do: pip-audit asks PyPI itself. Where that cannot be "
            'reached, run make release-check ARGS="--without-audit", and audit the SBOM elsewhere'
        )
    for part in found:
        for weakness in part["vulns"]:
            names = {weakness["id"], *weakness["aliases"]}
            accepted = [reason for name, reason in ACCEPTED_VULNERABILITIES.items() if name in names]
            said = f"release-check: {part['name']} {part['version']} has {', '.join(sorted(names))}"
            if not accepted:
                sys.exit(f"{said}, mended in {weakness['fix_versions']}")
            print(f"{said}, accepted: {accepted[0]}")
    print(f"release-check: no other vulnerability of the {len(found)} packages is known")


def main() -> None:
    """Build, check, follow the quickstart, describe, audit."""
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("--without-audit", action="store_true", help="where PyPI itself cannot be reached")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="flip27-release-") as name:
        work = Path(name).resolve()
        wheel, sdist = build_and_try(work)
        check_metadata(wheel, sdist)
        built = {"wheel": wheel, "sdist": sdist}
        pythons = {line: follow_the_quickstart(line, built[kind], work) for line, kind in SPARKS.items()}
        sbom = work / f"flip27_source-{__version__}.cdx.json"
        write_sbom(pythons["4.3"], wheel, sbom)
        dist = CHECKOUT / "dist"
        dist.mkdir(exist_ok=True)
        for file in (wheel, sdist, sbom):
            shutil.copy(file, dist)
        print(f"release-check: {wheel.name}, {sdist.name} and {sbom.name} are in {shlex.quote(str(dist))}")
        if chosen.without_audit:
            print("release-check: NOT AUDITED: known vulnerabilities of the packages were not looked for")
        else:
            audit(sbom, work)


if __name__ == "__main__":
    main()
