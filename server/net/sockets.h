#pragma once
/* sockets - what the daemon listens on: its own sockets, or one that the service manager has made (sd_listen_fds). */
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "config/config.h"
#include "util/problem.h"

#define SOCKETS_TEXT_SIZE 96

/*
 * At the very start, before anything is opened or run: the descriptors that the service manager has passed are kept
 * from child processes, and the variables that speak of them are removed. Returns their number.
 */
unsigned sockets_take_passed(void);

/* The first of them when it is a listening stream socket, else -1 with a problem. */
int sockets_passed(struct problem *problem);

/* A new listening socket; `option` is named in problems. -1 with a problem. */
int sockets_listen(const struct config_address *address, const char *option, struct problem *problem);

/* Where a socket listens, as the beginning of a URL ("http://127.0.0.1:8080"). *ret_local: only this machine reaches
   it. */
void sockets_describe(int fd, bool tls, char ret_text[SOCKETS_TEXT_SIZE], bool *ret_local);

/* Both families, and IPv4 written as IPv6, as 16 bytes; an IPv6 network of 64 bits counts as one address. False for
   sockets of no network. *ret_local: the address is of this machine. */
bool sockets_peer(const struct sockaddr *address, unsigned char ret_key[16], bool *ret_local);
