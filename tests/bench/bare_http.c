/*
 * bare_http PORT BYTES FOLDER: the least that the HTTP library can do, as a peer for the daemon in tests/bench/load.
 *
 * GET answers BYTES constant bytes. POST hashes the body with SHA-256 while it writes it to a file in FOLDER, answers
 * the hash, and removes the file. Threads and memory of a connection are the daemon's; epoll is the library's best.
 */
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server_limits.h"

struct upload {
    gnutls_hash_hd_t hash;
    int fd;
};

static const char *folder;
static struct MHD_Response *answer;

static struct upload *begin_upload(void)
{
    struct upload *upload = calloc(1, sizeof *upload);
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/bare-XXXXXX", folder);
    if (upload == NULL || gnutls_hash_init(&upload->hash, GNUTLS_DIG_SHA256) != 0 || (upload->fd = mkstemp(path)) < 0)
        abort();
    (void)unlink(path);
    return upload;
}

static enum MHD_Result end_upload(struct MHD_Connection *connection, struct upload *upload)
{
    unsigned char digest[32];
    gnutls_hash_deinit(upload->hash, digest);
    (void)close(upload->fd);
    free(upload);
    struct MHD_Response *response = MHD_create_response_from_buffer(sizeof digest, digest, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_CREATED, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *bytes, size_t *size, void **state)
{
    static int seen;
    (void)context;
    (void)url;
    (void)version;
    bool is_post = strcmp(method, "POST") == 0;
    if (*state == NULL) {
        *state = is_post ? (void *)begin_upload() : &seen;
        return MHD_YES;
    }
    if (!is_post)
        return MHD_queue_response(connection, MHD_HTTP_OK, answer);
    struct upload *upload = *state;
    if (*size == 0)
        return end_upload(connection, upload);
    if (gnutls_hash(upload->hash, bytes, *size) != 0 || write(upload->fd, bytes, *size) != (ssize_t)*size)
        abort();
    *size = 0;
    return MHD_YES;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fputs("usage: bare_http PORT BYTES FOLDER\n", stderr);
        return 2;
    }
    size_t size = strtoul(argv[2], NULL, 10);
    char *text = malloc(size + 1);
    folder = argv[3];
    if (text == NULL)
        return 1;
    memset(text, 'x', size);
    answer = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    (void)MHD_add_response_header(answer, "Content-Type", "application/json");
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, (uint16_t)strtoul(argv[1], NULL, 10), NULL, NULL, handle, NULL,
                         MHD_OPTION_THREAD_POOL_SIZE, SPD_HTTP_THREADS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)SPD_CONNECTION_BYTES, MHD_OPTION_END);
    if (daemon == NULL)
        return 1;
    (void)puts("serving");
    (void)fflush(stdout);
    for (;;)
        (void)pause();
}
