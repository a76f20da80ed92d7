#include "build_lowering.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "onnx/float_bits.h"
#include "ops/lowering/recorder.h"

#define TEXT_SIZE 65536

/* ---- the node as a device has it -------------------------------------------------------------------------------- */

static void *zeroed(struct build *build, size_t count, size_t size)
{
    void *array = sp_arena_array(build->arena, count, size);
    cr_assert_not_null(array);
    return array;
}

static struct sp_axis_ranges one_range(struct build *build, int64_t start, int64_t limit)
{
    struct sp_range *range = zeroed(build, 1, sizeof *range);
    *range = (struct sp_range){start, limit};
    return (struct sp_axis_ranges){1, range};
}

/* Shard i of n of an extent: chunks of ceil(extent / n). */
static struct sp_range shard_range(int64_t extent, int64_t shards, int64_t shard)
{
    const int64_t chunk = (extent + shards - 1) / shards, start = shard * chunk;
    return (struct sp_range){start, start + chunk < extent ? start + chunk : extent};
}

static int64_t known(struct sp_dim dim)
{
    return sp_dim_is_known(dim) ? dim.value : -1;
}

/* Of each row of `minor` indices the shard's. */
static void cut_rows(struct build *build, struct sp_lower_factor *factor, int64_t minor, struct sp_range in_row)
{
    const int64_t rows = factor->extent / minor;
    struct sp_range *ranges = zeroed(build, (size_t)rows, sizeof *ranges);
    cr_assert(rows > 1 && factor->extent % minor == 0 && in_row.limit - in_row.start < minor);
    for (int64_t i = 0; i < rows; i++)
        ranges[i] = (struct sp_range){i * minor + in_row.start, i * minor + in_row.limit};
    factor->ranges = (struct sp_axis_ranges){(uint32_t)rows, ranges};
    factor->size = rows * (in_row.limit - in_row.start);
    factor->is_contiguous = false;
}

static int64_t number(const char **text)
{
    char *end;
    const int64_t value = strtoll(*text, &end, 10);
    cr_assert_neq(end, *text, "no number in '%s'", *text);
    *text = end;
    return value;
}

static int64_t number_behind(const char **text)
{
    (*text)++;
    return number(text);
}

static struct sp_lower_factor *cut_factors(struct build *build, struct sp_node *node, const struct sp_rule *rule,
                                           const char *cuts)
{
    struct sp_lower_factor *factors = zeroed(build, rule->factor_count, sizeof *factors);
    for (uint32_t i = 0; i < rule->factor_count; i++) {
        const int64_t extent = known(rule->factors[i].extent);
        factors[i] = (struct sp_lower_factor){.extent = extent, .shards = 1, .size = extent, .is_contiguous = true};
        factors[i].ranges = one_range(build, 0, extent);
    }
    while (*cuts != '\0') {
        char name[SP_FACTOR_NAME_SIZE];
        const size_t length = strcspn(cuts, "=");
        uint32_t at = 0;
        cr_assert(length < sizeof name && cuts[length] == '=', "'%s'", cuts);
        (void)snprintf(name, sizeof name, "%.*s", (int)length, cuts);
        cuts += length + 1;
        const int64_t shard = number(&cuts), shards = *cuts == '/' ? number_behind(&cuts) : 0;
        const int64_t minor = *cuts == ':' ? number_behind(&cuts) : 0;
        cr_assert(shards > 0 && (*cuts == ' ' || *cuts == '\0'), "'%s'", cuts);
        cuts += strspn(cuts, " ");
        while (at < rule->factor_count && strcmp(rule->factors[at].name, name) != 0)
            at++;
        cr_assert_lt(at, rule->factor_count, "no factor %s in %s", name, build_rule(build, node));
        struct sp_lower_factor *factor = &factors[at];
        const struct sp_range range = shard_range(minor > 0 ? minor : factor->extent, shards, shard);
        cr_assert(factor->extent > 0 && range.start < range.limit, "shard %" PRId64 " of %s is empty", shard, name);
        factor->is_split = shards > 1;
        factor->shards = shards;
        factor->shard = shard;
        factor->start = range.start;
        factor->size = range.limit - range.start;
        factor->ranges = one_range(build, range.start, range.limit);
        if (minor > 0)
            cut_rows(build, factor, minor, range);
    }
    return factors;
}

