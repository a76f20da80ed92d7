#include "lowering_check.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/build_lowering.h"
#include "ops/lowering/recorder.h"

#define MOST_SHARDS 3
#define MOST_SEEN   4096
#define KEY_SIZE    160

struct lowering_check {
    unsigned nodes, splits, whole, seen_count;
    char seen[MOST_SEEN][KEY_SIZE]; /* operators and factors whose functions ran without memory */
};

/* One way of splitting one node. */
struct split {
    const char *name;
    struct build build;
    struct sp_node *node;
    const struct sp_rule *rule;
    uint8_t factor;
    int64_t shards;
    int64_t row; /* each row of so many indices is cut, as on a compound axis; 0: the factor as a whole */
    struct sp_lowering *lowered[MOST_SHARDS];
    bool is_right;
};

struct lowering_check *lowering_check_create(void)
{
    return calloc(1, sizeof(struct lowering_check));
}

void lowering_check_destroy(struct lowering_check *check)
{
    free(check);
}

void lowering_check_print(const struct lowering_check *check)
{
    printf("# lowerings: %u splits of %u nodes, %u of them with the factor whole; %u without memory\n", check->splits,
           check->nodes, check->whole, check->seen_count);
}

__attribute__((format(printf, 2, 3))) static void wrong(struct split *split, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("# %s, %s: factor %s in %" PRId64 "%s: %s\n", split->name, split->node->op_type,
           split->rule->factors[split->factor].name, split->shards, split->row > 0 ? " of each half" : "", text);
    split->is_right = false;
}

/* ---- one device ------------------------------------------------------------------------------------------------- */

/* The number of a piece, which its name ends in: that is how they are told apart. */
static uint64_t number_of(const struct sp_piece *piece)
{
    return strtoull(strrchr(piece->name, '.') + 1, NULL, 10);
}

static void use(struct split *split, const bool *is_made, uint64_t count, const struct sp_piece *piece)
{
    if (piece != NULL && (number_of(piece) >= count || !is_made[number_of(piece)]))
        wrong(split, "%s is used before it is made", piece->name);
}

static void make(struct split *split, bool *is_made, uint64_t count, const struct sp_piece *piece)
{
    if (piece == NULL)
        return;
    if (number_of(piece) >= count || is_made[number_of(piece)])
        wrong(split, "%s is made twice", piece->name);
    else
        is_made[number_of(piece)] = true;
}

static void check_order(struct split *split, const struct sp_lowering *lower)
{
    const struct sp_lower_recorder *recorder = lower->recorder;
    bool *is_made = calloc(*recorder->next + 1, sizeof *is_made);
    for (uint32_t i = 0; i < recorder->count; i++) {
        const struct sp_lower_event *event = &recorder->events[i];
        const bool is_collective = event->kind == SP_LOWER_ALL_REDUCE || event->kind == SP_LOWER_ALL_GATHER;
        for (uint32_t k = 0; event->kind == SP_LOWER_OP && k < event->op.input_count; k++)
            use(split, is_made, *recorder->next, event->op.inputs[k]);
        for (uint32_t k = 0; event->kind == SP_LOWER_OP && k < event->op.output_count; k++)
            make(split, is_made, *recorder->next, event->op.outputs[k]);
        if (is_collective)
            use(split, is_made, *recorder->next, event->collective.from);
        if (event->kind == SP_LOWER_OUTPUT)
            use(split, is_made, *recorder->next, event->piece);
        else if (event->kind != SP_LOWER_OP)
            make(split, is_made, *recorder->next, event->piece);
    }
    free(is_made);
}

/* The piece is of the output's type, and has the extents of its part as far as both are known. */
static void check_output(struct split *split, const struct sp_lowering *lower, const struct sp_lower_event *event)
{
    const struct sp_lower_operand *operand = &lower->outputs[event->output.index];
    const struct sp_type *type = &operand->value->type;
    const struct sp_piece *piece = event->piece;
    if (type->kind != SP_TYPE_TENSOR)
        return;
    if (type->dtype != SP_DTYPE_UNDEFINED && piece->dtype != type->dtype)
        wrong(split, "output %u is %s instead of %s", event->output.index, sp_dtype_name(piece->dtype),
              sp_dtype_name(type->dtype));
    if (piece->dims == NULL || !type->shape.has_rank)
        return;
    if (piece->rank != operand->rank) {
        wrong(split, "output %u has rank %u instead of %u", event->output.index, piece->rank, operand->rank);
        return;
    }
    for (uint32_t i = 0; i < piece->rank; i++) {
        const struct sp_lower_axis *axis = &operand->axes[i];
        const int64_t want = event->output.kind == SP_LOWER_WHOLE ? axis->extent : axis->size;
        if (want >= 0 && piece->dims[i] >= 0 && piece->dims[i] != want)
            wrong(split, "output %u has %" PRId64 " elements on axis %u instead of %" PRId64, event->output.index,
                  piece->dims[i], i, want);
    }
}

