"""Requests that no HTTP library would send, byte for byte: each gets a stated answer, or the end of the connection, and
never has the bytes after it run as a second request."""

import ctypes
import json
import os
import random
import re
import socket
import statistics
import threading
import time
import unittest

from cases import DaemonCase
from daemon import Daemon

HEAD = re.compile(rb"HTTP/1\.1 [1-5][0-9][0-9] ")
# Newer ones refuse by themselves much of what we must look for in 0.9.75: with the same status, and a page of their own.
LIBRARY = ctypes.CDLL("libmicrohttpd.so.12")
LIBRARY.MHD_get_version.restype = ctypes.c_char_p
STRICT_LIBRARY = not LIBRARY.MHD_get_version().startswith(b"0.")

SECOND = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"  # must never be answered


def heads(answer):
    """How many answers there are in it."""
    return len(HEAD.findall(answer))


def small_buffer(port):
    """A connection whose client holds little of what it is sent."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", port))
    return connection


class RawCase(DaemonCase):
    options = ("--workers", "1")

    def open(self):
        return socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30)

    def talk(self, data):
        """Sends, and reads to the end of the stream: the daemon must close it."""
        with self.open() as connection:
            answer = b""
            try:
                connection.sendall(data)
                while piece := connection.recv(65536):
                    answer += piece
            except ConnectionError:
                pass
        return answer

    def refused(self, data, status, code, *, second=SECOND):
        """One answer, a problem with this code, and the connection is closed."""
        answer = self.talk(data + second)
        head, _, body = answer.partition(b"\r\n\r\n")
        if STRICT_LIBRARY and (not answer or body.startswith(b"<html>")):
            self.assertIn(answer[:13], (b"", b"HTTP/1.1 400 "))
            self.assertLessEqual(heads(answer), 1, "what followed was taken for a request")
            return
        self.assertTrue(head.startswith(f"HTTP/1.1 {status} ".encode()), answer[:300])
        self.assertEqual(json.loads(body)["code"], code, body)
        self.assertIn(b"\r\nConnection: close", head)
        self.assertEqual(heads(answer), 1, "what followed was taken for a request")

    def cut(self, data, statuses=(400,)):
        """The HTTP library itself refuses: a page of its own, and the connection is closed."""
        answer = self.talk(data + SECOND)
        self.assertIn(answer[:12], [f"HTTP/1.1 {status}".encode() for status in statuses], answer[:300])
        self.assertEqual(heads(answer), 1, "what followed was taken for a request")

    def alive(self):
        self.ask("GET", "/livez")


class Framing(RawCase):
    """Where one request ends and the next begins (rows H1 to H7)."""

    def test_length_and_coding(self):
        for first, second in ((b"Content-Length: 4", b"Transfer-Encoding: chunked"), (b"Transfer-Encoding: chunked", b"Content-Length: 0"),
                              (b"Transfer-Encoding: identity", b"Content-Length: 4"), (b"transfer-encoding:\tchunked", b"content-length:4")):
            with self.subTest(first):
                self.refused(b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\n" + first + b"\r\n" + second + b"\r\n\r\n0\r\n\r\n", 400, "AMBIGUOUS_FRAMING")

    def test_two_lengths(self):
        for first, second in ((b"4", b"5"), (b"4", b"4"), (b"0", b"40")):
            self.refused(b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + first + b"\r\nContent-Length: " + second + b"\r\n\r\n",
                         400, "REPEATED_HEADER")

    def test_codings(self):
        for coding in (b"gzip, chunked", b"chunked, chunked", b"xchunked", b"chunked, identity", b"chunked;q=1", b"\x0bchunked", b""):
            with self.subTest(coding):
                answer = self.talk(b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n" + SECOND)
                self.assertRegex(answer[:13].decode(), "^HTTP/1.1 (400|501) ")
                self.assertEqual(heads(answer), 1)
        self.refused(b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     400, "REPEATED_HEADER")
        self.refused(b"POST /v1/plans HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "AMBIGUOUS_FRAMING")

    def test_lengths_that_are_none(self):
        for length in (b"-1", b"+4", b"0x10", b"4,4", b"4 4", b"99999999999999999999", b"", b"1e3", b"\xd9\xa3"):
            with self.subTest(length):
                answer = self.talk(b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + b"\r\n\r\n" + SECOND)
                self.assertRegex(answer[:13].decode(), "^HTTP/1.1 (400|413) ")
                # The library itself refuses these, and 0.9.75 writes the head of its answer twice.
                self.assertEqual({head[9:12] for head in HEAD.findall(answer)}, {answer[9:12]})
                self.assertNotIn(b"onnx_ir_version", answer, "what followed was taken for a request")

    def test_chunks(self):
        """Sizes and line ends within chunks. However they are understood, nothing follows on that connection."""
        head = b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        for body in (b"0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n", b"2\n{}\n0\n\n", b"2;a=b\nx\r\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n",
                     b"+2\r\n{}\r\n0\r\n\r\n", b" 2\r\n{}\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n", b"fffffffffffffff\r\n{}", b"\r\n\r\n",
                     b"0\r\nX: a\r\nContent-Length: 5\r\n\r\n", b"0\r\nX a\r\n\r\n"):
            with self.subTest(body):
                if body.startswith(b"fffffffffffffff\r"):
                    continue  # it waits for a body that long: see Slow
                answer = self.talk(head + body + SECOND)
                self.assertRegex(answer[:10].decode(), "^HTTP/1.1 4")
                self.assertEqual(heads(answer), 1)

    def test_keep_alive_goes_on_after_sound_requests(self):
        with self.open() as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3 + b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        self.assertEqual(answer.count(b"HTTP/1.1 200 "), 4)

    def test_unsound_ones_are_found_behind_sound_ones(self):
        """The library's buffer is laid out anew for each request of a connection."""
        for size in (1, 50, 3000):
            sound = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Padding: " + b"y" * size + b"\r\n\r\n"
            answer = self.talk(sound * 2 + b"GET /livez HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n" + SECOND)
            self.assertEqual(answer.count(b"HTTP/1.1 200 "), 2)
            self.assertEqual(answer.count(b"HTTP/1.1 400 "), 1)
            self.assertEqual(heads(answer), 3)


