/*
 * simulate_models FOLDER [--only TEXT] [--seeds N] [--nodes FIRST-LAST] [--devices N] [--targets T]: complete models of the test data
 * split in the ways of simulate_strategies.c, as simulations for the real ONNX Runtime. The simulations and the list of
 * them go to FOLDER (simulate.h), with the models of the devices of one of N ways where that is given
 * (simulate_ask_devices()); simulate_models.mjs runs them and reports. TEXT is a part of the file's name or of the
 * strategy's. Of random ways there are N instead of one, and only the nodes FIRST to LAST are split where that is given.
 *
 * Said of each, too: whether every device is told the weights that the assignment's shardings give it, and no others.
 */
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/build_sharded.h"
#include "../unit/support/data_files.h"
#include "../unit/support/recount.h"
#include "infer/forward.h"
#include "infer/propagate/propagate.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "plan/job.h"
#include "sharding/convert_forms.h"
#include "sharding/dialect.h"
#include "simulate.h"
#include "simulate_random.h"
#include "simulate_strategies.h"
#include "simulate_weights.h"

#define MAX_SETS  1024
#define MAX_DIMS  8
#define SEED_STEP 100
#define RTOL      1e-4
#define ATOL      1e-5

struct options {
    const char *folder, *only;
    uint32_t first, last; /* nodes that are split in a random way */
    int64_t seeds;        /* random ways of each model and number of devices */
    bool has_large;       /* large models are split, too */
};

struct test {
    const struct simulate_strategy *strategy;
    const struct options *options;
    struct sp_arena *arena;
    struct sp_error err;
    unsigned char *bytes; /* of the model file */
    size_t size;
    struct sp_buf annotated; /* the model with the library's plan in it */
    int64_t devices;         /* that are used */
    double *planned;         /* bytes of weights that a plan of blocks gives each device, or NULL */
    struct sp_model *model;
    struct sp_dataflow *dataflow;
    struct sp_mesh *meshes[2];
    struct sp_assignment *assignment;
    uint32_t set_count;
    struct sp_set_spec sets[MAX_SETS];
    struct sp_sharding *shardings[MAX_SETS]; /* of the sets, while they are put together */
    char name[200], path[SIMULATE_MAX_PATH], original[SIMULATE_MAX_PATH];
};

/* ---- what is said ----------------------------------------------------------------------------------------------- */

static bool matches(const char *pattern, const char *text)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool is_match = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return is_match;
}

/* The axis in so many parts of the same extent, each cut for all devices of the mesh. */
static struct sp_sharding *split_parts(struct test *test, const struct sp_value *value,
                                       const struct simulate_split *split)
{
    const struct sp_mesh *mesh = test->meshes[split->mesh];
    int64_t devices = mesh->order.count, extent = value->type.shape.dims[split->axis].value;
    struct sp_sharding *blocks = SP_NEW(test->arena, struct sp_sharding);
    struct sp_block_part *parts = SP_NEW_ARRAY(test->arena, 2, struct sp_block_part);
    uint32_t *first = SP_NEW_ARRAY(test->arena, (size_t)devices + 1, uint32_t);
    int64_t *list = SP_NEW_ARRAY(test->arena, (size_t)devices, int64_t);
    /* Over the named axis; the other axes of the mesh hold copies. */
    int64_t axis = sp_mesh_find_axis(mesh, split->mesh_axis), shards = mesh->axes[axis].size;
    struct sp_axis_ref ref = sp_axis_full(mesh, (uint32_t)axis);
    uint32_t count = 0;
    for (int64_t shard = 0; shard < shards; shard++) {
        for (int64_t device = 0; device < SP_MAX_DEVICES && count < devices; device++) {
            int64_t position = sp_device_order_find(&mesh->order, device);
            if (position >= 0 && sp_axis_coordinate(mesh, ref, position) == shard)
                list[count++] = device;
            if (device > 64)
                break;
        }
        first[shard + 1] = count;
    }
    parts[0] = (struct sp_block_part){split->parts, NULL, 1};
    parts[1] = (struct sp_block_part){extent / split->parts, NULL, shards};
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                   .rank = value->type.shape.rank,
                                   .blocks = SP_NEW_ARRAY(test->arena, value->type.shape.rank, struct sp_block_dim),
                                   .shard_count = shards,
                                   .first = first,
                                   .devices = list};
    blocks->blocks[split->axis] = (struct sp_block_dim){2, parts};
    return blocks;
}

