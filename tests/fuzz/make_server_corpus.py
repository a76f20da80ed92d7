#!/usr/bin/env python3
"""make_server_corpus.py: writes tests/fuzz/corpus for the parsers of the daemon: one small input for each thing that a
parser tells from others. The written files are checked in; run this after a change.
"""
import base64
import gzip
import hashlib
import json
import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_corpus import write_folder  # noqa: E402
import zstd  # noqa: E402  (make_corpus knows where)

# The file, flags and variables, with NULs between them (fuzz_config.c).
CONFIG = {
    "nothing": "",
    "every-option": "# all\nlisten = [::1]:0\nadmin-listen = 127.0.0.1:9\nmax-connections = 8\nmax-upload = 16G\n"
                    "cors-origins = \"https://a.example http://[::1]:3000\"\ntokens = t\ntls-certificate = c\ntls-key = k\n"
                    "tls-client-ca = a\ndata = /d\nstore = postgresql://h/d\nstore-password-file = p\nlease-seconds = 3s\n"
                    "max-store = 1T\nkeep-plans = 30d\nworkers = 64\njob-memory = 1M\njob-seconds = 1h\n"
                    "max-queued-plans = 1\ntenant-plans = 2\ntenant-models = 3\ntenant-bytes = 4K\ntenant-weights = \"a=2 b.c=100\"\n"
                    "shutdown-delay = 5m\n"
                    "drain = 0\nlog-format = json\nlog-level = debug\n",
    "quotes": "data = \"/a b#c\"  # why\r\nstore = 'host=\"x\" # y'\n tokens=/x#y # z",
    "both-quotes": "data = /a\"b'c\n",
    "open-quotes": "data = \"/a\n",
    "behind-quotes": "data = '/a' b\n",
    "twice": "workers = 1\nworkers = 1\n",
    "names-itself": "config = /x\n",
    "unknown": "wokers = 1\n=\nworkers\n",
    "flags": "\0--workers=3\0--data\0/x\0--log-format\0json\0--listen=0.0.0.0:80",
    "flag-with-line": "\0--data=/x\nworkers = 7",
    "flag-with-quotes": "\0--tokens=\"a' #b",
    "wrong-values": "workers = 65\nmax-upload = 18446744073709551615T\ndrain = -1\nlisten = 1.2.3:80\nlog-level = loud\n"
                    "keep-plans = 30x\ncors-origins = https://A\njob-memory = 0x10\nlisten = [1.2.3.4]:5\n",
    "no-value": "\0--workers",
    "actions": "\0--check-config\0--healthcheck\0-x",
    "print": "\0--print-config\0SHARDPLAND_WORKERS=2\0SHARDPLAND_PORT=tcp://1\0SHARDPLAND_NO=1\0SHARDPLAND_DATA=",
    "help": "\0--help",
    "environment": "\0SHARDPLAND_DATA=/e\0SHARDPLAND_MAX_UPLOAD=1G\0XDG_DATA_HOME=/x\0HOME=",
    "folder-with-line": "\0XDG_DATA_HOME=/\x1a",
    "help-behind-wrong": "\0--data\0\x01\0--help",
    "password": "store = postgresql://u:p@h/d\n",
    "together": "tls-key = k\nstore-password-file = p\nadmin-listen = 127.0.0.1:8080\n",
}

HASH = hashlib.sha256(b"a token that a machine has made").hexdigest()


def principal(**members):
    entry = {"name": "ci", "tenant": "vision", "scopes": ["read", "plan"], "token_sha256": HASH, **members}
    return {key: value for key, value in entry.items() if value is not None}


def tokens(*entries):
    return json.dumps({"principals": list(entries)})