static void check_outputs(struct split *split, const struct sp_lowering *lower)
{
    for (uint32_t output = 0; output < lower->output_count; output++) {
        unsigned given = 0;
        for (uint32_t i = 0; i < lower->recorder->count; i++) {
            const struct sp_lower_event *event = &lower->recorder->events[i];
            if (event->kind != SP_LOWER_OUTPUT || event->output.index != output)
                continue;
            given++;
            check_output(split, lower, event);
        }
        if (given != (lower->outputs[output].value != NULL))
            wrong(split, "output %u is given %u times", output, given);
    }
}

/* ---- all devices ------------------------------------------------------------------------------------------------ */

static bool is_joint(const struct sp_lower_event *event)
{
    return event->kind != SP_LOWER_CONSTANT && event->kind != SP_LOWER_OP;
}

static const struct sp_lower_event *next_joint(const struct sp_lowering *lower, uint32_t *at)
{
    while (*at < lower->recorder->count && !is_joint(&lower->recorder->events[*at]))
        (*at)++;
    return *at < lower->recorder->count ? &lower->recorder->events[(*at)++] : NULL;
}

static bool same_factors(uint32_t count, const uint8_t *a, uint32_t other, const uint8_t *b)
{
    return count == other && (count == 0 || memcmp(a, b, count) == 0);
}

static bool same_extents(const struct sp_piece *a, const struct sp_piece *b, uint32_t except)
{
    if (a->dims == NULL || b->dims == NULL)
        return a->dims == b->dims;
    for (uint32_t i = 0; i < a->rank && a->rank == b->rank; i++)
        if (i != except && a->dims[i] != b->dims[i])
            return false;
    return a->rank == b->rank;
}

static bool is_same(const struct sp_lower_event *a, const struct sp_lower_event *b)
{
    if (a == NULL || b == NULL || a->kind != b->kind)
        return a == b;
    if (a->piece->dtype != b->piece->dtype)
        return false;
    switch (a->kind) {
    case SP_LOWER_INPUT:
        return a->input.index == b->input.index && a->input.is_part == b->input.is_part &&
               a->input.is_box == b->input.is_box;
    case SP_LOWER_ALL_REDUCE:
        return a->collective.combiner == b->collective.combiner && same_extents(a->piece, b->piece, UINT32_MAX) &&
               same_factors(a->collective.factor_count, a->collective.factors, b->collective.factor_count,
                            b->collective.factors);
    case SP_LOWER_ALL_GATHER:
        return a->collective.axis == b->collective.axis &&
               same_extents(a->collective.from, b->collective.from, a->collective.axis) &&
               same_factors(a->collective.factor_count, a->collective.factors, b->collective.factor_count,
                            b->collective.factors);
    case SP_LOWER_OUTPUT:
        return a->output.index == b->output.index && a->output.kind == b->output.kind &&
               a->output.combiner == b->output.combiner &&
               same_factors(a->output.factor_count, a->output.factors, b->output.factor_count, b->output.factors);
    case SP_LOWER_CONSTANT:
    case SP_LOWER_OP:
        break;
    }
    return true;
}

static void compare_devices(struct split *split)
{
    for (int64_t device = 1; device < split->shards; device++) {
        uint32_t own = 0, other = 0;
        const struct sp_lower_event *a, *b;
        do {
            a = next_joint(split->lowered[0], &own);
            b = next_joint(split->lowered[device], &other);
            if (!is_same(a, b)) {
                wrong(split, "devices 0 and %" PRId64 " do not exchange the same", device);
                return;
            }
        } while (a != NULL && b != NULL);
    }
}

/* ---- a split ---------------------------------------------------------------------------------------------------- */

static build_lowering_function function_of(const struct sp_node *node)
{
    return node->op->lower != NULL ? node->op->lower : sp_lower_default;
}

/* Once for each operator and kind of factor, which is its name without the axis. */
static bool is_new(struct lowering_check *check, const struct split *split)
{
    char key[KEY_SIZE], letters[SP_FACTOR_NAME_SIZE];
    const struct sp_factor *factor = &split->rule->factors[split->factor];
    size_t length = strlen(factor->name);
    while (length > 1 && isdigit((unsigned char)factor->name[length - 1]))
        length--;
    (void)snprintf(letters, sizeof letters, "%.*s", (int)length, factor->name);
    (void)snprintf(key, sizeof key, "%s.%.80s-%" PRId64 " %s %d %d", split->node->domain, split->node->op_type,
                   split->node->op->since, letters, factor->kind, factor->combiner);
    for (unsigned i = 0; i < check->seen_count; i++)
        if (strcmp(check->seen[i], key) == 0)
            return false;
    if (check->seen_count == MOST_SEEN)
        return false;
    (void)snprintf(check->seen[check->seen_count++], KEY_SIZE, "%s", key);
    return true;
}

