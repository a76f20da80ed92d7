/*
 * What becomes of a sharding, by the rules of operators: XLA's helpers of propagation as small models whose input, or
 * result, is stated, and which are completed. Where a case has no shape, extents are twice the shards.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../unit/support/build_model.h"
#include "infer/propagate/propagate.h"
#include "infer/view/view.h"
#include "sharding_cases.h"

struct model {
    struct test *test;
    struct build build;
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment;
};

/* "2,3,6" */
static const char *dims_text(struct test *test, uint32_t rank, const int64_t *shape)
{
    const char *text = "";
    for (uint32_t axis = 0; axis < rank; axis++)
        text = sp_arena_printf(test->arena, "%s%s%" PRId64, text, axis > 0 ? "," : "", shape[axis]);
    return text;
}

static void begin(struct model *model, struct test *test)
{
    *model = (struct model){.test = test};
    build_init(&model->build, 21);
}

static void add_input(struct model *model, const char *name, uint32_t rank, const int64_t *shape)
{
    build_input(&model->build, name, SP_DTYPE_FLOAT, dims_text(model->test, rank, shape));
}

static bool infer_shapes(struct model *model)
{
    struct build *build = &model->build;
    bool is_ok =
        build_infer(build) == SP_OK &&
        sp_dataflow_create(build->arena, build->model, &model->dataflow, &build->err) == SP_OK &&
        sp_assignment_create(build->arena, model->dataflow, "c", 1, NULL, &model->assignment, &build->err) == SP_OK;
    if (!is_ok)
        differs(model->test, "the model is wrong: %s", build->err.message);
    return is_ok;
}

/* The operand's spec; those of outputs come behind those of inputs. */
static struct sp_spec_entry *spec_at(struct model *model, const struct sp_node *node, uint32_t operand)
{
    return sp_spec_of(model->assignment, sp_dataflow_node(model->dataflow, node), operand);
}

static void state(struct model *model, const struct sp_node *node, uint32_t operand, const struct sp_sharding *sharding,
                  enum sp_spec_origin origin)
{
    *spec_at(model, node, operand) = (struct sp_spec_entry){sharding, origin, NULL};
    if (sharding->kind == SP_SHARDING_AXES && sharding->mesh->order.count > model->assignment->device_count)
        model->assignment->device_count = sharding->mesh->order.count;
}

static bool complete(struct model *model)
{
    if (sp_infer_propagate(model->assignment, NULL, &model->build.err) == SP_OK)
        return true;
    differs(model->test, "not completed: %s", model->build.err.message);
    return false;
}

/* Cases whose result is another one here, and why. */
static const struct {
    const char *id, *reason;
} differences[] = {
    {"hs0464", "an axis of one element is not cut"},
    {"hs0471", "XLA pads: 2 elements are cut in 4 there"},
    {"hs0476", "of a cut of 14 in 4 the part that divides is carried, as Shardy does"},
    {"hs0506", "of two operands that want one mesh axis for different axes, the first has more shards"},
};

static const char *reason_for(const struct test *test)
{
    const char *id = json_string_value(json_object_get(test->in, "id"));
    for (size_t i = 0; id != NULL && i < sizeof differences / sizeof differences[0]; i++)
        if (strcmp(differences[i].id, id) == 0)
            return differences[i].reason;
    return NULL;
}

/* A difference must be found where one is listed. */
static void end(struct model *model)
{
    struct test *test = model->test;
    const char *reason = reason_for(test);
    if (reason != NULL && test->reason[0] == '\0')
        differs(test, "no longer differs: take it from the table");
    else if (reason != NULL) {
        printf("# %s differs: %s\n", json_string_value(json_object_get(test->in, "id")), reason);
        test->reason[0] = '\0';
    }
    build_release(&model->build);
}

/* What the operand has must hold the same as what the case expects. Of null nothing is compared: what a tile assignment
   cannot say, parts of axes may. */