TOKENS = {
    "nobody": tokens(),
    "one": tokens(principal(expires_at="2027-01-31T00:00:00Z")),
    "certificate": tokens(principal(token_sha256=None, certificate="trainer-7", scopes=["admin"])),
    "two-of-a-tenant": tokens(principal(), principal(name="b", token_sha256=HASH[::-1])),
    "no-tenant": tokens(principal(tenant=None)),
    "same-name": tokens(principal(), principal(token_sha256=HASH[::-1])),
    "same-token": tokens(principal(), principal(name="b")),
    "both-credentials": tokens(principal(certificate="c")),
    "no-credential": tokens(principal(token_sha256=None)),
    "weak": tokens(principal(token_sha256=hashlib.sha256(b"secret").hexdigest())),
    "capitals": tokens(principal(token_sha256=HASH.upper())),
    "long-name": tokens(principal(name="n" * 65)),
    "blank-name": tokens(principal(name="a b")),
    "scope-twice": tokens(principal(scopes=["read", "read"])),
    "no-scopes": tokens(principal(scopes=[])),
    "leap-day": tokens(principal(expires_at="2028-02-29T23:59:59Z")),
    "no-such-day": tokens(principal(expires_at="2027-02-29T00:00:00Z")),
    "year-zero": tokens(principal(expires_at="0000-01-01T00:00:00Z")),
    "leap-second": tokens(principal(expires_at="2016-12-31T23:59:60Z")),
    "unknown-member": tokens(principal(scope="read")),
    "no-object": tokens(7, None),
    "no-list": "{\"principals\": {}}",
    "more-members": "{\"principals\": [], \"x\": 1}",
    "twice": "{\"principals\": [], \"principals\": []}",
    "no-json": "{",
}


SKIPPED = struct.pack("<II", 0x184D2A50, 4) + b"skip"
BODY = b'{"model": "' + b"0123456789abcdef" * 4 + b'", "cluster": {"device": "l4-24gb", "count": 2}}'
GZIP = gzip.compress(BODY, mtime=0)
ZSTD = zstd.frame([zstd.block(0, 5, b"hello"), zstd.block(1, 300, b"x", True)], 10)


def coded(header, piece, body):
    return header.encode() + b"\n" + bytes([piece - 1]) + body


DECODE = {
    "identity": coded("identity", 3, BODY),
    "gzip": coded("gzip", 7, GZIP),
    "gzip-members": coded("x-gzip", 1, GZIP + gzip.compress(b"", mtime=0) + GZIP),
    "gzip-garbage": coded("gzip", 5, GZIP + b"more"),
    "gzip-cut": coded("gzip", 5, GZIP[:-3]),
    "gzip-sum": coded("gzip", 5, GZIP[:-8] + b"\0" * 8),
    "gzip-name": coded("gzip", 2, b"\x1f\x8b\x08\x1e" + b"\0" * 6 + b"\2\0xxname\0comment\0" +
                       b"\0\0" + zlib.compress(b"x")[2:-4] + struct.pack("<II", zlib.crc32(b"x"), 1)),
    "gzip-bomb": coded("gzip", 256, gzip.compress(b"\0" * (2 << 20), mtime=0)),
    "no-gzip": coded("gzip", 4, zlib.compress(BODY)),
    "zstd": coded("zstd", 4, ZSTD),
    "zstd-frames": coded("ZSTD", 1, ZSTD + SKIPPED + ZSTD),
    "zstd-empty": coded("zstd", 9, zstd.frame([zstd.block(0, 0, b"", True)], 10)),
    "zstd-window": coded("zstd", 9, zstd.frame([zstd.block(0, 5, b"hello", True)], 24)),
    "zstd-bomb": coded("zstd", 64, zstd.bomb(20 << 17, b"x")),
    "zstd-skipped": coded("zstd", 3, SKIPPED * 3),
    "zstd-cut": coded("zstd", 3, ZSTD[:-1]),
    "zstd-size": coded("zstd", 200, zstd.MAGIC + b"\x20\6" + zstd.block(0, 5, b"hello", True)),
    "both": coded("zstd, gzip", 6, gzip.compress(ZSTD, mtime=0)),
    "twice": coded("gzip,identity,,gzip", 6, gzip.compress(GZIP, mtime=0)),
    "empty-members-inside": coded("gzip, gzip", 90, gzip.compress(gzip.compress(b"", mtime=0) * 200, mtime=0)),
    "three": coded("gzip, gzip, gzip", 6, GZIP),
    "unknown": coded("br", 6, BODY),
    "empty": coded("gzip", 1, b""),
}

