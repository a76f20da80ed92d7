/*
 * Nodes of different kernels that share a start: products of one value, whose constants lie side by side, and what
 * prepares the operands of an attention. Rotations of queries and keys are one kernel, new keys and values are written
 * into the cache by one; heads that are put in front of positions, or back, are none.
 */
#include <string.h>

#include "cost/kernel_work.h"
#include "cost/kernels/kernels_internal.h"

#define MOST_STEPS 8 /* operators between a product and an attention */
#define MOST_BITS  8 /* of elements of narrow products */

/* ---- products beside each other ---------------------------------------------------------------------------------- */

const struct sp_value *sp_kernels_viewed(const struct sp_kernels_run *run, const struct sp_value *value)
{
    for (uint32_t step = 0; step < SP_KERNELS_MOST_SEARCHED; step++) {
        const struct sp_node *node = sp_kernels_maker(run, value);
        if (node == NULL || run->roles[node->index] != SP_ROLE_VIEW)
            break;
        value = node->inputs[0];
    }
    return value;
}

static struct sp_dim rows_of(const struct sp_value *value)
{
    const struct sp_shape *shape = &value->type.shape;
    return shape->has_rank && shape->rank == 2 ? shape->dims[0] : sp_dim_unknown();
}

/* A product of something that is computed by a constant of two axes. */
static bool is_by_constant(const struct sp_kernels_run *run, const struct sp_node *node)
{
    return run->roles[node->index] == SP_ROLE_PRODUCT && node->input_count > 1 && node->inputs[0] != NULL &&
           node->inputs[1] != NULL && !node->inputs[0]->is_constant && node->inputs[1]->is_constant &&
           sp_dim_is_known(rows_of(node->inputs[1]));
}

static bool is_beside(const struct sp_kernels_run *run, const struct sp_node *a, const struct sp_node *b)
{
    return a->op == b->op && sp_kernels_viewed(run, a->inputs[0]) == sp_kernels_viewed(run, b->inputs[0]) &&
           a->inputs[1]->type.dtype == b->inputs[1]->type.dtype &&
           rows_of(a->inputs[1]).value == rows_of(b->inputs[1]).value;
}

/* Of products of one value only the first has a start: their constants lie side by side. Those that are looked for are
   among the last SP_KERNELS_MOST_SEARCHED products. */
static void join_products(struct sp_kernels_run *run)
{
    uint32_t recent[SP_KERNELS_MOST_SEARCHED], count = 0;
    for (uint32_t n = 0; n < run->graph->node_count; n++) {
        const struct sp_node *node = &run->graph->nodes[n];
        if (!is_by_constant(run, node))
            continue;
        for (uint32_t i = count > SP_KERNELS_MOST_SEARCHED ? count - SP_KERNELS_MOST_SEARCHED : 0; i < count; i++)
            if (is_beside(run, node, &run->graph->nodes[recent[i % SP_KERNELS_MOST_SEARCHED]]))
                run->nodes[n].pays_no_start = true;
        recent[count++ % SP_KERNELS_MOST_SEARCHED] = n;
    }
}

/* ---- around attention -------------------------------------------------------------------------------------------- */

/* What lies on the ways to one attention: the first of its kind has the start of all. */
struct preparation {
    bool has_rotary, has_cache;
};

/* Takes what it reads in another order of its axes: attention reads these by strides. */
static bool is_turn(const struct sp_node *node)
{
    return node->op != NULL && (node->op->flags & SP_OP_PERMUTES) != 0 && sp_node_is(node, "Transpose");
}

static bool is_rotary(const struct sp_node *node)
{
    return strcmp(node->op_type, "RotaryEmbedding") == 0;
}

/* What is new of a cache, written behind what is there; what is there is the first operand. */
static bool is_cache_update(const struct sp_node *node)
{
    return sp_node_is(node, "Concat") && node->input_count == 2 && sp_cache_is_own(node, 0, 0);
}

static void free_turn(struct sp_node_kernel *of)
{
    of->inside |= 1;
    of->keeps_output = of->pays_no_start = true;
}

/* From an operand of attention towards the product that makes it. */
static void walk_back(struct sp_kernels_run *run, const struct sp_value *value, struct preparation *known)
{
    for (uint32_t step = 0; step < MOST_STEPS; step++) {
        const struct sp_node *node = sp_kernels_maker(run, value);
        bool *has = NULL;
        if (node == NULL)
            return;
        if (is_turn(node) && value->use_count == 1) {
            free_turn(&run->nodes[node->index]);
        } else if (is_rotary(node) || is_cache_update(node)) {
            has = is_rotary(node) ? &known->has_rotary : &known->has_cache;
            run->nodes[node->index].pays_no_start = run->nodes[node->index].pays_no_start || *has;
            *has = true;
        } else if (run->roles[node->index] != SP_ROLE_VIEW) {
            return;
        }
        value = node->inputs[has == &known->has_cache ? 1 : 0];
    }
}

