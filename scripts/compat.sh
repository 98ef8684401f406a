#!/usr/bin/env bash
# Runs the tests that start Spark on the newest PySpark of each older line, one after the other:
#     scripts/compat.sh [--install-only | --python] [--short] [--spark LINE] [pytest's arguments]
# LINE is 4.0, 4.1 or 4.2. For each version .venv/compat has a folder with that PySpark, and a small environment whose
# Python finds it before the one in .venv. All other packages are those of .venv.
set -euo pipefail

readonly VERSIONS="4.0.5 4.1.4 4.2.1"
# What every query does: planning, restarts, repeated batches, limits, sources of authors.
readonly SHORT="tests/spark/test_versions.py tests/spark/test_streaming.py tests/spark/test_authors.py"

install_only=false python_only=false short=false line=
while [ $# -gt 0 ]; do
    case $1 in
        --install-only) install_only=true ;;
        --python) python_only=true ;; # print the path of the environment's Python, and run no tests
        --short) short=true ;;
        --spark) line=${2:?"--spark needs 4.0, 4.1 or 4.2"} && shift ;;
        *) break ;;
    esac
    shift
done

# Its commands are not used: Spark's are found by SPARK_HOME, which the tests set.
install() {
    local overlay=.venv/compat/pyspark-$1
    if [ ! -f "$overlay/.complete" ]; then
        echo "Downloading and building PySpark $1, once: 450 MB, one to two minutes ..." >&2
        rm -rf "$overlay"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
            --target "$overlay" "pyspark==$1"
        rm -rf "$overlay/bin"
        touch "$overlay/.complete"
    fi
}

# The environment has a prefix of its own, where the tests keep what depends on the version of Spark.
environment() {
    local home=$PWD/.venv/compat/python-$1 packages
    if [ ! -x "$home/bin/python" ]; then
        .venv/bin/python -m venv --without-pip "$home"
    fi
    packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n' "$PWD/.venv/compat/pyspark-$1" "import site; site.addsitedir('''$packages''')" \
        >"$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/overlay.pth"
}

tests() {
    local version=$1 python=$PWD/.venv/compat/python-$1/bin/python
    shift
    export FLIP27_TEST_SPARK_VERSION=$version PYSPARK_PYTHON=$python PYSPARK_DRIVER_PYTHON=$python
    export PATH=${python%/*}:$PATH
    if $short; then
        # shellcheck disable=SC2086  # several files
        "$python" -m pytest -m "spark and not (slow or long)" $SHORT "$@"
    else
        "$python" -m scripts.class_archive
        # The notebooks and the benchmarks are for the newest Spark.
        "$python" -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "spark and not long" \
            --ignore tests/test_notebooks.py --ignore tests/test_benchmarks.py "$@"
    fi
}

found=false
for version in $VERSIONS; do
    case $version in
        "$line"*)
            found=true
            install "$version"
            $install_only && continue
            environment "$version"
            if $python_only; then
                echo "$PWD/.venv/compat/python-$version/bin/python"
            else
                echo "Spark $version"
                (tests "$version" "$@")
            fi
            ;;
    esac
done
$found || { echo "there is no Spark $line here, but: $VERSIONS" >&2 && exit 2; }
