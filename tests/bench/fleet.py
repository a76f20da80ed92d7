#!/usr/bin/env python3
"""What a plan costs the PostgreSQL server that daemons share, and which fleet that carries; prints, and decides nothing.

    fleet.py [--plans 100] [--rows 1000000] [--tenants 1000] [--daemons 50] [--rate 100] [--only-timed] [--program FILE]

Two daemons plan small models, one after another, on a database that is empty and on one with that many finished plans of so many
tenants, and there four of them, too: each is told of each plan and may look for work, so a plan costs more where more daemons are
idle. For each statement that they send the server itself counts (pg_stat_statements) how often it ran for a plan, how long, and
how many pages it touched: what grows with rows shows there. The same over some idle seconds is what a daemon costs without work.

Beside the statements, the processes of the server are counted: what waking listeners takes is in no statement. So many sessions as there
would be more idle daemons listen, too, which is what an idle daemon is to the server between its looks at the queue.

From that the model, a line through two and four daemons: processors of the server that `rate` plans a second by `daemons` daemons keep busy,
and the plans a second that it carries by each of its limits, the lowest one first: its processors; commits that tell others, of which
the server makes one after the other, each with its wait for the disk; connections. It leaves out the network.

Last, plans a second of one, two and four daemons whose workers sleep for a fixed time (timed_worker.c) instead of planning: what the
daemons and the store take from that.
"""

import argparse
import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/tools"), os.path.join(TOP, "tests/api")]
sys.dont_write_bytecode = True

import daemon as harness  # noqa: E402
import lacking  # noqa: E402
import onnx_make  # noqa: E402
import postgres  # noqa: E402

IDLE = 10  # seconds
TELLING = 3  # commits for a plan that tell other daemons: queued, claimed, ended
CONNECTIONS = 9  # of a daemon at most: SPD_STORE_CONNECTIONS and the one that listens
TIMED_MS, TIMED_WORKERS, TIMED_PLANS = 250, 2, 120  # of each daemon with workers of fixed time
SHOWN = 12  # statements
COUNTS = ("SELECT queryid, calls, total_exec_time, shared_blks_hit + shared_blks_read, wal_bytes, "
          "left(regexp_replace(query, '\\s+', ' ', 'g'), 90) FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid "
          "WHERE d.datname = current_database() AND toplevel "
          "AND query NOT LIKE '%pg_stat_statements%'")
FILL = """
INSERT INTO shardplan.models (tenant, id, {columns}) SELECT 'tenant' || t, md5(t::text) || md5(t::text), {columns} FROM
  generate_series(1, {tenants}) t, (SELECT * FROM shardplan.models ORDER BY seq LIMIT 1) m;
INSERT INTO shardplan.plans (tenant, id, model, request, question, priority, state, attempts, has_result, created_at, started_at,
  finished_at) SELECT 'tenant' || n % {tenants} + 1, md5('p' || n), md5((n % {tenants} + 1)::text) || md5((n % {tenants} + 1)::text),
  repeat('r', 200), md5('q' || n), 0, 'succeeded', 1, true, {now} - n, {now} - n, {now} - n FROM generate_series(1, {rows}) n;
VACUUM ANALYZE shardplan.plans; VACUUM ANALYZE shardplan.models;
"""


class Counts:
    """What the server counted while something went on."""

    def __init__(self, server, database):
        self.server, self.database = server, database

    def read(self):
        table = {}
        for line in self.server.query(COUNTS, self.database):
            name, calls, ms, pages, wal, text = line.split("|", 5)
            table[name] = (int(calls), float(ms), int(pages), float(wal), text)
        return table

    def __enter__(self):
        self.before = self.read()
        return self

    def __exit__(self, *_):
        self.made = []  # (calls, ms, pages, bytes of the log, text)
        for name, now in self.read().items():
            was = self.before.get(name, (0, 0, 0, 0))
            if now[0] > was[0]:
                self.made.append((*(a - b for a, b in zip(now[:4], was)), now[4]))

    def total(self, index):
        return sum(one[index] for one in self.made)


def processor_ms(server):
    """What the processes of the server have taken so far."""
    total = 0
    for pid in [server.process.pid, *postgres.children(server.process.pid)]:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e6


@contextlib.contextmanager
def listeners(server, database, count):
    """So many sessions that are told of each plan."""
    sessions = []
    try:
        for _ in range(count):
            sessions.append(subprocess.Popen([os.path.join(server.bin, "psql"), "-qX", server.url(database)], stdin=subprocess.PIPE,
                                             stdout=subprocess.DEVNULL, text=True))
            sessions[-1].stdin.write("LISTEN shardplan;\n")
            sessions[-1].stdin.flush()
        while int(server.query("SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN shardplan;'", database)[0]) < count:
            time.sleep(0.1)
        yield
    finally:
        for session in sessions:
            session.stdin.close()
            session.wait()


