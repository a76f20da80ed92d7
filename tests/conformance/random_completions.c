/*
 * random_completions: what `infer` writes checks clean, whatever is set, and what it says to be communicated is what the
 * exported models exchange.
 *
 * Small models get random shardings on random tensors, by a seed: AXES of a mesh of one to three axes, dims split by any
 * of them. Both modes complete them. Where a completion is written, a check of the written bytes must find no error, and
 * three lists must be the same: the completion's communications, the findings of the check, and the exchanges of a
 * partition of the written model, which the models of devices are made of. A refusal must be one that the model cannot
 * help (status 1, nothing written), and these are counted.
 *
 *     random_completions [COUNT [FIRST_SEED]]     settings of each mode; 40, or 5000 with SHARDPLAN_TEST_THOROUGH
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/data_files.h"
#include "../unit/support/how_many.h"
#include "base/random.h"
#include "check/check.h"
#include "onnx/reader.h"
#include "plan/infer/infer.h"
#include "plan/subject.h"
#include "realize/device.h"

#define MAX_FAILURES 20

static const char *const files[] = {
    "models/bert_tiny.onnx", "models/gpt2_tiny.onnx", "models/llama_tiny.onnx", "models/llama_tiny_dyn.onnx",
    "models/lstm_tiny.onnx", "models/moe_tiny.onnx",  "models/unet_tiny.onnx",
};

/* What real exports have little of: operands that are one tensor, loops that are needed whole, borders, axes that are
   joined and split, choices of an axis. */
static const char *const graphs[] = {
    "{\"opset\":21,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[8,8]}],\"nodes\":["
    "{\"op\":\"MatMul\",\"inputs\":[\"x\",\"x\"],\"outputs\":[\"a\"]},"
    "{\"op\":\"Softmax\",\"inputs\":[\"a\"],\"outputs\":[\"b\"],\"attributes\":{\"axis\":1}},"
    "{\"op\":\"Mul\",\"inputs\":[\"a\",\"b\"],\"outputs\":[\"y\"]}],\"outputs\":[\"y\"]}",
    "{\"opset\":21,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[4,24]},"
    "{\"name\":\"v\",\"dtype\":\"float32\",\"shape\":[24]}],\"initializers\":["
    "{\"name\":\"s\",\"dtype\":\"int64\",\"shape\":[3],\"data\":[4,6,4]},"
    "{\"name\":\"k\",\"dtype\":\"int64\",\"shape\":[1],\"data\":[2]},"
    "{\"name\":\"i\",\"dtype\":\"int64\",\"shape\":[4],\"data\":[5,0,3,3]}],\"nodes\":["
    "{\"op\":\"Add\",\"inputs\":[\"x\",\"v\"],\"outputs\":[\"a\"]},"
    "{\"op\":\"Reshape\",\"inputs\":[\"a\",\"s\"],\"outputs\":[\"b\"]},"
    "{\"op\":\"Transpose\",\"inputs\":[\"b\"],\"outputs\":[\"c\"],\"attributes\":{\"perm\":[1,0,2]}},"
    "{\"op\":\"Gather\",\"inputs\":[\"c\",\"i\"],\"outputs\":[\"d\"]},"
    "{\"op\":\"TopK\",\"inputs\":[\"d\",\"k\"],\"outputs\":[\"y\",\"z\"]}],\"outputs\":[\"y\",\"z\"]}",
    "{\"opset\":21,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[2,4,12,8]}],\"initializers\":["
    "{\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[8,4,3,3]},"
    "{\"name\":\"g\",\"dtype\":\"float32\",\"shape\":[8]}],\"nodes\":["
    "{\"op\":\"Conv\",\"inputs\":[\"x\",\"w\",\"g\"],\"outputs\":[\"a\"],\"attributes\":{\"pads\":[1,1,1,1]}},"
    "{\"op\":\"Relu\",\"inputs\":[\"a\"],\"outputs\":[\"b\"]},"
    "{\"op\":\"MaxPool\",\"inputs\":[\"b\"],\"outputs\":[\"c\"],\"attributes\":{\"kernel_shape\":[2,2],"
    "\"strides\":[2,2]}},"
    "{\"op\":\"InstanceNormalization\",\"inputs\":[\"c\",\"g\",\"g\"],\"outputs\":[\"d\"]},"
    "{\"op\":\"GlobalAveragePool\",\"inputs\":[\"d\"],\"outputs\":[\"y\"]}],\"outputs\":[\"y\"]}",
    "{\"opset\":21,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[8,12]}],\"initializers\":["
    "{\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[12,36]},"
    "{\"name\":\"n\",\"dtype\":\"int64\",\"shape\":[3],\"data\":[12,12,12]},"
    "{\"name\":\"b\",\"dtype\":\"int64\",\"shape\":[1],\"data\":[-1]},"
    "{\"name\":\"e\",\"dtype\":\"int64\",\"shape\":[1],\"data\":[-100]},"
    "{\"name\":\"o\",\"dtype\":\"int64\",\"shape\":[1],\"data\":[1]},"
    "{\"name\":\"t\",\"dtype\":\"int64\",\"shape\":[],\"data\":[1]}],\"nodes\":["
    "{\"op\":\"MatMul\",\"inputs\":[\"x\",\"w\"],\"outputs\":[\"h\"]},"
    "{\"op\":\"Split\",\"inputs\":[\"h\",\"n\"],\"outputs\":[\"q\",\"k\",\"v\"],\"attributes\":{\"axis\":1}},"
    "{\"op\":\"Slice\",\"inputs\":[\"k\",\"b\",\"e\",\"o\",\"b\"],\"outputs\":[\"r\"]},"
    "{\"op\":\"CumSum\",\"inputs\":[\"r\",\"t\"],\"outputs\":[\"m\"]},"
    "{\"op\":\"Concat\",\"inputs\":[\"q\",\"m\",\"v\"],\"outputs\":[\"c\"],\"attributes\":{\"axis\":1}},"
    "{\"op\":\"ReduceMax\",\"inputs\":[\"c\",\"o\"],\"outputs\":[\"y\"]}],\"outputs\":[\"y\"]}",
};
#define FILES  (sizeof files / sizeof files[0])
#define GRAPHS (sizeof graphs / sizeof graphs[0])