/* Whether a device has an index of a compound axis: its place in each factor, minor ones first. */
static bool has_index(const struct sp_lower_factor *factors, const struct sp_axis_factors *list, int64_t index)
{
    for (uint32_t i = list->count; i-- > 0;) {
        const struct sp_lower_factor *factor = &factors[list->factors[i]];
        const int64_t place = index % factor->extent;
        index /= factor->extent;
        bool is_in = false;
        for (uint32_t k = 0; k < factor->ranges.count; k++)
            is_in = is_in || (place >= factor->ranges.ranges[k].start && place < factor->ranges.ranges[k].limit);
        if (!is_in)
            return false;
    }
    return true;
}

static struct sp_axis_ranges compound_ranges(struct build *build, const struct sp_lower_factor *factors,
                                             const struct sp_axis_factors *list, int64_t extent)
{
    struct sp_axis_ranges ranges = {0, zeroed(build, (size_t)extent, sizeof(struct sp_range))};
    for (int64_t i = 0; i < extent; i++) {
        if (!has_index(factors, list, i))
            continue;
        if (ranges.count > 0 && ranges.ranges[ranges.count - 1].limit == i)
            ranges.ranges[ranges.count - 1].limit++;
        else
            ranges.ranges[ranges.count++] = (struct sp_range){i, i + 1};
    }
    return ranges;
}

static struct sp_lower_axis cut_axis(struct build *build, const struct sp_lower_factor *factors,
                                     const struct sp_axis_factors *list, int64_t extent)
{
    struct sp_lower_axis axis = {.extent = extent, .size = extent, .ranges = one_range(build, 0, extent)};
    for (uint32_t i = 0; i < list->count; i++)
        axis.is_cut = axis.is_cut || factors[list->factors[i]].is_split;
    if (!axis.is_cut)
        return axis;
    cr_assert_geq(extent, 0);
    if (list->count == 1) {
        /* By its own extent, which may differ from the factor's: halos, resized axes. */
        const struct sp_lower_factor *factor = &factors[list->factors[0]];
        const struct sp_range range = shard_range(extent, factor->shards, factor->shard);
        axis.ranges = extent == factor->extent ? factor->ranges : one_range(build, range.start, range.limit);
    } else {
        axis.ranges = compound_ranges(build, factors, list, extent);
    }
    axis.size = 0;
    for (uint32_t i = 0; i < axis.ranges.count; i++)
        axis.size += axis.ranges.ranges[i].limit - axis.ranges.ranges[i].start;
    return axis;
}

static struct sp_lower_operand *cut_operands(struct build *build, const struct sp_lower_factor *factors, uint32_t count,
                                             struct sp_value *const *values, const struct sp_operand_rule *rules)
{
    struct sp_lower_operand *operands = zeroed(build, count, sizeof *operands);
    for (uint32_t i = 0; i < count; i++) {
        operands[i].value = values[i];
        if (values[i] == NULL || values[i]->type.kind != SP_TYPE_TENSOR || !values[i]->type.shape.has_rank)
            continue;
        const struct sp_shape *shape = &values[i]->type.shape;
        struct sp_lower_axis *axes = zeroed(build, shape->rank, sizeof *axes);
        for (uint32_t k = 0; k < shape->rank; k++) {
            static const struct sp_axis_factors none = {0};
            axes[k] = cut_axis(build, factors, k < rules[i].rank ? &rules[i].axes[k] : &none, known(shape->dims[k]));
        }
        operands[i].rank = shape->rank;
        operands[i].axes = axes;
    }
    return operands;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* The piece's number, which its name ends in; nothing for an omitted one. */
static void print_piece(struct sp_buf *buf, const struct sp_piece *piece)
{
    if (piece != NULL)
        sp_buf_printf(buf, "%%%s", strrchr(piece->name, '.') + 1);
    else
        sp_buf_text(buf, "-");
}

static void print_type(struct sp_buf *buf, const struct sp_piece *piece)
{
    sp_buf_text(buf, sp_dtype_name(piece->dtype));
    if (piece->dims == NULL)
        return;
    sp_buf_text(buf, "[");
    for (uint32_t i = 0; i < piece->rank; i++) {
        sp_buf_text(buf, i == 0 ? "" : ",");
        if (piece->dims[i] < 0)
            sp_buf_text(buf, "?");
        else
            sp_buf_printf(buf, "%" PRId64, piece->dims[i]);
    }
    sp_buf_text(buf, "]");
}

static void print_ranges(struct sp_buf *buf, const struct sp_axis_ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->count; i++) {
        sp_buf_printf(buf, "%s%" PRId64 ":", i == 0 ? "" : "+", ranges->ranges[i].start);
        if (ranges->ranges[i].limit < 0)
            sp_buf_text(buf, "?");
        else
            sp_buf_printf(buf, "%" PRId64, ranges->ranges[i].limit);
    }
}