static void expect_spec(struct model *model, const struct sp_node *node, uint32_t operand)
{
    struct test *test = model->test;
    const json_t *expected = json_object_get(test->in, "expect");
    const struct sp_sharding *found = spec_at(model, node, operand)->sharding;
    const struct sp_value *value =
        operand < node->input_count ? node->inputs[operand] : node->outputs[operand - node->input_count];
    uint32_t rank = value->type.shape.rank;
    int64_t shape[SP_MAX_RANK];
    bool is_equal = false;
    for (uint32_t axis = 0; axis < rank; axis++)
        shape[axis] = value->type.shape.dims[axis].value;
    const struct sp_sharding *wanted = json_is_string(expected) ? read_common(test, json_string_value(expected)) : NULL;
    if (wanted == NULL)
        return;
    if (found == NULL || sp_sharding_equal(test->arena, found, wanted, rank, shape, &is_equal, &test->err) != SP_OK ||
        !is_equal)
        differs(test, "expected %s, found %s %s", json_string_value(expected),
                found == NULL ? "nothing"
                : found->kind == SP_SHARDING_AXES
                    ? write_common(test, found, SP_HLO_V2)
                    : sp_spec_text(found, sp_arena_alloc(test->arena, SP_SPEC_TEXT_SIZE), SP_SPEC_TEXT_SIZE),
                test->err.message);
}

/* Nothing may be sent but to combine partial results. */
static void expect_no_reshard(struct model *model)
{
    struct sp_communications list = {0};
    if (sp_assignment_communications(model->assignment, &list, &model->build.err) != SP_OK)
        return differs(model->test, "%s", model->build.err.message);
    for (uint32_t i = 0; i < list.count; i++)
        if (list.items[i].kind == SP_COMMUNICATE_RESHARD)
            differs(model->test, "%s", list.items[i].because);
}

/* States the input of the first node and compares the output of the last. */
static void finish(struct model *model, struct sp_node *first, struct sp_node *last, const struct sp_sharding *sharding)
{
    if (infer_shapes(model)) {
        state(model, first, 0, sharding, SP_SPEC_GIVEN);
        if (complete(model)) {
            if (first == last) /* what is carried through one node is there */
                expect_no_reshard(model);
            expect_spec(model, last, last->input_count);
        }
    }
    end(model);
}

/* The sharding of the case with extents for it. */
static const struct sp_sharding *read_given(struct test *test, uint32_t *ret_rank, int64_t shape[SP_MAX_RANK])
{
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    if (sharding == NULL || sharding->kind != SP_SHARDING_AXES || sharding->rank > SP_MAX_RANK / 2) {
        differs(test, "the sharding has no axes");
        return NULL;
    }
    *ret_rank = sharding->rank;
    for (uint32_t axis = 0; axis < sharding->rank; axis++)
        shape[axis] = 2 * sp_sharding_shards(sharding, axis);
    return sharding;
}

/* ---- movements -------------------------------------------------------------------------------------------------- */

static void reshape(struct test *test, const struct sp_sharding *sharding, uint32_t from_rank, const int64_t *from,
                    uint32_t to_rank, const int64_t *to)
{
    struct model model;
    begin(&model, test);
    add_input(&model, "x", from_rank, from);
    build_ints(&model.build, "shape", (int)to_rank, to);
    struct sp_node *node = build_node(&model.build, "Reshape", "x shape", "y");
    finish(&model, node, node, sharding);
}

static void check_reshape(struct test *test)
{
    uint32_t from_rank, to_rank;
    const int64_t *from = get_numbers(test, "input_shape", &from_rank);
    const int64_t *to = get_numbers(test, "output_shape", &to_rank);
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    if (sharding != NULL && sharding->kind == SP_SHARDING_AXES && sharding->rank == from_rank)
        reshape(test, sharding, from_rank, from, to_rank, to);
    else
        differs(test, "the sharding is none of this tensor");
}

