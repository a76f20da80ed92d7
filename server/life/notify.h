#pragma once
/*
 * notify - tells a service manager how the daemon is, by the protocol of systemd's sd_notify(3).
 *
 * NOTIFY_SOCKET names a datagram socket; each message is lines of NAME=VALUE. Without it every call does nothing. The
 * variables are taken out of the environment, so that workers do not inherit them. Main thread only.
 */
#include <stdbool.h>
#include <stdint.h>

struct notify;

/* Looks into the environment. NULL where nobody wants to be told; every function takes that. */
struct notify *notify_create(void);
void notify_destroy(struct notify *notify);

void notify_ready(struct notify *notify);
void notify_reloading(struct notify *notify); /* until notify_ready() */
void notify_stopping(struct notify *notify);

/* One line about what the daemon does, for people; sent when it changed. */
__attribute__((format(printf, 2, 3))) void notify_status(struct notify *notify, const char *format, ...);

/* Several times a second, while everything is well: the manager restarts a daemon that it has not heard of for
   WATCHDOG_USEC. Sends at half of that time. */
void notify_alive(struct notify *notify, uint64_t now_ms);