struct subject {
    char name[64];
    unsigned char *bytes;
    size_t size;
    uint32_t tensor_count;
    struct sp_value **tensors; /* that may be split */
    struct sp_arena *arena;
    struct sp_completion *completion; /* that the tensors are of */
};

struct counts {
    uint32_t clean, refused, communications, compared;
};

struct test {
    const struct subject *subject;
    uint64_t seed;
    const char *mode;
    char *request;
    char why[1600];
};

__attribute__((format(printf, 2, 3))) static bool fail(struct test *test, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(test->why, sizeof test->why, format, args);
    va_end(args);
    return false;
}

/* ---- settings ----------------------------------------------------------------------------------------------------- */

struct random_mesh {
    uint32_t axis_count;
    int64_t sizes[3];
};

static struct random_mesh random_mesh(uint64_t *state)
{
    static const struct random_mesh meshes[] = {{1, {2}}, {1, {4}}, {2, {2, 2}}, {1, {3}}, {2, {2, 4}}, {3, {2, 2, 2}}};
    return meshes[sp_random_below(state, sizeof meshes / sizeof meshes[0])];
}

/* Each mesh axis splits one of the tensor's axes, or none; mostly where it divides the extent. */
static json_t *random_spec(const struct sp_shape *shape, const struct random_mesh *mesh, uint64_t *state)
{
    char dims[SP_MAX_RANK][32] = {{0}}, text[1024];
    int64_t shards[SP_MAX_RANK], most;
    size_t used = 0;
    bool is_free = sp_random_below(state, 8) == 0;
    for (uint32_t axis = 0; axis < shape->rank; axis++)
        shards[axis] = 1;
    for (uint32_t m = 0; m < mesh->axis_count; m++) {
        uint32_t axis = sp_random_below(state, shape->rank + 1);
        if (axis == shape->rank)
            continue;
        most = sp_dim_is_known(shape->dims[axis]) ? shape->dims[axis].value : mesh->sizes[m] * shards[axis];
        if (is_free ? most < mesh->sizes[m] * shards[axis] : most % (mesh->sizes[m] * shards[axis]) != 0)
            continue;
        shards[axis] *= mesh->sizes[m];
        snprintf(dims[axis] + strlen(dims[axis]), sizeof dims[axis] - strlen(dims[axis]), "%s\"%c\"",
                 dims[axis][0] ? ", " : "", 'x' + (int)m);
    }
    used += (size_t)snprintf(text, sizeof text, "<@mesh, [");
    for (uint32_t axis = 0; axis < shape->rank; axis++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s{%s}", axis > 0 ? ", " : "", dims[axis]);
    snprintf(text + used, sizeof text - used, "]>");
    return json_string(text);
}

static json_t *random_request(const struct subject *subject, const char *mode, uint64_t seed)
{
    uint64_t state = seed;
    const struct random_mesh mesh = random_mesh(&state);
    char text[128] = "<[";
    int64_t devices = 1;
    json_t *sets = json_object();
    for (uint32_t m = 0; m < mesh.axis_count; m++) {
        devices *= mesh.sizes[m];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"%c\"=%" PRId64, m > 0 ? ", " : "", 'x' + (int)m,
                 mesh.sizes[m]);
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), "]>");
    for (uint32_t left = 1 + sp_random_below(&state, 5); left > 0; left--) {
        const struct sp_value *value = subject->tensors[sp_random_below(&state, subject->tensor_count)];
        json_object_set_new(sets, value->name, random_spec(&value->type.shape, &mesh, &state));
    }
    return json_pack("{s:s, s:s, s:I, s:o}", "mode", mode, "mesh", text, "devices", (json_int_t)devices, "set", sets);
}

