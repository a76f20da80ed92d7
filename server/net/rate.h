#pragma once
/* rate - how far a connection has come, as the kernel counts it: below TLS, chunks and the buffers of the library. */
#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes that have come in, or that the peer has acknowledged. False where there is nothing to wait for: no bytes on
 * their way out, or a socket of another kind than TCP.
 */
bool rate_progress(int fd, bool incoming, uint64_t *ret_bytes);
