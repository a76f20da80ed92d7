/*
 * ort_rules [FILE]: the Distributed* cases of ort_distributed_cases.json through our rules, as TAP. Each case is the
 * plain operator on the global tensors with the stated specs of its inputs. What the rule says of the output must be
 * the stated spec, with no more communication than ONNX Runtime has there, or come to it with no more; and what each
 * device holds of the output must be the published local values. Skips when there is no file.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "../unit/support/build_model.h"
#include "../unit/support/members.h"
#include "infer/view/view.h"
#include "sharding/dialect.h"
#include "sharding/reshard/collective_cost.h"

struct rule_case {
    const json_t *json;
    struct build build;
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment;
    struct sp_node *node;
    struct sp_sharding *stated; /* of the output */
    char reason[1024];          /* "" while nothing is wrong */
};

__attribute__((format(printf, 2, 3))) static void differs(struct rule_case *test, const char *format, ...)
{
    if (test->reason[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(test->reason, sizeof test->reason, format, args);
    va_end(args);
}

/* ---- the model ----------------------------------------------------------------------------------------------------
 */

static int64_t number_at(const json_t *list, size_t index)
{
    return json_integer_value(json_array_get(list, index));
}

/* "2,3,6" */
static void dims_text(const json_t *shape, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(shape) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i > 0 ? "," : "", number_at(shape, i));
}

/* Integers are constants: shapes, axes, bounds. */
static void add_input(struct rule_case *test, const json_t *input)
{
    const char *name = json_string_value(json_object_get(input, "name"));
    const json_t *values = json_object_get(input, "global_values");
    char dims[128];
    if (strcmp(json_string_value(json_object_get(input, "dtype")), "int64") != 0 || !json_is_array(values)) {
        dims_text(json_object_get(input, "global_shape"), dims, sizeof dims);
        build_input(&test->build, name, SP_DTYPE_FLOAT, dims);
        return;
    }
    int64_t numbers[16];
    size_t count = json_array_size(values);
    for (size_t i = 0; i < count && i < 16; i++)
        numbers[i] = number_at(values, i);
    build_ints(&test->build, name, (int)count, numbers);
}

static void build_case(struct rule_case *test)
{
    const json_t *inputs = json_object_get(test->json, "inputs"), *attribute;
    const char *op = json_string_value(json_object_get(test->json, "op")), *key;
    char names[256];
    size_t used = 0;
    build_init(&test->build, 18);
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const json_t *input = json_array_get(inputs, i);
        add_input(test, input);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? " " : "",
                                 json_string_value(json_object_get(input, "name")));
    }
    test->node = build_node(&test->build, op + strlen("Distributed"), names, "result");
    json_object_foreach((json_t *)json_object_get(test->json, "attributes"), key, attribute)
    {
        if (json_is_integer(attribute))
            build_attr_int(&test->build, test->node, key, json_integer_value(attribute));
    }
}

static struct sp_sharding *read_spec(struct rule_case *test, const json_t *tensor, const struct sp_value *value)
{
    int64_t shape[SP_MAX_RANK];
    struct sp_sharding *sharding = NULL;
    char *mesh = json_dumps(json_object_get(tensor, "device_mesh_shape"), JSON_COMPACT);
    char *elements = json_dumps(json_object_get(tensor, "device_mesh_elements"), JSON_COMPACT);
    const char *text = sp_arena_printf(test->build.arena, "%s device_mesh_shape=%s device_mesh_elements=%s",
                                       json_string_value(json_object_get(tensor, "shard_spec")), mesh, elements);
    const json_t *extents = json_object_get(tensor, "global_shape");
    struct sp_dialect_context context = {.rank = (int64_t)json_array_size(extents),
                                         .shape = shape,
                                         .device_count = json_integer_value(json_object_get(test->json, "world_size"))};
    for (size_t i = 0; i < json_array_size(extents) && i < SP_MAX_RANK; i++)
        shape[i] = number_at(extents, i);
    if (value->type.shape.rank != context.rank)
        differs(test, "'%s' has %" PRIu32 " axes", value->name, value->type.shape.rank);
    else if (sp_dialect_read(test->build.arena, &(struct sp_dialect_text){SP_DIALECT_ORT, text, strlen(text)}, &context,
                             &sharding, NULL, &test->build.err) != SP_OK)
        differs(test, "%s: %s", text, test->build.err.message);
    free(mesh);
    free(elements);
    return sharding;
}

static void specify(struct rule_case *test)
{
    const json_t *inputs = json_object_get(test->json, "inputs"),
                 *output = json_array_get(json_object_get(test->json, "outputs"), 0);
    int64_t devices = json_integer_value(json_object_get(test->json, "world_size"));
    if (build_infer(&test->build) != SP_OK ||
        sp_dataflow_create(test->build.arena, test->build.model, &test->dataflow, &test->build.err) != SP_OK ||
        sp_assignment_create(test->build.arena, test->dataflow, "c", devices, NULL, &test->assignment,
                             &test->build.err) != SP_OK) {
        differs(test, "%s", test->build.err.message);
        return;
    }
    for (uint32_t i = 0; i < test->node->input_count; i++)
        *sp_spec_of(test->assignment, 0, i) = (struct sp_spec_entry){
            read_spec(test, json_array_get(inputs, i), test->node->inputs[i]), SP_SPEC_GIVEN, NULL};
    test->stated = read_spec(test, output, test->node->outputs[0]);
    *sp_spec_of(test->assignment, 0, test->node->input_count) =
        (struct sp_spec_entry){test->stated, SP_SPEC_GIVEN, NULL};
}

