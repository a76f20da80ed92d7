/* What is no part of the original, but of which something good comes: partial sums, and what else is on the way. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

bool sp_blame_reduces(const struct sp_node *node)
{
    const bool is_dist = strcmp(node->op_type, "DistCollective") == 0;
    const char *name = is_dist ? sp_node_string(node, "collective_operation", "") : node->op_type;
    return strstr(name, "Reduce") != NULL || strstr(name, "reduce") != NULL || strstr(name, "REDUCE") != NULL;
}

/* An operand and a result of a node: what is good of the result vouches for items of the operand. */
struct pair {
    const struct sp_numbers *in, *out;
    uint32_t untied; /* last axes along which items of both are not each other's: sums of products */
};

/* By axes of the same extent: an item of the operand is good where all of the result's with its indices
   are, other than zeros and infinities, which anything may have become. */
static bool vouch_by_axes(struct sp_recognised *known, struct sp_arena *scratch, struct pair pair)
{
    const struct sp_numbers *x = pair.in, *y = pair.out;
    struct sp_strides in = {.rank = x->rank, .tensors = 1}, out = {.rank = y->rank, .tensors = 1};
    const uint32_t rank = x->rank < y->rank ? x->rank : y->rank; /* axes that both have, from the last */
    uint64_t groups = 1;
    bool has_changed = false;
    for (uint32_t i = 0; i < x->rank; i++)
        in.counts[i] = x->axes[i].count;
    for (uint32_t i = 0; i < y->rank; i++)
        out.counts[i] = y->axes[i].count;
    for (uint32_t i = pair.untied; i < rank; i++) {
        const uint32_t a = x->rank - 1 - i, b = y->rank - 1 - i;
        if (!sp_index_equal(&x->axes[a], &y->axes[b]))
            continue;
        in.steps[0][a] = out.steps[0][b] = (int64_t)groups;
        groups *= x->axes[a].count;
    }
    enum { NONE, GOOD, BAD };
    unsigned char *groups_are = SP_NEW_ARRAY(scratch, groups, unsigned char);
    for (uint64_t i = 0; groups_are != NULL && i < y->count; i++, sp_strides_step(&out)) {
        const uint64_t field = y->items[i].field;
        unsigned char *group = &groups_are[out.index[0]];
        if (!sp_blame_is_good_number(known, field))
            *group = BAD;
        else if (*group == NONE && field != 0 && sp_field_is_finite(field))
            *group = GOOD;
    }
    for (uint64_t i = 0; groups_are != NULL && i < x->count; i++, sp_strides_step(&in)) {
        if (groups_are[in.index[0]] != GOOD || sp_blame_is_good_number(known, x->items[i].field))
            continue;
        struct sp_hash_slot *slot = sp_hash_map_put(&known->good, x->items[i].field);
        if (slot == NULL)
            return false; /* less is vouched for */
        slot->number = has_changed = true;
    }
    return has_changed;
}

static uint32_t untied_axes(const struct sp_node *node, uint32_t input)
{
    const char *name = node->op_type;
    if (strcmp(name, "MatMul") == 0 || strcmp(name, "Gemm") == 0 || strcmp(name, "FusedMatMul") == 0)
        return input == 0 ? 1 : 2;
    return strcmp(name, "Einsum") == 0 || strcmp(name, "Conv") == 0 || strcmp(name, "LSTM") == 0 ? UINT32_MAX : 0;
}

/* Whether a product takes some of its second operand times zero, as attention does with what a mask hides. */
static bool hides(const struct sp_verify_run *run, const struct sp_node *node, uint32_t input)
{
    const struct sp_outcome *first =
        input == 1 && strcmp(node->op_type, "MatMul") == 0 ? sp_variable_of(run, node->inputs[0]) : NULL;
    for (uint64_t i = 0; first != NULL && i < first->numbers->count; i++) {
        if (first->numbers->items[i].field == 0)
            return true;
    }
    return false;
}

/* Whether a result is one of several operands, and so says nothing of the others. */
static bool selects(const struct sp_node *node)
{
    static const char *const names[] = {"Max", "Min", "ReduceMax", "ReduceMin", "Where", NULL};
    const char *const *name = names;
    while (*name != NULL && strcmp(*name, node->op_type) != 0)
        name++;
    const char *how = sp_node_string(node, "reduce_op", "");
    return *name != NULL || strcmp(how, "max") == 0 || strcmp(how, "min") == 0 || strcmp(how, "MAX") == 0 ||
           strcmp(how, "MIN") == 0;
}

static bool vouch(struct sp_verification *all, struct sp_recognised *known, const struct sp_verify_run *run,
                  const struct sp_node *node, const struct sp_outcome *out)
{
    bool has_changed = false;
    for (uint32_t i = 0; out != NULL && !selects(node) && i < node->input_count; i++) {
        struct sp_outcome *in = sp_variable_of(run, node->inputs[i]);
        if (in == NULL || sp_blame_is_good(known, in) || hides(run, node, i))
            continue;
        /* a sum of what is in another order is the same: it vouches for nothing that has a name in the original */
        if (out->numbers->count < in->numbers->count && strncmp(node->op_type, "Reduce", 6) == 0 &&
            sp_original_value(all, node->inputs[i]->name) != NULL)
            continue;
        const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
        const struct pair pair = {in->numbers, out->numbers, untied_axes(node, i)};
        has_changed = vouch_by_axes(known, all->scratch, pair) || has_changed;
        sp_arena_rewind(all->scratch, mark);
    }
    return has_changed;
}

bool sp_blame_moves(const struct sp_node *node)
{
    return sp_is_collective(node) ? !sp_blame_reduces(node) : sp_evaluate_is_movement(node);
}

static bool vouch_in_exchange(struct sp_verification *all, struct sp_recognised *known,
                              const struct sp_verify_exchange *exchange)
{
    bool has_changed = false;
    for (uint32_t m = 0; m < exchange->member_count; m++) {
        const struct sp_node *node = exchange->nodes[m];
        const struct sp_outcome *out =
            node->output_count > 0 ? sp_variable_of(exchange->runs[m], node->outputs[0]) : NULL;
        for (uint32_t k = 0; k < exchange->member_count; k++) {
            has_changed =
                (!sp_blame_moves(node) && vouch(all, known, exchange->runs[k], exchange->nodes[k], out)) || has_changed;
        }
    }
    return has_changed;
}

#define MAX_PASSES 64

void sp_blame_vouch(struct sp_verification *all, struct sp_recognised *known)
{
    bool has_changed = true;
    for (uint32_t pass = 0; has_changed && pass < MAX_PASSES; pass++) {
        has_changed = false;
        for (uint32_t i = all->exchanges.count; i-- > 0;)
            has_changed = vouch_in_exchange(all, known, &all->exchanges.items[i]) || has_changed;
        for (uint32_t i = all->run_count; i-- > 0;) {
            struct sp_verify_run *run = &all->runs[i];
            for (uint32_t n = run->order_count; n-- > 0;) {
                const struct sp_node *node = run->order[n];
                for (uint32_t k = 0; !sp_is_collective(node) && k < node->output_count; k++) {
                    const struct sp_outcome *out = sp_variable_of(run, node->outputs[k]);
                    has_changed = (!sp_blame_moves(node) && vouch(all, known, run, node, out)) || has_changed;
                }
            }
        }
    }
}
