#pragma once
/*
 * write_internal - what the sources share that write the file of an index.
 *
 * The tables are made in memory, in the order tensors, nodes, stages, findings; the texts are gathered meanwhile. What
 * fails is remembered in `status`, and nothing is done after it.
 */
#include "base/intern.h"
#include "index/layout.h"
#include "index/write.h"
#include "plan/explain/schedule.h"
#include "plan/internal.h"

/* Collectives of one kind. */
struct sp_writing_total {
    const char *kind;
    uint32_t count;
    double bytes, seconds;
    struct sp_writing_total *next;
};

struct sp_writing {
    const struct sp_index_source *source;
    const struct sp_plan *plan;
    struct sp_arena *arena, *scratch;
    struct sp_intern *texts; /* in the order of their offsets */
    uint64_t text_size;
    uint32_t *tensor_of;  /* a work tensor's number in the index, or SP_INDEX_NONE */
    uint32_t *tensors_in; /* and the work tensor of each */
    uint64_t counts[SP_TABLE_TABLES];
    uint64_t capacities[SP_TABLE_TABLES];
    void *tables[SP_TABLE_TABLES]; /* those with entries; texts, summary and line have none */
    struct sp_buf summary, line;
    struct sp_writing_total *totals;     /* of all kinds that there are */
    uint32_t split_tensors, tensor_rows; /* tensors that are split, and that have an entry in the plan's JSON */
    enum sp_status status;
    struct sp_error *err;
};

/* ---- write_entries.c ---- */

void sp_writing_fail(struct sp_writing *writing, enum sp_status status);

/* A finite number that is not negative: what is none, as an interval of 0 seconds has no throughput, is 0. */
double sp_writing_number(double value);

/* The offset of a text; SP_INDEX_NONE for NULL. */
uint32_t sp_writing_text(struct sp_writing *writing, const char *text);

/* So many more entries of a table, zeroed, in a row; NULL after a failure. */
void *sp_writing_add(struct sp_writing *writing, enum sp_table_place table, uint64_t count);

/* ---- write_tables.c ---- */

void sp_writing_tensors(struct sp_writing *writing);
void sp_writing_nodes(struct sp_writing *writing);
void sp_writing_findings(struct sp_writing *writing);

/* ---- write_stages.c: stages, collectives, slices, points, alive ---- */

void sp_writing_stages(struct sp_writing *writing);

/* ---- write_summary.c ---- */

void sp_writing_summary(struct sp_writing *writing);
void sp_writing_line(struct sp_writing *writing);