/* ---- lists of what is sent ---------------------------------------------------------------------------------------- */

struct lines {
    uint32_t count;
    uint32_t sent; /* from device to device, which is no collective where these are no world */
    char text[1 << 16];
};

static void add_line(struct lines *lines, const char *steps, const char *tensor, int64_t group, int64_t groups)
{
    size_t used = strlen(lines->text);
    lines->count++;
    lines->sent += strcmp(steps, "send-receive") == 0;
    snprintf(lines->text + used, sizeof lines->text - used, "%s '%s' %" PRId64 "x%" PRId64 "\n", steps, tensor, groups,
             group);
}

static void list_communications(const struct sp_communications *list, struct lines *lines)
{
    for (uint32_t i = 0; i < list->count; i++)
        add_line(lines, list->items[i].steps, list->items[i].tensor, list->items[i].group_size,
                 list->items[i].group_count);
}

/* ---- the written model -------------------------------------------------------------------------------------------- */

static bool read_original(void *context, uint64_t offset, void *bytes, size_t size)
{
    memcpy(bytes, (const unsigned char *)context + offset, size);
    return true;
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static bool check_written(struct test *test, const struct sp_buf *written, uint32_t communications)
{
    static const char *const codes[] = {"RESHARD", "OUTPUT_RESHARD", "REDUCTION",
                                        "GATHER",  "HALO_EXCHANGE",  "PERMUTATION"};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_diagnostics list;
    struct sp_model *model = NULL;
    struct sp_error err = {0};
    const struct sp_check_options options = {0};
    uint32_t found = 0;
    bool is_right = true;
    if (sp_check_run(arena, written->data, written->size, &options, &list, &model, &err) != SP_OK)
        is_right = fail(test, "the check fails: %s: %s", err.code, err.message);
    for (uint32_t i = 0; is_right && i < list.count; i++) {
        const struct sp_diagnostic *item = &list.items[i];
        if (item->severity == SP_SEVERITY_ERROR && item->configuration != NULL)
            is_right = fail(test, "%s: %s", item->code->code, item->message);
        for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++)
            found += strcmp(item->code->code, codes[k]) == 0;
    }
    if (is_right && found != communications)
        is_right = fail(test, "check tells %" PRIu32 " communications, infer %" PRIu32, found, communications);
    sp_arena_destroy(arena);
    return is_right;
}

struct files {
    const struct sp_buf *written;
};

static bool read_source(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct files *all = context;
    if (source != 0)
        memset(bytes, 0, size); /* weights that are not there */
    else
        memcpy(bytes, all->written->data + offset, size);
    return true;
}

/* Nodes of collectives in one device's model. */
static bool count_collectives(struct test *test, const struct sp_recipe *recipe, const struct sp_buf *written,
                              uint32_t *ret_count)
{
    struct files all = {written};
    const struct sp_recipe_reader reader = {read_source, &all};
    struct sp_buf buf;
    const struct sp_sink sink = {.write = append, .context = &buf};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_model *model = NULL;
    struct sp_error err = {0};
    sp_buf_init(&buf, (size_t)1 << 28);
    bool is_right = sp_recipe_stream(recipe, &reader, &sink, &err) == SP_OK &&
                    sp_onnx_read(arena, buf.data, buf.size, NULL, &model, &err) == SP_OK;
    if (!is_right)
        fail(test, "a device's model: %s: %s", err.code, err.message);
    for (uint32_t i = 0; is_right && i < model->graph->node_count; i++) {
        const struct sp_node *node = &model->graph->nodes[i];
        *ret_count += strcmp(node->domain, "com.microsoft") == 0 &&
                      (strcmp(node->op_type, "AllReduce") == 0 || strcmp(node->op_type, "AllGather") == 0 ||
                       strcmp(node->op_type, "AllToAll") == 0);
    }
    sp_arena_destroy(arena);
    sp_buf_release(&buf);
    return is_right;
}

