#pragma once
/*
 * metrics - counters of the process, in the Prometheus text format.
 *
 * Labels are routes of the table, names of calls and codes of problems; a worker could make codes up, so a table that
 * is full counts what is new as "other", and the number of series is bounded. Any thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct metrics;
struct server;

struct metrics *metrics_create(void); /* NULL without memory */
void metrics_destroy(struct metrics *metrics);

/* A connection came: "accepted", or why it was refused: "address", "full", "descriptors" or "memory". */
void metrics_connection(struct metrics *metrics, const char *outcome);

/* A request has found its route; and it has ended. Every request that began ends with the same method and route. */
void metrics_request_began(struct metrics *metrics, const char *method, const char *route);
void metrics_request_ended(struct metrics *metrics, const char *method, const char *route);

/* A request was answered; `code` is its status, 0 when the client left before. */
void metrics_request(struct metrics *metrics, const char *method, const char *route, int status, double seconds);

/* Bytes of an accepted upload, and the code of the problem that refused one. */
void metrics_upload(struct metrics *metrics, uint64_t bytes);
void metrics_upload_refused(struct metrics *metrics, const char *code);

/* Somebody was not let in: "missing", "wrong" or "scope". */
void metrics_auth_failed(struct metrics *metrics, const char *reason);

/* A worker took a job, maybe not for the first time. kind: "plan" or an errand's. */
void metrics_job_started(struct metrics *metrics, const char *kind);

/* A job has ended. outcome: "succeeded", "failed" or "cancelled". */
void metrics_job(struct metrics *metrics, const char *kind, const char *outcome, double wait_seconds, double seconds);

/* How long a plan was in a phase: "start", "read", "search", .. */
void metrics_phase(struct metrics *metrics, const char *phase, double seconds);

/* A worker process ended: "crashed", "timed_out", "recycled", "cancelled". */
void metrics_worker_ended(struct metrics *metrics, const char *reason);

/* Something that is stored was wrong: "model", "copy", "inspection", "result" or "sheet", which was "changed" or "missing". */
void metrics_stored_wrong(struct metrics *metrics, const char *what, const char *how);

/* A call of the store; `context` is the struct metrics, so that this can be a store_options.called. */
void metrics_store_call(void *context, const char *name, bool ok, double seconds);

/* Appends the whole exposition; gauges are read from the server's parts. */
void metrics_write(struct metrics *metrics, struct server *server, struct sp_buf *buf);