/* From a result of attention to the product that takes it. */
static void walk_on(struct sp_kernels_run *run, const struct sp_value *value)
{
    for (uint32_t step = 0; step < MOST_STEPS && value != NULL && value->use_count == 1; step++) {
        const struct sp_node *user = value->uses[0].node;
        if (user->graph != run->graph || value->uses[0].input != 0 || user->output_count == 0 || value->is_graph_output)
            return;
        if (is_turn(user))
            free_turn(&run->nodes[user->index]);
        else if (run->roles[user->index] != SP_ROLE_VIEW)
            return;
        value = user->outputs[0];
    }
}

static void join_preparations(struct sp_kernels_run *run)
{
    for (uint32_t n = 0; n < run->graph->node_count; n++) {
        const struct sp_node *node = &run->graph->nodes[n];
        const uint32_t kernel = run->nodes[n].kernel;
        struct preparation known = {false, false};
        const bool is_whole = node->op != NULL && (node->op->flags & SP_OP_ATTENDS) != 0;
        const bool is_product = run->kernels[kernel].role == SP_ROLE_ATTENTION && run->roles[n] == SP_ROLE_PRODUCT;
        if (!is_whole && !is_product)
            continue;
        for (uint32_t i = 0; i < node->input_count && i < 3; i++)
            walk_back(run, node->inputs[i], &known);
        if (is_whole || n != kernel)
            walk_on(run, node->outputs[0]);
    }
}

/* ---- narrow products --------------------------------------------------------------------------------------------- */

/* What makes the activations writes them narrow as well: the last of a chain, an attention whose kernel does so, a
   product that takes anything behind it, or another kernel. Heads that attention hands on are turned back in its
   kernel. */
static bool is_made_narrow(const struct sp_kernels_run *run, const struct sp_value *value)
{
    const struct sp_node *node = sp_kernels_maker(run, value);
    for (uint32_t step = 0; step < MOST_STEPS && node != NULL && run->runtime->joins_attention && is_turn(node); step++)
        node = sp_kernels_maker(run, sp_kernels_viewed(run, node->inputs[0]));
    if (node == NULL)
        return false;
    const enum sp_kernel_role role = run->kernels[run->nodes[node->index].kernel].role;
    if (role == SP_ROLE_ATTENTION || (node->op != NULL && (node->op->flags & SP_OP_ATTENDS) != 0))
        return run->runtime->narrows_in_attention;
    if (role == SP_ROLE_PRODUCT || role == SP_ROLE_CONVOLUTION)
        return run->runtime->epilogue == SP_EPILOGUE_ANY;
    return run->runtime->joins_chains;
}

/* A product by a constant matrix takes what is quantised here, in at most 8 bits: what passes were measured of. */
static bool is_for_product(const struct sp_kernels_run *run, const struct sp_node *node)
{
    const struct sp_value *narrow = node->outputs[0];
    if (sp_dtype_bits(narrow->type.dtype) > MOST_BITS || narrow->use_count == 0 ||
        narrow->uses[0].node->output_count == 0)
        return false;
    const struct sp_value *wide = narrow->uses[0].node->outputs[0];
    return wide != NULL && wide->use_count > 0 && wide->uses[0].node->graph == run->graph &&
           is_by_constant(run, wide->uses[0].node);
}

/* Another node before this one quantises the same value for the same type. */
static bool is_narrow_already(const struct sp_kernels_run *run, const struct sp_node *node)
{
    const struct sp_value *value = node->inputs[0];
    for (uint32_t i = 0; i < value->use_count && i < SP_KERNELS_MOST_SEARCHED; i++) {
        const struct sp_node *other = value->uses[i].node;
        if (other->graph == run->graph && other->index < node->index && other->op == node->op &&
            value->uses[i].input == 0 && other->outputs[0] != NULL &&
            other->outputs[0]->type.dtype == node->outputs[0]->type.dtype)
            return true;
    }
    return false;
}

static void find_passes(struct sp_kernels_run *run)
{
    for (uint32_t n = 0; n < run->graph->node_count; n++) {
        const struct sp_node *node = &run->graph->nodes[n];
        if (run->roles[n] == SP_ROLE_VIEW && node->op != NULL && (node->op->flags & SP_OP_QUANTIZES) != 0)
            run->nodes[n].narrows = is_for_product(run, node) && !is_narrow_already(run, node) &&
                                    !is_made_narrow(run, sp_kernels_viewed(run, node->inputs[0]));
    }
}

void sp_kernels_join_starts(struct sp_kernels_run *run)
{
    if (run->runtime->joins_products)
        join_products(run);
    if (run->runtime->joins_attention)
        join_preparations(run);
    if (run->runtime->narrows_in_passes)
        find_passes(run);
}
