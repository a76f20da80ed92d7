#!/usr/bin/env python3
"""What a plan costs the PostgreSQL server that daemons share, and which fleet that carries; prints, and decides nothing.

    fleet.py [--plans 100] [--rows 1000000] [--tenants 1000] [--daemons 50] [--rate 100] [--program FILE]

Two daemons plan small models, one after another, on a database that is empty and on one with that many finished plans of so many
tenants, and there four of them, too: each is told of each plan and may look for work, so a plan costs more where more daemons are
idle. For each statement that they send the server itself counts (pg_stat_statements) how often it ran for a plan, how long, and
how many pages it touched: what grows with rows shows there. The same over some idle seconds is what a daemon costs without work.

From that the model, a line through two and four daemons: processors of the server that `rate` plans a second by `daemons` daemons keep busy, the plans a second that one
processor carries, and its write-ahead log. It leaves out the network and waits for the disk: a commit waits for it, but commits of
many daemons share one wait.
"""

import argparse
import contextlib
import os
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests/tools"), os.path.join(TOP, "tests/api")]
sys.dont_write_bytecode = True

import daemon as harness  # noqa: E402
import lacking  # noqa: E402
import onnx_make  # noqa: E402
import postgres  # noqa: E402

IDLE = 10  # seconds
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

    def __init__(self, daemons, counts, seconds, still, plans):
        self.daemons = daemons
        self.ms = (counts.total(1) - still * daemons * seconds) / plans
        self.log = counts.total(3) / plans  # bytes
        self.still = still  # milliseconds in a second

    def tell(self, counts, rows, plans):
        print(f"{self.daemons} daemons, {rows} finished plans: {self.ms:.2f} ms of the server and "
              f"{counts.total(0) / plans:.1f} statements for a plan, {self.still:.2f} ms for a second of an idle daemon")
        for calls, ms, pages, _, text in sorted(counts.made, key=lambda one: -one[1])[:SHOWN]:
            print(f"  {calls / plans:6.2f} a plan {ms / calls:8.3f} ms {pages / calls:8.1f} pages  {text}")
        sys.stdout.flush()


def measure(arguments, rows, fleets):
    """The cost with each number of daemons."""
    costs, daemons = [], []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres.Server("shared_preload_libraries=pg_stat_statements", durable=True))
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
            with Counts(server, database) as busy:
                seconds = work(daemons, model, arguments.plans)
            costs.append(Cost(number, busy, seconds, idle.total(1) / IDLE / number, arguments.plans))
            costs[-1].tell(busy, rows, arguments.plans)
    return costs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--daemons", type=int, default=50)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--program")
    arguments = parser.parse_args()
    if arguments.program:
        harness.PROGRAM = arguments.program
    lacking.need_built(harness.PROGRAM)
    if postgres.missing():
        lacking.leave(postgres.missing())
    harness.STORE = "sqlite"  # the daemons are told
    empty, = measure(arguments, 0, (2,))
    few, more = measure(arguments, arguments.rows, (2, 4))
    print(f"with {arguments.rows} rows a plan costs the server {few.ms / empty.ms:.2f}x of what it does on an empty database")
    each = max(0, (more.ms - few.ms) / (more.daemons - few.daemons))
    plan = more.ms + each * (arguments.daemons - more.daemons)
    busy = (arguments.rate * plan + arguments.daemons * more.still) / 1000
    print(f"a plan costs {few.ms - 2 * each:.2f} ms, and {each:.2f} ms for each daemon that is idle")
    print(f"{arguments.rate:g} plans a second by {arguments.daemons} idle daemons keep {busy:.2f} processors of the server busy, and write "
          f"{arguments.rate * more.log / 1e6:.2f} MB/s of its log; one processor carries "
          f"{max(0, 1000 - arguments.daemons * more.still) / plan:.0f} plans a second")


if __name__ == "__main__":
    lacking.run(main)