/* The sharding of this tensor so far. */
static struct sp_sharding *sharding_of(struct test *test, const struct sp_value *value,
                                       const struct simulate_split *split)
{
    for (uint32_t i = 0; i < test->set_count; i++) {
        if (strcmp(test->sets[i].tensor, value->name) == 0)
            return test->shardings[i];
    }
    if (test->set_count == MAX_SETS)
        return NULL;
    struct sp_sharding *sharding = NULL;
    if (split->parts > 1)
        sharding = split_parts(test, value, split);
    else if (sp_sharding_create_axes(test->arena, test->meshes[split->mesh], value->type.shape.rank, &sharding,
                                     &test->err) != SP_OK)
        return NULL;
    test->shardings[test->set_count] = sharding;
    test->sets[test->set_count++] = (struct sp_set_spec){value->name, sharding};
    return sharding;
}

static bool set_tensor(struct test *test, const struct sp_value *value, const struct simulate_split *split)
{
    struct sp_sharding *sharding = sharding_of(test, value, split);
    if (sharding == NULL || split->axis < 0 || split->parts > 1)
        return sharding != NULL;
    const struct sp_mesh *mesh = test->meshes[split->mesh];
    struct sp_axis_ref *ref = SP_NEW(test->arena, struct sp_axis_ref);
    *ref = sp_axis_full(mesh, (uint32_t)sp_mesh_find_axis(mesh, split->mesh_axis));
    sharding->dims[split->axis].axes = (struct sp_axis_list){1, ref};
    return true;
}

static bool set_split(struct test *test, const struct simulate_split *split)
{
    const struct sp_graph *graph = test->model->graph;
    uint32_t found = 0;
    if (split->what[0] == '@') {
        const struct sp_value *value = sp_graph_value(graph, split->what + 1);
        return value != NULL && set_tensor(test, value, split);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count && matches(split->what, node->name); i++) {
            const struct sp_value *value = node->inputs[i];
            if (value == NULL || value->kind != SP_VALUE_INITIALIZER || value->type.shape.rank < 2)
                continue;
            found++;
            if (!set_tensor(test, value, split))
                return false;
        }
    }
    return found > 0;
}

/* The second mesh's devices come behind those of the first. */
static enum sp_status move_mesh(struct test *test, int64_t by)
{
    const struct sp_mesh *mesh = test->meshes[1];
    int64_t *devices = SP_NEW_ARRAY(test->arena, (size_t)mesh->order.count, int64_t);
    struct sp_device_order order;
    for (int64_t i = 0; i < mesh->order.count; i++)
        devices[i] = by + sp_device_order_at(&mesh->order, i);
    enum sp_status status = sp_device_order_list(test->arena, mesh->order.count, devices, &order, &test->err);
    return status != SP_OK
               ? status
               : sp_mesh_create(test->arena, mesh->axis_count, mesh->axes, &order, &test->meshes[1], &test->err);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A sharding of the mesh's positions on the devices that stand on them. */
static enum sp_status share(struct test *test, struct sp_set_spec *set, uint32_t rank)
{
    struct sp_sharding *blocks = NULL;
    enum sp_status status = sp_sharding_to_blocks(test->arena, set->sharding, rank, test->meshes[0]->order.count,
                                                  &blocks, NULL, &test->err);
    if (status != SP_OK)
        return status;
    uint32_t *first = SP_NEW_ARRAY(test->arena, (size_t)blocks->shard_count + 1, uint32_t), used = 0;
    int64_t *devices = SP_NEW_ARRAY(test->arena, blocks->first[blocks->shard_count], int64_t);
    for (int64_t shard = 0; shard < blocks->shard_count; shard++) {
        for (uint32_t i = blocks->first[shard]; i < blocks->first[shard + 1]; i++)
            devices[used++] = test->strategy->shares[blocks->devices[i]];
        uint32_t kept = first[shard];
        qsort(devices + kept, used - kept, sizeof(*devices), by_number);
        for (uint32_t i = kept; i < used; i++)
            if (kept == first[shard] || devices[kept - 1] != devices[i])
                devices[kept++] = devices[i];
        first[shard + 1] = used = kept;
    }
    blocks->first = first;
    blocks->devices = devices;
    blocks->run = SP_RUN_UNKNOWN;
    set->sharding = blocks;
    return SP_OK;
}

static enum sp_status share_all(struct test *test)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < test->set_count && status == SP_OK; i++)
        status = share(test, &test->sets[i], sp_graph_value(test->model->graph, test->sets[i].tensor)->type.shape.rank);
    return status;
}