/* ---- communication --------------------------------------------------------------------------------------------------
 */

/* What ONNX Runtime sends, by the formulas of collective_cost.h. */
static double stated_bytes(const struct rule_case *test)
{
    const json_t *list = json_object_get(test->json, "ort_communication");
    double devices = (double)json_integer_value(json_object_get(test->json, "world_size")), bytes = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        bool gathers = strcmp(json_string_value(json_object_get(item, "collective")), "AllGather") == 0;
        const char *count = gathers ? "gathered_elements" : "elements_per_rank";
        bytes += sp_collective_bytes(gathers ? SP_ALL_GATHER : SP_ALL_REDUCE, devices,
                                     4.0 * (double)json_integer_value(json_object_get(item, count)));
    }
    return bytes;
}

/* Each stated collective has one of ours beside it: a sum of partial results, or an axis that is needed whole. Ours may
   do without. */
static void check_kinds(struct rule_case *test, const struct sp_communications *ours)
{
    const json_t *list = json_object_get(test->json, "ort_communication");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *collective = json_string_value(json_object_get(item, "collective"));
        const char *reduce = json_string_value(json_object_get(item, "reduce"));
        bool reduces = strcmp(collective, "AllReduce") == 0, is_found = ours->count == 0;
        for (uint32_t c = 0; c < ours->count; c++)
            is_found = is_found || (ours->items[c].kind == SP_COMMUNICATE_REDUCE) == reduces;
        if (!is_found || (reduces && strcmp(reduce, "sum") != 0))
            differs(test, "there is no %s of %s", collective, reduces ? reduce : "an axis");
        members_skip(item, "tensor dtype axis local_elements");
    }
}

static void check_communication(struct rule_case *test, const struct sp_view *view)
{
    struct sp_communications list = {0};
    double bytes = 0;
    if (sp_view_communications(test->assignment, &test->dataflow->relations[0], view, &list, &test->build.err) !=
        SP_OK) {
        differs(test, "%s", test->build.err.message);
        return;
    }
    for (uint32_t i = 0; i < list.count; i++)
        bytes += list.items[i].bytes;
    check_kinds(test, &list);
    if (bytes > stated_bytes(test))
        differs(test, "%g bytes are sent, ONNX Runtime sends %g: %s", bytes, stated_bytes(test),
                list.count > 0 ? list.items[0].because : "");
}

/* ---- values ---------------------------------------------------------------------------------------------------------
 */

/* The global indices that a device holds, row-major; false when it holds several shards. */
static bool list_held(struct rule_case *test, const struct sp_sharding *sharding, const int64_t *shape, uint32_t rank,
                      int64_t device, int64_t *ret_count, int64_t **ret_indices)
{
    struct sp_held held;
    int64_t count = 0, total = 1;
    if (sp_sharding_held(test->build.arena, sharding, rank, shape, device, &held, &test->build.err) != SP_OK ||
        held.shard_count != 1)
        return false;
    for (uint32_t a = 0; a < rank; a++)
        total *= shape[a];
    int64_t *indices = SP_NEW_ARRAY(test->build.arena, (size_t)total, int64_t);
    for (int64_t index = 0; index < total; index++) {
        bool is_inside = true;
        int64_t rest = index;
        for (uint32_t a = rank; a-- > 0; rest /= shape[a]) {
            bool is_on_axis = false;
            for (uint32_t r = 0; r < held.shards[a].count; r++)
                is_on_axis = is_on_axis || (rest % shape[a] >= held.shards[a].ranges[r].start &&
                                            rest % shape[a] < held.shards[a].ranges[r].limit);
            is_inside = is_inside && is_on_axis;
        }
        if (is_inside)
            indices[count++] = index;
    }
    *ret_count = count;
    *ret_indices = indices;
    return true;
}

/* The values that operators which only move data give are those of their input. Others are put together from what the
   devices hold: where several hold an element they must agree, and every element must be somewhere. */
