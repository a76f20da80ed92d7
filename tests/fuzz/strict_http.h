#pragma once
/*
 * strict_http - a reader of requests as RFC 9112 has them, and no others: what a careful proxy would find in bytes.
 *
 * It stops at the first request that breaks a rule, is incomplete in its head, or has a body in chunks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRICT_MAX_REQUESTS 64

struct strict_request {
    char method[64], target[9000]; /* cut when longer */
    bool has_length, chunked;
    uint64_t length;
};

/* The requests whose heads are complete, at most `most`. */
unsigned strict_read(const uint8_t *bytes, size_t size, struct strict_request *ret_requests, unsigned most);
