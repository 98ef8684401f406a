#!/usr/bin/env bash
# Makes .venv ready for every other target: checks Java and Python, installs once, and again only when
# what decides the install has changed. Run from the top of the checkout.
set -eu

readonly VENV=.venv
readonly STAMP=$VENV/.flip27-install
readonly PYTHON_NEEDED=3.11
readonly JAVA_NEEDED=17

# The Makefile puts .venv first; a new .venv is not to be made from the old one.
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

# Spark takes JAVA_HOME first, then the PATH; so does this.
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
    fail "Java $JAVA_NEEDED or newer is needed; $where is ${major:+Java }${major:-none}." \
        "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless" \
        "  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless" \
        "  macOS:           brew install openjdk@17 && export JAVA_HOME=\"\$(brew --prefix openjdk@17)\"" \
        "  installed elsewhere:  export JAVA_HOME=path/to/jdk"
}

# The place is part of it: a copied or moved checkout has to point its editable install at itself.
wanted_stamp() {
    cksum <setup.cfg
    cksum <setup.py
    pwd -P
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

install() {
    echo "Installing flip27-source and its development tools into $VENV (once, a few minutes) ..."
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
    wanted_stamp >"$STAMP"
}

check_java
make_venv
if [ "$(wanted_stamp)" != "$(cat "$STAMP" 2>/dev/null)" ]; then
    install
fi
