/*
 * shardy_propagation: the published cases of Shardy's propagation.
 *
 * `factor` cases are one step on factors. `graph` cases are whole functions: arguments, results of operations and
 * results of the function are tensors; an operation, and a function result with what it returns, is a flow. What is
 * returned is not recorded: it is the last values that nothing uses. The rules of the operations are written here as
 * Shardy has them, but those of reshapes, which are the operator table's. Cases that differ for a reason are listed
 * with it; any other difference fails.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/build_model.h"
#include "../unit/support/build_rule.h"
#include "../unit/support/data_files.h"
#include "../unit/support/members.h"
#include "infer/propagate/factor_step.h"
#include "sharding/dialect.h"
#include "shardy_factors.h"

#define MAX_TENSORS 64
#define MAX_FLOWS   64

/* Values whose recorded expectation is not what Shardy's test expects: the record has null where the test checks
   nothing. */
static const struct {
    const char *name, *value, *reason;
} unchecked[] = {
    {"defer_backwards_propagation_dynamic_slice", "%arg0", "is checked only through what follows from it"},
};

struct tensor {
    const char *id;
    int rank; /* -1: a token */
    int64_t shape[SP_MAX_RANK];
    const json_t *expected; /* null: open and empty; NULL: not checked */
    bool is_used, is_slice;
};

struct test {
    struct sp_arena *arena;
    struct sp_error err;
    const json_t *json;
    const char *name;
    uint32_t tensor_count, flow_count;
    struct tensor tensors[MAX_TENSORS];
    struct sp_flow flows[MAX_FLOWS];
    const struct sp_sharding *shardings[MAX_TENSORS];
    char why[1400];
};

__attribute__((format(printf, 2, 3))) static bool fail(struct test *test, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(test->why, sizeof(test->why), format, args);
    va_end(args);
    return false;
}