static enum sp_status set_all(struct test *test)
{
    const struct simulate_strategy *strategy = test->strategy;
    for (unsigned i = 0; i < 2 && strategy->meshes[i] != NULL; i++) {
        const char *text = strategy->meshes[i];
        enum sp_status status = sp_shardy_read_mesh(test->arena, text, strlen(text), &test->meshes[i], &test->err);
        if (status == SP_OK && i > 0)
            status = move_mesh(test, test->meshes[0]->order.count);
        if (status != SP_OK)
            return status;
    }
    for (unsigned i = 0; i < SIMULATE_MAX_SPLITS && strategy->splits[i].what != NULL; i++) {
        if (!set_split(test, &strategy->splits[i]))
            return sp_fail(&test->err, SP_ERR_REQUEST, "NO_SUCH_TENSOR", "Nothing is '%s'.", strategy->splits[i].what);
    }
    return strategy->shares != NULL ? share_all(test) : SP_OK;
}

/* ---- the library's own plan ------------------------------------------------------------------------------------- */

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static bool read_original(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct test *test = context;
    memcpy(bytes, test->bytes + offset, size);
    return offset + size <= test->size;
}

/* "batch=4,seq=8"; the text is the options' memory. */
static uint32_t read_dims(const char *text, struct sp_arena *arena, const char **names, int64_t *values)
{
    uint32_t count = 0;
    for (; text != NULL && *text != '\0' && count < MAX_DIMS; text += *text == ',') {
        size_t size = strcspn(text, "=");
        names[count] = sp_arena_string(arena, text, size);
        values[count++] = strtoll(text + size + 1, NULL, 10);
        text += strcspn(text, ",");
    }
    return count;
}

/* The model as `plan -o` writes it. */
static enum sp_status plan(struct test *test, uint32_t dim_count, const char *const *names, const int64_t *values)
{
    struct sp_job_options job_options = {.bytes = test->bytes, .size = test->size, .name = test->strategy->file};
    struct sp_plan_options options;
    struct sp_cluster *cluster = NULL;
    struct sp_job *job = NULL;
    struct sp_plan *made = NULL;
    struct sp_splice *splice = NULL;
    sp_plan_options_init(&options);
    options.max_replicas = 1;
    options.tolerance = 0; /* several stages, though fewer may be nearly as good */
    options.sizes.dim_count = dim_count;
    options.sizes.dim_names = names;
    options.sizes.dim_values = values;
    json_t *json =
        json_pack("{s:s, s:I, s:I}", "device", "a100-sxm4-80gb", "count", (json_int_t)test->strategy->devices,
                  "memory_limit_bytes", (json_int_t)strtoll(test->strategy->limit, NULL, 10));
    enum sp_status status = sp_cluster_parse(test->arena, json, "", &cluster, &test->err);
    if (status == SP_OK)
        status = sp_job_plan(&job_options, cluster, &options, &job, &made, &test->err);
    if (status == SP_OK)
        recount_expect_result(made->workload, made->cluster, made->result);
    if (status == SP_OK && made->result->placement.stage_count < 2)
        status = sp_fail(&test->err, SP_ERR_REQUEST, "ONE_STAGE", "The plan has one stage only.");
    if (status == SP_OK)
        status = sp_plan_annotate(made, &splice, &test->err);
    struct sp_sink sink = {.write = append, .context = &test->annotated};
    struct sp_source source = {read_original, test};
    if (status == SP_OK)
        status = sp_splice_stream(splice, &source, &sink, &test->err);
    sp_splice_destroy(splice);
    sp_job_destroy(job);
    json_decref(json);
    return status;
}

