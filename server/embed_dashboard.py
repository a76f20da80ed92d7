"""Turns the built web page (dashboard/dist) into a C source: each file as it is and compressed, with its media type and
the hash that its ETag is made of. What is made does not depend on where and when.

    embed_dashboard.py DIST OUTPUT DEPFILE
"""

import gzip
import hashlib
import os
import re
import sys

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
# As http/router.c takes a word of a path, shorter than REQUEST_ITEM_SIZE.
NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
MAX_NAME = 47
ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("?"): "\\?", ord("\n"): "\\n"}  # "??" begins a trigraph
LINE = 100  # bytes


def literal(data):
    """Bytes as pieces of a C string. An octal escape of three digits ends before any digit that follows."""
    def letter(byte):
        return ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")

    for start in range(0, len(data), LINE):
        yield f"    \"{''.join(map(letter, data[start : start + LINE]))}\"\n"


def files(dist):
    """(path, name) of the page and then of what it loads."""
    page, assets = os.path.join(dist, "index.html"), os.path.join(dist, "assets")
    if not os.path.isfile(page):
        raise SystemExit(f"{page} is not there: build the page (server/dashboard), or take it from the sources")
    yield page, "index.html"
    for name in sorted(os.listdir(assets) if os.path.isdir(assets) else []):
        if not NAME.fullmatch(name) or len(name) > MAX_NAME:
            raise SystemExit(f"{name}: the daemon cannot serve a file of this name")
        yield os.path.join(assets, name), name


def write_file(out, index, path, name):
    """The bytes; returns the entry of the table."""
    kind = TYPES.get(os.path.splitext(name)[1])
    if kind is None:
        raise SystemExit(f"{path}: a kind of file that embed_dashboard.py does not know")
    with open(path, "rb") as file:
        data = file.read()
    packed = gzip.compress(data, 9, mtime=0)
    if len(packed) >= len(data):
        packed = b""
    for variant, content in (("plain", data), ("gzip", packed)):
        out.write(f"static const char {variant}_{index}[] =\n")
        out.writelines(literal(content) if content else ['    ""\n'])
        out.write("    ;\n")
    etag = hashlib.sha256(data).hexdigest()[:32]
    return (f'    {{"{name}", "{kind}", {{plain_{index}, gzip_{index}, sizeof plain_{index} - 1, '
            f'sizeof gzip_{index} - 1, "{etag}"}}}},\n')


def main():
    dist, output, depfile = sys.argv[1:]
    paths = list(files(dist))
    with open(output, "w", encoding="ascii") as out:
        out.write('#include "routes/dashboard.h"\n\n')
        entries = [write_file(out, index, path, name) for index, (path, name) in enumerate(paths)]
        out.write("\nconst struct dashboard_file dashboard_files[] = {\n")
        out.writelines([*entries, "    {0},\n};\n"])
    with open(depfile, "w", encoding="utf-8") as out:
        out.write(f"{output}: " + " ".join(path.replace(" ", "\\ ") for path, _ in paths) + "\n")


if __name__ == "__main__":
    main()