/* Whether every device has a part of each axis with the factor, and borders lie where the factor allows them. */
static bool can_split(const struct sp_rule *rule, const struct sp_node *node, uint8_t index, int64_t shards)
{
    const struct sp_factor *factor = &rule->factors[index];
    if (factor->kind == SP_FACTOR_REPLICATE || factor->kind == SP_FACTOR_SEQUENTIAL || !sp_dim_is_known(factor->extent))
        return false;
    const int64_t chunk = (factor->extent.value + shards - 1) / shards;
    if (chunk == 0 || (shards - 1) * chunk >= factor->extent.value ||
        chunk % (factor->block > 0 ? factor->block : 1) != 0)
        return false;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const bool is_output = i >= node->input_count;
        const struct sp_value *value = is_output ? node->outputs[i - node->input_count] : node->inputs[i];
        const struct sp_operand_rule *operand = is_output ? &rule->outputs[i - node->input_count] : &rule->inputs[i];
        for (uint32_t axis = 0; value != NULL && axis < operand->rank; axis++) {
            const struct sp_axis_factors *list = &operand->axes[axis];
            const struct sp_dim extent = value->type.shape.dims[axis];
            for (uint32_t k = 0; k < list->count; k++) {
                if (list->factors[k] != index)
                    continue;
                const int64_t own = (extent.value + shards - 1) / shards;
                if (!sp_dim_is_known(extent) || (shards - 1) * own >= extent.value)
                    return false;
            }
            for (uint32_t k = 0; k < list->count && list->count > 1; k++)
                if (!sp_dim_is_known(rule->factors[list->factors[k]].extent))
                    return false;
        }
    }
    return true;
}

/* Half of the factor, where both halves can be cut in two and each axis with the factor is the factor; else 0. */
static int64_t row_of(const struct sp_rule *rule, const struct sp_node *node, uint8_t index)
{
    const struct sp_factor *factor = &rule->factors[index];
    if (!can_split(rule, node, index, 2) || factor->extent.value % 4 != 0 || factor->block > 1 || factor->is_resized)
        return 0;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const bool is_output = i >= node->input_count;
        const struct sp_value *value = is_output ? node->outputs[i - node->input_count] : node->inputs[i];
        const struct sp_operand_rule *operand = is_output ? &rule->outputs[i - node->input_count] : &rule->inputs[i];
        for (uint32_t axis = 0; value != NULL && axis < operand->rank; axis++) {
            const struct sp_axis_factors *list = &operand->axes[axis];
            const bool is_factor = list->count == 1 && list->factors[0] == index;
            if (is_factor && value->type.shape.dims[axis].value != factor->extent.value)
                return 0;
        }
    }
    return factor->extent.value / 2;
}

static void run_split(struct lowering_check *check, struct split *split)
{
    const build_lowering_function function = function_of(split->node);
    bool is_whole = false;
    for (int64_t device = 0; device < split->shards && !is_whole; device++) {
        char cuts[96];
        int used = snprintf(cuts, sizeof cuts, "%s=%" PRId64 "/%" PRId64, split->rule->factors[split->factor].name,
                            device, split->shards);
        if (split->row > 0)
            (void)snprintf(cuts + used, sizeof cuts - (size_t)used, ":%" PRId64, split->row);
        struct sp_lowering *lower = build_lowering_make(&split->build, split->node, split->rule, cuts);
        split->lowered[device] = lower;
        const enum sp_status status = function(lower);
        is_whole = lower->recorder->is_again;
        if (is_whole && lower->recorder->again_message[strlen(lower->recorder->again_message) - 1] != '.')
            wrong(split, "is refused by no sentence: %s", lower->recorder->again_message);
        if (!is_whole && (status != SP_OK || lower->recorder->status != SP_OK)) {
            wrong(split, "ends with %s: %s", sp_status_name(status), lower->err->message);
            return;
        }
        if (is_whole)
            break;
        check_order(split, lower);
        check_outputs(split, lower);
    }
    check->splits++;
    check->whole += is_whole;
    if (!is_whole)
        compare_devices(split);
    const struct sp_lowering *last = split->lowered[is_whole ? 0 : split->shards - 1];
    if (last != NULL && is_new(check, split))
        build_lowering_without_memory(last, function, last->recorder->status);
}

static bool try_split(struct lowering_check *check, const char *name, struct sp_model *model, struct sp_node *node,
                      const struct sp_rule *rule, uint8_t factor, int64_t shards, int64_t row)
{
    struct split split = {
        .name = name, .node = node, .rule = rule, .factor = factor, .shards = shards, .row = row, .is_right = true};
    split.build = (struct build){.arena = sp_arena_create(NULL), .model = model};
    run_split(check, &split);
    sp_arena_destroy(split.build.arena);
    return split.is_right;
}

bool lowering_check_node(struct lowering_check *check, const char *name, struct sp_model *model, struct sp_node *node,
                         const struct sp_rule *rule)
{
    bool is_right = true;
    if (node->op == NULL || node->body != NULL || (node->op->flags & SP_OP_CONTROL) != 0)
        return true;
    check->nodes++;
    for (uint8_t factor = 0; factor < rule->factor_count; factor++) {
        for (int64_t shards = 2; shards <= MOST_SHARDS; shards++) {
            if (can_split(rule, node, factor, shards))
                is_right = try_split(check, name, model, node, rule, factor, shards, 0) && is_right;
        }
        const int64_t row = row_of(rule, node, factor);
        if (row > 0)
            is_right = try_split(check, name, model, node, rule, factor, 2, row) && is_right;
    }
    return is_right;
}
