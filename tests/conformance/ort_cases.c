/*
 * ort_cases [FILE]: the grammar and the tensors of ort_distributed_cases.json as lines of TAP, how many of each kind
 * passed, and ONNX's golden bytes. The file is looked for in $SHARDPLAN_TEST_DATA, then in ../shared/data beside the
 * source tree; without it only the golden bytes run.
 */
#include "ort_cases.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- results ---- */

void case_begin(struct tap_case *test)
{
    memset(test, 0, sizeof *test);
    test->arena = sp_arena_create(NULL);
}

void case_differs(struct tap_case *test, const char *format, ...)
{
    if (test->reason[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(test->reason, sizeof test->reason, format, args);
    va_end(args);
}

void case_end(struct tap_case *test, struct tap_count *count, const char *id)
{
    bool passed = test->reason[0] == '\0';
    printf("%sok %s %s%s%s\n", passed ? "" : "not ", count->kind, id, passed ? "" : ": ", test->reason);
    count->total++;
    count->passed += passed;
    sp_arena_destroy(test->arena);
}

void case_read_all(struct tap_case *test, const json_t *json)
{
    const char *unread = members_unread(json);
    if (unread != NULL)
        case_differs(test, "%s is not read", unread);
}

bool count_end(const struct tap_count *count)
{
    printf("# %s: %d of %d\n", count->kind, count->passed, count->total);
    return count->passed == count->total;
}

struct sp_sharding *case_read(struct tap_case *test, enum sp_dialect dialect, const char *text,
                              const struct sp_dialect_context *context)
{
    struct sp_sharding *sharding = NULL;
    struct sp_losses losses = {0};
    sp_error_clear(&test->err);
    if (sp_dialect_read(test->arena, &(struct sp_dialect_text){dialect, text, strlen(text)}, context, &sharding,
                        &losses, &test->err) != SP_OK)
        case_differs(test, "%s is not read: %s", text, test->err.message);
    return sharding;
}

/* ---- grammar ---- */

/* What ONNX Runtime accepts but says nothing is refused here; the file marks it. */
static bool is_accepted(const json_t *entry)
{
    const char *note = json_string_value(json_object_get(entry, "note"));
    return json_is_true(json_object_get(entry, "ok")) && (note == NULL || strstr(note, "strict") == NULL);
}

static void check_spec_string(struct tap_case *test, const json_t *entry, const char *text)
{
    struct sp_ort_spec spec;
    enum sp_status status = sp_ort_read_spec(test->arena, text, strlen(text), &spec, &test->err);
    const json_t *axes = json_object_get(entry, "axes");
    if ((status == SP_OK) != is_accepted(entry))
        case_differs(test, "%s", status == SP_OK ? "should be refused" : test->err.message);
    if (status != SP_OK)
        return;
    if (spec.rank != json_array_size(axes))
        case_differs(test, "has %" PRIu32 " axes", spec.rank);
    for (uint32_t i = 0; i < spec.rank && i < json_array_size(axes); i++) {
        char axis[32] = "R";
        if (spec.mesh_axes[i] >= 0)
            (void)snprintf(axis, sizeof axis, "S%" PRId64, spec.mesh_axes[i]);
        if (strcmp(axis, json_string_value(json_array_get(axes, i))) != 0)
            case_differs(test, "axis %" PRIu32 " is %s", i, axis);
    }
}

static void check_mesh_string(struct tap_case *test, const json_t *entry, const char *text)
{
    int64_t count, *items;
    enum sp_status status = sp_ort_read_ints(test->arena, text, strlen(text), &count, &items, &test->err);
    const json_t *value = json_object_get(entry, "value");
    if ((status == SP_OK) != is_accepted(entry))
        case_differs(test, "%s", status == SP_OK ? "should be refused" : test->err.message);
    if (status != SP_OK)
        return;
    if ((size_t)count != json_array_size(value))
        case_differs(test, "has %" PRId64 " numbers", count);
    for (int64_t i = 0; i < count; i++) {
        if (items[i] != json_integer_value(json_array_get(value, (size_t)i)))
            case_differs(test, "number %" PRId64 " is %" PRId64, i, items[i]);
    }
}

static bool run_grammar(const json_t *file)
{
    struct tap_count count = {.kind = "ort/grammar"};
    const json_t *grammar = json_object_get(file, "grammar"), *entries;
    const char *kind;
    json_object_foreach((json_t *)grammar, kind, entries)
    {
        for (size_t i = 0; i < json_array_size(entries); i++) {
            const json_t *entry = json_array_get(entries, i);
            const char *text = json_string_value(json_object_get(entry, "in"));
            struct tap_case test;
            char id[128];
            case_begin(&test);
            (void)snprintf(id, sizeof id, "%s '%s'", kind, text);
            if (strcmp(kind, "shard_spec") == 0)
                check_spec_string(&test, entry, text);
            else if (strcmp(kind, "mesh_string") == 0)
                check_mesh_string(&test, entry, text);
            else
                case_differs(&test, "there is no check for this");
            members_skip(entry, "note error axes value");
            case_read_all(&test, entry);
            case_end(&test, &count, id);
        }
    }
    return count_end(&count);
}

/* ---- tensors ---- */

struct tensor {
    const json_t *json, *node; /* the tensor and its case */
    uint32_t rank;
    int64_t shape[SP_MAX_RANK], element_count, world;
    struct sp_dialect_context context;
    struct sp_sharding *sharding;
    double *values; /* global, or NULL when the case has none */
};

static double number_of(const json_t *json)
{
    return json_is_boolean(json) ? (double)json_boolean_value(json) : json_number_value(json);
}

/* The spec with its mesh: as integers (JSON), as attribute strings (JSON), and as text. */
static char *spec_text(const json_t *json, int form)
{
    const json_t *shape = json_object_get(json, "device_mesh_shape");
    const json_t *elements = json_object_get(json, "device_mesh_elements");
    const char *spec = json_string_value(json_object_get(json, "shard_spec"));
    char *shape_text = json_dumps(shape, 0), *elements_text = json_dumps(elements, 0), *text = NULL;
    static const char *const formats[] = {
        "{\"shard_spec\": \"%s\", \"device_mesh_shape\": %s, \"device_mesh_elements\": %s}",
        "{\"shard_spec\": \"%s\", \"device_mesh_shape\": \"%s\", \"device_mesh_elements\": \"%s\"}",
        "%s device_mesh_shape=%s device_mesh_elements=%s",
    };
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (asprintf(&text, formats[form], spec, shape_text, elements_text) < 0)
        text = NULL;
#pragma GCC diagnostic pop
    free(shape_text);
    free(elements_text);
    return text;
}

/* The elements that a device holds, in order: on each tensor axis the indices of its shards one after the other. (Only
   one axis of these tensors is split, so several shards differ there alone.) */
struct local {
    uint32_t count[SP_MAX_RANK];
    int64_t *indices[SP_MAX_RANK];
};

static bool locate(struct tap_case *test, const struct tensor *tensor, const struct sp_sharding *sharding,
                   int64_t device, struct local *ret_local)
{
    struct sp_held held;
    memset(ret_local, 0, sizeof *ret_local);
    if (sp_sharding_held(test->arena, sharding, tensor->rank, tensor->shape, device, &held, &test->err) != SP_OK) {
        case_differs(test, "what device %" PRId64 " holds is not known: %s", device, test->err.message);
        return false;
    }
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        ret_local->indices[axis] = SP_NEW_ARRAY(test->arena, (size_t)tensor->shape[axis] + 1, int64_t);
        for (uint32_t shard = 0; shard < held.shard_count; shard++) {
            const struct sp_axis_ranges *ranges = &held.shards[shard * held.rank + axis];
            const struct sp_axis_ranges *first = &held.shards[axis];
            bool same =
                shard > 0 && ranges->count > 0 && first->count > 0 && ranges->ranges[0].start == first->ranges[0].start;
            for (uint32_t i = 0; !same && i < ranges->count; i++) {
                for (int64_t at = ranges->ranges[i].start; at < ranges->ranges[i].limit; at++)
                    ret_local->indices[axis][ret_local->count[axis]++] = at;
            }
        }
    }
    return true;
}

/* The global index of local element `at`, row-major. */
static int64_t global_index(const struct tensor *tensor, const struct local *local, int64_t at)
{
    int64_t index = 0, stride = 1;
    for (uint32_t axis = tensor->rank; axis-- > 0;) {
        index += local->indices[axis][at % local->count[axis]] * stride;
        at /= local->count[axis];
        stride *= tensor->shape[axis];
    }
    return index;
}

static int64_t local_size(const struct tensor *tensor, const struct local *local)
{
    int64_t size = 1;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        size *= local->count[axis];
    return size;
}

static void check_local_shape(struct tap_case *test, const struct tensor *tensor, const struct local *local,
                              const char *device)
{
    const json_t *shapes = json_object_get(tensor->json, "local_shapes");
    const json_t *shape = json_object_get(shapes, device);
    if (shapes != NULL && json_array_size(shape) != tensor->rank)
        case_differs(test, "device %s has no local shape of this rank", device);
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        int64_t expected = shapes == NULL ? tensor->shape[axis] : json_integer_value(json_array_get(shape, axis));
        if (expected != local->count[axis])
            case_differs(test, "device %s: axis %" PRIu32 " has %" PRIu32 " elements, expected %" PRId64, device, axis,
                         local->count[axis], expected);
    }
}

