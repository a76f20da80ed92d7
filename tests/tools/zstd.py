"""zstd by the library that the daemon has, and frames that no compressor would write (RFC 8878)."""

import ctypes
import struct

_LIBRARY = ctypes.CDLL("libzstd.so.1")
for _name in ("ZSTD_compress", "ZSTD_decompress", "ZSTD_compressBound"):
    getattr(_LIBRARY, _name).restype = ctypes.c_size_t
MAGIC = b"\x28\xb5\x2f\xfd"


def compress(data, level=3):
    room = _LIBRARY.ZSTD_compressBound(ctypes.c_size_t(len(data)))
    out = ctypes.create_string_buffer(room)
    size = _LIBRARY.ZSTD_compress(out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), level)
    if _LIBRARY.ZSTD_isError(ctypes.c_size_t(size)):
        raise ValueError("zstd does not compress this")
    return out.raw[:size]


def decompress(data, most=64 << 20):
    out = ctypes.create_string_buffer(most)
    size = _LIBRARY.ZSTD_decompress(out, ctypes.c_size_t(most), data, ctypes.c_size_t(len(data)))
    if _LIBRARY.ZSTD_isError(ctypes.c_size_t(size)):
        raise ValueError("this is not zstd")
    return out.raw[:size]


def block(kind, size, data, last=False):
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + data


def frame(blocks, window_log=17):
    """Blocks in a frame without sizes and checksum."""
    return MAGIC + bytes([0, (window_log - 10) << 3]) + b"".join(blocks)


def bomb(size, value=b"\0", window_log=17):
    """A frame of `size` equal bytes: 4 bytes for each 128 KiB."""
    most = 128 << 10
    counts = [most] * (size // most) + [size % most]
    return frame([block(1, count, value, at == len(counts) - 1) for at, count in enumerate(counts)], window_log)
