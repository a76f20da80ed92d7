#pragma once
/*
 * rows - the tables of a plan, a page at a time: which rows match, in which order.
 *
 * Rows of tensors, collectives and findings are told by their numbers: their entries stand in the plan's JSON
 * (struct sp_index_row), which the caller quotes. Nodes have no entries of their own there: sp_index_write_node() makes
 * one.
 */
#include "base/json_writer.h"
#include "index/index.h"

#define SP_INDEX_MOST_ROWS     500
#define SP_INDEX_MOST_OPERANDS 1000 /* inputs of a node that are named, and as many outputs; the names are exact */

enum sp_index_table { SP_INDEX_NODES, SP_INDEX_TENSORS, SP_INDEX_COLLECTIVES, SP_INDEX_FINDINGS };

enum sp_index_order {
    SP_INDEX_BY_INDEX,
    SP_INDEX_BY_NAME,
    SP_INDEX_BY_SECONDS,
    SP_INDEX_BY_FLOPS,
    SP_INDEX_BY_BYTES,
    SP_INDEX_BY_BYTES_PER_DEVICE
};

/* What is not asked for is NULL, SP_INDEX_NONE or -1; what a table does not have must not be asked for.
   Texts are compared whole, `search` with any part, regardless of case (ASCII). */
struct sp_index_rows_query {
    enum sp_index_table table;
    const char *search, *name, *node, *tensor, *kind, *operator_type, *path, *severity, *code;
    uint32_t stage, index;
    int split; /* 0 or 1 */
    const struct sp_index *differs_from;
    enum sp_index_order order;
    bool descending;
    uint64_t skip;      /* rows of those that match */
    uint32_t limit;     /* 1 .. SP_INDEX_MOST_ROWS */
    uint64_t hash_seed; /* of tables of names, which come from strangers; no answer depends on it */
};

struct sp_index_rows {
    uint64_t total; /* that match */
    uint32_t count;
    uint32_t rows[SP_INDEX_MOST_ROWS];
    uint32_t others[SP_INDEX_MOST_ROWS]; /* with differs_from: the text there, of that index, or SP_INDEX_NONE */
};

/* Whether a table can be sorted so. */
bool sp_index_table_sorts(enum sp_index_table table, enum sp_index_order order);

/* SP_ERR_MEMORY; SP_ERR_REQUEST "NO_SUCH_MODULE" of a path. */
enum sp_status sp_index_rows(const struct sp_index *index, const struct sp_index_rows_query *query,
                             struct sp_index_rows *ret_rows, struct sp_error *err);

/* One node as an object; "more_operands" counts those that are not named. */
void sp_index_write_node(const struct sp_index *index, uint32_t node_number, struct sp_json *json);
/* The entry of a row in the plan's JSON. */
struct sp_index_row sp_index_entry(const struct sp_index *index, enum sp_index_table table, uint32_t row);
