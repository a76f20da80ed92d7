#pragma once
/*
 * lingering - sockets that are read empty before they are closed.
 *
 * Refusing an upload early means closing a socket with unread bytes in it, and the kernel then resets the connection,
 * which can destroy the answer before the client reads it. So such a socket is shut down for writing and read empty for
 * up to SPD_LINGER_SECONDS and SPD_LINGER_BYTES, before it is closed. There are few at a time: those of whom nothing is
 * known have half of them (SPD_UNKNOWN_SHARE), and tenants their shares of the rest (net/accounts.h); the next one is
 * closed at once.
 */
#include <stdint.h>
#include <uv.h>

#include "net/accounts.h"

struct lingering;

/* Main thread. NULL without memory. */
struct lingering *lingering_create(uv_loop_t *loop);
void lingering_tick(struct lingering *lingering, uint64_t now_ms);

/* Main thread: closes everything; then, when the loop has run its closing callbacks, destroy. */
void lingering_stop(struct lingering *lingering);
void lingering_destroy(struct lingering *lingering); /* NULL is allowed */

/* Any thread: takes over a socket to which the last answer was written. `account`: whose it is, NULL: nobody knows. */
void lingering_take(struct lingering *lingering, int fd, struct account *account);
