#pragma once
/*
 * layout - how a sheet lies in its file: a head, then the tables one behind the other, each from a multiple of 8 on.
 *
 * Tables are the arrays of sheet.h as they are in memory; the head says how large their entries are, so that a file of
 * another machine or version is not read. A file is made where it is read.
 */
#include <string.h>

#include "sheet/sheet.h"

#define SP_SHEET_MAGIC   "shardsht"
#define SP_SHEET_VERSION 1

enum sheet_table {
    SHEET_NODES,
    SHEET_TENSORS,
    SHEET_COLLECTIVES,
    SHEET_FINDINGS,
    SHEET_STAGES,
    SHEET_SLICES,
    SHEET_MOMENTS,
    SHEET_ALIVE,
    SHEET_OPERANDS,
    SHEET_CONSUMERS,
    SHEET_TEXTS,
    SHEET_SUMMARY,
    SHEET_LINE,
    SHEET_TABLES
};

struct sheet_head {
    char magic[8];
    uint32_t version, requests;
    double latency_seconds, interval_seconds;
    uint64_t plan_size;
    uint64_t counts[SHEET_TABLES]; /* entries; bytes of texts, summary and line */
    uint32_t sizes[SHEET_TABLES];  /* of one entry */
    uint32_t padding;
};

static const uint32_t sheet_sizes[SHEET_TABLES] = {
    [SHEET_NODES] = sizeof(struct sp_sheet_node),
    [SHEET_TENSORS] = sizeof(struct sp_sheet_tensor),
    [SHEET_COLLECTIVES] = sizeof(struct sp_sheet_collective),
    [SHEET_FINDINGS] = sizeof(struct sp_sheet_finding),
    [SHEET_STAGES] = sizeof(struct sp_sheet_stage),
    [SHEET_SLICES] = sizeof(struct sp_sheet_slice),
    [SHEET_MOMENTS] = sizeof(struct sp_sheet_moment),
    [SHEET_ALIVE] = sizeof(struct sp_sheet_alive),
    [SHEET_OPERANDS] = sizeof(uint32_t),
    [SHEET_CONSUMERS] = sizeof(uint32_t),
    [SHEET_TEXTS] = 1,
    [SHEET_SUMMARY] = 1,
    [SHEET_LINE] = 1,
};

/* Bytes that follow a table of so many, up to the next one. */
static inline uint64_t sheet_gap(uint64_t size)
{
    return -size % 8;
}
