#!/usr/bin/env bash
# Prepares .venv for a target of the Makefile: checks Python and, where Spark runs, Java, and installs the part
# that the target needs. It installs again only if the checkout has moved or its set-up files have changed.
# The part venv is only the empty environment.
# Run it from the top of the checkout:  scripts/setup.sh [PART]     Without a part, it installs all of them.
set -eu

readonly VENV=.venv
readonly PART=${1:-dev}
readonly PYTHON_NEEDED=3.11
readonly JAVA_NEEDED=17

# The Makefile puts .venv first on the PATH, but a new .venv must not be created with the old one's Python.
PATH=${PATH#"$(pwd -P)/$VENV/bin:"}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# A candidate is run, not only looked up: version managers leave commands that only print an error.
python_is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < tuple(map(int, sys.argv[1].split("."))))' \
        "$PYTHON_NEEDED" >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python; do
        if python_is_new_enough "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    fail "Python $PYTHON_NEEDED or newer is needed; python3 here is: $(python3 --version 2>&1 | tail -n 1)" \
        "  Debian, Ubuntu:  sudo apt-get install python3 python3-venv   (or python3.12 python3.12-venv)" \
        "  Fedora, RHEL:    sudo dnf install python3.12" \
        "  macOS:           brew install python@3.12" \
        "  anywhere:        pyenv install 3.12 && pyenv local 3.12" \
        "  or name one:     make PYTHON=path/to/python3.12"
}

# Like Spark, look in JAVA_HOME first, then on the PATH.
check_java() {
    local java=java where="on the PATH" output major
    if [ -n "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java
        where="in JAVA_HOME ($JAVA_HOME)"
    fi
    output=$("$java" -version 2>&1) || output=""
    major=$(printf '%s\n' "$output" | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    if [ "${major:-0}" -ge "$JAVA_NEEDED" ]; then
        return
    fi
    fail "Java $JAVA_NEEDED or newer is needed; $where there is ${major:+Java }${major:-none}." \
        "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless" \
        "  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless" \
        "  macOS:           brew install openjdk@17 && export JAVA_HOME=\"\$(brew --prefix openjdk@17)\"" \
        "  installed elsewhere:  export JAVA_HOME=path/to/jdk"
}

# It contains the path, because a copied or moved checkout needs an editable install that points to itself.
wanted_stamp() {
    cksum <setup.cfg
    cksum <setup.py
    pwd -P
}

# Each part has its own stamp; the stamp of all parts is valid for each.
stamp_of() {
    if [ "$1" = dev ]; then
        printf '%s' "$VENV/.flip27-install"
    else
        printf '%s' "$VENV/.flip27-install-$1"
    fi
}

is_installed() {
    local part
    for part in "$PART" dev; do
        if [ "$(wanted_stamp)" = "$(cat "$(stamp_of "$part")" 2>/dev/null)" ]; then
            return 0
        fi
    done
    return 1
}

runs_spark() {
    case $PART in
        docs | lint | types | venv) return 1 ;;
    esac
}

# The requirements of an extra in setup.cfg, for tools that need nothing of flip27-source itself.
requirements_of() {
    "$VENV/bin/python" - "$1" <<'END'
import configparser, sys
setup = configparser.ConfigParser()
setup.read("setup.cfg", encoding="utf-8")
print(*setup["options.extras_require"][sys.argv[1]].split())
END
}

make_venv() {
    local python
    if python_is_new_enough "$VENV/bin/python"; then
        return
    fi
    python=$(find_python)
    rm -rf "$VENV"
    if ! "$python" -m venv "$VENV"; then
        rm -rf "$VENV"
        fail "$python cannot make a virtual environment; on Debian and Ubuntu: sudo apt-get install python3-venv"
    fi
}

# Not quiet, so that pip shows what it downloads and its progress.
install() {
    local requirements
    case $PART in
        demo) requirements="--editable .[spark,cli,ui]" ;;
        docs | lint) requirements=$(requirements_of "$PART") ;;
        dev | release | test | types | wheel) requirements="--editable .[$PART]" ;;
        *) fail "there is no part $PART: demo, docs, lint, release, test, types, venv, wheel, or dev for all" ;;
    esac
    echo "Installing what this needs into $VENV, once ($requirements) ..."
    # shellcheck disable=SC2086  # several words
    "$VENV/bin/python" -m pip install --disable-pip-version-check $requirements
    wanted_stamp >"$(stamp_of "$PART")"
}

if runs_spark; then
    check_java
fi
make_venv
if [ "$PART" != venv ] && ! is_installed; then
    install
fi