def fill(server, database, arguments):
    columns = [line for line in server.query(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'shardplan' AND table_name = 'models' "
        "AND column_name NOT IN ('seq', 'tenant', 'id')", database)]
    for statement in FILL.format(columns=", ".join(columns), tenants=arguments.tenants, rows=arguments.rows,
                                 now=int(time.time() * 1000)).split(";"):
        if statement.strip():
            server.query(statement, database)


def work(daemons, model, count):
    """So many plans, each asked for when the one before has ended; seconds."""
    began = time.monotonic()
    for number in range(count):
        one = daemons[number % len(daemons)]
        answer = one.request("POST", "/v1/plans", {"model": model, "cluster": {"device": "a100-sxm4-80gb", "count": 2}},
                             {"Cache-Control": "no-cache", "Prefer": "wait=60"}, check=False)
        if answer.status not in (200, 202):
            lacking.leave(f"a plan was answered with {answer}")
    return time.monotonic() - began


class Cost:
    """What the server does for a plan, and for an idle daemon."""

    def __init__(self, daemons, counts, seconds, idle, plans, processor):
        still, still_statements = idle.total(1) / IDLE / daemons, idle.total(0) / IDLE
        self.processor = processor / plans
        self.statements = (counts.total(0) - still_statements * seconds) / plans
        self.daemons = daemons
        self.ms = (counts.total(1) - still * daemons * seconds) / plans
        self.log = counts.total(3) / plans  # bytes
        self.still = still  # milliseconds in a second

    def tell(self, counts, rows, plans):
        print(f"{self.daemons} daemons, {rows} finished plans: {self.ms:.2f} ms of the server and "
              f"{counts.total(0) / plans:.1f} statements for a plan, {self.still:.2f} ms for a second of an idle daemon; "
              f"its processes took {self.processor:.2f} ms for a plan, all that went on meanwhile included")
        for calls, ms, pages, _, text in sorted(counts.made, key=lambda one: -one[1])[:SHOWN]:
            print(f"  {calls / plans:6.2f} a plan {ms / calls:8.3f} ms {pages / calls:8.1f} pages  {text}")
        sys.stdout.flush()


def count_work(server, database, daemons, model, plans):
    """Counts, seconds, and milliseconds of the server's processes."""
    before = processor_ms(server)
    with Counts(server, database) as busy:
        seconds = work(daemons, model, plans)
        taken = processor_ms(server) - before
    return busy, seconds, taken


def flush_ms(server, database):
    """The mean wait of a commit for the disk."""
    return float(server.query("SELECT coalesce(wal_sync_time / nullif(wal_sync, 0), 0) FROM pg_stat_wal", database)[0])


def measure(arguments, rows, fleets):
    """The cost with each number of daemons; and of the last one what more listeners take for a plan, and a flush."""
    costs, daemons = [], []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres.Server("shared_preload_libraries=pg_stat_statements", "track_wal_io_timing=on",
                                                     durable=True))
        database = server.new_database()
        server.query("CREATE EXTENSION pg_stat_statements", database)
        for number in fleets:
            while len(daemons) < number:
                data = daemons[0].data if daemons else None
                daemons.append(stack.enter_context(harness.Daemon("--workers", "1", data=data, store=server.url(database))))
            model = daemons[0].upload(onnx_make.encode(onnx_make.chain(6))).json["id"]
            work(daemons, model, 10)
            if rows and not costs:
                fill(server, database, arguments)
            with Counts(server, database) as idle:
                time.sleep(IDLE)
            busy, seconds, taken = count_work(server, database, daemons, model, arguments.plans)
            costs.append(Cost(number, busy, seconds, idle, arguments.plans, taken))
            costs[-1].tell(busy, rows, arguments.plans)
        more = max(0, arguments.daemons - len(daemons))
        with listeners(server, database, more):
            told = count_work(server, database, daemons, model, arguments.plans)[2] / arguments.plans
        waking = max(0, told - costs[-1].processor) / max(1, more)
        return costs, waking, flush_ms(server, database)


# ---- workers of fixed time ----


def build_timed(folder):
    path = os.path.join(folder, "timed_worker.so")
    built = subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", path, os.path.join(TOP, "tests/bench/timed_worker.c")],
                           capture_output=True, text=True, check=False)
    if built.returncode != 0:
        lacking.leave(f"timed_worker.c is not built: {built.stderr}")
    return path


def make_results(server, database, folder):
    """A folder of data with a model, and what a plan of it has for results."""
    first = harness.Daemon("--workers", "1", store=server.url(database))
    first.start()
    model = first.upload(onnx_make.encode(onnx_make.chain(6))).json["id"]
    work([first], model, 1)
    results = os.path.dirname(glob.glob(os.path.join(first.data, "plans/*/*/plan.json"))[0])
    shutil.copytree(results, folder)
    first.stop()
    return first, model


