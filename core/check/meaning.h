#pragma once
/*
 * meaning - what the parts of the check of meaning share; private to core/check.
 *
 *   meaning.c          one configuration: specs completed forward, then each part
 *   meaning_nodes.c    each node seen through its rule: contradictions
 *   meaning_communication.c   what devices send each other
 *   meaning_stages.c   pipeline stages along edges
 *   meaning_states.c   what a loop hands from step to step
 *   meaning_memory.c   what each device must hold at least
 *   meaning_codes.c    the table
 */
#include "check/check.h"
#include "infer/view/view.h"

struct sp_meaning {
    struct sp_model *model;
    struct sp_assignment *assignment;
    struct sp_diagnostics *list;
    struct sp_arena *scratch; /* rewound after each node */
    struct sp_error *err;
    const char *configuration;
    double memory_bytes; /* per device, 0: not known */
};

/* Adds a finding of this configuration. */
__attribute__((format(printf, 7, 8))) enum sp_status sp_meaning_report(struct sp_meaning *meaning, const char *code,
                                                                       const struct sp_node *node, const char *tensor,
                                                                       const char *hint, double bytes,
                                                                       const char *format, ...);

enum sp_status sp_check_meaning_nodes(struct sp_meaning *meaning);
enum sp_status sp_check_meaning_communication(struct sp_meaning *meaning);
enum sp_status sp_check_meaning_stages(struct sp_meaning *meaning);
enum sp_status sp_check_meaning_states(struct sp_meaning *meaning);
enum sp_status sp_check_meaning_memory(struct sp_meaning *meaning);

/* Whether something is said of this operand, here or where its tensor was made. */
static inline bool sp_meaning_is_said(const struct sp_spec_entry *entry)
{
    return entry->sharding != NULL && entry->origin != SP_SPEC_NONE && entry->origin != SP_SPEC_ASSUMED;
}

/* "1.5 MB". */
const char *sp_meaning_bytes(double bytes, char *text, size_t size);
