#include <string.h>

#include "verify/programs.h"

static const char *const verdicts[] = {[SP_PROVED] = "proved", [SP_REFUTED] = "refuted", [SP_UNDECIDED] = "undecided"};

static void put_text(struct sp_json *json, const char *name, const char *text)
{
    sp_json_member_string(json, name, text); /* null for NULL */
}

static void put_failure(struct sp_json *json, const struct sp_verify_failure *failure)
{
    char label[256];
    sp_json_begin_object(json);
    sp_json_member_string(json, "verdict", verdicts[failure->verdict]);
    const struct sp_verify_program *program = failure->run != NULL ? failure->run->program : NULL;
    sp_json_key(json, "rank");
    if (program != NULL)
        sp_json_int(json, program->device);
    else
        sp_json_null(json);
    put_text(json, "program", program != NULL ? program->name : NULL);
    put_text(json, "node", failure->node != NULL ? sp_node_label(failure->node, label, sizeof label) : NULL);
    put_text(json, "operator", failure->node != NULL ? failure->node->op_type : NULL);
    put_text(json, "output", failure->output);
    sp_json_member_string(json, "message", failure->message);
    put_text(json, "expected", failure->expected);
    put_text(json, "nearest", failure->nearest);
    sp_json_end_object(json);
}

static void put_exchange(struct sp_json *json, const struct sp_verify_exchange *exchange)
{
    const struct sp_node *node = exchange->nodes[0];
    char label[256];
    if (node->output_count == 0 || node->outputs[0] == NULL)
        return;
    const struct sp_outcome *outcome = sp_run_outcome(exchange->runs[0], node->outputs[0]);
    sp_json_begin_object(json);
    sp_json_member_int(json, "rank", exchange->runs[0]->program->device);
    sp_json_member_int(json, "part", exchange->runs[0]->program->part);
    sp_json_member_string(json, "collective", node->op_type);
    sp_json_member_string(json, "node", sp_node_label(node, label, sizeof label));
    sp_json_member_string(json, "tensor", node->outputs[0]->name);
    put_text(json, "of", outcome != NULL && outcome->of != NULL ? outcome->of->name : NULL);
    sp_json_end_object(json);
}

/* What names a node comes before what an output shows. */
static bool is_cause(const struct sp_verify_failure *failure)
{
    return failure->output == NULL;
}

void sp_verification_json(const struct sp_verification *all, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_string(json, "verdict", verdicts[all->verdict]);
    sp_json_member_int(json, "programs", all->run_count);
    sp_json_member_string(json, "indices", all->sets.is_used ? "some" : "all");
    sp_json_member_int(json, "nodes", (int64_t)all->nodes);
    sp_json_member_int(json, "compared_elements", (int64_t)all->compared);
    sp_json_key(json, "reasons");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < all->exchanges.count; i++)
        put_exchange(json, &all->exchanges.items[i]);
    sp_json_end_array(json);
    sp_json_key(json, "failures");
    sp_json_begin_array(json);
    for (int causes = 1; causes >= 0; causes--) {
        for (uint32_t i = 0; i < all->failures.count; i++) {
            if (is_cause(&all->failures.items[i]) == (causes == 1))
                put_failure(json, &all->failures.items[i]);
        }
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

uint64_t sp_verification_nodes(const struct sp_verification *verification)
{
    return verification->nodes;
}

uint64_t sp_verification_elements(const struct sp_verification *verification)
{
    return verification->compared;
}

uint32_t sp_verification_failures(const struct sp_verification *verification)
{
    return verification->failures.count;
}

const char *sp_verification_failure(const struct sp_verification *verification, uint32_t i, struct sp_arena *arena)
{
    const struct sp_verify_failure *failure = &verification->failures.items[i];
    char label[256];
    if (failure->node != NULL)
        return sp_arena_printf(arena, "Node %s: %s", sp_node_label(failure->node, label, sizeof label),
                               failure->message);
    if (failure->output != NULL)
        return sp_arena_printf(arena, "Output '%s': %s", failure->output, failure->message);
    return sp_arena_printf(arena, "%s", failure->message);
}

static void put_failure_text(struct sp_buf *buf, const struct sp_verify_failure *failure)
{
    char label[256];
    sp_buf_printf(buf, "\n%s", verdicts[failure->verdict]);
    if (failure->run != NULL && failure->run->program != NULL)
        sp_buf_printf(buf, ", rank %lld (%s)", (long long)failure->run->program->device, failure->run->program->name);
    if (failure->node != NULL)
        sp_buf_printf(buf, ", node %s", sp_node_label(failure->node, label, sizeof label));
    if (failure->output != NULL)
        sp_buf_printf(buf, ", output '%s'", failure->output);
    sp_buf_printf(buf, "\n  %s\n", failure->message);
    if (failure->expected != NULL)
        sp_buf_printf(buf, "  expected: %s\n", failure->expected);
    if (failure->nearest != NULL)
        sp_buf_printf(buf, "  found:    %s\n", failure->nearest);
}

void sp_verification_text(const struct sp_verification *all, struct sp_buf *buf)
{
    static const char *const sentences[] = {
        [SP_PROVED] = "Proved: the models compute what the original computes, up to the order of sums.",
        [SP_REFUTED] = "Refuted: the models do not compute what the original computes.",
        [SP_UNDECIDED] = "Undecided: the models could not be proved to compute what the original computes."};
    sp_buf_printf(buf, "%s\n%u models, %llu nodes and %u collectives evaluated, %llu elements compared\n",
                  sentences[all->verdict], all->run_count, (unsigned long long)all->nodes, all->exchanges.count,
                  (unsigned long long)all->compared);
    for (int causes = 1; causes >= 0; causes--) {
        for (uint32_t i = 0; i < all->failures.count; i++) {
            if (is_cause(&all->failures.items[i]) == (causes == 1))
                put_failure_text(buf, &all->failures.items[i]);
        }
    }
}