EVENTS = {
    "none": "",
    "plan": ":\n\nretry: 2000\n\nid: 1\nevent: progress\ndata: {\"state\": \"running\"}\n\nid: 4503599627370496\n"
            "event: done\ndata: {}\n\n",
    "line-ends": "data: a\r\ndata: b\rdata: c\n\r\n\r\r\n\n",
    "no-value": "data\n\ndata:\n\nevent\ndata: x\n\nid\n\n",
    "blanks": "data:  two\ndata:none\n\n",
    "comment": ":data: x\n:\n\n",
    "unknown": "other: x\ndata: y\nDATA: z\n\n",
    "no-end": "data: x\nid: 7\n",
    "id-without-data": "id: 9\n\nid: 10\ndata",
    "long-id": "id: " + "1" * 128 + "\n\nid: " + "2" * 127 + "\n\n",
    "long-name": "event: " + "n" * 40 + "\ndata: x\n\n",
    "ends": "event: end\ndata: x\n\ndata: y\n\n",
    "nul": "data: a\0b\nid: 1\0\n\n",
    "mark": "\ufeffdata: x\n\n",
}
PIECES = {"none": 1, "plan": 10, "line-ends": 1}

JSON_SCAN = {
    "first": "state\n{\"state\": \"done\", \"x\": 1}",
    "last": "x\n{\"state\": \"done\", \"x\": -1.5e3}",
    "inside": "x\n{\"a\": {\"x\": [1, {\"x\": 2}]}, \"b\": [\"x\"], \"x\" : [ {} , [] ] }",
    "in-text": "x\n{\"a\": \"\\\"x\\\": 1, {\", \"x\": \"\\\\\"}",
    "none": "x\n{}",
    "no-object": "x\n[\"x\", 1]",
    "cut": "x\n{\"x\": \"a",
    "cut-behind": "x\n{\"x\": 1",
    "long-word": "x\n{\"x\": \"0123456789abcdefgh\"}",
    "escaped-name": "x\n{\"\\u0078\": 1, \"y\": 2}",
    "deep": "x\n{\"y\": " + "[" * 500 + "]" * 500 + ", \"x\": true}",
    "brackets": "x\n{\"y\": ]}, \"x\": 1}",
}

MODEL = "0123456789abcdef" * 4
CLUSTER = {"device": "a100-sxm4-80gb", "count": 4}
SUBMISSION = {
    "least": json.dumps({"model": MODEL, "cluster": CLUSTER}),
    "everything": json.dumps({"model": MODEL, "cluster": CLUSTER, "objective": "latency", "priority": "high",
                              "validate_only": False, "options": {"batch": 8, "strategy": "auto", "what_if": True},
                              "constraints": {"memory_bytes": 1e9}}),
    "sizes": json.dumps({"model": MODEL, "cluster": CLUSTER, "options": {
        "dims": {"past + seq": 0, "x:1": 3}, "values": {"flag": True, "grid": [[1, 2], [3, 4]], "half": [0.5]},
        "shapes": {"t": [2, "seq", None], "u": {"dtype": "float16", "shape": []}}}}),
    "states": json.dumps({"model": MODEL, "cluster": CLUSTER, "options": {"state": [["past.*.k", "present.*.k"], ["h0", "hn"]]}}),
    "states-of-genai": json.dumps({"model": MODEL, "cluster": CLUSTER, "options": {"state": {"genai_config": {"model": {
        "decoder": {"inputs": {"past_key_names": "past.%d.k", "past_names": ""},
                    "outputs": {"present_key_names": "present.%d.k", "present_names": "p"}}}}}}}),
    "sweep": json.dumps({"model": MODEL, "sweep": {"devices": [1, 2], "types": ["l4-24gb"], "choose": "best"}}),
    "constraints-twice": json.dumps({"model": MODEL, "cluster": CLUSTER, "constraints": {}, "options": {"constraints": {}}}),
    "constraints-and-no-object": json.dumps({"model": MODEL, "cluster": CLUSTER, "constraints": {}, "options": 7}),
    "no-cluster": json.dumps({"model": MODEL}),
    "no-model": json.dumps({"cluster": CLUSTER}),
    "short-model": json.dumps({"model": MODEL[1:], "cluster": CLUSTER}),
    "unknown": json.dumps({"model": MODEL, "cluster": CLUSTER, "clutser": {}}),
    "wrong-kinds": json.dumps({"model": 7, "cluster": [], "options": [], "objective": {}}),
    "wrong-priority": json.dumps({"model": MODEL, "cluster": CLUSTER, "priority": "urgent"}),
    "numbers": json.dumps({"model": MODEL, "cluster": {"device": "l4-24gb", "count": 1e300}, "options": {"batch": -1}}),
    "list": "[]",
    "twice": "{\"model\": 1, \"model\": 2}",
    "no-json": "{\"model\": \"\\ud800\"}",
    "empty": "",
    "query": "?devices=4&device=a100-sxm4-80gb&objective=latency&batch=2&strategy=auto&what_if=true&priority=low",
    "query-sweep": "?devices=1,2,4&device=l4-24gb,t4-16gb&choose=smallest&validate_only=true",
    "query-wrong": "?devices=0&device=",
    "query-escapes": "?devices=%34&device=a%31&x=%00&y=%zz",
    "query-twice": "?devices=1&devices=2",
    "query-many": "?" + "&".join(f"a{i}" for i in range(18)),
}

