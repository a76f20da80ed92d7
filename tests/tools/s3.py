#!/usr/bin/env python3
"""A real S3 service for tests: Ceph's RADOS Gateway with its monitor and one object store in memory, as plain processes.

Server().start() takes about ten seconds; `endpoint` is its URL, `key` and `secret` are of its one user, and `request` asks it
as that user. Signer makes and checks signatures (SigV4) without the program that is tested; `python3 s3.py` holds it to the
example that AWS publishes. `s3.py COMMAND...` runs a command beside a service, whose port is SHARDPLAN_TEST_S3: Running() is that.
"""

import atexit
import ctypes
import datetime
import hashlib
import hmac
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid

PATIENCE = 120
PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "ceph-authtool", "monmaptool")
EMPTY = hashlib.sha256(b"").hexdigest()

SETTINGS = """[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{monitor}]
ms_bind_msgr1 = false
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
keyring = {folder}/keyring
auth_allow_insecure_global_id_reclaim = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_warn = 1
mon_data_avail_crit = 0
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = {bytes}
run_dir = {folder}/run
admin_socket = {folder}/run/$name.asok
pid_file = {folder}/run/$name.pid
log_file = {folder}/log/$name.log
crash_dir = {folder}/run
mon_data = {folder}/mon
osd_data = {folder}/osd
rgw_data = {folder}/rgw
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:{port}
rgw_dns_name = localhost
"""


def missing():
    """Why tests of S3 cannot run here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{absent[0]} is not installed (radosgw, ceph-mon and ceph-osd in deploy/packages)" if absent else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Signer:
    """Signatures of version 4 over a request with all headers that are given."""

    def __init__(self, key, secret, region="us-east-1", service="s3"):
        self.key, self.secret, self.region, self.service = key, secret, region, service

    def signature(self, method, path, query, headers, names, stamp, payload):
        """`headers` by lower-case name, `names` those that are signed; `query` as it is sent."""
        pairs = sorted(tuple(part.split("=", 1)) if "=" in part else (part, "") for part in query.split("&") if part)
        canonical = "\n".join([method, path, "&".join(f"{name}={value}" for name, value in pairs),
                               *(f"{name}:{' '.join(headers[name].split())}" for name in names), "", ";".join(names), payload])
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        secret = ("AWS4" + self.secret).encode()
        for step in (stamp[:8], self.region, self.service, "aws4_request"):
            secret = hmac.new(secret, step.encode(), hashlib.sha256).digest()
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()

    def sign(self, method, path, query, host, payload, more):
        """The headers of the request, `more` among them."""
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": host, "x-amz-content-sha256": payload, "x-amz-date": stamp,
                   **{name.lower(): value for name, value in more.items()}}
        names = sorted(headers)
        signature = self.signature(method, path, query, headers, names, stamp, payload)
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.key}/{stamp[:8]}/{self.region}/{self.service}/aws4_request, "
                                    f"SignedHeaders={';'.join(names)}, Signature={signature}")
        return headers

    def is_right(self, method, target, headers, body, unsigned=False):
        """Whether a request as it came is signed by this key, its body included. Headers by lower-case name. With `unsigned` parts
        of an upload may have a body that is not."""
        parts = dict(part.strip().split("=", 1) for part in headers["authorization"].split(" ", 1)[1].split(","))
        key, date, region, service, _ = parts["Credential"].split("/")
        payload = headers["x-amz-content-sha256"]
        path, _, query = target.partition("?")
        names = parts["SignedHeaders"].split(";")
        expected = Signer(key, self.secret, region, service).signature(method, path, query, headers, names, headers["x-amz-date"],
                                                                       payload)
        return (key == self.key and date == headers["x-amz-date"][:8] and parts["Signature"] == expected and
                payload in (hashlib.sha256(body).hexdigest(), "UNSIGNED-PAYLOAD" if unsigned and "partNumber=" in query else None) and {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names))


def published_example():
    """GET Object of "Examples: Signature Calculations in AWS Signature Version 4" of the Amazon S3 API Reference."""
    signer = Signer("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    headers = {"host": "examplebucket.s3.amazonaws.com", "range": "bytes=0-9", "x-amz-content-sha256": EMPTY,
               "x-amz-date": "20130524T000000Z"}
    get = signer.signature("GET", "/test.txt", "", headers, sorted(headers), "20130524T000000Z", EMPTY)
    del headers["range"]
    listing = signer.signature("GET", "/", "max-keys=2&prefix=J", headers, sorted(headers), "20130524T000000Z", EMPTY)
    return {get: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            listing: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"}


class Buckets:
    """A service at self.port, as its user sees it."""

    key, secret = "testkey", "testsecret"

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, query="", body=b"", **headers):
        """(status, body); `path` begins with the bucket."""
        host = f"127.0.0.1:{self.port}"
        signed = Signer(self.key, self.secret).sign(method, "/" + path, query, host, hashlib.sha256(body).hexdigest(), headers)
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        try:
            connection.request(method, f"/{path}" + (f"?{query}" if query else ""), body, signed)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def make_bucket(self):
        """The name of a new one."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        status, body = self.request("PUT", name)
        if status != 200:
            raise AssertionError(f"no bucket: {status} {body!r}")
        return name

    def keys(self, bucket, prefix=""):
        """All of them: a list has pages of 1,000."""
        query, keys = f"list-type=2&prefix={urllib.parse.quote(prefix, safe='')}", []
        token = ""
        while True:
            status, body = self.request("GET", bucket, token + query)
            if status != 200:
                raise AssertionError(f"no list: {status} {body!r}")
            text = body.decode()
            keys += [part.split("</Key>")[0] for part in text.split("<Key>")[1:]]
            if "<IsTruncated>true" not in text:
                return keys
            following = text.split("<NextContinuationToken>")[1].split("</NextContinuationToken>")[0]
            token = f"continuation-token={urllib.parse.quote(following, safe='')}&"

    def unfinished(self, bucket):
        """The keys of uploads in parts that were neither completed nor aborted."""
        status, body = self.request("GET", bucket, "uploads=")
        if status != 200:
            raise AssertionError(f"no list: {status} {body!r}")
        return [part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]]


