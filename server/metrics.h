#pragma once
/*
 * metrics - counters of the process, in the Prometheus text format.
 *
 * Labels come from the route table and fixed words, never from input, so the number of series is bounded. Any thread.
 */
#include "base/buf.h"

struct metrics;
struct server;

struct metrics *metrics_create(void); /* NULL without memory */
void metrics_destroy(struct metrics *metrics);

/* A request has ended; `method` and `route` are static strings. */
void metrics_request(struct metrics *metrics, const char *method, const char *route, int status, double seconds);

/* Bytes of an accepted upload. */
void metrics_upload(struct metrics *metrics, uint64_t bytes);

/* A job has ended. kind: "plan" or an errand's; outcome: "succeeded", "failed", "cancelled" (static strings). */
void metrics_job(struct metrics *metrics, const char *kind, const char *outcome, double wait_seconds, double seconds);

/* A worker process ended: "crashed", "timed_out", "recycled", "cancelled" (static strings). */
void metrics_worker_ended(struct metrics *metrics, const char *reason);

/* Appends the whole exposition; gauges are read from the server's parts. */
void metrics_write(struct metrics *metrics, struct server *server, struct sp_buf *buf);
