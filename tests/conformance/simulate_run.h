#pragma once
/* simulate_run - all ways of splitting a small model, as simulations and lines of the list. */
#include "simulate.h"
#include "simulate_variant.h"

#define SIMULATE_MAX_PAIRS 65536

/* What survives the process that does the work: it is started again behind a case that it dies of. */
struct simulate_progress {
    unsigned subject; /* the one at work, counted from 1 */
    bool is_done;
    unsigned runs, failures;
    unsigned ways, further_ways, share_ways;    /* of splitting that came up */
    char case_name[160], op_name[80], run[256]; /* at work */
    uint32_t pair_count;
    uint64_t pairs[SIMULATE_MAX_PAIRS]; /* that were simulated */
};

struct simulate_program {
    char folder[MAX_PATH];
    FILE *list;
    const char *only, *only_case;
    const char *pairs; /* "all", "none", or "some": two factors of such a node, with these ranks and attributes, once */
    unsigned every;    /* of so many ways of splitting one is written */
    unsigned further;  /* the same of ways behind a factor's first, and of models of several nodes */
    unsigned shares;   /* the same of ways in shards of unequal size; 0: none */
    unsigned subject;  /* counted from 1 */
    unsigned first;    /* subjects before it are done */
    struct simulate_progress *progress;
};

struct simulate_subject {
    const char *case_name;
    char name[160];      /* of the variant of the case */
    char op_name[80];    /* "com.microsoft.Gelu", "MatMul" */
    char path[MAX_PATH]; /* of the model, which is the original */
    json_t *inputs;      /* members of a line: what is fed and expected (simulate.mjs) */
    struct sp_error *err;
    struct simulate_case opened;
};

/* "com.microsoft.Gelu". */
void simulate_op_name(const struct sp_node *node, char *name, size_t size);

/* A line that says why a case is not simulated. */
void simulate_skip(struct simulate_program *program, const struct simulate_subject *subject, const char *why);

/* The subject's model is open. Of its only node each factor and each two. */
void simulate_node(struct simulate_program *program, struct simulate_subject *subject);

/* Of a model of any nodes: each axis of each input, and what propagation makes of it; and random ways. */
void simulate_graph(struct simulate_program *program, struct simulate_subject *subject);
