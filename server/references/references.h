#pragma once
/*
 * references - models that are submitted by their address, and the files beside them.
 *
 *   reference_open() --reference_fetch_model()--> its upload --reference_fetch_files()--> theirs --> reference_close()
 *
 * What is fetched are complete uploads by parts, which whoever makes a model of them takes; those that nobody has taken go
 * with the reference. A file beside a model is looked for in the folder of the model's address, under the location that
 * the model says; one that the tenant has beside this model already is not fetched again.
 *
 * Threads of this module wait for the network. One tenant has at most SPD_FETCHES_AT_ONCE of them; of the tenants that
 * wait the one that has fewest is next, and of those the one that came first. Any thread may call.
 */
#include <stdbool.h>
#include <stddef.h>

#include "auth/principal.h"
#include "http/request.h"
#include "server_limits.h"
#include "store/store.h"
#include "util/problem.h"

struct references;
struct server;

/* *ret_references is NULL where --model-sources is empty. False with a problem. */
bool references_create(struct server *server, struct references **ret_references, struct problem *problem);
void references_stop(struct references *references);    /* what is fetched ends with 503 STOPPING */
bool references_quiet(struct references *references);   /* nothing waits or runs */
void references_destroy(struct references *references); /* NULL is allowed, of these three */

struct reference {
    /* To read when a fetch is done. */
    struct problem problem;   /* of the last one; status 0: none */
    struct upload_row upload; /* of the model; id "": none, or taken */
    size_t file_count;
    struct reference_file {
        char *location;
        struct upload_row upload; /* id "": taken */
    } * files;

    /* The module's. */
    struct references *references;
    struct server *server;
    char tenant[SPD_MAX_PRINCIPAL + 1], url[SPD_MAX_SOURCE_URL + 1];
    struct reference *next; /* that waits */
    const char *inspection, *model;
    void (*done)(void *context);
    void *context;

    enum verdict (*fetched)(struct request *request); /* the caller's: what follows */
};

/* NULL with a problem: the tenant may not fetch this (sources.h), has too much under way (429), no memory. */
struct reference *reference_open(struct server *server, const char *tenant, const char *url, struct problem *problem);

/* Fetches the model; `done` is called by another thread. */
void reference_fetch_model(struct reference *reference, void (*done)(void *context), void *context);

/* Fetches the files that its inspection (a file) says, beside the model of this id. */
void reference_fetch_files(struct reference *reference, const char *inspection, const char *model,
                           void (*done)(void *context), void *context);

/* Removes the uploads that nobody has taken, so that they count no more when the client reads the answer. NULL is
   allowed. */
void reference_drop(struct reference *reference);

void reference_close(struct reference *reference); /* nothing is fetched; NULL is allowed */