static bool fail_with_error(struct test *test, const char *what)
{
    return fail(test, "%s: %s: %s", what, test->err.code, test->err.message);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* ---- shardings -------------------------------------------------------------------------------------------------- */

static struct sp_mesh *read_mesh(struct test *test, const char *name)
{
    struct sp_mesh *mesh = NULL;
    struct sp_buf buf;
    const json_t *axes = json_object_get(json_object_get(test->json, "meshes"), name), *ids = NULL;
    if (json_is_object(axes)) {
        ids = json_object_get(axes, "device_ids");
        axes = json_object_get(axes, "axes");
    }
    if (axes == NULL) {
        fail(test, "there is no mesh '%s'", name);
        return NULL;
    }
    sp_buf_init(&buf, 1 << 16);
    sp_buf_printf(&buf, "sdy.mesh @%s = <[", name);
    for (size_t i = 0; i < json_array_size(axes); i++)
        sp_buf_printf(&buf, "%s\"%s\"=%" JSON_INTEGER_FORMAT, i ? ", " : "",
                      json_string_value(json_array_get(json_array_get(axes, i), 0)),
                      json_integer_value(json_array_get(json_array_get(axes, i), 1)));
    for (size_t i = 0; i < json_array_size(ids); i++)
        sp_buf_printf(&buf, "%s%" JSON_INTEGER_FORMAT, i ? ", " : "], device_ids=[",
                      json_integer_value(json_array_get(ids, i)));
    /* A record without device ids: the mesh of one device is called so. */
    sp_buf_text(&buf, ids == NULL && strcmp(name, "maximal_mesh") == 0 ? "], device_ids=[0]>" : "]>");
    if (sp_shardy_read_mesh(test->arena, buf.data, buf.size, &mesh, &test->err) != SP_OK)
        fail_with_error(test, buf.data);
    sp_buf_release(&buf);
    return mesh;
}

static struct sp_sharding *read_sharding(struct test *test, const json_t *json, int rank)
{
    struct sp_sharding *sharding = NULL;
    struct sp_mesh *mesh = read_mesh(test, text_of(json, "mesh"));
    const char *extra = text_of(json, "extra");
    if (mesh == NULL)
        return NULL;
    struct sp_dialect_context context = {.rank = sp_mesh_is_single(mesh) ? 0 : rank, .mesh = mesh};
    const char *text = sp_arena_printf(test->arena, "#sdy.sharding<@%s, %s%s%s>", text_of(json, "mesh"),
                                       text_of(json, "dims"), *extra ? ", " : "", extra);
    if (sp_shardy_read(test->arena, text, strlen(text), &context, &sharding, &test->err) != SP_OK) {
        fail_with_error(test, text);
        return NULL;
    }
    if (sharding->kind != SP_SHARDING_AXES || sharding->rank != (uint32_t)rank) {
        /* On one device: nothing to be split, by nobody. */
        struct sp_sharding *single = NULL;
        if (sp_sharding_create_axes(test->arena, mesh, (uint32_t)rank, &single, &test->err) != SP_OK)
            fail_with_error(test, text);
        return single;
    }
    return sharding;
}

static const char *write_sharding(struct test *test, const struct sp_sharding *sharding)
{
    struct sp_buf buf;
    const char *text = "none";
    if (sharding == NULL)
        return text;
    sp_buf_init(&buf, 1 << 16);
    if (sp_shardy_write(sharding, false, &buf, &test->err) == SP_OK)
        text = sp_arena_string(test->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

static bool is_open_and_empty(const struct sp_sharding *sharding)
{
    for (uint32_t axis = 0; sharding != NULL && axis < sharding->rank; axis++) {
        if (sharding->dims[axis].axes.count > 0 || !sharding->dims[axis].is_open)
            return false;
    }
    return true;
}

/* ---- reading a function ----------------------------------------------------------------------------------------- */

static uint32_t add_tensor(struct test *test, const char *id, const json_t *shape, const json_t *sharding,
                           const json_t *expected)
{
    uint32_t index = test->tensor_count;
    if (index == MAX_TENSORS || json_array_size(shape) > SP_MAX_RANK) {
        fail(test, "the case is too large");
        return 0;
    }
    struct tensor *tensor = &test->tensors[test->tensor_count++];
    *tensor = (struct tensor){.id = id, .expected = expected};
    tensor->rank = json_is_array(shape) ? (int)json_array_size(shape) : -1;
    for (int axis = 0; axis < tensor->rank; axis++)
        tensor->shape[axis] = json_integer_value(json_array_get(shape, (size_t)axis));
    if (json_is_object(sharding))
        test->shardings[index] = read_sharding(test, sharding, tensor->rank);
    return index;
}

static uint32_t find_tensor(struct test *test, const char *id)
{
    for (uint32_t t = 0; t < test->tensor_count; t++) {
        if (strcmp(test->tensors[t].id, id) == 0)
            return t;
    }
    fail(test, "there is no value '%s'", id);
    return SP_NO_TENSOR;
}

static void add_flow(struct test *test, struct sp_rule *rule, uint32_t input_count, uint32_t operand_count,
                     const uint32_t *tensors, enum sp_direction directions)
{
    if (rule == NULL || test->flow_count == MAX_FLOWS) {
        fail(test, "a flow cannot be added");
        return;
    }
    struct sp_flow *flow = &test->flows[test->flow_count++];
    uint32_t *own = SP_NEW_ARRAY(test->arena, operand_count, uint32_t);
    for (uint32_t i = 0; i < operand_count; i++)
        own[i] = test->tensors[tensors[i]].rank < 0 ? SP_NO_TENSOR : tensors[i];
    *flow = (struct sp_flow){.rule = rule, .tensors = own, .input_count = input_count, .operand_count = operand_count};
    sp_flow_classify(flow);
    flow->directions = directions;
    flow->middle = flow->middle & directions;
    flow->early = flow->early & directions;
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

/* "[i, j, k]" of the tensor's rank. */
static void print_dims(struct sp_buf *buf, int rank)
{
    sp_buf_text(buf, "[");
    for (int axis = 0; axis < rank; axis++)
        sp_buf_printf(buf, "%s%c", axis ? ", " : "", 'i' + axis);
    sp_buf_text(buf, "]");
}

static void print_sizes(struct sp_buf *buf, int count, const int64_t *sizes)
{
    sp_buf_text(buf, " {");
    for (int i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%c=%" PRId64, i ? ", " : "", 'i' + i, sizes[i]);
    sp_buf_text(buf, "}");
}

/* All operands of full rank have the axes of the result; others are scalars. The factors in `set` become special. */
static struct sp_rule *same_dims(struct test *test, uint32_t inputs, uint32_t outputs, const uint32_t *tensors,
                                 const int64_t *sizes, const char *set, const char *special)
{
    struct sp_buf buf;
    int rank = test->tensors[tensors[inputs]].rank;
    sp_buf_init(&buf, 1 << 16);
    for (uint32_t i = 0; i < inputs + outputs; i++) {
        sp_buf_text(&buf, i == 0 ? "(" : i == inputs ? ")->(" : ", ");
        print_dims(&buf, test->tensors[tensors[i]].rank > 0 ? rank : 0);
    }
    sp_buf_text(&buf, ")");
    print_sizes(&buf, rank, sizes);
    if (special[0] != '\0' && strcmp(set, "blocked") == 0)
        sp_buf_printf(&buf, " need_replication={%s} blocked_propagation={%s}", special, special);
    else if (special[0] != '\0')
        sp_buf_printf(&buf, " %s={%s}", set, special);
    struct sp_rule *rule = build_rule_text(test->arena, buf.data);
    sp_buf_release(&buf);
    return rule;
}

/* Axes that differ between two tensors, "j, k". */
static const char *changed_dims(struct test *test, uint32_t a, uint32_t b)
{
    char text[4 * SP_MAX_RANK] = "";
    for (int axis = 0; axis < test->tensors[a].rank; axis++) {
        size_t size = strlen(text);
        if (test->tensors[a].shape[axis] != test->tensors[b].shape[axis])
            snprintf(text + size, sizeof(text) - size, "%s%c", size ? ", " : "", 'i' + axis);
    }
    return sp_arena_string(test->arena, text, strlen(text));
}

/* "key = [0, 1] x [2, 3]": the numbers of list `side`, -1 behind the last. */
static void read_numbers(const char *attrs, const char *key, int side, int numbers[SP_MAX_RANK])
{
    int count = 0;
    const char *at = strstr(attrs, key);
    for (int i = 0; at != NULL && i <= side; i++)
        at = strchr(at + 1, '[');
    for (at = at ? at + 1 : NULL; at != NULL && *at != ']' && *at != '\0' && count + 1 < SP_MAX_RANK;) {
        char *end;
        numbers[count++] = (int)strtol(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    numbers[count] = -1;
}

static int index_in(const int *numbers, int number)
{
    for (int i = 0; numbers[i] >= 0; i++) {
        if (numbers[i] == number)
            return i;
    }
    return -1;
}

/* "dims = [0, 2]" as names of factors, "i, k". */
static const char *listed_dims(struct test *test, const char *attrs, const char *key)
{
    int dims[SP_MAX_RANK];
    char text[4 * SP_MAX_RANK] = "";
    read_numbers(attrs, key, 0, dims);
    for (int i = 0; dims[i] >= 0; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c", i ? ", " : "", 'i' + dims[i]);
    return sp_arena_string(test->arena, text, strlen(text));
}

static struct sp_rule *dot_rule(struct test *test, const uint32_t *tensors, const char *attrs)
{
    int batch[2][SP_MAX_RANK], contracted[2][SP_MAX_RANK], factor = 0;
    char names[2][SP_MAX_RANK] = {{0}}, result[2 * SP_MAX_RANK] = "", sums[4 * SP_MAX_RANK] = "";
    int64_t sizes[SP_MAX_RANK];
    size_t result_rank = 0;
    struct sp_buf buf;
    for (int side = 0; side < 2; side++) {
        read_numbers(attrs, "batching_dims = ", side, batch[side]);
        read_numbers(attrs, "contracting_dims = ", side, contracted[side]);
    }
    if (strstr(attrs, "contracting_dims") == NULL) { /* stablehlo.dot */
        contracted[0][0] = test->tensors[tensors[0]].rank - 1;
        contracted[0][1] = contracted[1][1] = -1;
        contracted[1][0] = 0;
    }
    for (int i = 0; batch[0][i] >= 0; i++) {
        names[0][batch[0][i]] = names[1][batch[1][i]] = (char)('i' + factor);
        sizes[factor++] = test->tensors[tensors[0]].shape[batch[0][i]];
        result[result_rank++] = names[0][batch[0][i]];
    }
    for (int side = 0; side < 2; side++) {
        for (int axis = 0; axis < test->tensors[tensors[side]].rank; axis++) {
            if (index_in(batch[side], axis) >= 0 || index_in(contracted[side], axis) >= 0)
                continue;
            names[side][axis] = (char)('i' + factor);
            sizes[factor++] = test->tensors[tensors[side]].shape[axis];
            result[result_rank++] = names[side][axis];
        }
    }
    for (int i = 0; contracted[0][i] >= 0; i++) {
        names[0][contracted[0][i]] = names[1][contracted[1][i]] = (char)('i' + factor);
        snprintf(sums + strlen(sums), sizeof(sums) - strlen(sums), "%s%c", i ? ", " : "", 'i' + factor);
        sizes[factor++] = test->tensors[tensors[0]].shape[contracted[0][i]];
    }
    sp_buf_init(&buf, 1 << 16);
    for (int operand = 0; operand < 3; operand++) {
        const char *own = operand < 2 ? names[operand] : result;
        sp_buf_text(&buf, operand == 0 ? "([" : operand == 1 ? "], [" : "])->([");
        for (int axis = 0; axis < test->tensors[tensors[operand]].rank; axis++)
            sp_buf_printf(&buf, "%s%c", axis ? ", " : "", own[axis]);
    }
    sp_buf_text(&buf, "])");
    print_sizes(&buf, factor, sizes);
    sp_buf_printf(&buf, " reduction={%s}", sums);
    struct sp_rule *rule = build_rule_text(test->arena, buf.data);
    sp_buf_release(&buf);
    return rule;
}

static struct sp_rule *broadcast_rule(struct test *test, const uint32_t *tensors, const char *attrs)
{
    struct sp_buf buf;
    int dims[SP_MAX_RANK];
    const struct tensor *from = &test->tensors[tensors[0]], *to = &test->tensors[tensors[1]];
    read_numbers(attrs, "dims = ", 0, dims);
    sp_buf_init(&buf, 1 << 16);
    sp_buf_text(&buf, "([");
    for (int axis = 0; axis < from->rank; axis++)
        sp_buf_printf(&buf, "%s%c", axis ? ", " : "", 'i' + dims[axis]);
    sp_buf_text(&buf, "])->(");
    print_dims(&buf, to->rank);
    sp_buf_text(&buf, ")");
    print_sizes(&buf, to->rank, to->shape);
    struct sp_rule *rule = build_rule_text(test->arena, buf.data);
    sp_buf_release(&buf);
    return rule;
}

/* Two results of two operands, each reduced over the dims. */
static struct sp_rule *reduce_rule(struct test *test, uint32_t inputs, uint32_t outputs, const uint32_t *tensors,
                                   const char *attrs)
{
    struct sp_buf buf;
    int dims[SP_MAX_RANK];
    const struct tensor *from = &test->tensors[tensors[0]];
    read_numbers(attrs, "dimensions = ", 0, dims);
    sp_buf_init(&buf, 1 << 16);
    for (uint32_t i = 0; i < inputs + outputs; i++) {
        sp_buf_text(&buf, i == 0 ? "(" : i == inputs ? ")->(" : ", ");
        if (i < inputs) {
            print_dims(&buf, test->tensors[tensors[i]].rank);
            continue;
        }
        sp_buf_text(&buf, "[");
        for (int axis = 0, count = 0; axis < from->rank; axis++) {
            if (index_in(dims, axis) < 0)
                sp_buf_printf(&buf, "%s%c", count++ ? ", " : "", 'i' + axis);
        }
        sp_buf_text(&buf, "]");
    }
    sp_buf_text(&buf, ")");
    print_sizes(&buf, from->rank, from->shape);
    sp_buf_printf(&buf, " reduction={%s}", listed_dims(test, attrs, "dimensions = "));
    struct sp_rule *rule = build_rule_text(test->arena, buf.data);
    sp_buf_release(&buf);
    return rule;
}

/* The operator table's own. */
static struct sp_rule *reshape_rule(struct test *test, const uint32_t *tensors)
{
    struct build *build = SP_NEW(test->arena, struct build); /* its arena is freed with the process */
    struct sp_rule *rule = NULL;
    char dims[SP_MAX_RANK * 8] = "";
    const struct tensor *from = &test->tensors[tensors[0]], *to = &test->tensors[tensors[1]];
    build_init(build, 16);
    for (int axis = 0; axis < from->rank; axis++)
        snprintf(dims + strlen(dims), sizeof(dims) - strlen(dims), "%s%" PRId64, axis ? "," : "", from->shape[axis]);
    build_input(build, "x", SP_DTYPE_FLOAT, dims);
    build_ints(build, "shape", to->rank, to->shape);
    struct sp_node *node = build_node(build, "Reshape", "x shape", "y");
    build_attr_int(build, node, "allowzero", 1);
    if (build_infer(build) != SP_OK || sp_op_rule(build->model, node, test->arena, &rule, &test->err) != SP_OK) {
        fail(test, "reshape: %s %s", build->err.message, test->err.message);
        rule = NULL;
    } else {
        rule->input_count = 1; /* the flow has no tensor for the shape */
    }
    build_release(build);
    return rule;
}

static bool is_one_of(const char *op, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(op, *names) == 0)
            return true;
    }
    return false;
}

static const char *const elementwise[] = {"stablehlo.add",           "stablehlo.divide",        "stablehlo.multiply",
                                          "stablehlo.sine",          "stablehlo.abs",           "stablehlo.tanh",
                                          "stablehlo.cosine",        "stablehlo.negate",        "stablehlo.subtract",
                                          "stablehlo.exponential",   "stablehlo.maximum",       "stablehlo.minimum",
                                          "sdy.propagation_barrier", "sdy.sharding_constraint", NULL};
/* Nothing goes through them. */
static const char *const walls[] = {"stablehlo.constant", "stablehlo.after_all", "stablehlo.send", "stablehlo.recv",
                                    NULL};

static bool read_direction(const char *name, enum sp_direction *ret_direction)
{
    static const char *const names[] = {"NONE", "FORWARD", "BACKWARD", "BOTH"};
    for (unsigned way = SP_DIRECTION_NONE; way <= SP_DIRECTION_BOTH; way++) {
        *ret_direction = (enum sp_direction)way;
        if (strncmp(name, names[way], strlen(names[way])) == 0)
            return true;
    }
    return false;
}

static void add_op_flow(struct test *test, const char *op, const char *attrs, uint32_t inputs, uint32_t outputs,
                        const uint32_t *tensors)
{
    const struct tensor *result = &test->tensors[tensors[inputs]];
    enum sp_direction directions = SP_DIRECTION_BOTH;
    struct sp_rule *rule = NULL;
    if (is_one_of(op, walls))
        return;
    if (is_one_of(op, elementwise)) {
        rule = same_dims(test, inputs, outputs, tensors, result->shape, "", "");
        const char *way = strstr(attrs, "allowed_direction=");
        if (way != NULL && !read_direction(way + strlen("allowed_direction="), &directions))
            fail(test, "there is no direction %s", way);
    } else if (strncmp(op, "stablehlo.dot", 13) == 0) {
        rule = dot_rule(test, tensors, attrs);
    } else if (strcmp(op, "stablehlo.reshape") == 0) {
        rule = reshape_rule(test, tensors);
    } else if (strcmp(op, "stablehlo.slice") == 0) {
        rule = same_dims(test, inputs, outputs, tensors, test->tensors[tensors[0]].shape, "permutation",
                         changed_dims(test, tensors[0], tensors[inputs]));
        test->tensors[tensors[inputs]].is_slice = true;
    } else if (strcmp(op, "stablehlo.reverse") == 0) {
        rule = same_dims(test, inputs, outputs, tensors, result->shape, "permutation",
                         listed_dims(test, attrs, "dims = "));
    } else if (strcmp(op, "stablehlo.dynamic_slice") == 0) {
        rule = same_dims(test, inputs, outputs, tensors, test->tensors[tensors[0]].shape, "blocked",
                         changed_dims(test, tensors[0], tensors[inputs]));
    } else if (strcmp(op, "stablehlo.concatenate") == 0) {
        bool is_sliced = true;
        for (uint32_t i = 0; i < inputs; i++)
            is_sliced = is_sliced && test->tensors[tensors[i]].is_slice;
        rule = same_dims(test, inputs, outputs, tensors, result->shape, is_sliced ? "permutation" : "need_replication",
                         changed_dims(test, tensors[0], tensors[inputs]));
    } else if (strcmp(op, "stablehlo.broadcast_in_dim") == 0) {
        rule = broadcast_rule(test, tensors, attrs);
    } else if (strcmp(op, "stablehlo.reduce") == 0) {
        rule = reduce_rule(test, inputs, outputs, tensors, attrs);
    } else {
        fail(test, "there is no rule for %s", op);
        return;
    }
    add_flow(test, rule, inputs, inputs + outputs, tensors, directions);
    if (strcmp(op, "stablehlo.dynamic_slice") == 0 && test->flow_count > 0)
        test->flows[test->flow_count - 1].early = SP_DIRECTION_FORWARD;
}

static void read_op(struct test *test, const json_t *op)
{
    uint32_t tensors[MAX_TENSORS], inputs = 0, outputs = 0;
    const json_t *operands = json_object_get(op, "operands"), *types = json_object_get(op, "result_types");
    const json_t *expect = json_object_get(op, "expect"), *shardings = json_object_get(op, "sharding");
    const char *id = text_of(op, "id"), *colon = strchr(id, ':');
    for (size_t i = 0; i < json_array_size(operands) && inputs < MAX_TENSORS / 2; i++) {
        uint32_t tensor = find_tensor(test, json_string_value(json_array_get(operands, i)));
        if (tensor == SP_NO_TENSOR)
            return;
        test->tensors[tensor].is_used = true;
        tensors[inputs++] = tensor;
    }
    for (size_t i = 0; i < json_array_size(types) && outputs < MAX_TENSORS / 2; i++) {
        const json_t *expected = json_array_get(expect, i);
        if (json_is_array(expect) && expected == NULL)
            expected = json_null();
        const char *own = colon ? sp_arena_printf(test->arena, "%.*s#%zu", (int)(colon - id), id, i)
                                : sp_arena_printf(test->arena, "%s", id);
        tensors[inputs + outputs++] =
            add_tensor(test, own, json_array_get(json_array_get(types, i), 0), json_array_get(shardings, i), expected);
    }
    const char *rule = text_of(op, "rule");
    if (is_one_of(text_of(op, "op"), walls))
        members_skip(op, "attrs sharding");
    if (outputs == 0 && !is_one_of(text_of(op, "op"), walls))
        fail(test, "the type of %s is not recorded", id);
    else if (outputs == 0) { /* a token */
        add_tensor(test, id, NULL, NULL, NULL);
    } else if (*rule != '\0')
        add_flow(test, build_rule_text(test->arena, rule), inputs, inputs + outputs, tensors, SP_DIRECTION_BOTH);
    else
        add_op_flow(test, text_of(op, "op"), text_of(op, "attrs"), inputs, outputs, tensors);
}

/* A list of expectations in which something given is missing was not checked at all. */
static const json_t *checked_list(const json_t *values, const json_t *expect)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (json_is_object(json_object_get(json_array_get(values, i), "sharding")) &&
            json_is_null(json_array_get(expect, i)))
            return NULL;
    }
    return expect;
}

/* The flows of the function's results, which Shardy looks at first. */
static void read_results(struct test *test)
{
    const json_t *results = json_object_get(test->json, "results");
    const json_t *expect = checked_list(results, json_object_get(test->json, "expect_results"));
    uint32_t unused[MAX_TENSORS], count = 0, wanted = (uint32_t)json_array_size(results);
    uint32_t values = test->tensor_count;
    for (uint32_t t = 0; t < values; t++) {
        if (!test->tensors[t].is_used)
            unused[count++] = t;
    }
    if (count < wanted) {
        fail(test, "%" PRIu32 " values are left for %" PRIu32 " results", count, wanted);
        return;
    }
    for (uint32_t i = 0; i < wanted; i++) {
        const json_t *result = json_array_get(results, i);
        uint32_t tensors[2] = {unused[count - wanted + i], 0};
        members_skip(result, "dtype");
        tensors[1] =
            add_tensor(test, sp_arena_printf(test->arena, "result %" PRIu32, i), json_object_get(result, "shape"),
                       json_object_get(result, "sharding"), json_array_get(expect, i));
        if (test->tensors[tensors[0]].rank < 0)
            continue;
        if (test->tensors[tensors[0]].rank != test->tensors[tensors[1]].rank ||
            *changed_dims(test, tensors[0], tensors[1]) != '\0')
            fail(test, "%s is no value for result %" PRIu32, test->tensors[tensors[0]].id, i);
        else
            add_op_flow(test, "sdy.sharding_constraint", "", 1, 1, tensors);
    }
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static bool is_unchecked(const struct test *test, const struct tensor *tensor)
{
    for (size_t i = 0; i < sizeof(unchecked) / sizeof(unchecked[0]); i++) {
        if (strcmp(unchecked[i].name, test->name) == 0 && strcmp(unchecked[i].value, tensor->id) == 0) {
            printf("# %s: %s %s\n", test->name, tensor->id, unchecked[i].reason);
            return true;
        }
    }
    return tensor->expected == NULL || tensor->rank < 0;
}

static bool compare(struct test *test, uint32_t t)
{
    const struct tensor *tensor = &test->tensors[t];
    if (is_unchecked(test, tensor))
        return true;
    const char *found = write_sharding(test, test->shardings[t]);
    if (json_is_null(tensor->expected))
        return is_open_and_empty(test->shardings[t]) || fail(test, "%s is %s, not open", tensor->id, found);
    const struct sp_sharding *expected = read_sharding(test, tensor->expected, tensor->rank);
    if (expected == NULL)
        return false;
    const char *wanted = write_sharding(test, expected);
    if (test->shardings[t] == NULL ? !is_open_and_empty(expected) : strcmp(found, wanted) != 0)
        return fail(test, "%s is %s, not %s", tensor->id, found, wanted);
    return true;
}

static bool run_graph(struct test *test)
{
    static const char *const suites[] = {"basic", "aggressive", "op_priority", "user_priority"};
    const json_t *args = json_object_get(test->json, "args"), *ops = json_object_get(test->json, "ops");
    const json_t *expect = checked_list(args, json_object_get(test->json, "expect_args"));
    uint32_t ranks[MAX_TENSORS], level = 0, op_flows;
    const int64_t *shapes[MAX_TENSORS];
    for (size_t i = 0; i < json_array_size(args); i++) {
        const json_t *arg = json_array_get(args, i);
        members_skip(arg, "dtype");
        add_tensor(test, sp_arena_printf(test->arena, "%%arg%zu", i), json_object_get(arg, "shape"),
                   json_object_get(arg, "sharding"), json_array_get(expect, i));
    }
    for (size_t i = 0; i < json_array_size(ops) && !*test->why; i++)
        read_op(test, json_array_get(ops, i));
    members_skip(test->json, "meshes"); /* of its file: a function uses some */
    op_flows = test->flow_count;
    if (!*test->why)
        read_results(test);
    if (*test->why)
        return false;
    struct sp_flow flows[MAX_FLOWS]; /* the function's results first */
    for (uint32_t f = 0; f < test->flow_count; f++)
        flows[f] = test->flows[(f + op_flows) % test->flow_count];
    while (level < 4 && strcmp(suites[level], text_of(test->json, "suite")) != 0)
        level++;
    if (level == 4)
        return fail(test, "there is no suite '%s'", text_of(test->json, "suite"));
    for (uint32_t t = 0; t < test->tensor_count; t++) {
        ranks[t] = test->tensors[t].rank < 0 ? 0 : (uint32_t)test->tensors[t].rank;
        shapes[t] = test->tensors[t].shape;
    }
    struct sp_propagation propagation = {.tensor_count = test->tensor_count,
                                         .flow_count = test->flow_count,
                                         .ranks = ranks,
                                         .shapes = shapes,
                                         .tensors = test->shardings,
                                         .flows = flows,
                                         .level = (enum sp_propagation_level)level,
                                         .carries_whole = true};
    if (sp_propagate(test->arena, &propagation, &test->err) != SP_OK)
        return fail_with_error(test, "propagating");
    for (uint32_t t = 0; t < test->tensor_count; t++) {
        if (!compare(test, t))
            return false;
    }
    return true;
}

/* ---- factors ---------------------------------------------------------------------------------------------------- */

static struct sp_axis_list read_refs(struct test *test, const struct sp_mesh *mesh, const json_t *list)
{
    struct sp_axis_list refs = {.refs = SP_NEW_ARRAY(test->arena, json_array_size(list), struct sp_axis_ref)};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i)), *part = strchr(text, ':');
        size_t length = part != NULL ? (size_t)(part - text) : strlen(text);
        int64_t axis = sp_mesh_find_axis(mesh, sp_arena_string(test->arena, text, length));
        struct sp_axis_ref ref = sp_axis_full(mesh, (uint32_t)axis);
        if (part != NULL)
            sscanf(part, ":(%" SCNd64 ")%" SCNd64, &ref.pre, &ref.size);
        refs.refs[refs.count++] = ref;
    }
    return refs;
}

static size_t number_of(const char *name)
{
    return (size_t)strtoul(name, NULL, 10);
}

static bool holds(const json_t *list, const char *factor)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_integer_value(json_array_get(list, i)) == (json_int_t)number_of(factor))
            return true;
    }
    return false;
}