static uint32_t crc32(uint32_t crc, const unsigned char *bytes, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

/* Long tensors: the number of elements, the first and last few, and a checksum of the 32-bit floats. */
static void check_summary(struct tap_case *test, const struct tensor *tensor, const struct local *local,
                          const json_t *summary, const char *device)
{
    int64_t size = local_size(tensor, local);
    const json_t *first = json_object_get(summary, "first8"), *last = json_object_get(summary, "last8");
    int64_t last_count = (int64_t)json_array_size(last);
    uint32_t crc = 0;
    char text[16];
    if (size != json_integer_value(json_object_get(summary, "numel")))
        case_differs(test, "device %s has %" PRId64 " elements", device, size);
    for (int64_t i = 0; i < size; i++) {
        float value = (float)tensor->values[global_index(tensor, local, i)];
        unsigned char bytes[sizeof value];
        memcpy(bytes, &value, sizeof value);
        crc = crc32(crc, bytes, sizeof bytes);
        if ((size_t)i < json_array_size(first) && value != (float)number_of(json_array_get(first, (size_t)i)))
            case_differs(test, "device %s: element %" PRId64 " is %g", device, i, (double)value);
        if (i >= size - last_count && value != (float)number_of(json_array_get(last, (size_t)(i - size + last_count))))
            case_differs(test, "device %s: element %" PRId64 " is %g", device, i, (double)value);
    }
    (void)snprintf(text, sizeof text, "%08" PRIx32, crc);
    if (strcmp(text, json_string_value(json_object_get(summary, "crc32_f32le"))) != 0)
        case_differs(test, "device %s: the checksum is %s", device, text);
}

/* Against the global values. Those of a computed output are not in the file: it is put together from the local ones,
   which must agree where several devices hold an element. */
static void check_values(struct tap_case *test, struct tensor *tensor, const struct local *local, const json_t *values,
                         const char *device)
{
    int64_t size = local_size(tensor, local);
    if (size != (int64_t)json_array_size(values)) {
        case_differs(test, "device %s has %" PRId64 " elements, expected %zu", device, size, json_array_size(values));
        return;
    }
    for (int64_t i = 0; i < size; i++) {
        double *global = &tensor->values[global_index(tensor, local, i)];
        double expected = number_of(json_array_get(values, (size_t)i));
        if (*global != *global)
            *global = expected;
        if (*global != expected)
            case_differs(test, "device %s: element %" PRId64 " is %g, expected %g", device, i, *global, expected);
    }
}

static void check_devices(struct tap_case *test, struct tensor *tensor)
{
    const json_t *all_values = json_object_get(tensor->json, "local_values");
    const json_t *summaries = json_object_get(tensor->json, "local_summary");
    for (int64_t device = 0; device < tensor->world; device++) {
        struct local local;
        char name[24];
        (void)snprintf(name, sizeof name, "%" PRId64, device);
        if (!locate(test, tensor, tensor->sharding, device, &local))
            return;
        check_local_shape(test, tensor, &local, name);
        if (test->reason[0] != '\0')
            return;
        if (all_values != NULL)
            check_values(test, tensor, &local, json_object_get(all_values, name), name);
        if (summaries != NULL)
            check_summary(test, tensor, &local, json_object_get(summaries, name), name);
    }
    for (int64_t i = 0; i < tensor->element_count && (all_values != NULL || summaries != NULL); i++) {
        if (tensor->values[i] != tensor->values[i])
            case_differs(test, "element %" PRId64 " is on no device", i);
    }
}

/* The global values of the tensor; those of operators that only move data are those of their first input. */
static void load_values(struct tap_case *test, struct tensor *tensor)
{
    const char *op = json_string_value(json_object_get(tensor->node, "op"));
    const json_t *values = json_object_get(tensor->json, "global_values");
    bool moves = strcmp(op, "DistributedReshape") == 0 || strcmp(op, "DistributedSqueeze") == 0 ||
                 strcmp(op, "DistributedUnsqueeze") == 0;
    if (values == NULL && moves)
        values = json_object_get(json_array_get(json_object_get(tensor->node, "inputs"), 0), "global_values");
    tensor->values = SP_NEW_ARRAY(test->arena, (size_t)tensor->element_count + 1, double);
    const char *pattern = json_string_value(json_object_get(values, "pattern"));
    if (pattern != NULL && strcmp(pattern, "arange") != 0)
        case_differs(test, "the pattern %s is not known", pattern);
    for (int64_t i = 0; i < tensor->element_count; i++)
        tensor->values[i] = pattern != NULL         ? (double)i
                            : json_is_array(values) ? number_of(json_array_get(values, (size_t)i))
                                                    : (double)__builtin_nan("");
}

static void load_tensor(struct tap_case *test, const json_t *node, const json_t *json, struct tensor *tensor)
{
    const json_t *shape = json_object_get(json, "global_shape");
    memset(tensor, 0, sizeof *tensor);
    tensor->json = json;
    tensor->node = node;
    tensor->world = json_integer_value(json_object_get(node, "world_size"));
    tensor->element_count = 1;
    tensor->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        tensor->shape[i] = json_integer_value(json_array_get(shape, i));
        tensor->element_count *= tensor->shape[i];
    }
    tensor->context =
        (struct sp_dialect_context){.rank = tensor->rank, .shape = tensor->shape, .device_count = tensor->world};
    for (int form = 0; form < 3; form++) {
        char *text = spec_text(json, form);
        struct sp_sharding *sharding = case_read(test, SP_DIALECT_ORT, text, &tensor->context);
        bool equal = form == 0;
        if (sharding != NULL && form > 0 && tensor->sharding != NULL)
            (void)sp_sharding_equal(test->arena, tensor->sharding, sharding, tensor->rank, tensor->shape, &equal,
                                    &test->err);
        if (!equal)
            case_differs(test, "%s does not say the same as the integers", text);
        if (form == 0)
            tensor->sharding = sharding;
        free(text);
    }
    load_values(test, tensor);
}

