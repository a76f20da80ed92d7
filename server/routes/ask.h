#pragma once
/*
 * ask - a request that one errand of a worker answers, about a sharding or a model.
 *
 *   ask_begin()   the headers: what is accepted, the body's type
 *   ask_worker()  and the two after it: hand the body to a worker as it came, suspend, and send what the worker wrote
 *
 * Whether the body is JSON at all is found out in the worker, where neither its size in memory nor a defect can harm
 * the daemon.
 */
#include "http/request.h"
#include "store/store.h"

struct beside;
struct errand_file;

/* What a route asks; static. */
struct ask {
    const char *kind;  /* of the errand */
    bool has_defaults; /* a request without a body makes sense */
    bool gives_model;  /* the annotated model too, to clients that prefer application/octet-stream */
};

/* A route's begin(): VERDICT_GO_ON, or an early refusal. */
enum verdict ask_begin(struct request *request, const struct ask *ask);
/* Refuses a client that accepts none of the answers; VERDICT_GO_ON otherwise. */
enum verdict ask_accepts(struct request *request, const struct ask *ask);

/* A route's finish(): about nothing but the body; about the stored model `request->id`; or about the model that the
   request has uploaded, which is forgotten afterwards (`body`, from malloc, is then what is asked; it is taken). */
enum verdict ask_worker(struct request *request, const struct ask *ask);
enum verdict ask_about_model(struct request *request, const struct ask *ask);
enum verdict ask_about_upload(struct request *request, const struct ask *ask, char *body);

/* About stored models, which this request sees; the request's body is what is asked. Ids and files are from malloc, and are
   taken. */
struct ask_models {
    char original[65];
    char (*ids)[65]; /* of the others */
    size_t count;
    struct errand_file *files; /* beside all of them, that the worker needs */
    size_t file_count;
};
enum verdict ask_about_models(struct request *request, const struct ask *ask, const struct ask_models *models);

/* A file that a worker makes of a plan that the request names. */
struct ask_file {
    const char *kind, *type; /* of the errand, and of the answer; static */
    const struct plan_row *plan;
};

/* `body`, from malloc, says what to make, for the worker, and `beside` what lies beside the model; both are taken. */
enum verdict ask_for_file(struct request *request, const struct ask_file *file, char *body, struct beside *beside);
