#pragma once
/*
 * slices - a part of a finished plan, answered from its index.
 *
 *   slice_answer()   parameters -> the plan in the store -> 304, or its index: kept, read, or made by a worker
 *                    (the request is suspended meanwhile) -> JSON
 *
 * A route says how its parameters are read and how its answer is written; the rest is the same for all of them. A slice
 * of a finished plan never changes, so its ETag is made of what is asked, and a client that has it is answered without
 * the index.
 */
#include "http/request.h"
#include "index/graph.h"
#include "index/rows.h"
#include "index/timeline.h"
#include "store/store.h"

#define SLICE_HASH_SIZE 33

/* A plan that has a result, and its index. */
struct sliced {
    const char *id; /* NULL: no plan is asked for */
    struct plan_row row;
    bool has_row;
    const struct sp_index *index;
};

/* A page of a table. */
struct slice_page {
    struct sp_index_rows_query query;
    int size;
    int64_t skip;
    char list[SLICE_HASH_SIZE]; /* what its tokens belong to */
};

/* What is asked for. Texts are those of the request. */
union slice_query {
    struct sp_index_graph_query graph;
    struct sp_index_timeline_query timeline;
    struct {
        uint32_t stage, points;
    } memory;
    struct slice_page page;
};

struct slice_asked {
    const struct request *request;
    union slice_query query;
    struct sliced plan, other; /* `other` is another one that it is compared with */
};

/* What a route answers; static. */
struct slice {
    enum sp_index_table table; /* of a table */
    bool quotes_plan;          /* the answer has parts of plan.json */
    /* Reads the parameters; may set other.id. False with a problem. NULL: there are none. */
    bool (*read)(const struct slice *slice, struct slice_asked *asked, struct problem *problem);
    /* Reads what belongs to the plan, which has a row now; else as above. */
    bool (*read_page)(const struct slice *slice, struct slice_asked *asked, struct problem *problem);
    /* Writes the answer; the indexes are open. False with a problem, or when the buffer fails. */
    bool (*write)(const struct slice *slice, struct slice_asked *asked, struct sp_buf *buf, struct problem *problem);
};

enum verdict slice_answer(struct request *request, const struct slice *slice);

/* A hash of plans, route, version and parameters, page_size and page_token left out when `of_list`. False without
   memory. */
bool slice_hash(const struct slice_asked *asked, bool of_list, char ret[SLICE_HASH_SIZE]);

/* A seed for tables of names: these come from strangers, who must not know which of them meet. */
uint64_t slice_seed(void);

/* ---- parameters: what is not there leaves *ret as it is. False with a problem that names the parameter. ---- */

bool slice_number(const struct slice_asked *asked, const char *name, uint32_t least, uint32_t most, uint32_t *ret,
                  struct problem *problem);
bool slice_seconds(const struct slice_asked *asked, const char *name, double *ret, struct problem *problem);
/* One of the words, separated by blanks; *ret is which of them. */
bool slice_word(const struct slice_asked *asked, const char *name, const char *words, int *ret,
                struct problem *problem);