static void print_element(struct sp_buf *buf, enum sp_dtype dtype, const unsigned char *bytes, size_t size)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < size && i < sizeof bits; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    if (sp_dtype_is_float(dtype))
        sp_buf_printf(buf, "%.9g", sp_float_from_bits(dtype, bits));
    else if (dtype == SP_DTYPE_INT64)
        sp_buf_printf(buf, "%" PRId64, (int64_t)bits);
    else if (dtype == SP_DTYPE_INT32)
        sp_buf_printf(buf, "%" PRId32, (int32_t)bits);
    else
        sp_buf_printf(buf, "%" PRIu64, bits);
}

static void print_constant(struct sp_buf *buf, const struct sp_lower_event *event)
{
    const size_t element = (size_t)((sp_dtype_bits(event->constant.dtype) + 7) / 8);
    const unsigned char *bytes = event->constant.bytes;
    sp_buf_text(buf, event->constant.is_filled ? "filled " : "");
    print_type(buf, event->piece);
    sp_buf_text(buf, " {");
    for (size_t i = 0; element > 0 && i < event->constant.size / element; i++) {
        sp_buf_text(buf, i == 0 ? "" : ",");
        print_element(buf, event->constant.dtype, bytes + i * element, element);
    }
    sp_buf_text(buf, "}\n");
}

static void print_attribute(struct sp_buf *buf, const struct sp_lower_attribute *attribute)
{
    sp_buf_printf(buf, "%s=", attribute->name);
    switch (attribute->type) {
    case SP_ATTR_INT:
        sp_buf_printf(buf, "%" PRId64, attribute->i);
        break;
    case SP_ATTR_FLOAT:
        sp_buf_printf(buf, "%.9g", attribute->f);
        break;
    case SP_ATTR_STRING:
        sp_buf_printf(buf, "'%s'", attribute->s);
        break;
    case SP_ATTR_UNDEFINED:
        sp_buf_text(buf, "none");
        break;
    default:
        sp_buf_text(buf, "[");
        for (uint32_t i = 0; i < attribute->count; i++) {
            sp_buf_text(buf, i == 0 ? "" : ",");
            if (attribute->type == SP_ATTR_INTS)
                sp_buf_printf(buf, "%" PRId64, attribute->ints[i]);
            else if (attribute->type == SP_ATTR_FLOATS)
                sp_buf_printf(buf, "%.9g", attribute->floats[i]);
            else if (attribute->type == SP_ATTR_STRINGS)
                sp_buf_printf(buf, "'%s'", attribute->strings[i]);
        }
        sp_buf_text(buf, "]");
    }
}

static void print_op(struct sp_buf *buf, const struct sp_lower_event *event)
{
    for (uint32_t i = 0; i < event->op.output_count; i++) {
        sp_buf_text(buf, i == 0 ? "" : ", ");
        print_piece(buf, event->op.outputs[i]);
    }
    sp_buf_printf(buf, " = %s%s%s(", event->op.is_same ? "" : event->op.domain, event->op.is_same ? "" : ".",
                  event->op.op_type);
    for (uint32_t i = 0; i < event->op.input_count; i++) {
        sp_buf_text(buf, i == 0 ? "" : ", ");
        print_piece(buf, event->op.inputs[i]);
    }
    sp_buf_text(buf, ")");
    for (uint32_t i = 0; i < event->op.attribute_count; i++) {
        sp_buf_text(buf, i == 0 ? " {" : ", ");
        print_attribute(buf, &event->op.attributes[i]);
        sp_buf_text(buf, i + 1 == event->op.attribute_count ? "}" : "");
    }
    for (uint32_t i = 0; i < event->op.output_count; i++) {
        if (event->op.outputs[i] == NULL)
            continue;
        sp_buf_text(buf, " ");
        print_type(buf, event->op.outputs[i]);
    }
    sp_buf_text(buf, "\n");
}