ANSWER = {
    "nothing": "",
    "range": "Range: bytes=10-19",
    "range-open": "Range: bytes=4990-\nIf-Range: \"abcdef\"",
    "range-end": "Range: bytes=-1",
    "range-of-nothing": "Range: bytes=-0",
    "range-past-end": "Range: bytes=0-5000",
    "range-outside": "Range: bytes=5000-",
    "range-backwards": "Range: bytes=9-8",
    "range-huge": "Range: bytes=0-18446744073709551615\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT",
    "ranges": "Range: bytes=0-1,3-4",
    "range-of-another": "Range: bytes=0-1\nIf-Range: \"x\"",
    "range-weak": "Range: bytes=0-1\nIf-Range: W/\"abcdef\"",
    "range-and-coding": "Range: bytes=0-1\nAccept-Encoding: gzip",
    "gzip": "Accept-Encoding: gzip;q=1.0, zstd;q=0.5",
    "zstd": "Accept-Encoding: *;q=0.001, identity;q=0",
    "no-coding": "Accept-Encoding: gzip;q=0, zstd;q=x, identity;q=1",
    "unchanged": "If-None-Match: \"x\", W/\"abcdef\"",
    "unchanged-coded": "If-None-Match: \"abcdef-gzip\"\nAccept-Encoding: gzip",
    "unchanged-since": "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
    "no-date": "If-Modified-Since: Sun, 31 Feb 9999 99:99:99 GMT\nIf-Unmodified-Since: Sunday",
    "fails": "If-Match: W/\"abcdef\"",
    "fails-since": "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT",
    "any": "If-Match: *",
    "open-tag": "If-None-Match: \"abc",
    "page": "?page_size=3",
    "page-huge": "?page_size=9223372036854775807",
    "page-wrong": "?page_size=0",
    "page-token": "?page_token=AAAAAAAAEmcAAAAAAAAAAA&page_size=1",
    "page-token-short": "?page_token=AAAA",
    "page-token-letters": "?page_token=-_-_-_-_-_-_-_-_-_-_-%00",
}

