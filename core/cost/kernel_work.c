#include "cost/kernel_work.h"

#include "cost/kernels/kernel_role.h"
#include "ops/table/traffic.h"

#define MOST_STEPS 32 /* operators before and behind a cache that are looked at */

/* ---- caches ----------------------------------------------------------------------------------------------------- */

/* What keeps the elements of its input 0, in another shape, order or type, or repeats them. */
static bool is_moved_only(const struct sp_node *node)
{
    return node->op != NULL && node->output_count > 0 && node->outputs[0] != NULL &&
           ((node->op->flags & (SP_OP_VIEW | SP_OP_PERMUTES)) != 0 || sp_node_is(node, "Expand") ||
            sp_node_is(node, "Cast"));
}

static bool is_looked_at(const struct sp_use *use)
{
    return use->node->op != NULL && (use->node->op->flags & SP_OP_METADATA) != 0;
}

/* The one use that reads the value; NULL: there are none, or several. */
static const struct sp_use *only_reader(const struct sp_value *value)
{
    const struct sp_use *reader = NULL;
    for (uint32_t u = 0; u < value->use_count; u++) {
        if (is_looked_at(&value->uses[u]))
            continue;
        if (reader != NULL)
            return NULL;
        reader = &value->uses[u];
    }
    return reader;
}

/* An input of the model, or another view of one, that is read on the way to the node alone. */
static bool is_own_input(const struct sp_value *value)
{
    for (uint32_t step = 0; step < MOST_STEPS && value != NULL && !value->is_graph_output; step++) {
        if (only_reader(value) == NULL)
            return false;
        if (value->producer == NULL)
            return value->kind == SP_VALUE_INPUT && value->tensor == NULL;
        if (value->producer->op == NULL || (value->producer->op->flags & SP_OP_VIEW) == 0)
            return false;
        value = value->producer->inputs[0];
    }
    return false;
}

/* A view of it is a result of the model. */
static bool is_shown(const struct sp_use *use)
{
    const struct sp_node *node = use->node;
    return use->input == 0 && node->op != NULL && (node->op->flags & SP_OP_VIEW) != 0 && node->output_count > 0 &&
           node->outputs[0] != NULL && node->outputs[0]->is_graph_output;
}

/* Keys or values of an attention operator, or the second operand of a product of two values that are computed. */
static bool attends(const struct sp_use *use)
{
    const struct sp_node *node = use->node;
    if (node->op == NULL)
        return false;
    if ((node->op->flags & SP_OP_ATTENDS) != 0)
        return use->input == 1 || use->input == 2;
    return sp_node_is(node, "MatMul") && use->input == 1 && node->inputs[0] != NULL && !node->inputs[0]->is_constant &&
           !node->inputs[1]->is_constant;
}

/* Whether it is a result of the model, as it is or under another shape, or goes to where attention reads it. */
static bool is_kept_or_attended(const struct sp_value *from)
{
    const struct sp_value *list[MOST_STEPS] = {from};
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t u = 0; u < list[i]->use_count; u++) {
            const struct sp_use *use = &list[i]->uses[u];
            if (attends(use) || is_shown(use))
                return true;
            if (use->input == 0 && count < MOST_STEPS && is_moved_only(use->node))
                list[count++] = use->node->outputs[0];
        }
    }
    return false;
}