/* Whether each device holds the same elements in the same order. */
static void expect_same_holdings(struct tap_case *test, const struct tensor *tensor, const struct sp_sharding *other,
                                 const char *what)
{
    bool equal = false;
    if (sp_sharding_equal(test->arena, tensor->sharding, other, tensor->rank, tensor->shape, &equal, &test->err) !=
        SP_OK)
        case_differs(test, "%s: %s", what, test->err.message);
    if (!equal)
        case_differs(test, "%s is not equal", what);
    for (int64_t device = 0; device < tensor->world; device++) {
        struct local a, b;
        if (!locate(test, tensor, tensor->sharding, device, &a) || !locate(test, tensor, other, device, &b))
            return;
        for (uint32_t axis = 0; axis < tensor->rank; axis++) {
            if (a.count[axis] != b.count[axis] ||
                memcmp(a.indices[axis], b.indices[axis], a.count[axis] * sizeof(int64_t)) != 0)
                case_differs(test, "%s: device %" PRId64 " holds others on axis %" PRIu32, what, device, axis);
        }
    }
}

/* Writes in one dialect and reads again. */
static struct sp_sharding *through(struct tap_case *test, const struct tensor *tensor,
                                   const struct sp_sharding *sharding, enum sp_dialect dialect, const char **ret_text)
{
    struct sp_losses losses = {0};
    struct sp_buf buf;
    struct sp_sharding *again = NULL;
    sp_buf_init(&buf, SP_MAX_SHARDING_BYTES);
    *ret_text = "";
    if (sp_dialect_write(test->arena, dialect, sharding, &tensor->context, &buf, &losses, &test->err) != SP_OK)
        case_differs(test, "not written as %s: %s", sp_dialect_name(dialect), test->err.message);
    else
        *ret_text = sp_arena_string(test->arena, buf.data, buf.size);
    if (**ret_text != '\0')
        again = case_read(test, dialect, *ret_text, &tensor->context);
    sp_buf_release(&buf);
    return again;
}