static void read_projected(struct test *test, const struct sp_mesh *mesh, const json_t *json, uint32_t factor_count,
                           struct sp_projected *tensor)
{
    const char *name;
    const json_t *list;
    *tensor =
        (struct sp_projected){.splits = SP_NEW_ARRAY(test->arena, factor_count, struct sp_factor_split), .elements = 1};
    json_object_foreach(json_object_get(json, "factors"), name, list)
    {
        struct sp_factor_split *split = &tensor->splits[number_of(name)];
        const json_t *room = json_array_get(json_object_get(test->json, "factor_sizes"), number_of(name));
        split->is_present = true;
        split->axes = read_refs(test, mesh, list);
        split->overflow = read_refs(test, mesh, json_object_get(json_object_get(json, "overflow"), name));
        split->is_closed = holds(json_object_get(json, "closed"), name);
        split->is_minor = holds(json_object_get(json, "minor_most"), name);
        split->room = room != NULL ? json_integer_value(room) : -1;
    }
    for (size_t i = 0; i < BARRED; i++) {
        struct sp_axis_list *barred = SP_NEW(test->arena, struct sp_axis_list);
        *barred = read_refs(test, mesh, json_object_get(json, barred_lists[i]));
        tensor->barred[i] = barred;
    }
}

static bool compare_projected(struct test *test, const struct sp_mesh *mesh, const struct sp_projected *tensor,
                              const json_t *expected, uint32_t t)
{
    const char *name;
    const json_t *list;
    json_object_foreach((json_t *)expected, name, list)
    {
        struct sp_axis_list wanted = read_refs(test, mesh, list);
        const struct sp_axis_list *found = &tensor->splits[number_of(name)].axes;
        if (found->count != wanted.count || !sp_axes_is_prefix(found, &wanted) || !sp_axes_is_prefix(&wanted, found))
            return fail(test, "tensor %" PRIu32 ", factor %s: %" PRIu32 " axes, not %" PRIu32 " as expected, or others",
                        t, name, found->count, wanted.count);
    }
    return true;
}

