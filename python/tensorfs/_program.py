"""The command tensorfs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path
from typing import Union

from ._lib import Error, path

DISTRIBUTION = "tensorfs-models"  # what pip calls this package: on PyPI, tensorfs is another project


def program() -> str:
    """Where the command is: installed with this package, beside this Python, or on the PATH."""
    given = os.environ.get("TENSORFS_PROGRAM")
    above = Path(__file__).resolve().parents[1]  # where pip installed the package; with --target the command is in bin there
    beside = [*_recorded(above), above / "bin/tensorfs", Path(sysconfig.get_path("scripts")) / "tensorfs"]
    found = given or next((str(p) for p in beside if p.exists()), None) or shutil.which("tensorfs")
    if not found:
        raise Error("the command tensorfs is not installed: install the wheel, or set TENSORFS_PROGRAM")
    return found


def _recorded(packages: Path) -> list[Path]:
    """Where pip noted that it put the command, with --user and --prefix too."""
    found = [d.locate_file(f) for d in distributions(name=DISTRIBUTION, path=[str(packages)]) for f in d.files or () if f.name == "tensorfs" and "bin" in f.parts]
    return [Path(os.path.normpath(p)) for p in found]


def output(command: str, *arguments: Union[str, os.PathLike], options: Iterable[str] = (), right: tuple[int, ...] = (0,)) -> bytes:
    """What the command prints. Arguments may begin with a dash, and may contain bytes that are not UTF-8."""
    line = [command, *options, "--", *arguments]
    done = subprocess.run([program(), *(path(a, f"tensorfs {command}") for a in line)], stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode not in right:
        said = done.stderr.decode(errors="replace").strip().removeprefix("tensorfs: ")
        raise Error(said or f"tensorfs {command} ended with {done.returncode}")
    return done.stdout


def main() -> None:
    """Becomes the command."""
    try:
        name = program()
    except Error as e:
        sys.exit(f"tensorfs: {e}")
    os.execv(name, ["tensorfs", *sys.argv[1:]])
