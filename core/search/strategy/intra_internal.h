#pragma once
/*
 * intra_internal - what the files of the intra-operator problem share.
 *
 * Nodes of the problem stand in this order: members (operators, each for all equal ones of repeated blocks), hubs,
 * shadows (the same strategies as another node, whose memory is used at other times).
 */
#include "search/strategy/intra.h"
#include "search/strategy/strategy_internal.h"

#define SP_INTRA_NONE UINT32_MAX

/* An operator of the problem. */
struct sp_intra_member {
    const struct sp_strategies *strategies;
    uint32_t node;  /* work node of the first entry that it stands for */
    uint32_t entry; /* that entry */
    uint32_t times; /* entries that it stands for */
    uint32_t slots; /* of groups: its outputs, then its inputs, then what graphs inside it use by name */
};

/* Tensors in corresponding places of the blocks: what one operator makes in each of them, or takes from outside. */
struct sp_intra_group {
    uint32_t tensor;       /* the first of them; SP_INTRA_NONE: there is none */
    uint32_t producer;     /* member, or SP_INTRA_NONE: they come from outside of the stage */
    uint32_t output;       /* which output of it */
    uint32_t tensor_count; /* in the stage */
    uint32_t most_uses;    /* of one of them */
    uint32_t first_use, use_count;
    uint32_t hub;            /* or SP_INTRA_NONE */
    bool is_weight, is_free; /* `is_free`: a model input or a weight, which costs no time in any layout */
};

/* A use of a group's tensors by a member. */
struct sp_intra_operand_use {
    uint32_t group, member;
    uint32_t operand; /* UINT32_MAX: by a graph inside it */
    uint32_t tensor;
    uint32_t times;    /* how many of these uses there are in the stage */
    uint32_t position; /* entry of the user */
};

struct sp_intra_hub {
    uint32_t group, layout_count;
    const uint32_t *layouts; /* interned: equal lists are one */
};

struct sp_intra_shadow {
    uint32_t of;              /* the node of the problem that it follows */
    const uint32_t *strategy; /* of the shadow, for each strategy of that node */
};

/* One stretch of time in which a node of the problem uses memory. */
struct sp_intra_stretch {
    uint32_t node;
    int64_t begin, end;
    const int64_t *usage; /* per strategy of the node */
};

struct sp_intra_edges {
    uint32_t count, capacity;
    struct sp_choice_edge *items;
};

struct sp_intra {
    struct sp_strategy_table *table;
    struct sp_arena *arena;
    uint32_t entry_count, member_count, group_count, use_count, hub_count, shadow_count;
    const uint32_t *nodes; /* per entry: its work node */
    uint32_t *member_of;   /* per entry */
    uint32_t *first_group; /* per member: of its slots */
    uint32_t *position_of; /* per work node: its entry, or SP_INTRA_NONE; only while the problem is made */
    uint32_t *group_of;    /* per tensor, likewise */
    struct sp_intra_member *members;
    struct sp_intra_group *groups;
    struct sp_intra_operand_use *uses; /* by group */
    struct sp_intra_hub *hubs;
    struct sp_intra_shadow *shadows;
    struct sp_intra_edges edges;
    int64_t **member_cost; /* per member, per strategy */
    struct sp_hash_map matrices, lists;
    struct sp_choice_problem problem;
};

/* What the making of a problem needs beside it. */
struct sp_intra_maker {
    struct sp_intra *intra;
    const struct sp_intra_options *options;
    struct sp_arena *scratch;
    struct sp_error *err;
};

/* SP_ERR_MEMORY, said so that an analyser sees that it is no success. */
static inline enum sp_status sp_intra_no_memory(struct sp_error *err)
{
    (void)sp_fail_memory(err);
    return SP_ERR_MEMORY;
}

/* intra_node.c: seconds as a cost, and how many strategies a node of the problem has. */
int64_t sp_intra_cost(double seconds);
uint32_t sp_intra_strategy_count(const struct sp_intra *intra, uint32_t node);

/* The layout that an operand of a member has under a strategy. */
static inline uint32_t sp_intra_layout(const struct sp_strategies *strategies, uint32_t strategy, uint32_t operand)
{
    return operand == UINT32_MAX ? 0 : strategies->items[strategy].layouts[operand];
}

/* intra_edges.c: hubs, and edges between members and hubs. */
enum sp_status sp_intra_connect(struct sp_intra_maker *maker);
enum sp_status sp_intra_add_edge(struct sp_intra_maker *maker, uint32_t u, uint32_t v, const int64_t *cost);

/* intra_memory.c: when and how much memory the nodes of the problem use; *ret_count stretches, by node. */
enum sp_status sp_intra_memory(struct sp_intra_maker *maker, uint32_t *ret_count,
                               struct sp_intra_stretch **ret_stretches);