HOST = "Host: localhost\r\n"
HTTP = {
    "get": f"GET /v1/plans?page_size=1&x=%41 HTTP/1.1\r\n{HOST}\r\n",
    "every-header": f"GET /v1/plans/0a/events HTTP/1.1\r\n{HOST}Accept: text/plain;q=0.5, application/*;q=1.0001, */*;q=0\r\n"
                    "Accept-Encoding: zstd;q=0.5, gzip, identity;q=0, *;q=0.1\r\nPrefer: wait=99, respond-async\r\n"
                    "If-None-Match: W/\"abcdef\", \"x\"\r\nIf-Match: *\r\nIf-Range: \"abcdef\"\r\nRange: bytes=0-4\r\n"
                    "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-Unmodified-Since: x\r\n"
                    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nX-Request-Id: a.b-c_1\r\n"
                    "Origin: https://ui.example\r\nExpect: 100-continue\r\n\r\n",
    "digests": f"POST /v1/models HTTP/1.1\r\n{HOST}Repr-Digest: sha-256=:{base64.b64encode(bytes(32)).decode()}:\r\n"
               "Content-Digest: md5=:AA==:, sha-256=:AA==:\r\nContent-Encoding: gzip, zstd\r\nContent-Length: 3\r\n\r\nabc",
    "pipelined": f"POST /a HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\nGET /GET /b HTTP/1.1\r\n{HOST}\r\nGET /c HTTP/1.0\r\n\r\n",
    "chunked": f"POST /a HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /b HTTP/1.1\r\n{HOST}\r\n",
    "chunk-line": f"POST /a HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n3;x\nabc\n0\n\nGET /b HTTP/1.1\r\n{HOST}\r\n",
    "empty-lines": f"\r\n\r\nGET /a HTTP/1.1\r\n{HOST}\r\n\r\nGET /b HTTP/1.1\r\n{HOST}\r\n",
    "empty-feeds": f"\nGET /a HTTP/1.1\r\n{HOST}\r\n\nGET /b HTTP/1.1\r\n{HOST}\r\n",
    "feed-in-request-line": f"GET /a HTTP/1.1\n{HOST}\r\n",
    "feed-in-header": "GET /a HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "feed-at-end": f"GET /a HTTP/1.1\r\n{HOST}\n",
    "return-in-value": "GET /a HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    "return-in-target": f"GET /a\rX: HTTP/1.1\r\n{HOST}\r\nGET /b HTTP/1.1\r\n{HOST}\r\n",
    "blank-in-target": f"GET /a HTTP/1.1 HTTP/1.1\r\n{HOST}\r\nGET /b HTTP/1.1\r\n{HOST}\r\n",
    "nul-and-feeds": "GET /a HTTP/1.1\r\nHost: a\0b\n\n",
    "nul-line": f"\0\0x\r\nGET /a HTTP/1.1\r\n{HOST}\r\n",
    "colon-line": f"GET /a HTTP/1.1\r\n{HOST}:\n: x\r\n\r\n",
    "nul-in-value": "GET /a HTTP/1.1\r\nHost: a\0b\r\n\r\n",
    "nul-in-target": f"GET /a\0b HTTP/1.1\r\n{HOST}\r\n",
    "folded": f"GET /a HTTP/1.1\r\n{HOST}X: a\r\n b\r\n\r\n",
    "blanks": f"GET  /a  HTTP/1.1\r\n{HOST}\r\n",
    "blank-before-colon": "GET /a HTTP/1.1\r\nHost : a\r\n\r\n",
    "tabs": "GET\t/a\tHTTP/1.1\r\nHost:\ta\t\r\n\r\n",
    "no-host": "GET /a HTTP/1.1\r\n\r\n",
    "two-hosts": f"GET /a HTTP/1.1\r\n{HOST}{HOST}\r\n",
    "bad-host": "GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "both-framings": f"POST /a HTTP/1.1\r\n{HOST}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two-lengths": f"POST /a HTTP/1.1\r\n{HOST}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "length-list": f"POST /a HTTP/1.1\r\n{HOST}Content-Length: 3, 3\r\n\r\nabc",
    "length-plus": f"POST /a HTTP/1.1\r\n{HOST}Content-Length: +3\r\n\r\nabc",
    "length-blank": f"POST /a HTTP/1.1\r\n{HOST}Content-Length: 3 \r\n\r\nabcGET /b HTTP/1.1\r\n{HOST}\r\n",
    "length-huge": f"POST /a HTTP/1.1\r\n{HOST}Content-Length: 18446744073709551619\r\n\r\nabc",
    "other-coding": f"POST /a HTTP/1.1\r\n{HOST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding-list": f"POST /a HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding-of-old": f"POST /a HTTP/1.0\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "old-version": "GET /a\r\n\r\n",
    "new-version": f"GET /a HTTP/1.2\r\n{HOST}\r\n",
    "small-version": f"GET /a http/1.1\r\n{HOST}\r\n",
    "many-headers": f"GET /a HTTP/1.1\r\n{HOST}" + "".join(f"X{i}: y\r\n" for i in range(110)) + "\r\n",
    "absolute": f"GET http://b/a HTTP/1.1\r\n{HOST}\r\n",
    "dots": f"GET /a/../b HTTP/1.1\r\n{HOST}\r\n",
    "no-colon": f"GET /a HTTP/1.1\r\n{HOST}X\r\n\r\n",
    "empty-name": f"GET /a HTTP/1.1\r\n{HOST}: x\r\n\r\n",
}


def line(**members):
    return json.dumps(members) + "\n"


READY = line(event="ready", walls="landlock seccomp")
STARTED = line(event="started")
DONE = line(event="done", stopped=False)
FAILED = line(event="failed", problem={"status": 422, "code": "DOES_NOT_FIT", "detail": "No.", "limit": "--job-memory",
                                       "limit_value": 1, "actual": 2, "where": "/cluster", "kind": "request"})