/* A plan whose stages split their operators, likewise. */
static void plan_blocks(struct test *test)
{
    const struct simulate_strategy *strategy = test->strategy;
    struct sp_joint_options search;
    struct sharded_options options = {.stages = strategy->stages,
                                      .replicas = strategy->replicas,
                                      .choose = sharded_choose_any,
                                      .context = &strategy->seed};
    struct sharded_model model;
    struct sp_buf file;
    for (uint32_t a = 0; a < 2 && strategy->block[a] > 0; a++)
        options.sizes[options.axis_count++] = strategy->block[a];
    sp_buf_init(&file, test->size + 1);
    sp_buf_append(&file, test->bytes, test->size);
    sp_joint_options_init(&search);
    if (strategy->search != NULL && sp_search_strategy_parse(strategy->search, &search.strategy))
        sharded_search(&model, file, strategy->devices,
                       strategy->limit != NULL ? strtoll(strategy->limit, NULL, 10) : 0, &search);
    else
        sharded_make(&model, file, &options);
    sp_buf_release(&test->annotated);
    test->annotated = planned_annotated(&model.planned);
    const struct sp_evaluation *evaluation = model.plan->result->evaluation;
    test->devices = model.planned.subject->device_count;
    test->planned = SP_NEW_ARRAY(test->arena, (size_t)strategy->devices, double);
    /* A configuration numbers the devices that are used. */
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *stage = &evaluation->stages[s];
        uint32_t first = 0;
        for (uint32_t other = 0; other < evaluation->stage_count; other++) {
            if (evaluation->stages[other].device < stage->device)
                first += evaluation->stages[other].device_count;
        }
        for (uint32_t d = 0; d < stage->device_count && first + d < strategy->devices; d++)
            test->planned[first + d] = stage->weights_bytes;
    }
    sharded_release(&model);
}

/* ---- the assignment --------------------------------------------------------------------------------------------- */

