#pragma once
/*
 * write_internal - what the sources share that write the file of a sheet.
 *
 * The tables are made in memory, in the order tensors, nodes, stages, findings; the texts are gathered meanwhile. What
 * fails is remembered in `status`, and nothing is done after it.
 */
#include "base/intern.h"
#include "plan/course.h"
#include "plan/internal.h"
#include "sheet/layout.h"
#include "sheet/write.h"

/* Collectives of one kind. */
struct writing_total {
    const char *kind;
    uint32_t count;
    double bytes, seconds;
    struct writing_total *next;
};

struct writing {
    const struct sp_sheet_source *source;
    const struct sp_plan *plan;
    struct sp_arena *arena, *scratch;
    struct sp_intern *texts; /* in the order of their offsets */
    uint64_t text_size;
    uint32_t *tensor_of;  /* a work tensor's number in the sheet, or SP_SHEET_NONE */
    uint32_t *tensors_in; /* and the work tensor of each */
    uint64_t counts[SHEET_TABLES];
    uint64_t capacities[SHEET_TABLES];
    void *tables[SHEET_TABLES]; /* those with entries; texts, summary and line have none */
    struct sp_buf summary, line;
    struct writing_total *totals;        /* of all kinds that there are */
    uint32_t split_tensors, tensor_rows; /* tensors that are split, and that have an entry in the plan's JSON */
    enum sp_status status;
    struct sp_error *err;
};

/* A finite number that is not negative: what is none, as an interval of 0 seconds has no throughput, is 0. */
double writing_number(double value);

/* The offset of a text; SP_SHEET_NONE for NULL. */
uint32_t writing_text(struct writing *writing, const char *text);

/* So many more entries of a table, zeroed, in a row; NULL after a failure. */
void *writing_add(struct writing *writing, enum sheet_table table, uint64_t count);

/* ---- write_tables.c ---- */

void writing_tensors(struct writing *writing);
void writing_nodes(struct writing *writing);
void writing_findings(struct writing *writing);

/* ---- write_stages.c: stages, collectives, slices, moments, alive ---- */

void writing_stages(struct writing *writing);

/* ---- write_summary.c ---- */

void writing_summary(struct writing *writing);
void writing_line(struct writing *writing);