static bool run_factor(struct test *test)
{
    const json_t *operands = json_object_get(test->json, "operands"), *results = json_object_get(test->json, "results");
    const json_t *directions = json_object_get(test->json, "direction");
    uint32_t factor_count = (uint32_t)json_array_size(directions), inputs = (uint32_t)json_array_size(operands);
    uint32_t count = inputs + (uint32_t)json_array_size(results);
    enum sp_direction ways[SP_RULE_MAX_FACTORS];
    struct sp_projected tensors[MAX_TENSORS];
    struct sp_mesh *mesh = factor_mesh(test->arena, test->json, &test->err);
    bool is_changed;
    if (mesh == NULL)
        return fail_with_error(test, "the mesh");
    for (uint32_t f = 0; f < factor_count; f++) {
        const char *way = json_string_value(json_array_get(directions, f));
        if (way == NULL || !read_direction(way, &ways[f]))
            return fail(test, "there is no direction %s", way != NULL ? way : "of this kind");
    }
    for (uint32_t t = 0; t < count; t++)
        read_projected(test, mesh, t < inputs ? json_array_get(operands, t) : json_array_get(results, t - inputs),
                       factor_count, &tensors[t]);
    struct sp_factor_step step = {.arena = test->arena,
                                  .mesh = mesh,
                                  .factor_count = factor_count,
                                  .input_count = inputs,
                                  .tensor_count = count,
                                  .directions = ways,
                                  .tensors = tensors,
                                  .is_aggressive = strcmp(text_of(test->json, "algorithm"), "aggressive") == 0,
                                  .is_conservative = json_is_true(json_object_get(test->json, "conservative"))};
    if (sp_factor_step_run(&step, &is_changed, &test->err) != SP_OK)
        return fail_with_error(test, "the step");
    for (uint32_t t = 0; t < count; t++) {
        const json_t *expected = t < inputs ? json_array_get(json_object_get(test->json, "expect_operands"), t)
                                            : json_array_get(json_object_get(test->json, "expect_results"), t - inputs);
        if (!compare_projected(test, mesh, &tensors[t], expected, t))
            return false;
    }
    return true;
}