PROGRESS = line(event="progress", phase="search", fraction=0.5, best_seconds=2.5, lower_bound_seconds=1)


def spoken(*texts, switches=0):
    return bytes([switches]) + "\0".join(texts).encode(errors="surrogateescape")


WORKER = {
    "good": spoken(READY + STARTED + DONE, READY + STARTED + PROGRESS + DONE),
    "fails": spoken(STARTED + FAILED, STARTED + FAILED),
    "dies": spoken(STARTED + "x", STARTED + PROGRESS + "x", "x", STARTED + "x"),
    "dies-with-words": spoken(STARTED + "\1killed: signal 11\nat 0x1\n\udcff", STARTED + "\1" + "w" * 3000, switches=4),
    "silent": spoken(),
    "no-json": spoken("hello\n", STARTED + "{\n", "\n\n\n"),
    "speaks-twice": spoken(STARTED + DONE + DONE, STARTED + FAILED + PROGRESS),
    "progress-of-anything": spoken(
        line(event="progress", phase="ä" * 40, fraction=-1, best_seconds=1e300) +
        line(event="progress", phase=7, fraction="x", best_seconds=-1, lower_bound_seconds=1e-300) +
        line(event="progress", phase="\n\"<", fraction=1e308) + DONE, switches=6),
    "problem-of-anything": spoken(
        line(event="failed", problem={"status": 7, "code": "a\nb\"", "detail": "é" * 1000, "where": "ü" * 200,
                                      "limit": "ö" * 60, "kind": "ß" * 9, "limit_value": 1e9, "actual": -2}), switches=4),
    "no-problem": spoken(line(event="failed"), line(event="failed", problem=[])),
    "events-of-no-kind": spoken(line(event=7) + line(), line(event="x") + "[]\n7\n"),
    "deep": spoken("[" * 3000 + "\n"),
    "long-line": spoken("[\"" + "x" * 70000, switches=4),
    "cancelled": spoken(STARTED + PROGRESS, STARTED + line(event="done", stopped=True), switches=5),
    "late": spoken(STARTED + PROGRESS, STARTED + PROGRESS, switches=2),
}


def refused(switches, **members):
    return bytes([switches]) + json.dumps(members).encode()


# The byte: the status by its place in fuzz_problem.c, 0x40 with Retry-After, 0x80 with a token.
PROBLEM = {
    "all": refused(7, status=422, code="DOES_NOT_FIT", detail="No.", kind="nofit", where="/cluster", limit="--job-memory",
                   limit_value=1, actual=2, least_memory_bytes=3, too_little_memory_bytes=2),
    "escapes": refused(0, code="\x1b[2J\n", detail="\x1b]0;x\x07\u009b1m", where="\r\n", limit="\x7f", title="t"),
    "empty": refused(3, code="", detail="", title="", kind="", where="", limit=""),
    "title": refused(9, title="Internal Server Error"),
    "wrong-types": refused(4, code=7, detail=[], kind={}, limit=1, limit_value="x", actual=1.5),
    "long": refused(5, code="é" * 200, detail="ü" * 3000, where="ß" * 500, limit="ö" * 100),
    "cancelled": refused(14, status=200, kind="cancelled"),
    "wait": refused(0x48, detail="Later."),
    "token": refused(0x81, detail="Who?"),
    "no-token": refused(1, detail="Who?"),
    "token-without-right": refused(0x82),
    "nothing": bytes([10]),
    "page": bytes([0x4a]) + b"<html>",
    "list": bytes([13]) + b"[1]",
    "unknown-status": bytes([15]) + b"{",
}


def text_of(inputs):
    return {name: text.encode() for name, text in inputs.items()}


def main():
    write_folder("answer", text_of(ANSWER))
    write_folder("config", text_of(CONFIG))
    write_folder("tokens", text_of(TOKENS))
    write_folder("decode", DECODE)
    write_folder("events", {name: bytes([PIECES.get(name, 4) - 1]) + text.encode() for name, text in EVENTS.items()})
    write_folder("json_scan", text_of(JSON_SCAN))
    write_folder("submission", text_of(SUBMISSION))
    write_folder("http", text_of(HTTP))
    write_folder("problem", PROBLEM)
    write_folder("worker", WORKER)


if __name__ == "__main__":
    main()