bool sp_cache_is_own(const struct sp_node *node, uint32_t input, uint32_t output)
{
    const struct sp_value *past = node->inputs[input], *present = node->outputs[output];
    return past != NULL && present != NULL && past->type.dtype == present->type.dtype && is_own_input(past) &&
           (present->is_graph_output || is_kept_or_attended(present));
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

static double bytes_of(const struct sp_value *value)
{
    const int64_t bytes = value == NULL ? 0 : sp_value_stored_bytes(value);
    return bytes > 0 ? (double)bytes : 0;
}

static double share_of(const struct sp_kernel_part *part, uint32_t operand)
{
    return part->shares != NULL ? part->shares[operand] : 1;
}

static double output_bytes(const struct sp_kernel_part *part, bool is_local)
{
    double sum = 0;
    for (uint32_t o = 0; o < part->node->output_count; o++)
        sum += bytes_of(part->node->outputs[o]) * (is_local ? share_of(part, part->rule->input_count + o) : 1);
    return sum;
}

/* Inputs that are copied into the outputs that continue them: bits of the first 64. */
static uint64_t copied_inputs(const struct sp_kernel_part *part)
{
    uint64_t copied = 0;
    for (uint32_t o = 0; o < part->rule->output_count; o++) {
        const uint32_t past = part->rule->outputs[o].past_of;
        if (past != 0 && past <= 64 && (part->caches == SP_CACHES_APART || !sp_cache_is_own(part->node, past - 1, o)))
            copied |= UINT64_C(1) << (past - 1);
    }
    return copied;
}

/* An operand that the kernel's operators hand to each other. */
static bool stays_inside(const struct sp_kernel_part *part, uint32_t input)
{
    return part->kernel != NULL && input < SP_KERNEL_MAX_INPUTS && (part->kernel->inside >> input & 1) != 0;
}

/* Keys that are the values, too, are read once: attention on latent vectors. */
static bool is_read_before(const struct sp_kernel_part *part, uint32_t input)
{
    const struct sp_node *node = part->node;
    return input == 2 && (node->op->flags & SP_OP_ATTENDS) != 0 && node->inputs[2] != NULL &&
           node->inputs[2] == node->inputs[1] && share_of(part, 2) <= share_of(part, 1);
}

static double moved_bytes(const struct sp_kernel_part *part)
{
    const struct sp_rule *rule = part->rule;
    const uint64_t copied = copied_inputs(part);
    double sum = 0;
    for (uint32_t i = 0; i < rule->input_count; i++) {
        if (stays_inside(part, i) || is_read_before(part, i))
            continue;
        const bool is_copied = i < 64 && (copied >> i & 1) != 0;
        sum += bytes_of(part->node->inputs[i]) * share_of(part, i) *
               (is_copied ? 1 : sp_operand_share(rule, &rule->inputs[i], part->shards));
    }
    for (uint32_t o = part->kernel != NULL && part->kernel->keeps_output ? 1 : 0; o < rule->output_count; o++) {
        const uint32_t past = rule->outputs[o].past_of;
        const bool is_copied = past != 0 && past <= 64 && (copied >> (past - 1) & 1) != 0;
        sum += bytes_of(part->node->outputs[o]) * share_of(part, rule->input_count + o) *
               (is_copied ? 1 : sp_operand_share(rule, &rule->outputs[o], part->shards));
    }
    return sum;
}

/* Elements of the last axes of a product's operand: extent `from_end` of them, of what a device has. */
static double local_extent(const struct sp_kernel_part *part, uint32_t input, uint32_t from_end)
{
    const struct sp_operand_rule *operand = &part->rule->inputs[input];
    double extent = 1;
    for (uint32_t i = 0; operand->rank >= from_end && i < operand->axes[operand->rank - from_end].count; i++) {
        const uint32_t f = operand->axes[operand->rank - from_end].factors[i];
        const struct sp_dim whole = part->rule->factors[f].extent;
        extent *=
            sp_dim_is_known(whole) ? (double)whole.value / (part->shards != NULL ? (double)part->shards[f] : 1) : 1;
    }
    return extent;
}

/*
 * Of an attention written out as products: [.., queries, size] x [.., size, keys], and [.., queries, keys] x [.., keys,
 * size]. Nodes between them have no kernel of their own, and their arithmetic is a small part of it.
 */
static void classify_written_out(const struct sp_kernel_part *part, bool is_product, struct sp_kernel_work *work)
{
    struct sp_attention_shape *shape = &work->attention;
    work->kind = SP_KERNEL_OTHER;
    if (!is_product || part->rule->input_count < 2 || part->rule->inputs[0].rank < 2 || part->rule->inputs[1].rank < 2)
        return;
    const bool makes_scores = !part->kernel->pays_no_start;
    const double queries = local_extent(part, 0, 2), keys = local_extent(part, 1, makes_scores ? 1 : 2);
    const double size = local_extent(part, 1, makes_scores ? 2 : 1);
    const struct sp_value *value = part->node->inputs[1];
    const struct sp_shape *whole = &part->node->inputs[0]->type.shape;
    const struct sp_dim asked = whole->has_rank && whole->rank > 1 ? whole->dims[whole->rank - 2] : sp_dim_unknown();
    const double elements = bytes_of(value) * share_of(part, 1) * 8 / sp_dtype_bits(value->type.dtype);
    *shape = (struct sp_attention_shape){.batch = 1, .queries = queries, .keys = keys, .size = size / 2};
    shape->kv_heads = elements / (keys * size);
    shape->heads = work->flops / (2 * queries * keys * size);
    work->kind = sp_dim_is_known(asked) && asked.value == 1 ? SP_KERNEL_DECODE : SP_KERNEL_PREFILL;
}

static enum sp_kernel_class product_kind(const struct sp_rule *rule)
{
    switch (sp_rule_windows(rule)) {
    case SP_RULE_DENSE_WINDOWS:
        return SP_KERNEL_CONVOLUTION;
    case SP_RULE_GROUPED_WINDOWS:
        return SP_KERNEL_GROUPED_CONVOLUTION;
    case SP_RULE_NO_WINDOWS:
        break;
    }
    return SP_KERNEL_PRODUCT;
}

static void classify(const struct sp_kernel_part *part, struct sp_kernel_work *work)
{
    const bool is_product = sp_rule_is_product(part->rule);
    if (part->kernel != NULL && part->kernel->is_in_attention) {
        classify_written_out(part, is_product, work);
        return;
    }
    if (part->rule->attention == NULL) {
        const bool goes_by_rows =
            (part->kernel != NULL && part->kernel->goes_by_rows) || sp_kernel_goes_by_rows(part->node, part->rule);
        work->kind = is_product ? product_kind(part->rule) : goes_by_rows ? SP_KERNEL_NORM : SP_KERNEL_OTHER;
        return;
    }
    const struct sp_attention_part own = sp_attention_part(part->rule, part->shards);
    work->attention = (struct sp_attention_shape){.batch = own.batch,
                                                  .heads = own.heads,
                                                  .kv_heads = own.kv_heads,
                                                  .queries = own.queries,
                                                  .keys = own.keys * own.seen,
                                                  .size = own.size};
    work->kind = sp_attention_part(part->rule, NULL).queries > 1 ? SP_KERNEL_PREFILL : SP_KERNEL_DECODE;
}

/* A pass that quantises activations: what it reads, and what it writes in the narrow type. */
static struct sp_kernel_work narrowing_work(const struct sp_kernel_part *part)
{
    const struct sp_value *wide = part->node->inputs[0];
    const double read = bytes_of(wide) * share_of(part, 0), elements = read * 8 / sp_dtype_bits(wide->type.dtype);
    return (struct sp_kernel_work){.bytes = read + elements * sp_dtype_bits(part->node->outputs[0]->type.dtype) / 8,
                                   .kind = SP_KERNEL_NARROWING,
                                   .rows = elements / local_extent(part, 0, 1)};
}

struct sp_kernel_work sp_kernel_work_of(const struct sp_kernel_part *part)
{
    if (part->kernel != NULL && part->kernel->narrows)
        return narrowing_work(part);
    const struct sp_op *op = part->node->op;
    const struct sp_value *first = part->node->output_count > 0 ? part->node->outputs[0] : NULL;
    struct sp_kernel_work work = {.flops = sp_rule_flops(part->rule, part->shards),
                                  .permutes = (op->flags & SP_OP_PERMUTES) != 0};
    const int64_t elements = first == NULL ? 0 : sp_shape_estimate(&first->type.shape);
    if (part->rule->bytes >= 0) { /* traffic that a rule states itself goes with what the node makes */
        const double whole = output_bytes(part, false);
        work.bytes = part->rule->bytes * (whole > 0 ? output_bytes(part, true) / whole : 1);
    } else {
        work.bytes = moved_bytes(part);
    }
    work.bytes += part->kept_bytes;
    if ((op->flags & SP_OP_FUNCTION) != 0 && elements > 0)
        work.functions = (double)elements * share_of(part, part->rule->input_count);
    work.pays_no_start = part->kernel != NULL && part->kernel->pays_no_start;
    if (part->rule->kernels != NULL && first != NULL) {
        work.more_starts = part->rule->kernels->count - 1;
        work.bytes += sp_rule_passed(part->rule, part->shards) * sp_dtype_bits(first->type.dtype) / 8;
    }
    classify(part, &work);
    return work;
}