class Lines(RawCase):
    """Line ends, blanks and NUL bytes that the library hides (row H4)."""

    BAD = {
        "bare line feed after the request line": b"GET /livez HTTP/1.1\nHost: localhost\r\n\r\n",
        "after a header": b"GET /livez HTTP/1.1\r\nHost: localhost\nAccept: */*\r\n\r\n",
        "after the last header": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nAccept: */*\n\r\n",
        "instead of the empty line": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\n",
        "everywhere": b"GET /livez HTTP/1.1\nHost: localhost\n\n",
        "hidden header": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n",
        "folded header": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        "folded by a tab": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\tb\r\nY: c\r\n\r\n",
        "folded twice": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n c\r\n\r\n",
        "folded host": b"GET /livez HTTP/1.1\r\nHost:\r\n x\r\n\r\n",
        "folded framing": b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        "NUL in a value": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
        "NUL at the end of a value": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0\r\nY: b\r\n\r\n",
        "NUL in the target": b"GET /li\0vez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "NUL in the method": b"G\0ET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "NUL in the last value, and bare line feeds": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\0b\n\n",
        "NUL in the empty line": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\0X: y\r\n\r\n",
        "two blanks before the target": b"GET  /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a blank in the target": b"GET /livez x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "two versions": b"GET /livez HTTP/1.1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a blank in the query": b"GET /v1/models?name=a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a return in the target": b"GET /livez\rX: HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a return in the query": b"GET /v1/models?name=a\rb HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a tab in the target": b"GET /livez\tx HTTP/1.1\r\nHost: localhost\r\n\r\n",
    }

    def test_bad_lines(self):
        for name, data in self.BAD.items():
            with self.subTest(name):
                self.refused(data, 400, "BAD_LINE")

    def test_in_pieces(self):
        """Each byte of its own: the library reads into a buffer that grows."""
        for name in ("after a header", "folded header", "NUL in a value"):
            with self.subTest(name), self.open() as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    for byte in self.BAD[name]:
                        connection.sendall(bytes([byte]))
                    self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 400 "))
                except ConnectionError:
                    self.assertTrue(STRICT_LIBRARY)  # it does not wait for the end

    def test_behind_many_headers(self):
        """So that the buffer had to grow before the bad line."""
        many = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 300) for i in range(80))
        self.refused(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + many + b"Y: z\nZ: y\r\n\r\n", 400, "BAD_LINE")
        answer = self.talk(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + many + b"\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:200])

    def test_sound_ones_are_not_refused(self):
        for data in (b"GET /livez HTTP/1.1\r\nHost:localhost\r\n", b"GET /livez HTTP/1.1\r\nHost: \t localhost \t\r\n", b"GET /livez HTTP/1.1\r\nHost:\r\n",
                     b"GET /livez HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c=\"d\"\r\nX:\r\nY: \r\n", b"\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n",
                     b"GET /livez HTTP/1.0\r\n", b"GET /v1/models?page_size=2 HTTP/1.1\r\nHost: localhost\r\nAccept: a: b\r\n", b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\n"):
            with self.subTest(data):
                answer = self.talk(data + b"Connection: close\r\n\r\n")
                self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:300])

    def test_blanks_and_characters_in_names(self):
        for line in (b"Host : x", b"X Y: z", b"X\t: z", b"X(: z", b"\xc3\xa9: z", b"X/: y"):
            with self.subTest(line):
                answer = self.talk(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + line + b"\r\n\r\n" + SECOND)
                self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer[:300])
                self.assertEqual(heads(answer), 1)

    def test_control_bytes_in_values(self):
        for byte in (b"\x01", b"\x08", b"\x0b", b"\x1b", b"\x7f", b"\r"):
            self.refused(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a" + byte + b"b\r\n\r\n", 400, "BAD_HEADER")

    def test_hosts(self):
        self.refused(b"GET /livez HTTP/1.1\r\n\r\n", 400, "MISSING_HOST")
        self.refused(b"GET /livez HTTP/1.1\r\nX: y\r\n\r\n", 400, "MISSING_HOST")
        self.refused(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", 400, "REPEATED_HEADER")
        for host in (b"a/b", b"a b", b"u@h", b"a?b", b"\xc3\xa9", b"<x>", b"a\\b"):
            self.refused(b"GET /livez HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", 400, "BAD_HOST")

    def test_lines_that_are_none(self):
        for data in (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n", b"GET /livez HTTP/1.1\r\n: x\r\n\r\n", b"GET /livez HTTP/1.1\r\n x: y\r\n\r\n"):
            self.cut(data)


class Targets(RawCase):
    """Rows H8, H9 and H12."""

    def test_targets(self):
        for target in (b"/%00", b"/v1/../livez", b"/v1/%2e%2e/livez", b"//livez", b"/livez/.", b"\\livez", b"/\xc0\xaf", b"http://x/livez", b"*", b"livez",
                       b"/livez#a b", b"/li vez", b"/livez\x7f"):
            with self.subTest(target):
                answer = self.talk(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                self.assertRegex(answer[:13].decode(), "^HTTP/1.1 40[04] ")
        answer = self.talk(b"GET /livez?a b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)

    def test_sizes(self):
        answer = self.talk(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertIn(b"URI_TOO_LONG", answer)
        answer = self.talk(b"GET /" + b"a" * 60000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertIn(b"URI_TOO_LONG", answer)
        self.refused(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE")
        self.refused(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431, "TOO_MANY_HEADERS")
        self.cut(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 10000 + b"\r\n", (431, 413))
        self.cut(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 400000 + b"\r\n\r\n", (431, 413))
        self.cut(b"GET /" + b"a" * 400000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (414, 431, 413))

    def test_methods(self):
        for method in (b"BREW", b"get", b"TRACE", b"CONNECT", b"PROPFIND", b"A" * 500):
            answer = self.talk(method + b" /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertTrue(answer.startswith(b"HTTP/1.1 405 "), answer[:100])
        self.refused(b"G<T /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "BAD_HEADER")
        self.assertNotIn(b"\r\n\r\nok", self.talk(b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))

    def test_bodies_that_nobody_asked_for(self):
        answer = self.talk(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "))
        answer = self.talk(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b"y" * 1000000)
        self.assertIn(b"BODY_TOO_LARGE", answer)

    def test_versions(self):
        for version in (b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1", b"HTTX/1.1", b"http/1.1", b"HTTP/1.1x", b""):
            with self.subTest(version):
                answer = self.talk(b"GET /livez " + version + b"\r\nHost: localhost\r\n\r\n" + SECOND)
                self.assertFalse(answer.startswith(b"HTTP/1.1 2"), answer[:100])
                self.assertLessEqual(heads(answer), 1)


class Strangers(RawCase):
    """Bytes that are no HTTP at all (row H15), and clients that leave (H14)."""

    def test_other_protocols(self):
        hello = bytes.fromhex("16030100a5010000a10303") + os.urandom(160)
        for data in (hello, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9, b"SSH-2.0-x\r\n", b"\0" * 4096, b"\r\n" * 5000, os.urandom(5000) + b"\n\n",
                     b"\x05\x01\x00", b"EHLO x\r\n", b"{\"a\": 1}\n"):
            with self.open() as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    answer = connection.recv(65536)
                except ConnectionError:
                    answer = b""
            self.assertFalse(answer.startswith(b"HTTP/1.1 2"), (data[:20], answer[:100]))
            self.alive()

    def test_damaged_requests(self):
        """Sound requests with a few bytes changed, lost or doubled: each is answered or cut off, and never by an error of
        the daemon's own."""
        sound = [
            b"GET /v1/models?page_size=2&page_token=7 HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain;q=0.5, */*\r\n\r\n",
            b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            b"POST /v1/convert HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;a=b\r\n}\r\n0\r\nX: y\r\n\r\n",
            b"OPTIONS /v1/plans HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a.b\r\nAccess-Control-Request-Method: GET\r\n\r\n",
            b"GET /livez HTTP/1.1\r\nHost: [::1]:80\r\nConnection: keep-alive\r\n\r\nHEAD /version HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ]
        pieces = [b"\r", b"\n", b"\0", b" ", b":", b"\t", b"\x7f", b"\xff", b"%", b"?", b"&", b"/", b"0", b"Content-Length: 1\r\n"]
        chance = random.Random(20261122)
        for number in range(400):
            data = bytearray(chance.choice(sound))
            for _ in range(chance.randint(1, 3)):
                at, way = chance.randrange(len(data)), chance.randrange(4)
                if way == 0:
                    data[at:at] = chance.choice(pieces)
                elif way == 1:
                    data[at:at + 1] = chance.choice(pieces)
                elif way == 2 and len(data) > 8:
                    del data[at:at + chance.randint(1, 4)]
                else:
                    data[at:at] = data[at:at + chance.randint(1, 20)]
            with self.subTest(number), self.open() as connection:
                answer = b""
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    while piece := connection.recv(65536):
                        answer += piece
                except ConnectionError:
                    pass
                for head in HEAD.findall(answer):
                    self.assertIn(head[9:10] + b"00" if head[9:12] not in (b"501", b"505") else b"400", (b"200", b"300", b"400"), (data, answer))
        self.alive()

    def test_clients_that_leave(self):
        for data in (b"", b"G", b"GET /livez HTTP/1.1\r\nHo", b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc",
                     b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"):
            for how in ("close", "reset"):
                connection = self.open()
                connection.sendall(data)
                if how == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.close()
        self.alive()
        self.daemon.wait_for(lambda: self.daemon.metric("shardplan_http_connections") <= 1, "the end of these connections")


class Slow(unittest.TestCase):
    """Rows H10 and H11: clients that drip, or do not read, in one daemon and at the same time. All of them are ended,
    and nobody else waits meanwhile."""

    def test_slow_clients(self):
        with Daemon("--workers", "1") as daemon:
            ends = {}

            def until_end(name, head, drip, every):
                """Sends the head, then drips; notes when the connection was ended."""
                with socket.create_connection(("127.0.0.1", daemon.port), timeout=1) as connection:
                    begin = time.monotonic()
                    connection.settimeout(30)
                    connection.sendall(head)
                    try:
                        while time.monotonic() - begin < 120:
                            if drip:
                                connection.sendall(drip)
                            connection.settimeout(every)
                            try:
                                if not connection.recv(65536):
                                    break
                            except TimeoutError:
                                pass
                    except ConnectionError:
                        pass
                    ends[name] = time.monotonic() - begin

            clients = [
                ("silent", b"", b"", 1),
                ("half a line", b"GET /li", b"", 1),
                ("slow header", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ", b"y", 0.5),
                ("slow headers", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n", 0.5),
                ("slow empty lines", b"", b"\r\n", 0.5),
                ("kept alive", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"", 1),
                ("body that never comes", b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"", 1),
                ("slow body", b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", b"y", 0.5),
                ("slow chunk line", b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"y", 0.5),
                # 120 MB lie on the disk meanwhile: 2 kB a second would be enough of a small body.
                ("large body that turns slow", b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n" +
                 bytes(120_000_000), bytes(1024), 0.5),
            ]
            # Far more answers than the buffers of both ends hold, for one who takes nothing and one who takes little.
            many = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300
            reader, sipper = (small_buffer(daemon.port) for _ in range(2))
            reader.sendall(many)
            sipper.sendall(many)
            threads = [threading.Thread(target=until_end, args=client) for client in clients]
            for thread in threads:
                thread.start()
            took = []
            while any(thread.is_alive() for thread in threads):
                begin = time.monotonic()
                self.assertEqual(daemon.raw_status("/livez"), 200)
                try:
                    sipper.recv(16)
                except ConnectionError:
                    pass
                took.append(time.monotonic() - begin)
                time.sleep(0.05)
            for name in ("silent", "half a line", "slow header", "slow headers", "slow empty lines", "kept alive"):
                self.assertLess(ends[name], 25, name)  # SPD_HEADER_SECONDS is 15
            for name in ("body that never comes", "slow body"):
                self.assertLess(ends[name], 45, name)  # SPD_IDLE_SECONDS and SPD_SLOW_BODY_SECONDS are 30
            self.assertLess(ends["slow chunk line"], 65)  # SPD_RATE_SECONDS is 45
            self.assertLess(ends["large body that turns slow"], 110)  # two of them
            self.assertLess(statistics.median(took), 2)  # one alone may have waited for the machine
            # A client that does not read cannot see its end: the daemon counts.
            daemon.wait_for(lambda: daemon.metric("shardplan_http_connections") <= 1, "the end of those that do not read")
            reader.close()
            sipper.close()