/* The ShardingSpecProto that the file gives, as we would write it. */
static const char *canonical_json(struct tap_case *test, const char *text)
{
    struct sp_sharding_spec spec;
    struct sp_json json;
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_SHARDING_BYTES);
    sp_json_init_buf(&json, false, &buf);
    if (sp_onnx_spec_read_json(test->arena, text, strlen(text), &spec, &test->err) == SP_OK)
        sp_onnx_spec_write_json(&spec, &json);
    (void)sp_json_finish(&json, NULL);
    const char *result = sp_arena_string(test->arena, buf.size > 0 ? buf.data : "", buf.size);
    sp_buf_release(&buf);
    return result;
}

static void check_equivalent(struct tap_case *test, const struct tensor *tensor, const json_t *equivalent)
{
    const char *onnx_text, *ort_text;
    char *text = json_dumps(equivalent, 0);
    struct sp_sharding *onnx = case_read(test, SP_DIALECT_ONNX, text, &tensor->context);
    if (onnx != NULL && tensor->sharding != NULL) {
        expect_same_holdings(test, tensor, onnx, "the ONNX equivalent");
        struct sp_sharding *written = through(test, tensor, tensor->sharding, SP_DIALECT_ONNX, &onnx_text);
        if (written != NULL)
            expect_same_holdings(test, tensor, written, "the sharding written for ONNX");
        if (strcmp(onnx_text, canonical_json(test, text)) != 0)
            case_differs(test, "expected %s, found %s", canonical_json(test, text), onnx_text);
        written = through(test, tensor, onnx, SP_DIALECT_ORT, &ort_text);
        if (written != NULL)
            expect_same_holdings(test, tensor, written, "the ONNX equivalent written for ONNX Runtime");
    }
    free(text);
}

