#pragma once
/*
 * connections - what the HTTP library leaves to its user about sockets.
 *
 * Admission. A connection is counted before the library sees it: so many altogether, so many from one address (this
 * machine's own addresses excepted, because a proxy may sit there), and a few of their own for the admin listener.
 *
 * Accounts. Whose a connection is nobody knows before its first request was looked at. Until then it is one of the
 * unknown, which may be half of all where credentials are asked for; a new one that finds no room among them pushes out
 * the one that has been silent longest, so that who holds connections without saying who it is does not keep others
 * away. From its first request with credentials on a connection is charged to its tenant (net/accounts.h), to the last
 * one where a proxy sends requests of several.
 *
 * Deadlines. The library's timeout counts silence only: a client that drips one byte now and then holds a connection
 * for ever. Here a connection has SPD_HEADER_SECONDS from connect (or from its last answer) to a complete header, TLS
 * handshake included; then its socket is shut down.
 *
 * Rates. A body that comes, or an answer that is taken, at less than SPD_SLOW_BODY_RATE over SPD_RATE_SECONDS ends the
 * same way. What counts is what the kernel has received or what the peer has acknowledged, so neither TLS nor chunks of
 * one byte matter; and of an answer only the time during which something is left to take.
 *
 * Leavers. The library may miss that a client has closed in the middle of a body, until its timeout. A socket on which
 * a body is expected (connections_body()) and the end of the stream is reached is shut down.
 */
#include <microhttpd.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

#include "net/accounts.h"

struct connections;

enum admission {
    ADMISSION_GRANTED,
    ADMISSION_PUSHED,  /* as well, and another one was pushed out */
    ADMISSION_FULL,    /* as many as there may be */
    ADMISSION_TOO_MANY /* from this address */
};

/* Main thread. NULL without memory. */
struct connections *connections_create(uv_loop_t *loop);

/* Before the first connection: how many there may be, from this process's limit of descriptors if that allows fewer,
   how many of them tenants share, and how many open files beside them. Returns the first number, 0 without memory or
   when there are too few descriptors to serve at all. `asks`: whether credentials are asked for. */
unsigned connections_limit(struct connections *connections, unsigned wanted, bool asks, struct accounts *accounts);

/* Main thread: closes everything that lingers; then, when the loop has run its closing callbacks, destroy. */
void connections_stop(struct connections *connections);
void connections_destroy(struct connections *connections);

/* Main thread, several times a second. */
void connections_tick(struct connections *connections, uint64_t now_ms);

/* Any thread. A connection that is admitted ends with the library's notification, or with connections_forget() when
   the library did not take it. */
enum admission connections_admit(struct connections *connections, int fd, const struct sockaddr *address, bool admin);
void connections_forget(struct connections *connections, int fd);

/* Any thread: takes over a socket to which the last answer was written. */
void connections_linger(struct connections *connections, int fd);

/* HTTP threads. */
void connections_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);
void connections_request_started(struct connections *connections, struct MHD_Connection *connection);
/* False with 429 QUOTA_CONNECTIONS: the tenant has its share of connections without this one. */
bool connections_identified(struct connections *connections, struct MHD_Connection *connection, struct account *account,
                            struct problem *problem);
void connections_body(struct connections *connections, struct MHD_Connection *connection, bool expected);
void connections_request_ended(struct connections *connections, struct MHD_Connection *connection, bool linger);

/* Open connections, those of the admin listener included. */
unsigned connections_count(struct connections *connections);

/* How many may be open, without those of the admin listener. */
unsigned connections_allowed(const struct connections *connections);