static void check_merge_dim(struct test *test)
{
    uint32_t rank, axis = (uint32_t)get_number(test, "dim");
    int64_t shape[SP_MAX_RANK], merged[SP_MAX_RANK];
    const struct sp_sharding *sharding = read_given(test, &rank, shape);
    if (sharding == NULL || axis + 1 >= rank)
        return differs(test, "there is no such dim");
    shape[axis + 1] /= 2; /* one element in each part: what comes behind a cut is cut on */
    shape[axis] /= 2;
    for (uint32_t i = 0; i + 1 < rank; i++)
        merged[i] = i < axis ? shape[i] : i == axis ? shape[axis] * shape[axis + 1] : shape[i + 1];
    reshape(test, sharding, rank, shape, rank - 1, merged);
}

static void check_split_dim(struct test *test)
{
    uint32_t rank, axis = (uint32_t)get_number(test, "dim");
    int64_t shape[SP_MAX_RANK], split[SP_MAX_RANK], size = get_number(test, "size");
    const struct sp_sharding *sharding = read_given(test, &rank, shape);
    if (sharding == NULL || axis >= rank || size < 1)
        return differs(test, "there is no such dim");
    shape[axis] *= size; /* so that both parts are of whole elements */
    for (uint32_t i = 0; i <= rank; i++)
        split[i] = i < axis ? shape[i] : i == axis ? size : i == axis + 1 ? shape[axis] / size : shape[i - 1];
    reshape(test, sharding, rank, shape, rank + 1, split);
}

static void check_transpose(struct test *test)
{
    uint32_t rank, count;
    int64_t shape[SP_MAX_RANK];
    const int64_t *perm = get_numbers(test, "perm", &count);
    const struct sp_sharding *sharding = read_given(test, &rank, shape);
    struct model model;
    if (sharding == NULL || rank != count)
        return differs(test, "the permutation has another rank");
    begin(&model, test);
    add_input(&model, "x", rank, shape);
    struct sp_node *node = build_node(&model.build, "Transpose", "x", "y");
    build_attr_ints(&model.build, node, "perm", count, perm);
    finish(&model, node, node, sharding);
}

/* Axes of one element are taken out, or put in. */
static void change_dims(struct test *test, const char *op, bool removes)
{
    uint32_t rank, count;
    int64_t shape[SP_MAX_RANK];
    const int64_t *dims = get_numbers(test, "dims", &count);
    const struct sp_sharding *sharding = read_given(test, &rank, shape);
    struct model model;
    if (sharding == NULL)
        return;
    for (uint32_t i = 0; removes && i < count; i++)
        shape[dims[i] % (int64_t)SP_MAX_RANK] = 1;
    begin(&model, test);
    add_input(&model, "x", rank, shape);
    build_ints(&model.build, "axes", (int)count, dims);
    struct sp_node *node = build_node(&model.build, op, "x axes", "y");
    finish(&model, node, node, sharding);
}

static void check_remove_dims(struct test *test)
{
    change_dims(test, "Squeeze", true);
}

static void check_add_dims(struct test *test)
{
    change_dims(test, "Unsqueeze", false);
}

/* Running sums need their axis whole. */
static void check_replicate_dims(struct test *test)
{
    uint32_t rank, count;
    int64_t shape[SP_MAX_RANK];
    const int64_t *dims = get_numbers(test, "dims", &count);
    const struct sp_sharding *sharding = read_given(test, &rank, shape);
    struct model model;
    struct sp_node *first = NULL, *last = NULL;
    if (sharding == NULL || count == 0)
        return differs(test, "there are no dims");
    begin(&model, test);
    add_input(&model, "x0", rank, shape);
    for (uint32_t i = 0; i < count; i++) {
        const char *axis = sp_arena_printf(test->arena, "a%" PRIu32, i);
        build_ints(&model.build, axis, -1, &dims[i]);
        last = build_node(&model.build, "CumSum", sp_arena_printf(test->arena, "x%" PRIu32 " %s", i, axis),
                          sp_arena_printf(test->arena, "x%" PRIu32, i + 1));
        first = first != NULL ? first : last;
    }
    finish(&model, first, last, sharding);
}

