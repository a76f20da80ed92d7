#pragma once
/*
 * connections - what the HTTP library leaves to its user about sockets.
 *
 * Deadlines. The library's timeout counts silence only: a client that drips one byte now and then holds a connection
 * for ever. Here a connection has SPD_HEADER_SECONDS from connect (or from its last answer) to a complete header; then
 * its socket is shut down.
 *
 * Leavers. The library may miss that a client has closed in the middle of a body, until its timeout. A socket on which
 * a body is expected (connections_body()) and the end of the stream is reached is shut down.
 *
 * Lingering. Refusing an upload early means closing a socket with unread bytes in it, and the kernel then resets the
 * connection, which can destroy the answer before the client reads it. So a copy of such a socket is kept, shut down
 * for writing and read empty for up to SPD_LINGER_SECONDS and SPD_LINGER_BYTES, before it is closed.
 */
#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

struct connections;
struct connection;

/* Main thread. NULL without memory. */
struct connections *connections_create(uv_loop_t *loop);

/* Main thread: closes everything that lingers; then, when the loop has run its closing callbacks, destroy. */
void connections_stop(struct connections *connections);
void connections_destroy(struct connections *connections);

/* Main thread, several times a second. */
void connections_tick(struct connections *connections, uint64_t now_ms);

/* HTTP threads. */
void connections_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);
void connections_request_started(struct connections *connections, struct MHD_Connection *connection);
void connections_body(struct connections *connections, struct MHD_Connection *connection, bool expected);
void connections_request_ended(struct connections *connections, struct MHD_Connection *connection, bool linger);

/* Open connections. */
unsigned connections_count(struct connections *connections);