static enum sp_status prepare(struct test *test)
{
    const char *names[MAX_DIMS];
    int64_t values[MAX_DIMS];
    const bool has_blocks = test->strategy->block[0] > 0 || test->strategy->search != NULL;
    const bool is_plan = has_blocks || test->strategy->limit != NULL;
    struct sp_read_options options = {.binding_names = names, .binding_values = values};
    struct sp_shape_summary summary;
    enum sp_status status = SP_OK;
    options.binding_count = read_dims(test->strategy->dims, test->arena, names, values);
    if (has_blocks)
        plan_blocks(test);
    else if (is_plan)
        status = plan(test, options.binding_count, names, values);
    const void *bytes = is_plan ? (const void *)test->annotated.data : test->bytes;
    if (status == SP_OK)
        status = sp_onnx_read(test->arena, bytes, is_plan ? test->annotated.size : test->size, &options, &test->model,
                              &test->err);
    if (status == SP_OK)
        status = sp_infer_shapes(test->model, NULL, &summary, &test->err);
    if (status == SP_OK)
        status = sp_dataflow_create(test->arena, test->model, &test->dataflow, &test->err);
    if (status == SP_OK)
        status = set_all(test);
    if (status == SP_OK)
        status =
            sp_assignment_create(test->arena, test->dataflow, is_plan ? SP_PLAN_CONFIGURATION : NULL, test->devices,
                                 &(struct sp_set_specs){test->set_count, test->sets}, &test->assignment, &test->err);
    if (status != SP_OK)
        return status;
    if (test->strategy->seed != 0 && !has_blocks)
        return simulate_random(test->assignment, test->strategy->seed, test->options->first, test->options->last,
                               &test->err);
    test->assignment->gathers_contradictions = true;
    if (is_plan || test->strategy->is_forward)
        return sp_infer_forward(test->assignment, &test->err);
    const bool has_mesh = test->meshes[1] == NULL && test->strategy->shares == NULL;
    return sp_infer_propagate(test->assignment, has_mesh ? test->meshes[0] : NULL, &test->err);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

/* "llama_tiny.onnx on 4, any way 11". */
static void name_strategy(const struct simulate_strategy *strategy, char *name, size_t size)
{
    int length = snprintf(name, size, "%s on %" PRId64 ", %s", strategy->file, strategy->devices, strategy->what);
    if (strategy->seed != 0)
        (void)snprintf(name + length, size - (size_t)length, " %" PRIu64, strategy->seed);
}

/* What is made for an input: indices of a Gather's table, or any numbers. */
static json_t *feed_of(const struct sp_value *input)
{
    json_t *dims = json_array();
    json_int_t below = 2;
    for (uint32_t axis = 0; axis < input->type.shape.rank; axis++)
        (void)json_array_append_new(dims, json_integer((json_int_t)input->type.shape.dims[axis].value));
    for (uint32_t i = 0; i < input->use_count; i++) {
        const struct sp_node *node = input->uses[i].node;
        if (strcmp(node->op_type, "Gather") == 0 && input->uses[i].input == 1)
            below = (json_int_t)node->inputs[0]->type.shape.dims[0].value;
    }
    return json_pack("{s:s, s:o, s:I}", "type", sp_dtype_name(input->type.dtype), "dims", dims, "below", below);
}

static json_t *numbers(const double *items, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_integer((json_int_t)items[i]));
    return list;
}

static void tell(struct test *test, FILE *list, const struct simulate_account *account, bool is_large,
                 const double *stated, const double *assumed)
{
    int64_t devices = test->strategy->devices;
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:f}", "name", test->name, "file", test->strategy->file, "model",
                  test->path, "original", test->original, "devices", (json_int_t)devices, "rtol", RTOL, "atol", ATOL);
    (void)json_object_set_new(line, "isLarge", json_boolean(is_large));
    if (test->err.status != SP_OK) {
        (void)json_object_set_new(line, "failure", json_sprintf("%s: %s", test->err.code, test->err.message));
    } else {
        json_t *feeds = json_object(), *kinds = json_object();
        for (uint32_t i = 0; i < test->model->graph->input_count; i++) {
            const struct sp_value *input = test->model->graph->inputs[i];
            (void)json_object_set_new(feeds, input->name, feed_of(input));
        }
        for (int kind = 0; kind < SP_COLLECTIVE_COUNT; kind++) {
            if (account->kinds[kind] > 0)
                (void)json_object_set_new(kinds, sp_collective_name((enum sp_collective)kind),
                                          json_integer((json_int_t)account->kinds[kind]));
        }
        json_t *more = json_pack("{s:o, s:o, s:o, s:O, s:i, s:i, s:o, s:o, s:o}", "feeds", feeds, "outputs",
                                 simulate_outputs(test->model), "exchanges", kinds, "notes", account->notes, "ops",
                                 (int)account->ops, "cutParts", (int)(account->cut_sources + account->cut_results),
                                 "told", numbers(account->weight_bytes, devices), "stated", numbers(stated, devices),
                                 "assumed", numbers(assumed, devices));
        (void)json_object_update(line, more);
        if (test->planned != NULL)
            (void)json_object_set_new(line, "planned", numbers(test->planned, devices));
        json_decref(more);
    }
    if (test->strategy->exchanges != NULL)
        (void)json_object_set_new(line, "expectedExchanges", json_string(test->strategy->exchanges));
    simulate_tell(list, line);
}