class Running(Buckets):
    """The service beside which this process runs."""

    port = int(os.environ.get("SHARDPLAN_TEST_S3", "0"))


class Server(Buckets):
    def __init__(self, size=4 << 30):
        """`size`: bytes that it can keep, in memory."""
        self.size = size
        self.folder = tempfile.TemporaryDirectory(prefix="shardplan-s3-")
        self.port, self.monitor = free_port(), free_port()
        self.settings = os.path.join(self.folder.name, "ceph.conf")
        self.processes = {}

    def run(self, program, *arguments):
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "CEPH_CONF": self.settings}, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{program}: {done.stdout.decode(errors='replace')}")

    def spawn(self, name, *command):
        with open(os.path.join(self.folder.name, "log", name), "ab") as log:
            process = subprocess.Popen([*command, "-c", self.settings, "-f"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       preexec_fn=die_with_parent)
        atexit.register(process.kill)
        self.processes[name] = process

    def start(self):
        folder, fsid, store = self.folder.name, str(uuid.uuid4()), str(uuid.uuid4())
        keyring = os.path.join(folder, "keyring")
        for name in ("mon", "osd", "rgw", "run", "log"):
            os.mkdir(os.path.join(folder, name))
        with open(self.settings, "w", encoding="ascii") as file:
            file.write(SETTINGS.format(fsid=fsid, monitor=self.monitor, folder=folder, port=self.port, bytes=self.size))
        for name, rights in (("mon.", ("mon", "allow *")), ("client.admin", ("mon", "allow *", "osd", "allow *", "mgr", "allow *")),
                             ("client.rgw", ("mon", "allow rw", "osd", "allow rwx")),
                             ("osd.0", ("mon", "allow profile osd", "osd", "allow *"))):
            caps = [word for at in range(0, len(rights), 2) for word in ("--cap", *rights[at : at + 2])]
            self.run("ceph-authtool", *([keyring] if os.path.exists(keyring) else ["-C", keyring]), "-g", "-n", name, *caps)
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{self.monitor}]", f"{folder}/monmap")
        self.run("ceph-mon", "-c", self.settings, "-i", "a", "--mkfs", "--monmap", f"{folder}/monmap", "--keyring", keyring)
        self.spawn("mon", "ceph-mon", "-i", "a")
        self.run("ceph", "osd", "new", store)
        self.run("ceph-osd", "-c", self.settings, "-i", "0", "--mkfs", "--osd-uuid", store)
        self.spawn("osd", "ceph-osd", "-i", "0")
        self.start_gateway()
        self.run("radosgw-admin", "user", "create", "--uid=t", "--display-name=t", f"--access-key={self.key}",
                 f"--secret-key={self.secret}")

    def start_gateway(self):
        self.spawn("rgw", "radosgw", "-n", "client.rgw")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                if time.monotonic() > deadline or self.processes["rgw"].poll() is not None:
                    raise AssertionError("the S3 server does not start, see " + self.folder.name) from None
                time.sleep(0.1)

    def kill_gateway(self):
        process = self.processes.pop("rgw")
        process.kill()
        process.wait()

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.folder.cleanup()


def main():
    for is_signature, should_be in published_example().items():
        assert is_signature == should_be, (is_signature, should_be)
    if len(sys.argv) < 2:
        print("the published signatures are made")
        return
    if missing():
        print(f"# {missing()}", file=sys.stderr)
        sys.exit("CI" in os.environ)
    server = Server()
    server.start()
    try:
        status = subprocess.run(sys.argv[1:], env=dict(os.environ, SHARDPLAN_TEST_S3=str(server.port)), check=False).returncode
    finally:
        server.close()
    sys.exit(status)


if __name__ == "__main__":
    main()