static void check_values(struct rule_case *test, const struct sp_sharding *sharding)
{
    const json_t *output = json_array_get(json_object_get(test->json, "outputs"), 0);
    const json_t *locals = json_object_get(output, "local_values"), *values;
    const json_t *global = json_object_get(json_array_get(json_object_get(test->json, "inputs"), 0), "global_values");
    const char *op = json_string_value(json_object_get(test->json, "op")), *device;
    bool moves = strstr(op, "Reshape") || strstr(op, "queeze");
    const struct sp_shape *type = &test->node->outputs[0]->type.shape;
    int64_t shape[SP_MAX_RANK], total = 1, count = 0, *indices = NULL;
    for (uint32_t a = 0; a < type->rank; a++)
        total *= shape[a] = type->dims[a].value;
    double *all = SP_NEW_ARRAY(test->build.arena, (size_t)total, double);
    for (int64_t i = 0; i < total; i++)
        all[i] = moves && json_is_array(global) ? json_number_value(json_array_get(global, (size_t)i))
                                                : (double)__builtin_nan("");
    json_object_foreach((json_t *)locals, device, values)
    {
        if (!list_held(test, sharding, shape, type->rank, strtoll(device, NULL, 10), &count, &indices) ||
            (size_t)count != json_array_size(values)) {
            differs(test, "device %s does not hold %zu elements", device, json_array_size(values));
            return;
        }
        for (int64_t i = 0; i < count; i++) {
            double expected = json_number_value(json_array_get(values, (size_t)i));
            if (all[indices[i]] != all[indices[i]])
                all[indices[i]] = expected;
            if (all[indices[i]] != expected)
                differs(test, "device %s: element %" PRId64 " is %g, not %g", device, i, all[indices[i]], expected);
        }
    }
    for (int64_t i = 0; i < total && locals; i++)
        if (all[i] != all[i])
            differs(test, "element %" PRId64 " is on no device", i);
}

/* ---- one case -------------------------------------------------------------------------------------------------------
 */

static void check_result(struct rule_case *test)
{
    struct sp_view *view = NULL;
    const struct sp_shape *type = &test->node->outputs[0]->type.shape;
    int64_t shape[SP_MAX_RANK];
    char text[SP_SPEC_TEXT_SIZE], other[SP_SPEC_TEXT_SIZE];
    bool is_equal = false;
    if (sp_view_create(test->build.arena, test->assignment, &test->dataflow->relations[0], &view, &test->build.err) !=
        SP_OK) {
        differs(test, "%s", test->build.err.message);
        return;
    }
    /* A whole input is sliced, and a sliced axis gathered, as ONNX Runtime does. */
    for (uint32_t i = 0; i < view->conflict_count; i++)
        if (view->conflicts[i].kind != SP_CONFLICT_WHOLE && view->conflicts[i].kind != SP_CONFLICT_NEEDS_WHOLE)
            differs(test, "%s", view->conflicts[i].message);
    if (!view->results[0]) {
        differs(test, "nothing follows for the output");
        return;
    }
    for (uint32_t a = 0; a < type->rank; a++)
        shape[a] = type->dims[a].value;
    if (sp_sharding_equal(test->build.arena, view->results[0], test->stated, type->rank, shape, &is_equal,
                          &test->build.err) != SP_OK)
        differs(test, "%s", test->build.err.message);
    if (!is_equal && json_array_size(json_object_get(test->json, "ort_communication")) == 0)
        differs(test, "the rule gives %s, stated is %s", sp_spec_text(view->results[0], text, sizeof text),
                sp_spec_text(test->stated, other, sizeof other));
    check_communication(test, view);
    /* A stated spec in several shards for a device is written otherwise by the rule, and holds the same. */
    if (test->reason[0] == '\0')
        check_values(test, is_equal ? view->results[0] : test->stated);
}

/* What ort_cases compares of each tensor. */
static void skip_of_tensors(const json_t *tensors)
{
    for (size_t i = 0; i < json_array_size(tensors); i++)
        members_skip(json_array_get(tensors, i),
                     "name dtype onnx_sharding_equivalent local_shapes local_values local_summary global_values");
}

static bool run_case(const json_t *json)
{
    struct rule_case test = {.json = json};
    build_case(&test);
    specify(&test);
    if (test.reason[0] == '\0')
        check_result(&test);
    members_skip(json, "id category source domain since_version expected ort_kernel_path note");
    skip_of_tensors(json_object_get(json, "inputs"));
    skip_of_tensors(json_object_get(json, "outputs"));
    const char *unread = members_unread(json);
    if (unread != NULL)
        differs(&test, "%s is not read", unread);
    bool passed = test.reason[0] == '\0';
    printf("%sok ort/rules %s%s%s\n", passed ? "" : "not ", json_string_value(json_object_get(json, "id")),
           passed ? "" : ": ", test.reason);
    build_release(&test.build);
    return passed;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("SHARDPLAN_TEST_DATA");
    char path[4096];
    json_error_t problem;
    size_t passed = 0;
    (void)snprintf(path, sizeof path, "%s/ort_distributed_cases.json",
                   folder != NULL ? folder : SOURCE_ROOT "/../shared/data");
    if (argc > 1)
        (void)snprintf(path, sizeof path, "%s", argv[1]);
    if (access(path, R_OK) != 0) {
        printf("ok ort-rules # SKIP no data\n");
        return 0;
    }
    json_t *file = json_load_file(path, 0, &problem);
    if (file == NULL) {
        printf("not ok ort-rules: %s\n", problem.text);
        return 1;
    }
    const json_t *cases = json_object_get(file, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++)
        passed += run_case(json_array_get(cases, i));
    printf("# ort/rules: %zu of %zu\n", passed, json_array_size(cases));
    bool is_good = passed == json_array_size(cases);
    json_decref(file);
    return is_good ? 0 : 1;
}