int main(void)
{
    char path[4096];
    size_t size, index;
    unsigned passed = 0, failed = 0;
    json_error_t problem;
    const json_t *json;
    snprintf(path, sizeof(path), "%s/sdy_propagation_cases.json", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL) {
        printf("1..0 # SKIP %s is not there\n", path);
        return 0;
    }
    json_t *root = json_loadb((const char *)bytes, size, 0, &problem);
    json_array_foreach(json_object_get(root, "cases"), index, json)
    {
        struct test test = {.arena = sp_arena_create(NULL), .json = json, .name = text_of(json, "name")};
        bool is_factor = strcmp(text_of(json, "kind"), "factor") == 0;
        bool is_right = is_factor ? run_factor(&test) : run_graph(&test);
        members_skip(json, "name src note model_verified");
        const char *unread = members_unread(json);
        if (unread != NULL && is_right)
            is_right = fail(&test, "%s is not read", unread);
        const char *suite = is_factor ? "factor" : text_of(json, "suite");
        if (is_right)
            printf("ok %zu %s %s\n", index + 1, suite, test.name);
        else
            printf("not ok %zu %s %s: %s\n", index + 1, suite, test.name, test.why);
        passed += is_right;
        failed += !is_right;
        sp_arena_destroy(test.arena);
    }
    json_decref(root);
    free(bytes);
    printf("1..%u\n# shardy_propagation: %u passed, %u failed\n", passed + failed, passed, failed);
    return failed > 0 || passed == 0;
}