static void run(const struct options *options, const struct simulate_strategy *strategy, bool is_large, FILE *list)
{
    struct test *test = calloc(1, sizeof(*test));
    struct simulate_account account = {0};
    test->strategy = strategy;
    test->devices = strategy->devices;
    test->options = options;
    test->arena = sp_arena_create(NULL);
    sp_buf_init(&test->annotated, (size_t)1 << 30);
    (void)snprintf(test->original, sizeof(test->original), "%.800s/models/%s", data_folder(), strategy->file);
    name_strategy(strategy, test->name, sizeof(test->name));
    (void)snprintf(test->path, sizeof(test->path), "%.600s/%.200s.onnx", options->folder, test->name);
    test->bytes = data_read(test->original, &test->size);
    double *stated = SP_NEW_ARRAY(test->arena, (size_t)strategy->devices, double);
    double *assumed = SP_NEW_ARRAY(test->arena, (size_t)strategy->devices, double);
    if (test->bytes != NULL) {
        enum sp_status status = prepare(test);
        if (status == SP_OK && is_large)
            status = simulate_tell_parts(test->arena, test->model, test->assignment, &account, true, &test->err);
        else if (status == SP_OK)
            status = simulate_write(test->arena, test->model, test->assignment, test->path, &account, &test->err);
        if (status == SP_OK)
            (void)simulate_count_weights(test->assignment, stated, assumed, &test->err);
        tell(test, list, &account, is_large, stated, assumed);
    }
    simulate_account_release(&account);
    sp_buf_release(&test->annotated);
    sp_arena_destroy(test->arena);
    free(test->bytes);
    free(test);
}

static void run_all(const struct options *options, const struct simulate_strategy *strategy, bool is_large, FILE *list)
{
    for (; strategy->file != NULL; strategy++) {
        struct simulate_strategy own = *strategy;
        for (int64_t i = 0; i < (strategy->seed == 0 ? 1 : options->seeds); i++) {
            char name[200];
            own.seed = strategy->seed == 0 ? 0 : strategy->seed + (uint64_t)i * SEED_STEP;
            name_strategy(&own, name, sizeof(name));
            if (strstr(name, options->only) != NULL)
                run(options, &own, is_large, list);
        }
    }
}

static bool read_arguments(struct options *options, int count, char **arguments)
{
    *options = (struct options){.folder = count > 1 ? arguments[1] : "", .only = "", .last = UINT32_MAX, .seeds = 1};
    for (int i = 2; i + 1 < count; i += 2) {
        char *end;
        if (strcmp(arguments[i], "--only") == 0) {
            options->only = arguments[i + 1];
        } else if (strcmp(arguments[i], "--seeds") == 0) {
            options->seeds = strtoll(arguments[i + 1], NULL, 10);
        } else if (strcmp(arguments[i], "--devices") == 0) {
            (void)simulate_ask_devices(arguments[i + 1], NULL);
        } else if (strcmp(arguments[i], "--targets") == 0 && simulate_ask_devices(NULL, arguments[i + 1])) {
            continue;
        } else if (strcmp(arguments[i], "--large") == 0) {
            options->has_large = strcmp(arguments[i + 1], "yes") == 0;
        } else if (strcmp(arguments[i], "--nodes") == 0) {
            options->first = (uint32_t)strtoul(arguments[i + 1], &end, 10);
            options->last = (uint32_t)strtoul(end + (*end == '-'), NULL, 10);
        } else {
            return false;
        }
    }
    return count > 1 && count % 2 == 0;
}

int main(int count, char **arguments)
{
    char path[SIMULATE_MAX_PATH + 64];
    struct options options;
    if (!read_arguments(&options, count, arguments)) {
        (void)fprintf(stderr, "usage: simulate_models FOLDER [--only TEXT] [--seeds N] [--nodes FIRST-LAST] "
                              "[--large yes|no] [--devices N] [--targets all|turn|NAME]\n");
        return 2;
    }
    (void)snprintf(path, sizeof(path), "%.1000s/list.jsonl", options.folder);
    FILE *list = fopen(path, "w");
    if (list == NULL) {
        (void)fprintf(stderr, "simulate_models: %s cannot be written\n", path);
        return 2;
    }
    run_all(&options, simulate_strategies, false, list);
    if (options.has_large)
        run_all(&options, simulate_large, true, list);
    return fclose(list) != 0;
}
