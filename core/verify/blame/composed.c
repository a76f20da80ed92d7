/* What operators of the original compute on the way to their results. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

struct listener {
    struct sp_recognised *known;
    bool is_full; /* less is known then */
};

static void hear(void *context, const struct sp_numbers *x)
{
    struct listener *listener = context;
    struct sp_recognised *known = listener->known;
    if (!sp_is_variable(x) || (uint64_t)known->good.count + x->count > SP_MAX_RECOGNISED_NUMBERS)
        return;
    for (uint64_t i = 0; !listener->is_full && i < x->count; i++) {
        const uint64_t field = x->items[i].field;
        if (field == 0 || !sp_field_is_finite(field))
            continue;
        struct sp_hash_slot *slot = sp_hash_map_put(&known->good, field);
        listener->is_full = slot == NULL;
        if (slot != NULL)
            slot->number = 1;
    }
}

/* Whether an operator is a chain of simpler ones. Products without a bias are none, and cost the most. */
static bool is_composed(const struct sp_node *node)
{
    static const char *const single[] = {"Add", "Div", "Einsum", "MatMul", "Mul", "Sub", NULL};
    const char *const *name = single;
    while (*name != NULL && strcmp(*name, node->op_type) != 0)
        name++;
    return *name == NULL && node->body == NULL && !sp_evaluate_is_movement(node) &&
           (node->input_count > 2 || (strcmp(node->op_type, "Conv") != 0 && strcmp(node->op_type, "Gemm") != 0));
}

enum sp_status sp_blame_add_steps(struct sp_verification *all, struct sp_recognised *known, struct sp_error *err)
{
    struct listener listener = {.known = known};
    const struct sp_verify_run *run = &all->original;
    for (uint32_t n = 0; !listener.is_full && n < run->order_count; n++) {
        struct sp_node *node = run->order[n];
        const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
        struct sp_error ignored = {0};
        struct sp_call call = {.arena = all->scratch,
                               .model = run->model,
                               .node = node,
                               .version = node->version > 0 ? node->version : sp_graph_opset(node->graph, node->domain),
                               .in_count = node->input_count,
                               .out_count = node->output_count,
                               .in = SP_NEW_ARRAY(all->scratch, node->input_count, const struct sp_numbers *),
                               .out = SP_NEW_ARRAY(all->scratch, node->output_count, struct sp_numbers *),
                               .sets = &all->sets,
                               .err = &ignored,
                               .tell_step = hear,
                               .listener = &listener};
        bool is_there = is_composed(node) && call.in != NULL && call.out != NULL;
        for (uint32_t i = 0; is_there && i < node->input_count; i++) {
            const struct sp_outcome *outcome = node->inputs[i] != NULL ? sp_run_outcome(run, node->inputs[i]) : NULL;
            is_there = node->inputs[i] == NULL || (outcome != NULL && outcome->numbers != NULL);
            call.in[i] = outcome != NULL ? outcome->numbers : NULL;
        }
        const enum sp_status status = is_there ? sp_evaluate_node(&call) : SP_OK;
        sp_arena_rewind(all->scratch, mark);
        if (status == SP_ERR_MEMORY)
            return sp_fail_memory(err);
    }
    return SP_OK;
}