/* The other axes are reduced away, the copied ones brought in order, and new ones put in. */
static void check_copy_dims(struct test *test)
{
    uint32_t rank, count, targets, others = 0, added = 0;
    int64_t shape[SP_MAX_RANK], order[SP_MAX_RANK], reduced[SP_MAX_RANK], put_in[SP_MAX_RANK], kept[SP_MAX_RANK];
    const int64_t *from = get_numbers(test, "source_dims", &count), *to = get_numbers(test, "target_dims", &targets);
    int64_t target_rank = get_number(test, "target_rank");
    const struct sp_sharding *sharding = read_given(test, &rank, shape);
    struct model model;
    if (sharding == NULL || count != targets || target_rank > SP_MAX_RANK)
        return differs(test, "there is no source for each target");
    for (uint32_t axis = 0; axis < rank; axis++) {
        bool is_copied = false;
        for (uint32_t i = 0; i < count; i++)
            is_copied = is_copied || from[i] == axis;
        kept[axis] = axis - others; /* its place among those that are copied */
        if (!is_copied)
            reduced[others++] = axis;
    }
    for (int64_t axis = 0, next = 0; axis < target_rank; axis++) {
        bool is_copied = false;
        for (uint32_t i = 0; i < count; i++) {
            if (to[i] == axis)
                order[next] = kept[from[i]];
            is_copied = is_copied || to[i] == axis;
        }
        next += is_copied;
        if (!is_copied)
            put_in[added++] = axis;
    }
    begin(&model, test);
    add_input(&model, "x", rank, shape);
    build_ints(&model.build, "others", (int)others, reduced);
    build_ints(&model.build, "added", (int)added, put_in);
    struct sp_node *first = build_node(&model.build, "ReduceMax", "x others", "a");
    build_attr_int(&model.build, first, "keepdims", 0);
    struct sp_node *middle = build_node(&model.build, "Transpose", "a", "b");
    build_attr_ints(&model.build, middle, "perm", count, order);
    finish(&model, first, build_node(&model.build, "Unsqueeze", "b added", "y"), sharding);
}

/* ---- two shardings ---------------------------------------------------------------------------------------------- */

/* Of a sum, whose result takes what both operands say; where they contradict each other they do not merge. */
static void check_merge(struct test *test)
{
    const struct sp_sharding *a = read_common(test, get_text(test, "to_merge"));
    const struct sp_sharding *b = read_common(test, get_text(test, "dst"));
    bool is_expected = json_is_true(json_object_get(test->in, "expect_ok"));
    int64_t shape[SP_MAX_RANK];
    struct model model;
    (void)json_object_get(test->in, "expect");
    if (a == NULL || b == NULL || a->kind != SP_SHARDING_AXES || b->kind != SP_SHARDING_AXES || a->rank != b->rank)
        return differs(test, "the shardings are of different tensors");
    for (uint32_t axis = 0; axis < a->rank; axis++)
        shape[axis] = 2 * sp_sharding_shards(a, axis) * sp_sharding_shards(b, axis);
    begin(&model, test);
    add_input(&model, "a", a->rank, shape);
    add_input(&model, "b", a->rank, shape);
    struct sp_node *node = build_node(&model.build, "Add", "a b", "y");
    if (infer_shapes(&model)) {
        state(&model, node, 0, a, SP_SPEC_SET);
        state(&model, node, 1, b, SP_SPEC_SET);
        if (complete(&model) && is_expected)
            expect_spec(&model, node, 2);
        else if (!is_expected && model.assignment->stop_count == 0)
            differs(test, "nothing contradicts");
    }
    end(&model);
}

/* Labels of a product's axes: of the operands, and of the result behind them. */
struct product {
    char labels[3][SP_MAX_RANK + 1];
    char next;
};