static void run_tensors(const json_t *node, const char *list, struct tap_count *tensors, struct tap_count *equivalents)
{
    const json_t *items = json_object_get(node, list);
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *json = json_array_get(items, i), *equivalent = json_object_get(json, "onnx_sharding_equivalent");
        struct tap_case test;
        struct tensor tensor;
        char id[256];
        (void)snprintf(id, sizeof id, "%s/%s", json_string_value(json_object_get(node, "id")),
                       json_string_value(json_object_get(json, "name")));
        case_begin(&test);
        load_tensor(&test, node, json, &tensor);
        if (tensor.sharding != NULL)
            check_devices(&test, &tensor);
        members_skip(json, "dtype"); /* ort_rules builds the operators */
        if (equivalent == NULL)
            case_read_all(&test, json);
        case_end(&test, tensors, id);
        if (equivalent == NULL)
            continue;
        case_begin(&test);
        load_tensor(&test, node, json, &tensor);
        check_equivalent(&test, &tensor, equivalent);
        members_skip(json, "onnx_sharding_equivalent"); /* read as a whole */
        case_read_all(&test, json);
        case_end(&test, equivalents, id);
    }
}

static bool run_cases(const json_t *file)
{
    struct tap_count tensors = {.kind = "ort/cases"}, equivalents = {.kind = "ort/equivalent"};
    const json_t *cases = json_object_get(file, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        run_tensors(json_array_get(cases, i), "inputs", &tensors, &equivalents);
        run_tensors(json_array_get(cases, i), "outputs", &tensors, &equivalents);
    }
    bool passed = count_end(&tensors);
    return count_end(&equivalents) && passed;
}

