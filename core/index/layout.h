#pragma once
/*
 * layout - how an index lies in its file: a head, then the tables one behind the other, each from a multiple of 8 on.
 *
 * Tables are the arrays of index.h as they are in memory; the head says how large their entries are, so that a file of
 * another machine or version is not read. A file is made where it is read.
 *
 * An index was called a sheet once. What others store or read keeps that name: the magic number, the file plan.sheet
 * beside a plan, the kind "sheet" of a worker's errand, and the codes and limits of errors.
 */
#include <string.h>

#include "index/index.h"

#define SP_INDEX_MAGIC   "shardsht"
#define SP_INDEX_VERSION 2

enum sp_table_place {
    SP_TABLE_NODES,
    SP_TABLE_TENSORS,
    SP_TABLE_COLLECTIVES,
    SP_TABLE_FINDINGS,
    SP_TABLE_STAGES,
    SP_TABLE_SLICES,
    SP_TABLE_POINTS,
    SP_TABLE_ALIVE,
    SP_TABLE_OPERANDS,
    SP_TABLE_CONSUMERS,
    SP_TABLE_NUMBERS,
    SP_TABLE_TEXTS,
    SP_TABLE_SUMMARY,
    SP_TABLE_LINE,
    SP_TABLE_TABLES
};

struct sp_index_head {
    char magic[8];
    uint32_t version, requests;
    double latency_seconds, interval_seconds;
    uint64_t plan_size;
    uint64_t counts[SP_TABLE_TABLES]; /* entries; bytes of texts, summary and line */
    uint32_t sizes[SP_TABLE_TABLES];  /* of one entry */
    uint32_t shares_devices;
};

static const uint32_t index_sizes[SP_TABLE_TABLES] = {
    [SP_TABLE_NODES] = sizeof(struct sp_index_node),
    [SP_TABLE_TENSORS] = sizeof(struct sp_index_tensor),
    [SP_TABLE_COLLECTIVES] = sizeof(struct sp_index_collective),
    [SP_TABLE_FINDINGS] = sizeof(struct sp_index_finding),
    [SP_TABLE_STAGES] = sizeof(struct sp_index_stage),
    [SP_TABLE_SLICES] = sizeof(struct sp_index_slice),
    [SP_TABLE_POINTS] = sizeof(struct sp_index_point),
    [SP_TABLE_ALIVE] = sizeof(struct sp_index_alive),
    [SP_TABLE_OPERANDS] = sizeof(uint32_t),
    [SP_TABLE_CONSUMERS] = sizeof(uint32_t),
    [SP_TABLE_NUMBERS] = sizeof(uint32_t),
    [SP_TABLE_TEXTS] = 1,
    [SP_TABLE_SUMMARY] = 1,
    [SP_TABLE_LINE] = 1,
};

/* Bytes that follow a table of so many, up to the next one. */
static inline uint64_t sp_index_gap(uint64_t size)
{
    return -size % 8;
}
