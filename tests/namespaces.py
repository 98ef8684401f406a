"""Linux namespaces for a whole program: what it mounts, starts or connects in them ends with it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence

AS_ROOT_OF_ITS_OWN = ("--user", "--map-root-user")


def restarted_in(namespaces: Sequence[str], *, module: str, answer: str, probe: str) -> None:
    """Restart this program in new namespaces; return if it is there or if they cannot be made.

    Args:
        namespaces: options of ``unshare``.
        module: the program, as for ``python -m``.
        answer: the environment variable that tells whether the program is in the namespaces: yes or no.
        probe: a shell command that succeeds where the namespaces allow what the program needs.
    """
    if answer in os.environ:
        return
    for more in ((), AS_ROOT_OF_ITS_OWN):
        isolated = ["unshare", *more, *namespaces]
        with contextlib.suppress(OSError):
            probed = subprocess.run([*isolated, "sh", "-c", probe], capture_output=True, check=False)
            if probed.returncode == 0:
                os.environ[answer] = "yes"
                os.execvp(isolated[0], [*isolated, sys.executable, "-m", module, *sys.argv[1:]])
    os.environ[answer] = "no"
