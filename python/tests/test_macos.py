"""The wheel for macOS, whose parts are looked at here and run nowhere: TENSORFS_MAC_WHEEL names one, which scripts/test-python --wheel builds."""

import hashlib
import os
import re
import struct
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif("TENSORFS_MAC_WHEEL" not in os.environ, reason="no wheel was built: scripts/test-python --wheel")
DYLIB, EXECUTE, ARM64, MAC = 6, 2, 0x0100000C, 1
ID, LOAD, SYMBOLS, SIGNATURE, VERSION = 0xD, 0xC, 0x2, 0x1D, 0x32  # load commands


class MachO:
    def __init__(self, data: bytes):
        magic, self.cpu, _, self.kind, count, _, self.flags, _ = struct.unpack_from("<8I", data)
        assert magic == 0xFEEDFACF
        self.data, self.commands, at = data, [], 32
        for _ in range(count):
            what, size = struct.unpack_from("<2I", data, at)
            self.commands.append((what, data[at : at + size]))
            at += size

    def of(self, what: int) -> list[bytes]:
        return [body for kind, body in self.commands if kind == what]

    def names(self, what: int) -> list[str]:
        """Paths in commands about libraries."""
        return [body[struct.unpack_from("<I", body, 8)[0] :].rstrip(b"\0").decode() for body in self.of(what)]

    def version(self) -> tuple[int, int, int]:
        """The platform, and the oldest system that it runs on."""
        (body,) = self.of(VERSION)
        platform, oldest = struct.unpack_from("<2I", body, 8)
        return platform, oldest >> 16, oldest >> 8 & 255

    def exported(self) -> set[str]:
        (body,) = self.of(SYMBOLS)
        at, count, texts, _ = struct.unpack_from("<4I", body, 8)
        found = set()
        for i in range(count):
            name, kind = struct.unpack_from("<IB", self.data, at + 16 * i)
            if kind & 0x0E and kind & 1:  # defined, and seen by others
                found.add(self.data[texts + name : self.data.index(b"\0", texts + name)].decode())
        return found

    def signed(self) -> bool:
        """Whether its signature's hashes match its pages: Apple silicon runs nothing else."""
        (body,) = self.of(SIGNATURE)
        start, _ = struct.unpack_from("<2I", body, 8)
        count = struct.unpack_from(">I", self.data, start + 8)[0]
        blobs = [struct.unpack_from(">2I", self.data, start + 12 + 8 * i) for i in range(count)]
        (at,) = (start + offset for kind, offset in blobs if kind == 0)  # the code directory
        hashes, _, _, slots, limit = struct.unpack_from(">5I", self.data, at + 16)
        size, kind, _, page = struct.unpack_from("4B", self.data, at + 36)
        assert (size, kind) == (32, 2), "SHA-256"
        pages = [self.data[i : min(i + (1 << page), limit)] for i in range(0, limit, 1 << page)]
        want = self.data[at + hashes : at + hashes + 32 * slots]
        return limit == start and b"".join(hashlib.sha256(p).digest() for p in pages) == want


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(os.environ["TENSORFS_MAC_WHEEL"]) as z:
        yield z


def test_tag(wheel):
    assert Path(wheel.filename).name.endswith("-py3-none-macosx_12_0_arm64.whl")
    (name,) = (n for n in wheel.namelist() if n.endswith("/WHEEL"))
    assert "Tag: py3-none-macosx_12_0_arm64\n" in wheel.read(name).decode()


def test_library(wheel):
    library = MachO(wheel.read("tensorfs/native/libtensorfs.1.dylib"))
    assert (library.cpu, library.kind, library.version()) == (ARM64, DYLIB, (MAC, 12, 0)) and library.signed()
    assert library.names(ID) == ["@rpath/libtensorfs.1.dylib"]
    wanted = library.names(LOAD)
    assert "/usr/lib/libSystem.B.dylib" in wanted and all(p.startswith(("/usr/lib/", "/System/Library/Frameworks/")) for p in wanted)
    header = (ROOT / "metal/capi/tensorfs.h").read_text()
    functions = {"_" + name for name in re.findall(r"\b(tensorfs_\w+)\(", header)}
    exported = library.exported()
    assert len(functions) > 30 and functions <= exported
    # zig's linker takes no list of what is exported. Names of libraries are apart on macOS, so that no other library sees these.
    assert all(re.match(r"_tensorfsgo_|_crosscall|__?cgo|_x_c|__mh_|___dso", name) for name in exported - functions), exported - functions


def test_program(wheel):
    (name,) = (n for n in wheel.namelist() if n.endswith("/scripts/tensorfs"))
    program = MachO(wheel.read(name))
    assert (program.cpu, program.kind, program.version()[0]) == (ARM64, EXECUTE, MAC) and program.version()[1] <= 12 and program.signed()
    assert wheel.getinfo(name).external_attr >> 16 & 0o777 == 0o755