static size_t read_side(const struct test *test, const char *side, const char *what, const json_t **ret_list)
{
    *ret_list = json_object_get(test->in, sp_arena_printf(test->arena, "%s_%s", side, what));
    return json_array_size(*ret_list);
}

/* Batch axes, then those that are left of each operand; contracted ones are in the operands alone. */
static bool label(struct test *test, uint32_t rank, uint32_t other_rank, struct product *product)
{
    static const char *const sides[] = {"lhs", "rhs"}, *const groups[] = {"batch", "contracting"};
    const uint32_t ranks[] = {rank, other_rank};
    product->next = 'a';
    for (size_t g = 0; g < 2; g++) {
        const json_t *lists[2];
        if (read_side(test, sides[0], groups[g], &lists[0]) != read_side(test, sides[1], groups[g], &lists[1]))
            return false;
        for (size_t i = 0; i < json_array_size(lists[0]); i++, product->next++) {
            for (size_t side = 0; side < 2; side++) {
                json_int_t axis = json_integer_value(json_array_get(lists[side], i));
                if (axis < 0 || axis >= ranks[side])
                    return false;
                product->labels[side][axis] = product->next;
            }
            if (g == 0)
                product->labels[2][i] = product->next;
        }
    }
    for (size_t side = 0; side < 2; side++) {
        for (uint32_t axis = 0; axis < ranks[side]; axis++) {
            if (product->labels[side][axis] == '\0')
                product->labels[2][strlen(product->labels[2])] = product->labels[side][axis] = product->next++;
        }
    }
    return product->next <= 'z';
}

static const char *first_text(const struct test *test, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        const char *text = json_string_value(json_object_get(test->in, *keys));
        if (text != NULL)
            return text;
    }
    return NULL;
}

/* One operand of a product, from the result's sharding and the other operand's. */
static void check_dot_operand(struct test *test)
{
    static const char *const results[] = {"result", "result_sharding", "dot_sharding", "output_sharding", NULL};
    static const char *const others[] = {"other", "other_sharding", "other_operand_sharding", NULL};
    const json_t *index = json_object_get(test->in, "operand_index");
    const uint32_t operand = (uint32_t)json_integer_value(index != NULL ? index : json_object_get(test->in, "operand"));
    uint32_t ranks[2];
    const int64_t *shapes[] = {get_numbers(test, "lhs_shape", &ranks[0]), get_numbers(test, "rhs_shape", &ranks[1])};
    const char *result = first_text(test, results), *other = first_text(test, others);
    struct product product = {0};
    struct model model;
    if (operand > 1 || (result == NULL && other == NULL) || !label(test, ranks[0], ranks[1], &product))
        return differs(test, "the case does not say what is multiplied");
    begin(&model, test);
    add_input(&model, "a", ranks[0], shapes[0]);
    add_input(&model, "b", ranks[1], shapes[1]);
    struct sp_node *node = build_node(&model.build, "Einsum", "a b", "y");
    build_attr_string(
        &model.build, node, "equation",
        sp_arena_printf(test->arena, "%s,%s->%s", product.labels[0], product.labels[1], product.labels[2]));
    const struct sp_sharding *of_result = result != NULL ? read_common(test, result) : NULL;
    const struct sp_sharding *of_other = other != NULL ? read_common(test, other) : NULL;
    if (infer_shapes(&model)) {
        if (of_result != NULL)
            state(&model, node, 2, of_result, SP_SPEC_SET);
        if (of_other != NULL)
            state(&model, node, 1 - operand, of_other, SP_SPEC_SET);
        if (complete(&model))
            expect_spec(&model, node, operand);
    }
    end(&model);
}

/* ---- choices of shardings ---------------------------------------------------------------------------------------- */

static size_t rank_of(const json_t *nodes, const char *name)
{
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *item = json_array_get(nodes, i);
        if (strcmp(json_string_value(json_array_get(item, 0)), name) == 0)
            return json_array_size(json_array_get(item, 2));
    }
    return 0;
}

