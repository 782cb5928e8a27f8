"""The command tensorfs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from ._lib import Error


def program() -> str:
    """Where the command is: beside this Python, or on the PATH."""
    given = os.environ.get("TENSORFS_PROGRAM")
    beside = Path(sysconfig.get_path("scripts")) / "tensorfs"
    found = given or (str(beside) if beside.exists() else shutil.which("tensorfs"))
    if not found:
        raise Error("the command tensorfs is not installed: install the wheel, or set TENSORFS_PROGRAM")
    return found


def answer(*arguments: str, right: tuple[int, ...] = (0,)) -> Any:
    """What the command prints as JSON."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True)
    if done.returncode not in right:
        raise Error(done.stderr.strip().removeprefix("tensorfs: ") or f"tensorfs {arguments[0]} ended with {done.returncode}")
    return json.loads(done.stdout)


def main() -> None:
    """Becomes the command."""
    try:
        name = program()
    except Error as e:
        sys.exit(f"tensorfs: {e}")
    os.execv(name, ["tensorfs", *sys.argv[1:]])
