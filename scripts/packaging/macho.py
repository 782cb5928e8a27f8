"""Makes two builds of a library for macOS the same bytes.

zig does not fill the end of a library's indirect symbol table: there are bytes of its own memory, which change the UUID and the ad hoc
signature too. The filled part has the symbols of all stubs, of some addresses, and of all lazy pointers, which are the stubs' symbols again.
"""

import hashlib
import struct

MAGIC, SEGMENT, DYSYMTAB, UUID, SIGNATURE = 0xFEEDFACF, 0x19, 0xB, 0x1B, 0x1D
SYMBOL_STUBS, LAZY_POINTERS = 0x8, 0x7  # types of sections
CODE_DIRECTORY, SHA256 = 0xFADE0C02, 2


def commands(data: bytes):
    """The load commands: kind and offset."""
    magic, count = struct.unpack_from("<I12xI", data)
    if magic != MAGIC:
        raise ValueError("not a Mach-O file of 64 bits")
    at = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", data, at)
        yield kind, at
        at += size


def sections(data: bytes, at: int):
    """The sections of the segment at an offset: type and number of entries of the indirect symbol table."""
    for i in range(struct.unpack_from("<I", data, at + 64)[0]):
        size, flags, _, stub = struct.unpack_from("<Q16xIII", data, at + 72 + 80 * i + 40)
        yield flags & 0xFF, size // (stub or 8)


def reproducible(data: bytes) -> bytes:
    """The library without what was left in memory, signed again."""
    data = bytearray(data)
    found = {}
    entries = {}
    for kind, at in commands(data):
        found[kind] = at
        if kind == SEGMENT:
            entries |= dict(sections(data, at))
    start, count = struct.unpack_from("<II", data, found[DYSYMTAB] + 56)
    table = struct.unpack_from(f"<{count}I", data, start)
    stubs = entries.get(SYMBOL_STUBS, 0)
    if stubs != entries.get(LAZY_POINTERS, 0):
        raise ValueError("its lazy pointers are not those of its stubs")
    ends = [i + stubs for i in range(stubs, count - stubs + 1) if table[i : i + stubs] == table[:stubs]]
    if not ends:
        raise ValueError("its indirect symbol table has no lazy pointers")
    data[start + 4 * ends[0] : start + 4 * count] = bytes(4 * (count - ends[0]))

    uuid = slice(found[UUID] + 8, found[UUID] + 24)
    signature = struct.unpack_from("<I", data, found[SIGNATURE] + 8)[0]
    data[uuid] = bytes(16)
    data[uuid] = hashlib.sha256(data[:signature]).digest()[:16]
    sign(data, signature)
    return bytes(data)


def sign(data: bytearray, signature: int) -> None:
    """Writes the hashes of the pages of an ad hoc signature."""
    blobs = struct.unpack_from(">I", data, signature + 8)[0]
    for i in range(blobs):
        at = signature + struct.unpack_from(">4xI", data, signature + 12 + 8 * i)[0]
        if struct.unpack_from(">I", data, at)[0] != CODE_DIRECTORY:
            continue
        hashes, _, _, pages, limit, size, kind, _, page = struct.unpack_from(">16xIIIIIBBBB", data, at)
        if kind != SHA256 or size != 32 or limit > signature:
            raise ValueError("its signature is not by SHA-256")
        for n in range(pages):
            part = data[n << page : min((n + 1) << page, limit)]
            data[at + hashes + 32 * n : at + hashes + 32 * n + 32] = hashlib.sha256(part).digest()
