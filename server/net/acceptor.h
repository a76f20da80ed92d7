#pragma once
/*
 * acceptor - the thread that takes new connections and hands them to the HTTP library.
 *
 * The library could accept by itself, but then it stops listening when it is full, so that clients hang until somebody
 * else leaves; it tells nobody why; and its threads all wake up for each connection. Here a connection that is one too
 * many gets a short 503 and is closed, and those that are open notice nothing.
 */
#include <microhttpd.h>
#include <stdbool.h>

#include "net/connections.h"
#include "util/problem.h"

#define ACCEPTOR_PORTS 2

/* A listening socket, which the acceptor closes, and who serves its connections. */
struct acceptor_port {
    int fd;
    struct MHD_Daemon *daemon;
    bool admin;
    bool tls; /* nothing can be said to those that are refused */
};

struct acceptor;
struct server;

/* Starts the thread. On failure the sockets remain the caller's. */
bool acceptor_start(struct server *server, const struct acceptor_port *ports, unsigned count,
                    struct acceptor **ret_acceptor, struct problem *problem);

/* Any thread: nobody can connect any more, except to the admin port. Returns when that is so. */
void acceptor_quiesce(struct acceptor *acceptor);

/* Ends the thread and closes what is left; NULL is allowed. */
void acceptor_stop(struct acceptor *acceptor);
