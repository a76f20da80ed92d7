#pragma once
/*
 * client - requests to a daemon, and what its answers mean for a command.
 *
 * One request at a time. A body is sent from memory or streamed from the input's file; an answer is kept in memory (a
 * ceiling applies) or streamed into an output. Redirects are not followed. Only http and https are spoken.
 *
 * Every call may be made twice without harm (a submission has a key for that), so one that a broken connection ended is
 * made once more, and one that the server put off (429, or 503 with Retry-After) is made again after the time that it
 * says, some times and not for longer than people wait.
 *
 * A token is read when the client is opened and forgotten when it is closed. It goes into one header of requests to the
 * given server and nowhere else.
 */
#include "cli.h"

struct client;

/* Takes a piece of a 200's body; false ends the call. */
typedef bool (*client_take)(void *context, const char *bytes, size_t size);

struct call {
    const char *method;         /* "GET", "HEAD", "POST", "PATCH", "DELETE" */
    const char *path;           /* behind the server's URL, starts with '/' */
    const char *accept;         /* or NULL: JSON */
    const char *prefer;         /* or NULL */
    const char *type;           /* of the body */
    const char *idempotency;    /* the key of a submission, or NULL */
    const char *last_event;     /* the last one of a stream that was seen, or NULL */
    const struct sp_buf *body;  /* or NULL */
    const struct input *upload; /* or NULL */
    bool is_part;               /* of an upload by parts: what follows `offset` in the file */
    uint64_t offset;
    struct output *download;   /* where a 200's body goes, or NULL: into the answer */
    client_take take;          /* the same for a stream of events, or NULL; such a call is made once */
    void *context;             /* of take */
    struct progress *progress; /* drawn while a body is sent or a file comes; its time limit ends the call */
};

struct answer {
    long status;
    struct sp_buf body;
    long retry_after; /* seconds; 0: not said */
};

/* Reads the credentials. `common` must stay. */
enum sp_status client_open(const struct common *common, struct client **ret_client, struct sp_error *err);
void client_close(struct client *client); /* NULL is allowed */

/* Makes the call. SP_OK means that there is an answer, whatever its status; the caller releases its body, always. */
enum sp_status client_call(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err);

/* The error that an answer of another status than 2xx stands for. */
enum sp_status client_problem(struct client *client, const struct answer *answer, struct sp_error *err);

/* A call that must succeed: another status than 2xx is the error that it stands for. */
enum sp_status client_ask(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err);

/* The model on the server; its bytes are sent only when it is not there yet. `name` NULL is the file's. *ret_new may be
   NULL. (remote.c) */
enum sp_status client_ensure_model(struct client *client, struct input *input, const char *name,
                                   struct progress *progress, bool *ret_new, struct sp_error *err);

/* The files beside the model that its weights lie in, as far as they are there and the server lacks them. (client_files.c) */
enum sp_status client_ensure_files(struct client *client, const struct input *input, struct progress *progress,
                                   struct sp_error *err);

/* ---- client_credentials.c ---- */

#define CLIENT_MAX_TOKEN 4096 /* bytes */

/* The token of the file or the environment, "" when there is none. A warning tells when it would travel in the open. */
enum sp_status client_read_token(const struct common *common, char ret_token[CLIENT_MAX_TOKEN + 1],
                                 struct sp_error *err);

/* ---- follow.c ---- */

/* Told of what happens to a plan: "progress" or "improved", with a JSON object. */
typedef void (*follow_tell)(void *context, const char *event, const char *data, size_t size);

struct follow {
    struct progress *progress; /* drawn */
    bool cancels;              /* an interrupt cancels the plan and takes what was found; a second one ends the call */
    follow_tell tell;          /* or NULL */
    void *context;
    bool was_cancelled; /* set: it did */
    int signal;         /* set: which signal the interrupt was */
};

/* Waits until a plan is finished: follows the server's events, or asks again and again where it has none. On success
   `answer` is the finished plan as JSON, succeeded or not; the caller releases its body, always. */
enum sp_status client_follow(struct client *client, const char *id, struct follow *follow, struct answer *answer,
                             struct sp_error *err);
/* What the state of a plan means: *ret_done, or the error of a failed one. */
enum sp_status client_judge(struct client *client, const struct answer *answer, bool *ret_done, struct sp_error *err);
/* Cancels a plan, whatever has been interrupted. */
enum sp_status client_cancel(struct client *client, const char *id, struct answer *answer, struct sp_error *err);

/* ---- listing.c ---- */

/* Takes an item of a list; false ends the walk. */
typedef bool (*list_take)(void *context, const json_t *item);

/* All items of a list ("models", "plans"), page after page; `filter` is a parameter like "state=queued", or NULL. */
enum sp_status client_list(struct client *client, const char *what, const char *filter, list_take take, void *context,
                           struct sp_error *err);
/* The whole id of what is named by it or by a prefix that no other has. `size` is that of `ret_id`. */
enum sp_status client_find(struct client *client, const char *what, const char *given, char *ret_id, size_t size,
                           struct sp_error *err);

/* Streams what is at a route into a file; "-" is standard output. (remote_export.c) */
enum sp_status client_download(struct client *client, const char *route, const char *path, struct sp_error *err);

/* A file of a plan, or the folder of its devices' models. (remote_export.c)
 */
enum sp_status client_export(struct client *client, const char *id, const struct remote_file *file,
                             struct sp_error *err);

/* The files of a finished plan, but for its JSON, into a folder that is there. (remote_export.c) */
enum sp_status client_emit(struct client *client, const char *id, const struct plan_request *request,
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