/* The example of sharding_spec.h: which numbers each device holds. Other lists of the file are for other programs
   (ort_rules, reshard_cases, tests/unit), or tell in words what collectives and the sharded MoE do. */
static bool run_example(const json_t *file)
{
    struct tap_count count = {.kind = "ort/example"};
    const json_t *example = json_object_get(file, "mesh_example_from_sharding_spec_h"), *values;
    const json_t *rows = json_object_get(example, "tensor");
    const char *device;
    struct tap_case test;
    struct tensor tensor = {.rank = 2};
    case_begin(&test);
    tensor.shape[0] = (int64_t)json_array_size(rows);
    tensor.shape[1] = (int64_t)json_array_size(json_array_get(rows, 0));
    tensor.context = (struct sp_dialect_context){.rank = 2, .shape = tensor.shape};
    char *shape = json_dumps(json_object_get(example, "mesh_shape"), JSON_COMPACT);
    char *elements = json_dumps(json_object_get(example, "mesh_elements"), JSON_COMPACT);
    const char *text = sp_arena_printf(test.arena, "%s device_mesh_shape=%s device_mesh_elements=%s",
                                       json_string_value(json_object_get(example, "spec")), shape, elements);
    const struct sp_sharding *sharding = case_read(&test, SP_DIALECT_ORT, text, &tensor.context);
    json_object_foreach(json_object_get(example, "owner"), device, values)
    {
        struct local local;
        if (sharding == NULL || !locate(&test, &tensor, sharding, strtoll(device, NULL, 10), &local))
            break;
        if (local_size(&tensor, &local) != (int64_t)json_array_size(values))
            case_differs(&test, "device %s holds %" PRId64 " numbers", device, local_size(&tensor, &local));
        for (size_t i = 0; i < json_array_size(values) && test.reason[0] == '\0'; i++) {
            const int64_t at = global_index(&tensor, &local, (int64_t)i);
            const json_t *row = json_array_get(rows, (size_t)(at / tensor.shape[1]));
            if (!json_equal(json_array_get(row, (size_t)(at % tensor.shape[1])), json_array_get(values, i)))
                case_differs(&test, "device %s holds element %" PRId64 " at %zu", device, at, i);
        }
    }
    members_skip(file, "description origin tolerance attribute_encoding counts onnx_equivalence_note");
    members_skip(file, "grammar cases reshard_cases refusals_and_untested collective_cases sharded_moe_cases");
    case_read_all(&test, file);
    case_end(&test, &count, "sharding_spec.h");
    free(shape);
    free(elements);
    return count_end(&count);
}

int main(int argc, char **argv)
{
    char path[4096];
    const char *folder = getenv("SHARDPLAN_TEST_DATA");
    json_error_t problem;
    (void)snprintf(path, sizeof path, "%s/ort_distributed_cases.json",
                   folder != NULL ? folder : SOURCE_ROOT "/../shared/data");
    if (argc > 1)
        (void)snprintf(path, sizeof path, "%s", argv[1]);
    bool passed = run_golden();
    if (access(path, R_OK) != 0) {
        printf("ok ort-cases # SKIP no data\n");
        return passed ? 0 : 1;
    }
    json_t *file = json_load_file(path, 0, &problem);
    if (file == NULL) {
        printf("not ok ort-cases: %s\n", problem.text);
        return 1;
    }
    passed = run_grammar(file) && passed;
    passed = run_cases(file) && passed;
    passed = run_example(file) && passed;
    json_decref(file);
    return passed ? 0 : 1;
}