/* A product of the graph, [NAME, "dot", SHAPE, {"args", "lhs_contract", "rhs_contract"}]: its axes are those that are
   left of the first operand, then of the second. */
static void add_product(struct model *model, const json_t *nodes, const json_t *item)
{
    struct test *test = model->test;
    const json_t *of = json_array_get(item, 3), *args = json_object_get(of, "args");
    const json_t *contracted[] = {json_object_get(of, "lhs_contract"), json_object_get(of, "rhs_contract")};
    char labels[3][SP_MAX_RANK + 1] = {{0}}, next = 'a';
    const char *names[2];
    for (size_t i = 0; i < json_array_size(contracted[0]); i++, next++)
        for (size_t side = 0; side < 2; side++)
            labels[side][json_integer_value(json_array_get(contracted[side], i)) % SP_MAX_RANK] = next;
    for (size_t side = 0; side < 2; side++) {
        names[side] = json_string_value(json_array_get(args, side));
        for (size_t axis = 0; axis < rank_of(nodes, names[side]); axis++)
            if (labels[side][axis] == '\0')
                labels[2][strlen(labels[2])] = labels[side][axis] = next++;
    }
    struct sp_node *node =
        build_node(&model->build, "Einsum", sp_arena_printf(test->arena, "%s %s", names[0], names[1]),
                   json_string_value(json_array_get(item, 0)));
    build_attr_string(&model->build, node, "equation",
                      sp_arena_printf(test->arena, "%s,%s->%s", labels[0], labels[1], labels[2]));
}

static void add_graph(struct model *model, const json_t *nodes)
{
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *item = json_array_get(nodes, i), *shape = json_array_get(item, 2);
        const char *op = json_string_value(json_array_get(item, 1));
        int64_t extents[SP_MAX_RANK];
        for (size_t axis = 0; axis < json_array_size(shape) && axis < SP_MAX_RANK; axis++)
            extents[axis] = json_integer_value(json_array_get(shape, axis));
        if (strcmp(op, "dot") == 0)
            add_product(model, nodes, item);
        else
            add_input(model, json_string_value(json_array_get(item, 0)), (uint32_t)json_array_size(shape), extents);
    }
}

/* What XLA's solver may choose fits together: each product makes of its operands what is listed. */
static void check_choice(struct test *test)
{
    const json_t *choices = get_list(test, "accept_any_of"), *nodes = get_list(test, "nodes");
    members_skip(test->in, "name options"); /* of the solver */
    for (size_t c = 0; c < json_array_size(choices); c++) {
        const json_t *choice = json_array_get(choices, c);
        struct model model;
        begin(&model, test);
        add_graph(&model, nodes);
        bool is_ok = infer_shapes(&model);
        for (uint32_t n = 0; is_ok && n < model.build.graph->node_count; n++) {
            const struct sp_node *node = &model.build.graph->nodes[n];
            for (uint32_t i = 0; i <= node->input_count; i++) {
                const struct sp_value *value = i < node->input_count ? node->inputs[i] : node->outputs[0];
                const char *text = json_string_value(json_object_get(choice, value->name));
                const struct sp_sharding *sharding = text != NULL ? read_common(test, text) : NULL;
                if (sharding != NULL)
                    state(&model, node, i, sharding, SP_SPEC_GIVEN);
            }
        }
        if (is_ok)
            expect_no_reshard(&model);
        build_release(&model.build);
    }
}

const struct check rule_checks[] = {
    {"reshape", check_reshape},
    {"reshape_propagate_best_effort", check_reshape},
    {"merge_dim_with_next", check_merge_dim},
    {"split_dim", check_split_dim},
    {"transpose", check_transpose},
    {"copy_dims", check_copy_dims},
    {"remove_dims", check_remove_dims},
    {"add_dims", check_add_dims},
    {"replicate_dims", check_replicate_dims},
    {"merge", check_merge},
    {"infer_dot_operand", check_dot_operand},
    {"end_to_end", check_choice},
    {NULL, NULL},
};