def submit(one, model, count, offset):
    for number in range(count):
        answer = one.request("POST", "/v1/plans", {"model": model, "cluster": {"device": "a100-sxm4-80gb", "count": 2},
                                                   "options": {"seed": offset + number}}, {"Cache-Control": "no-cache"}, check=False)
        if answer.status != 202:
            lacking.leave(f"a plan was answered with {answer}")


@contextlib.contextmanager
def variables(values):
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


def timed_run(server, database, data, model, count, offset, preload):
    """Plans a second of so many daemons, all plans submitted to the first one; milliseconds of the server for a plan."""
    plans = TIMED_PLANS * count
    with contextlib.ExitStack() as stack:
        with variables(preload):
            daemons = [stack.enter_context(harness.Daemon("--workers", str(TIMED_WORKERS), data=data, store=server.url(database)))
                       for _ in range(count)]
        before = processor_ms(server)
        thread = threading.Thread(target=submit, args=(daemons[0], model, plans, offset))
        thread.start()
        thread.join()
        left = "SELECT count(*) FROM shardplan.plans WHERE state IN ('queued', 'running')"
        while int(server.query(left, database)[0]) > 0:
            time.sleep(0.2)
        taken = processor_ms(server) - before
    rows = server.query("SELECT count(*) FILTER (WHERE state = 'succeeded'), max(finished_at) - min(started_at), max(attempts) FROM "
                        f"(SELECT * FROM shardplan.plans ORDER BY seq DESC LIMIT {plans}) p", database)[0].split("|")
    if rows[0] != str(plans) or rows[2] != "1":
        lacking.leave(f"of {plans} plans {rows[0]} succeeded, with {rows[2]} attempts")
    return plans / (int(rows[1]) / 1000), taken / plans


def measure_timed():
    with postgres.Server(durable=True) as server, tempfile.TemporaryDirectory(prefix="shardplan-fleet-") as folder:
        database = server.new_database()
        library, results = build_timed(folder), os.path.join(folder, "results")
        first, model = make_results(server, database, results)
        preload = {"LD_PRELOAD": library, "TIMED_MS": str(TIMED_MS), "TIMED_RESULTS": results}
        for number, count in enumerate((1, 2, 4)):
            rate, ms = timed_run(server, database, first.data, model, count, (number + 1) * 100000, preload)
            most = count * TIMED_WORKERS * 1000 / TIMED_MS
            print(f"{count} daemons with {TIMED_WORKERS} workers that sleep for {TIMED_MS} ms: {rate:.1f} plans/s, {rate / most:.2f} of the "
                  f"{most:.0f} that the workers allow; the server's processes took {ms:.2f} ms for a plan")
            sys.stdout.flush()
        first.close()


def project(arguments, few, more, waking, flush):
    """Which limit of the server comes first."""
    # By the number of statements: their times vary more from run to run than idle daemons could change them.
    each = max(0, (more.statements - few.statements) / (more.daemons - few.daemons)) * more.ms / more.statements
    looks = arguments.daemons * more.still
    statements = more.ms + each * (arguments.daemons - more.daemons)
    wakes = waking * arguments.daemons
    busy = (arguments.rate * (statements + wakes) + looks) / 1000
    print(f"a plan costs {few.ms - 2 * each:.2f} ms of statements, {each:.3f} ms more for each daemon that is idle, and {waking:.3f} ms for "
          "waking each of them")
    print(f"{arguments.rate:g} plans a second by {arguments.daemons} idle daemons keep {busy:.2f} processors of the server busy "
          f"(plans {arguments.rate * statements / 1000:.2f}, waking {arguments.rate * wakes / 1000:.2f}, looks at the queue {looks / 1000:.2f}), "
          f"and write {arguments.rate * more.log / 1e6:.2f} MB/s of its log")
    limits = [(max(0, 1000 - looks) / (statements + wakes), "one processor of the server")]
    if flush > 0:
        limits.append((1000 / (TELLING * flush), f"commits that tell others, {TELLING} for a plan, each behind the other, {flush:.2f} ms each for the disk"))
    for rate, what in sorted(limits):
        print(f"  {rate:6.0f} plans/s: {what}")
    print(f"  {arguments.daemons * CONNECTIONS} connections at most: max_connections must allow them, or a pooler stands before the server")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--daemons", type=int, default=50)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--only-timed", action="store_true")
    parser.add_argument("--program")
    arguments = parser.parse_args()
    if arguments.program:
        harness.PROGRAM = arguments.program
    lacking.need_built(harness.PROGRAM)
    if postgres.missing():
        lacking.leave(postgres.missing())
    harness.STORE = "sqlite"  # the daemons are told
    if arguments.only_timed:
        measure_timed()
        return
    (empty,), _, _ = measure(arguments, 0, (2,))
    (few, more), waking, flush = measure(arguments, arguments.rows, (2, 4))
    print(f"with {arguments.rows} rows a plan costs the server {few.ms / empty.ms:.2f}x of what it does on an empty database")
    project(arguments, few, more, waking, flush)
    measure_timed()


if __name__ == "__main__":
    lacking.run(main)