/* Whether models are cut in place of a collective: of a symbolic axis that is split, whose size nobody bound. */
static bool is_cut(const struct sp_device_plan *plan)
{
    for (uint32_t i = 0; i < sp_intern_count(plan->notes); i++) {
        const struct sp_device_note *note = *sp_intern_mark(sp_intern_name(plan->notes, i));
        if (strcmp(note->code, "COLLECTIVE_CUT") == 0)
            return true;
    }
    return false;
}

/* The collectives in the models of devices: those of a world are in the model of each of its devices. */
static bool compare_exported(struct test *test, const struct sp_buf *written, const struct lines *told,
                             struct counts *counts)
{
    const struct sp_job_options options = {.bytes = written->data, .size = written->size};
    struct sp_subject *subject = NULL;
    struct sp_device_plan *plan = NULL;
    struct sp_error err = {0};
    uint32_t most = 0;
    bool is_right = true;
    if (sp_subject_from_model(&options, NULL, &subject, &err) != SP_OK)
        return fail(test, "no subject: %s: %s", err.code, err.message);
    const struct sp_realize_request request = {
        .partition = {.model = subject->model, .assignment = subject->assignment}};
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status = sp_device_plan_create(arena, &request, SP_TARGET_ORT, &plan, &err);
    if (status != SP_OK && strcmp(err.code, "EXTENT_UNKNOWN") == 0) /* of a symbolic axis that is split */
        goto done;
    if (status != SP_OK)
        is_right = fail(test, "no models of devices: %s: %s", err.code, err.message);
    for (int64_t device = 0; is_right && device < subject->device_count; device++) {
        const uint32_t parts = sp_device_plan_parts(plan, device);
        struct sp_recipe **recipes = calloc(parts + 1, sizeof *recipes);
        uint32_t found = 0;
        if (sp_realize_device(&request, plan, device, recipes, &err) != SP_OK)
            is_right = fail(test, "device %" PRId64 ": %s: %s", device, err.code, err.message);
        for (uint32_t p = 0; p < parts; p++) {
            if (is_right && recipes[p] != NULL)
                is_right = count_collectives(test, recipes[p], written, &found);
            sp_recipe_destroy(recipes[p]);
        }
        free(recipes);
        most = found > most ? found : most;
    }
    const bool is_compared = is_right && !is_cut(plan);
    if (is_compared && (most > told->count || most + told->sent < told->count))
        is_right = fail(test, "%" PRIu32 " collectives in the exported models, not:\n%s", most, told->text);
    counts->compared += is_compared && is_right;
done:
    sp_arena_destroy(arena);
    sp_subject_destroy(subject);
    return is_right;
}

static bool look_at(struct test *test, struct sp_completion *completion, struct counts *counts)
{
    static struct lines told;
    struct sp_splice *splice = NULL;
    struct sp_error err = {0};
    const struct sp_model *model = sp_completion_model(completion);
    if (sp_completion_annotate(completion, &splice, &err) != SP_OK)
        return fail(test, "cannot be written: %s: %s", err.code, err.message);
    struct sp_source source = {read_original, (void *)(uintptr_t)model->bytes};
    struct sp_buf written;
    struct sp_sink sink = {.write = append, .context = &written};
    sp_buf_init(&written, (size_t)1 << 28);
    bool is_right = sp_splice_stream(splice, &source, &sink, &err) == SP_OK || fail(test, "%s", err.message);
    sp_splice_destroy(splice);
    told = (struct lines){0};
    list_communications(sp_completion_communications(completion), &told);
    is_right = is_right && check_written(test, &written, told.count) && compare_exported(test, &written, &told, counts);
    counts->clean += is_right;
    counts->communications += told.count;
    sp_buf_release(&written);
    return is_right;
}

