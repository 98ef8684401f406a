"""Chromium without a window, for tests of pages: Debian's package, driven by Playwright.

On first use the package, and the libraries that this machine lacks, are unpacked into the virtual
environment, where they stay: nothing is installed, and nothing else on the machine changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.debian_packages import finished, unpack, unpacked

PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")


_DRAWN_ALIKE = ("--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb")
_FONTS = """<fontconfig><dir>/usr/share/fonts/truetype/dejavu</dir>
<dir>{root}/usr/share/fonts/truetype/dejavu</dir><cachedir>{cache}</cachedir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
<match><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match></fontconfig>"""
"""The same fonts on every machine: those of the package, which is installed or unpacked."""


@contextmanager
def browser() -> Iterator[Any]:
    """A browser of Playwright (its synchronous API)."""
    from playwright.sync_api import sync_playwright

    root = _home()
    libraries = sorted({file.parent for file in root.glob("usr/lib/**/*.so*")})
    program = root / "usr/lib/chromium/chromium-headless-shell"
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        fonts = Path(folder, "fonts.conf")
        fonts.write_text(_FONTS.format(root=root, cache=folder), encoding="utf-8")
        environment = {
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
            "FONTCONFIG_FILE": str(fonts),
            "PATH": os.defpath,
            "TZ": "UTC",
        }
        # The sandbox needs rights that containers do not give; the pages are our own.
        started = playwright.chromium.launch(
            executable_path=str(program), env=environment, chromium_sandbox=False, args=_DRAWN_ALIKE
        )
        try:
            yield started
        finally:
            started.close()


def _home() -> Path:
    """The folder with the unpacked packages; made if it is missing."""
    return unpacked("chromium", _install)


def _install(home: Path) -> None:
    asked = ["apt-get", "--simulate", "install", "--no-install-recommends", *PACKAGES]
    needed = [line.split()[1] for line in finished(asked, cwd=home).splitlines() if line.startswith("Inst ")]
    unpack(needed, into=home, downloads=home)
