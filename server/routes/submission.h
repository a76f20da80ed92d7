#pragma once
/*
 * submission - what POST /v1/plans asks for, brought into one canonical form, whichever way it came:
 * {"cluster" or "sweep","objective","options"}, of a plan that follows another one also "from": {"plan": ID, "attempt": N,
 * "horizon_seconds", "map"}. It is checked here, so that a wrong one is refused at once, and stored
 * with the plan for the worker.
 */
#include <jansson.h>

#include "http/request.h"
#include "store/store.h"

struct submission {
    json_t *request; /* while it is read and checked; NULL once it is settled */
    char *canonical; /* its text, members sorted: a tree takes up to 70 times as much, and waiting takes long */
    char url[SPD_MAX_SOURCE_URL + 1]; /* from where the model is fetched, "" */
    char model[65];                   /* "": the model is the body, or that of the plan that it follows */
    char from[STORE_ID_SIZE];         /* "": it follows none */
    char plan[STORE_ID_SIZE];
    enum plan_priority priority;
    bool anew;          /* Cache-Control: no-cache: an equal plan that is there does not answer */
    bool validate_only; /* nothing is to be made */
    bool reused;        /* a plan that was there answers */
    unsigned rounds;    /* how often it was submitted: again when somebody deleted the plan before the answer */
    uint64_t until_ms;  /* how long the client waits for the plan */
};

/* The state of the request from now on; NULL without memory. */
struct submission *submission_create(struct request *request);

/* From a JSON body, and from the query of a request whose body is the model. False with a problem. */
bool submission_from_body(const struct request *request, struct submission *submission, struct problem *problem);
bool submission_from_query(const struct request *request, struct submission *submission, struct problem *problem);

/* Nothing is added to it from now on: its canonical text is kept instead of the tree. False with a problem. */
bool submission_settle(struct submission *submission, struct problem *problem);
/* It is refused: what it holds is given back before the client has read why. */
void submission_drop(struct submission *submission);

/* The parameters "dims", "values", "shapes" and "operators", JSON each, as members of `json`. False with a problem. */
bool submission_add_sizes(const struct request *request, json_t *json, struct problem *problem);

const char *submission_priority_name(enum plan_priority priority); /* "low", "normal", "high" */