static bool run(struct test *test, struct counts *counts)
{
    const struct sp_job_options options = {.bytes = test->subject->bytes, .size = test->subject->size};
    struct sp_completion *completion = NULL;
    struct sp_error err = {0};
    json_t *request = random_request(test->subject, test->mode, test->seed);
    bool is_right = true;
    test->request = json_dumps(request, JSON_COMPACT);
    enum sp_status status = sp_completion_create(&options, request, &completion, &err);
    if (status == SP_OK)
        is_right = look_at(test, completion, counts);
    else if (status == SP_ERR_MODEL)
        counts->refused++;
    else
        is_right = fail(test, "status %d, %s: %s", status, err.code, err.message);
    if (status == SP_ERR_MODEL)
        printf("# refused: %s %s %s: %s: %s\n", test->subject->name, test->mode, test->request, err.code, err.message);
    sp_completion_destroy(completion);
    json_decref(request);
    return is_right;
}

/* ---- all of them -------------------------------------------------------------------------------------------------- */

static bool may_be_split(const struct sp_value *value)
{
    const struct sp_type *type = &value->type;
    return type->kind == SP_TYPE_TENSOR && type->shape.has_rank && type->shape.rank > 0 &&
           strchr(value->name, '"') == NULL && value->name[0] != '\0';
}

static void close_subject(struct subject *subject)
{
    sp_completion_destroy(subject->completion);
    sp_arena_destroy(subject->arena);
    free(subject->bytes);
}

static bool open_subject(const char *name, unsigned char *bytes, size_t size, struct subject *ret_subject)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size};
    struct sp_error err = {0};
    json_t *request = json_pack("{s:i}", "devices", 2);
    struct subject subject = {.bytes = bytes, .size = size, .arena = sp_arena_create(NULL)};
    snprintf(subject.name, sizeof subject.name, "%s", name);
    enum sp_status status = sp_completion_create(&options, request, &subject.completion, &err);
    json_decref(request);
    if (status != SP_OK) {
        printf("# %s: %s: %s\n", name, err.code, err.message);
        close_subject(&subject);
        return false;
    }
    const struct sp_graph *graph = sp_completion_model(subject.completion)->graph;
    subject.tensors = SP_NEW_ARRAY(subject.arena, graph->value_count, struct sp_value *);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (may_be_split(graph->values[i]))
            subject.tensors[subject.tensor_count++] = graph->values[i];
    }
    *ret_subject = subject;
    return true;
}

static uint32_t open_subjects(struct subject *subjects)
{
    uint32_t count = 0;
    for (size_t i = 0; i < GRAPHS; i++) {
        char name[32];
        snprintf(name, sizeof name, "graph %zu", i);
        if (open_subject(name, (unsigned char *)strdup(graphs[i]), strlen(graphs[i]), &subjects[count]))
            count++;
    }
    for (size_t i = 0; i < FILES; i++) {
        char path[4096];
        size_t size = 0;
        snprintf(path, sizeof path, "%s/%s", data_folder(), files[i]);
        unsigned char *bytes = data_read(path, &size);
        if (bytes != NULL && open_subject(files[i], bytes, size, &subjects[count]))
            count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"propagate", "forward"};
    struct subject subjects[FILES + GRAPHS];
    struct counts counts = {0};
    const uint32_t wanted = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : how_many(40, 5000);
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint32_t failed = 0, subject_count = open_subjects(subjects);
    for (uint64_t i = 0; i < wanted && failed < MAX_FAILURES; i++) {
        for (size_t m = 0; m < 2 && failed < MAX_FAILURES; m++) {
            struct test test = {
                .subject = &subjects[(first + i) % subject_count], .seed = sp_scramble(first + i), .mode = modes[m]};
            if (!run(&test, &counts)) {
                failed++;
                printf("not ok seed %" PRIu64 ": %s %s %s: %s\n", first + i, test.subject->name, test.mode,
                       test.request, test.why);
            }
            free(test.request);
        }
    }
    for (uint32_t i = 0; i < subject_count; i++)
        close_subject(&subjects[i]);
    printf("%s 1 random settings\n1..1\n# random_completions: %" PRIu32 " settings of %" PRIu32
           " models in each mode: %" PRIu32 " completions check clean, with %" PRIu32 " communications; %" PRIu32
           " compared with the models of devices; %" PRIu32 " refused; %" PRIu32 " failed\n",
           failed > 0 ? "not ok" : "ok", wanted, subject_count, counts.clean, counts.communications, counts.compared,
           counts.refused, failed);
    return failed > 0 || counts.clean == 0;
}
