#pragma once
/*
 * client - requests to a daemon, and what its answers mean for a command.
 *
 * One request at a time. A body is sent from memory or streamed from the input's file; an answer is kept in memory (a
 * ceiling applies) or streamed into an output. Redirects are not followed. Only http and https are spoken.
 */
#include "cli.h"

struct client;

struct call {
    const char *method;         /* "GET", "HEAD", "POST" */
    const char *path;           /* behind the server's URL, starts with '/' */
    const char *accept;         /* or NULL: JSON */
    const char *prefer;         /* or NULL */
    const char *type;           /* of the body */
    const struct sp_buf *body;  /* or NULL */
    const struct input *upload; /* or NULL */
    struct output *download;    /* where a 200's body goes, or NULL: into the answer */
    struct progress *progress;  /* drawn while a body is sent; its time limit ends the call */
};

struct answer {
    long status;
    struct sp_buf body;
};

enum sp_status client_open(const char *url, struct client **ret_client, struct sp_error *err);
void client_close(struct client *client); /* NULL is allowed */

/* Makes the call. SP_OK means that there is an answer, whatever its status; the caller releases its body, always. */
enum sp_status client_call(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err);

/* The error that an answer of another status than 2xx stands for. */
enum sp_status client_problem(struct client *client, const struct answer *answer, struct sp_error *err);

/* A call that must succeed: another status than 2xx is the error that it stands for. */
enum sp_status client_ask(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err);

/* The model on the server; its bytes are sent only when it is not there yet. (remote.c) */
enum sp_status client_ensure_model(struct client *client, struct input *input, struct progress *progress,
                                   struct sp_error *err);

/* Streams what is at a route into a file; "-" is standard output. (remote_export.c) */
enum sp_status client_download(struct client *client, const char *route, const char *path, struct sp_error *err);

/* The files of a finished plan, but for its JSON, into a folder that is there. (remote_export.c) */
enum sp_status client_emit(struct client *client, const char *id, const char *sha256, const char *folder,
                           struct sp_error *err);

/* An answer on standard output; JSON ends with a line break there, text has its own. (remote.c) */
enum sp_status client_print(const struct common *common, const char *text, size_t size, struct sp_error *err);

/* The same for a problem object inside an answer (the "error" of a failed plan). */
enum sp_status client_problem_text(struct client *client, long status, const char *text, size_t size,
                                   struct sp_error *err);

/* The bytes of a member of a JSON object, without parsing the rest of it into memory: plans are large. False when the
   text is no object or has no such member. */
bool json_member(const char *text, size_t size, const char *name, const char **ret_value, size_t *ret_size);

/* The same where the value must be a string without escapes; copied and cut to `size`. */
bool json_member_word(const char *text, size_t text_size, const char *name, char *word, size_t size);
double json_member_number(const char *text, size_t size, const char *name);