static const char *combiner_name(enum sp_combiner combiner)
{
    static const char *const names[] = {"none", "sum", "max", "min", "prod", "softmax", "moments", "select"};
    return names[combiner];
}

static void print_factors(struct sp_buf *buf, const struct sp_lowering *lower, uint32_t count, const uint8_t *factors)
{
    for (uint32_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%s", i == 0 ? " over " : " ", lower->rule->factors[factors[i]].name);
}

static void print_collective(struct sp_buf *buf, const struct sp_lowering *lower, const struct sp_lower_event *event)
{
    const bool is_gather = event->kind == SP_LOWER_ALL_GATHER;
    print_piece(buf, event->piece);
    sp_buf_printf(buf, " = %s(", is_gather ? "all-gather" : "all-reduce");
    print_piece(buf, event->collective.from);
    if (is_gather)
        sp_buf_printf(buf, ") on axis %" PRIu32, event->collective.axis);
    else
        sp_buf_printf(buf, "), %s", combiner_name(event->collective.combiner));
    print_factors(buf, lower, event->collective.factor_count, event->collective.factors);
    sp_buf_text(buf, " ");
    print_type(buf, event->piece);
    sp_buf_text(buf, "\n");
}

static void print_output(struct sp_buf *buf, const struct sp_lowering *lower, const struct sp_lower_event *event)
{
    sp_buf_printf(buf, "output %" PRIu32 " = ", event->output.index);
    print_piece(buf, event->piece);
    if (event->output.kind == SP_LOWER_WHOLE)
        sp_buf_text(buf, ", whole");
    if (event->output.kind == SP_LOWER_PARTIAL)
        sp_buf_printf(buf, ", %s", combiner_name(event->output.combiner));
    print_factors(buf, lower, event->output.factor_count, event->output.factors);
    sp_buf_text(buf, "\n");
}

static void print_input(struct sp_buf *buf, const struct sp_lowering *lower, const struct sp_lower_event *event)
{
    print_piece(buf, event->piece);
    sp_buf_printf(buf, " = %s %" PRIu32 " [",
                  event->input.is_box    ? "box"
                  : event->input.is_part ? "part"
                                         : "whole",
                  event->input.index);
    for (uint32_t i = 0; i < lower->inputs[event->input.index].rank; i++) {
        sp_buf_text(buf, i == 0 ? "" : ",");
        print_ranges(buf, &event->input.axes[i]);
    }
    sp_buf_text(buf, "] ");
    print_type(buf, event->piece);
    sp_buf_text(buf, "\n");
}

static void print_event(struct sp_buf *buf, const struct sp_lowering *lower, const struct sp_lower_event *event)
{
    switch (event->kind) {
    case SP_LOWER_INPUT:
        print_input(buf, lower, event);
        break;
    case SP_LOWER_CONSTANT:
        print_piece(buf, event->piece);
        sp_buf_text(buf, " = ");
        print_constant(buf, event);
        break;
    case SP_LOWER_OP:
        print_op(buf, event);
        break;
    case SP_LOWER_ALL_REDUCE:
    case SP_LOWER_ALL_GATHER:
        print_collective(buf, lower, event);
        break;
    case SP_LOWER_OUTPUT:
        print_output(buf, lower, event);
        break;
    }
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

static void print_all(struct sp_buf *buf, const struct sp_lowering *lower)
{
    const struct sp_lower_recorder *recorder = lower->recorder;
    if (recorder->is_again)
        sp_buf_printf(buf, "again %s: %s", lower->rule->factors[recorder->again_factor].name, recorder->again_message);
    else if (recorder->status != SP_OK)
        sp_buf_printf(buf, "%s: %s", lower->err->code, lower->err->message);
    for (uint32_t i = 0; recorder->status == SP_OK && i < recorder->count; i++)
        print_event(buf, lower, &recorder->events[i]);
}

/* ---- without memory --------------------------------------------------------------------------------------------- */

/* An arena that has so many bytes left and gets no more. */
struct tight {
    struct sp_budget budget;
    struct sp_arena *arena;
    struct sp_arena_mark mark;
    size_t room;
};

static void tight_init(struct tight *tight)
{
    tight->budget = (struct sp_budget){0};
    tight->arena = sp_arena_create(&tight->budget);
    /* Chunks grow: what does not fit into the second makes a third, which is nearly empty. */
    cr_assert(sp_arena_alloc(tight->arena, 1) && sp_arena_alloc(tight->arena, 4096) &&
              sp_arena_alloc(tight->arena, 31000));
    tight->budget.limit = tight->budget.used;
    tight->mark = sp_arena_mark(tight->arena);
    tight->room = 0;
    while (sp_arena_alloc(tight->arena, 16) != NULL)
        tight->room += 16;
    cr_assert_gt(tight->room, 100000);
}

void build_lowering_without_memory(const struct sp_lowering *like, build_lowering_function function,
                                   enum sp_status usual)
{
    enum sp_status status = SP_ERR_MEMORY;
    struct tight tight;
    tight_init(&tight);
    for (size_t room = 0; room < tight.room && status == SP_ERR_MEMORY; room += room < 16384 ? 16 : 512) {
        struct sp_error err;
        uint64_t next = 0;
        struct sp_lowering lower = *like;
        struct sp_lower_recorder recorder = {.kept = tight.arena, .marker = "@", .next = &next};
        sp_error_clear(&err);
        sp_arena_rewind(tight.arena, tight.mark);
        cr_assert_not_null(sp_arena_alloc(tight.arena, tight.room - room));
        lower.arena = tight.arena;
        lower.recorder = &recorder;
        lower.err = &err;
        status = function(&lower);
        cr_assert(status != SP_OK || recorder.status == SP_OK, "the function hides a failure");
        cr_assert(status == SP_ERR_MEMORY || status == usual, "%s, %s: %s", like->node->op_type, sp_status_name(status),
                  err.message);
    }
    sp_arena_destroy(tight.arena);
}

struct sp_lowering *build_lowering_make(struct build *build, struct sp_node *node, const struct sp_rule *rule,
                                        const char *cuts)
{
    const struct sp_lower_factor *factors = cut_factors(build, node, rule, cuts);
    struct sp_lowering *lower = zeroed(build, 1, sizeof *lower);
    struct sp_lower_recorder *recorder = zeroed(build, 1, sizeof *recorder);
    *recorder = (struct sp_lower_recorder){
        .kept = build->arena, .marker = "@", .next = zeroed(build, 1, sizeof *recorder->next)};
    *lower = (struct sp_lowering){
        .model = build->model,
        .node = node,
        .rule = rule,
        .version = node->version,
        .opset = sp_graph_opset(node->graph, ""),
        .arena = build->arena,
        .factor_count = rule->factor_count,
        .input_count = node->input_count,
        .output_count = node->output_count,
        .factors = factors,
        .inputs = cut_operands(build, factors, node->input_count, node->inputs, rule->inputs),
        .outputs = cut_operands(build, factors, node->output_count, node->outputs, rule->outputs),
        .recorder = recorder,
        .err = zeroed(build, 1, sizeof *lower->err),
    };
    return lower;
}

const char *build_lowering_with(struct build *build, struct sp_node *node, const char *cuts,
                                build_lowering_function function)
{
    struct sp_rule *rule;
    struct sp_error err;
    struct sp_buf buf;
    sp_error_clear(&err);
    cr_assert_eq(sp_op_rule(build->model, node, build->arena, &rule, &err), SP_OK, "%s", err.message);
    struct sp_lowering *lower = build_lowering_make(build, node, rule, cuts);
    const enum sp_status status = function(lower);
    cr_assert(status != SP_OK || lower->recorder->status == SP_OK, "the function hides a failure");
    sp_buf_init(&buf, TEXT_SIZE);
    print_all(&buf, lower);
    cr_assert(!sp_buf_failed(&buf));
    const char *text = sp_arena_string(build->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    cr_assert_not_null(text);
    build_lowering_without_memory(lower, function, status);
    return text;
}

const char *build_lowering(struct build *build, struct sp_node *node, const char *cuts)
{
    return build_lowering_with(build, node, cuts,
                               node->op != NULL && node->op->lower != NULL ? node->op->lower : sp_lower_default);
}
