#!/usr/bin/env python3
"""postgres.py COMMAND...: runs a command beside a private PostgreSQL server; SHARDPLAN_TEST_POSTGRES is its URL.

As a module: Running, that server; and Server, which tests start, stop, kill, freeze and start again. It listens on a socket
in its own temporary folder (without a password) and on a free port of 127.0.0.1 (with Server.password). Start it from the main
thread: it ends with the thread that started it.
"""

import atexit
import ctypes
import glob
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 60
PR_SET_PDEATHSIG = 1
USER = "shardplan"


def programs():
    """The folder of the newest server's programs, or None."""
    folders = [path for path in glob.glob("/usr/lib/postgresql/*/bin") if os.path.exists(path + "/postgres")]
    on_path = shutil.which("postgres")
    if on_path:
        folders.append(os.path.dirname(os.path.realpath(on_path)))
    return max(folders, key=lambda path: (float(path.split("/")[-2]) if path.split("/")[-2].isdigit() else 0), default=None)


def missing():
    """Why tests of PostgreSQL cannot run here, or None."""
    return None if programs() else "PostgreSQL is not installed (postgresql in deploy/packages)"


def unprivileged():
    """Whom the server runs as: it refuses to be root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        except KeyError:
            pass
    raise AssertionError("there is no user to run PostgreSQL as")


def die_with_parent():
    """In the child: an immediate shutdown when the tests are killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children(pid):
    """The processes that this one started, by all of its threads."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
        except OSError:
            pass
    return found


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Databases:
    """What a server is asked, wherever it is."""

    def __init__(self):
        self.bin = programs()
        self.as_user = unprivileged()
        self.count = 0
        self.lock = threading.Lock()

    def run(self, program, *arguments):
        done = subprocess.run([os.path.join(self.bin, program), *arguments], stdin=subprocess.DEVNULL, cwd="/",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **self.as_user)
        if done.returncode != 0:
            raise AssertionError(f"{program}: {done.stdout.decode(errors='replace')}")
        return done.stdout.decode()

    def query(self, sql, database="postgres"):
        """The rows as lines, the columns with | between them."""
        return self.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), "-c", sql).splitlines()

    def new_database(self):
        """The name of a new, empty database."""
        with self.lock:
            self.count += 1
            name = f"test_{os.getpid()}_{self.count}"
        self.query(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name):
        """Whoever is still connected."""
        self.query(f"DROP DATABASE {name} WITH (FORCE)")


class Running(Databases):
    """The server beside which this process runs."""

    def url(self, database="postgres"):
        return os.environ["SHARDPLAN_TEST_POSTGRES"].replace("/postgres?", f"/{database}?")


class Server(Databases):
    def __init__(self, *settings, durable=False):
        """Settings are NAME=VALUE. Processes are killed here, never the machine: without `durable` nothing waits for the disk."""
        super().__init__()
        self.settings = [*settings, *([] if durable else ["fsync=off"])]
        self.folder = tempfile.TemporaryDirectory(prefix="shardplan-postgres-")
        if self.as_user:
            os.chown(self.folder.name, self.as_user["user"], self.as_user["group"])
        self.data = os.path.join(self.folder.name, "data")
        self.log = os.path.join(self.folder.name, "log")
        self.port = free_port()
        self.password = secrets.token_hex(16)
        self.process = None
        self.make()

    def make(self):
        password_file = os.path.join(self.folder.name, "password")
        with open(password_file, "w", encoding="ascii") as file:
            file.write(self.password + "\n")
        os.chmod(password_file, 0o644)
        self.password_file = password_file
        self.run("initdb", "-D", self.data, "-U", USER, "-E", "UTF8", "--locale=C.UTF-8", "--auth-local=trust",
                 "--auth-host=scram-sha-256", f"--pwfile={password_file}", "--no-sync")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Starts, and waits until it can be asked."""
        options = ["-k", self.folder.name, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1",
                   "-c", "max_connections=200", "-c", "shared_buffers=16MB", "-c", "wal_level=minimal", "-c", "max_wal_senders=0"]
        for setting in self.settings:
            options += ["-c", setting]
        deadline = time.monotonic() + PATIENCE
        while True:
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen([os.path.join(self.bin, "postgres"), "-D", self.data, *options],
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder.name,
                                                preexec_fn=die_with_parent, **self.as_user)
            atexit.register(self.process.kill)
            while self.process.poll() is None:
                if subprocess.run([os.path.join(self.bin, "pg_isready"), "-q", "-h", self.folder.name, "-p", str(self.port)],
                                  check=False).returncode == 0:
                    return
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            if time.monotonic() > deadline:
                with open(self.log, encoding="utf-8", errors="replace") as file:
                    raise AssertionError("PostgreSQL does not start: " + file.read()[-2000:])
            time.sleep(0.1)  # processes of the one that was killed are still ending

    def stop(self):
        """A fast shutdown: sessions are ended."""
        self.end(signal.SIGINT)

    def kill(self):
        """kill -9 of the server and of its sessions."""
        pids = [self.process.pid, *children(self.process.pid)]
        signal_all(pids, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.wait_gone(pids)
        self.process = None

    def end(self, number):
        pids = [self.process.pid, *children(self.process.pid)]
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        self.wait_gone(pids)
        self.process = None

    @staticmethod
    def wait_gone(pids):
        deadline = time.monotonic() + PATIENCE
        while any(is_there(pid) for pid in pids):
            if time.monotonic() > deadline:
                raise AssertionError("processes of PostgreSQL do not end")
            time.sleep(0.01)

    def freeze(self):
        """The server hangs: it takes connections and says nothing."""
        signal_all([self.process.pid], signal.SIGSTOP)
        signal_all(children(self.process.pid), signal.SIGSTOP)

    def thaw(self):
        signal_all([self.process.pid, *children(self.process.pid)], signal.SIGCONT)

    def close(self):
        if self.process is not None:
            self.thaw()
            self.end(signal.SIGQUIT)
        self.folder.cleanup()

    # ---- databases ----

    def url(self, database="postgres"):
        """Through the socket, where no password is asked for."""
        return f"postgresql://{USER}@/{database}?host={self.folder.name}&port={self.port}"

    def tcp_url(self, database="postgres"):
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if missing():
        print(f"# {missing()}", file=sys.stderr)
        sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
    with Server() as server:
        environment = dict(os.environ, SHARDPLAN_TEST_POSTGRES=server.url())
        status = subprocess.run(sys.argv[1:], env=environment, check=False).returncode
    sys.exit(status)


if __name__ == "__main__":
    main()
