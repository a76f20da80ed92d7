#pragma once
/*
 * diagnostic - what a check finds: stable codes, each explained once in a table, and findings that name the place.
 *
 * The table is the reference: api/diagnostics.md is generated from it, and no finding exists without an entry. Each
 * module of check/ has its array of codes beside its code; codes.c lists the arrays, as ops/table/table.c lists families.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "graph/model.h"

enum sp_severity { SP_SEVERITY_NOTE = 0, SP_SEVERITY_WARNING, SP_SEVERITY_ERROR };

const char *sp_severity_name(enum sp_severity severity); /* "note", "warning", "error" */

struct sp_diagnostic_code {
    const char *code; /* [A-Z][A-Z0-9_]+, stable */
    enum sp_severity severity;
    const char *meaning; /* what it means: one or two full sentences */
    const char *remedy;  /* what to do: a full sentence; the hint of findings that have none of their own */
    const char *source;  /* "ONNX proposal 0006", "docs/IR.md, ..", "onnx.proto, ShardingSpecProto" */
};

extern const struct sp_diagnostic_code sp_codes_model[];       /* graph.c: what onnx.checker checks */
extern const struct sp_diagnostic_code sp_codes_annotations[]; /* annotations.c: structure of multi-device data */
extern const struct sp_diagnostic_code sp_codes_meaning[];     /* meaning.c: shardings against the rules */
extern const struct sp_diagnostic_code sp_codes_foreign[];     /* foreign.c: shardings of other programs */
extern const struct sp_diagnostic_code sp_codes_placed[];      /* core/import: files that place nodes */

/* The entry, or NULL. */
const struct sp_diagnostic_code *sp_diagnostic_find(const char *code);
/* All entries of all arrays, in order; *ret_count of them. */
const struct sp_diagnostic_code *const *sp_diagnostic_all(uint32_t *ret_count);

struct sp_diagnostic {
    const struct sp_diagnostic_code *code;
    enum sp_severity severity;  /* the code's, unless the place makes it milder */
    const char *message;        /* a full sentence that names both sides of a contradiction */
    const char *hint;           /* what to do here */
    const struct sp_node *node; /* or NULL */
    const char *place;          /* node path over graphs: "main/If_3.then_branch/Add 'x'"; or NULL */
    const char *tensor;         /* or NULL */
    const char *configuration;  /* or NULL */
    double bytes;               /* of implied communication, or -1 */
};

#define SP_MAX_DIAGNOSTICS 10000 /* of one check; beyond it they are only counted */

struct sp_diagnostics {
    struct sp_arena *arena; /* of items and texts; all else is 0 at first */
    uint32_t count, capacity;
    struct sp_diagnostic *items;
    uint64_t errors, warnings, notes; /* all, also beyond the limit */
};

/* What a finding is about; zeroes for what is not known. */
struct sp_finding {
    const char *code; /* of the table: an unknown code is SP_ERR_INTERNAL */
    const struct sp_node *node;
    const char *tensor, *configuration;
    const char *hint; /* NULL: the table's remedy */
    double bytes;     /* 0: none */
    /* Where no node is: the graph that the finding is about, or a place that is known as text; both may be NULL. */
    const struct sp_graph *graph;
    const char *place;
};

/* The path of a node over its graphs, or of a graph when `node` is NULL: "main/If_3.then_branch/Add 'x'"; an expanded
   call is "main/Gelu_2()/Erf_1", a function body that no call expanded "function Gelu/Erf_1". NULL without memory. */
const char *sp_diagnostic_place(struct sp_arena *arena, const struct sp_graph *graph, const struct sp_node *node);

/* Adds a finding with its message; SP_ERR_MEMORY and SP_ERR_INTERNAL are the only errors. Strings are copied. */
__attribute__((format(printf, 4, 5))) enum sp_status sp_diagnose(struct sp_diagnostics *list,
                                                                 const struct sp_finding *finding, struct sp_error *err,
                                                                 const char *format, ...);

/* The table as the page api/diagnostics.md. */
void sp_diagnostics_write_page(struct sp_buf *buf);
