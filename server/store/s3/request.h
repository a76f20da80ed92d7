#pragma once
/*
 * request - one HTTP request to S3 or STS, signed by libcurl, sent once.
 *
 * Signatures are SigV4 of libcurl (CURLOPT_AWS_SIGV4). Up to libcurl 8 it hashes no body and sorts no query, so every
 * request brings `x-amz-content-sha256`, and callers give queries with their parameters sorted, each with '=', values
 * percent-encoded in upper case. Keys consist of letters, digits and "-./_" and need no encoding.
 *
 * Nothing is followed, since a signature is for one host; nothing of the environment (proxies apart) and no .netrc is
 * read. A transfer that moves less than SPD_S3_LEAST_RATE bytes in a second for SPD_S3_SILENCE_SECONDS is given up, and
 * every one is once *stop is true.
 */
#include <curl/curl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "server_limits.h"

#define S3_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* What signs a request. Whoever has one wipes it. */
struct s3_keys {
    char id[SPD_MAX_S3_KEY + 1], secret[SPD_MAX_S3_KEY + 1];
    char token[SPD_MAX_S3_TOKEN + 1]; /* of a session, "" for none */
};

struct s3_request {
    const char *method, *url;
    const struct s3_keys *keys; /* NULL: not signed */
    const char *signing;        /* "aws:amz:REGION:s3" */
    const char *sha256;         /* of the body, in hexadecimal digits, or UNSIGNED-PAYLOAD */
    const char *headers[4];     /* more of them, ended by NULL when there are fewer */

    const char *text; /* the body, or NULL: */
    int file;         /* a descriptor, from which `size` bytes at `offset` are the body; -1: there is no body */
    uint64_t offset, size;
    bool is_slow; /* the server works long before it answers */
    bool is_near; /* it is on this host or link: no proxy is asked */

    /* Gets the body of an answer 200 or 206; NULL: that is collected as the text of others is. False ends it. */
    bool (*take)(void *context, int status, const void *bytes, size_t size);
    void *context;
};

struct s3_answer {
    CURLcode result; /* of the transfer; the rest is said by the server when this is CURLE_OK */
    int status;
    char etag[128];     /* with its quotation marks, "" */
    int64_t length;     /* Content-Length, -1 */
    struct sp_buf body; /* text, at most SPD_MAX_S3_ANSWER bytes; the caller releases it */
};

/* Sends it with this handle, which keeps its connection. */
void s3_send(CURL *curl, const struct s3_request *request, const atomic_bool *stop, struct s3_answer *ret_answer);
