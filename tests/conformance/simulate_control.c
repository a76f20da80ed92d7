/*
 * simulate_control FOLDER [--only TEXT] [--seeds N]: models with control flow (simulate_control_models.c), split along
 *
 *   each factor of the rule of each If, Loop and Scan in them that may be split, in 2 and 4 shards, and each two of
 *   them on 2 x 2 devices: an operand that has it is stated, propagation finds the rest;
 *   each axis of each tensor of any of their graphs likewise, and each two axes of one tensor;
 *   N random ways for 2, 3, 4 and 5 devices, in which every node is split in a way of its own, and in every other one
 *   what nodes with graphs take and give.
 *
 * The simulations and the list of them go to FOLDER (simulate.h); simulate_control.mjs runs them and reports.
 */
#include "simulate_control.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/onnx_files.h"
#include "infer/propagate/propagate.h"
#include "ops/shapes/shapes.h"
#include "simulate.h"
#include "simulate_random.h"

#define RTOL       1e-4
#define ATOL       1e-5
#define MAX_PLACES 2

struct options {
    const char *folder, *only;
    int64_t seeds;
    FILE *list;
};

struct test {
    const struct options *options;
    const struct simulate_control *from;
    struct sp_arena *arena;
    struct sp_error err;
    struct sp_buf file;
    struct sp_model *model;
    struct sp_dataflow *dataflow;
    char original[SIMULATE_MAX_PATH];
};

/* An axis of a tensor that is split, and the factor that it stands for. */
struct place {
    struct sp_value *value;
    uint32_t axis;
    const struct sp_node *node;
    const struct sp_factor *factor; /* of the node's rule; NULL: the axis is chosen for itself */
};

/* Over as many axes of a mesh. */
struct way {
    uint32_t count;
    struct place places[MAX_PLACES];
    int64_t shards; /* of each */
};

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"parallel", "reduction", "replicate", "halo", "permutation", "sequential"};

/* "c=1 n=3" */
static bool find_fill(const char *fills, const char *name, int64_t *ret_fill)
{
    size_t size = strlen(name);
    for (const char *at = fills; at != NULL && *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
        if (strncmp(at, name, size) == 0 && at[size] == '=') {
            *ret_fill = strtoll(at + size + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static json_t *feeds_of(const struct test *test)
{
    json_t *feeds = json_object();
    for (uint32_t i = 0; i < test->model->graph->input_count; i++) {
        const struct sp_value *input = test->model->graph->inputs[i];
        json_t *dims = json_array();
        int64_t fill = 0;
        for (uint32_t axis = 0; axis < input->type.shape.rank; axis++)
            (void)json_array_append_new(dims, json_integer((json_int_t)input->type.shape.dims[axis].value));
        json_t *feed = json_pack("{s:s, s:o}", "type", sp_dtype_name(input->type.dtype), "dims", dims);
        if (find_fill(test->from->fills, input->name, &fill))
            (void)json_object_set_new(feed, "fill", json_integer((json_int_t)fill));
        (void)json_object_set_new(feeds, input->name, feed);
    }
    return feeds;
}

static json_t *cuts_of(const struct way *way)
{
    json_t *cuts = json_array();
    for (uint32_t i = 0; way != NULL && i < way->count && way->places[i].factor != NULL; i++) {
        const struct place *place = &way->places[i];
        (void)json_array_append_new(cuts, json_pack("{s:s, s:s, s:s}", "op", place->node->op_type, "factor",
                                                    place->factor->name, "kind", kind_names[place->factor->kind]));
    }
    return cuts;
}

static void tell(struct test *test, const char *name, const char *path, const struct way *way,
                 const struct simulate_account *account, const struct sp_error *err)
{
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:o, s:f, s:f}", "name", name, "case", test->from->name,
                             "op", test->from->op, "model", path, "original", test->original, "whole",
                             test->from->whole, "cuts", cuts_of(way), "rtol", RTOL, "atol", ATOL);
    json_t *more =
        json_pack("{s:o, s:o, s:i, s:i, s:O*}", "feeds", feeds_of(test), "outputs", simulate_outputs(test->model),
                  "controls", (int)account->controls, "cutInside", (int)account->cut_inside, "notes", account->notes);
    (void)json_object_update(line, more);
    (void)json_object_set_new(line, "same", json_boolean(test->from->same != NULL));
    json_decref(more);
    if (err->status != SP_OK)
        (void)json_object_set_new(line, "failure", json_sprintf("%s: %s", err->code, err->message));
    simulate_tell(test->options->list, line);
}

/* ---- one way ---------------------------------------------------------------------------------------------------- */

/* "x" for the first place, "y" for the second. */
static enum sp_status make_mesh(struct sp_arena *arena, const struct way *way, struct sp_mesh **ret_mesh,
                                struct sp_error *err)
{
    const struct sp_mesh_axis axes[MAX_PLACES] = {{"x", way->shards}, {"y", way->shards}};
    return sp_mesh_create(arena, way->count, axes, NULL, ret_mesh, err);
}

static enum sp_status make_sharding(struct sp_arena *arena, const struct sp_mesh *mesh, const struct way *way,
                                    const struct sp_value *value, struct sp_sharding **ret_sharding,
                                    struct sp_error *err)
{
    enum sp_status status = sp_sharding_create_axes(arena, mesh, value->type.shape.rank, ret_sharding, err);
    for (uint32_t i = 0; status == SP_OK && i < way->count; i++) {
        if (way->places[i].value != value)
            continue;
        struct sp_axis_ref *ref = SP_NEW(arena, struct sp_axis_ref);
        *ref = sp_axis_full(mesh, i);
        (*ret_sharding)->dims[way->places[i].axis].axes = (struct sp_axis_list){1, ref};
    }
    return status;
}

/* What a request says of a tensor of the main graph, said of one of an inner graph. */
static void set_inside(struct sp_assignment *assignment, const struct sp_value *value,
                       const struct sp_sharding *sharding)
{
    const struct sp_dataflow *dataflow = assignment->dataflow;
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
            const struct sp_value *own = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            if (own == value)
                *sp_spec_of(assignment, n, i) = (struct sp_spec_entry){sharding, SP_SPEC_SET, "The request sets it."};
        }
    }
}

static enum sp_status assign(struct test *test, struct sp_arena *arena, const struct way *way,
                             struct sp_assignment **ret_assignment, struct sp_error *err)
{
    struct sp_set_spec sets[MAX_PLACES];
    struct sp_sharding *shardings[MAX_PLACES] = {NULL};
    struct sp_mesh *mesh = NULL;
    uint32_t set_count = 0;
    enum sp_status status = make_mesh(arena, way, &mesh, err);
    for (uint32_t i = 0; status == SP_OK && i < way->count; i++) {
        const struct sp_value *value = way->places[i].value;
        if (i > 0 && value == way->places[0].value)
            continue;
        status = make_sharding(arena, mesh, way, value, &shardings[i], err);
        if (value->graph == test->model->graph)
            sets[set_count++] = (struct sp_set_spec){value->name, shardings[i]};
    }
    if (status == SP_OK)
        status = sp_assignment_create(arena, test->dataflow, NULL, mesh->order.count,
                                      &(struct sp_set_specs){set_count, sets}, ret_assignment, err);
    for (uint32_t i = 0; status == SP_OK && i < way->count; i++) {
        if (shardings[i] != NULL && way->places[i].value->graph != test->model->graph)
            set_inside(*ret_assignment, way->places[i].value, shardings[i]);
    }
    return status == SP_OK ? sp_infer_propagate(*ret_assignment, mesh, err) : status;
}

static bool has_graphs(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        if (node->attributes[i].type == SP_ATTR_GRAPH)
            return true;
    }
    return false;
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * UINT64_C(2685821657736338717)) >> 33;
}

/* Some axis in some shards, on any of the devices. */
static struct sp_sharding *any_cut(struct sp_arena *arena, const struct sp_value *value, int64_t devices,
                                   uint64_t *state)
{
    uint32_t rank = value->type.shape.rank;
    struct sp_sharding *blocks = SP_NEW(arena, struct sp_sharding);
    int64_t shards = 1 + (int64_t)(next(state) % (uint64_t)devices), axis = (int64_t)(next(state) % rank);
    struct sp_dim extent = value->type.shape.dims[axis];
    if (!sp_dim_is_known(extent) || extent.value % shards != 0)
        shards = 1;
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS, .rank = rank, .shard_count = shards};
    blocks->blocks = SP_NEW_ARRAY(arena, rank, struct sp_block_dim);
    struct sp_block_part *one = SP_NEW(arena, struct sp_block_part);
    *one = (struct sp_block_part){0, NULL, shards};
    if (shards > 1)
        blocks->blocks[axis] = (struct sp_block_dim){1, one};
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)shards + 1, uint32_t);
    int64_t *list = SP_NEW_ARRAY(arena, (size_t)shards, int64_t);
    uint64_t from = next(state);
    for (int64_t i = 0; i < shards; i++) {
        first[i + 1] = (uint32_t)i + 1;
        list[i] = (int64_t)((from + (uint64_t)i) % (uint64_t)devices);
    }
    blocks->first = first;
    blocks->devices = list;
    return blocks;
}

/* What nodes with graphs take and give is said, too: it has nothing to do with what is said inside. */
static void cut_outside(struct test *test, struct sp_assignment *assignment, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (uint32_t n = 0; n < test->dataflow->node_count; n++) {
        const struct sp_node *node = test->dataflow->nodes[n];
        for (uint32_t i = 0; has_graphs(node) && i < node->input_count + node->output_count; i++) {
            const struct sp_value *own = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            if (own == NULL || own->type.kind != SP_TYPE_TENSOR || !own->type.shape.has_rank ||
                own->type.shape.rank == 0 || next(&state) % 4 == 0)
                continue;
            const struct sp_sharding *cut = any_cut(assignment->arena, own, assignment->device_count, &state);
            *sp_spec_of(assignment, n, i) = (struct sp_spec_entry){cut, SP_SPEC_GIVEN, NULL};
        }
    }
}

/* `way` is NULL where every node is split in a way of its own. */
static void run_way(struct test *test, const char *rest, const struct way *way, int64_t devices, uint64_t seed)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct simulate_account account = {0};
    struct sp_assignment *assignment = NULL;
    struct sp_error err = {0};
    char name[256], path[SIMULATE_MAX_PATH];
    (void)snprintf(name, sizeof(name), "%s-%s", test->from->name, rest);
    (void)snprintf(path, sizeof(path), "%.600s/%.200s.onnx", test->options->folder, name);
    enum sp_status status = SP_OK;
    if (way != NULL)
        status = assign(test, arena, way, &assignment, &err);
    else
        status = sp_assignment_create(arena, test->dataflow, NULL, devices, NULL, &assignment, &err);
    if (status == SP_OK && way == NULL)
        status = simulate_random(assignment, seed, 0, UINT32_MAX, &err);
    if (status == SP_OK && way == NULL && seed % 2 == 0)
        cut_outside(test, assignment, seed);
    if (status == SP_OK)
        (void)simulate_write(arena, test->model, assignment, path, &account, &err);
    tell(test, name, path, way, &account, &err);
    simulate_account_release(&account);
    sp_arena_destroy(arena);
}

/* ---- all ways --------------------------------------------------------------------------------------------------- */

static bool divides(const struct place *place, int64_t shards)
{
    struct sp_dim extent = place->value->type.shape.dims[place->axis];
    return sp_dim_is_known(extent) && extent.value % shards == 0 && extent.value >= shards;
}

static void run_places(struct test *test, uint32_t count, const struct place *places, const char *prefix)
{
    for (int64_t shards = 2; shards <= (count == 1 ? 4 : 2); shards += 2) {
        struct way way = {.count = count, .shards = shards};
        char rest[160];
        int length = snprintf(rest, sizeof(rest), "%s", prefix);
        bool may = true;
        for (uint32_t i = 0; i < count; i++) {
            way.places[i] = places[i];
            may = may && divides(&places[i], shards);
            length += snprintf(rest + length, sizeof(rest) - (size_t)length, "%.30s.%u.", places[i].value->name,
                               places[i].axis);
        }
        (void)snprintf(rest + length, sizeof(rest) - (size_t)length, "%" PRId64, shards);
        if (may)
            run_way(test, rest, &way, 0, 0);
    }
}

/* An operand that has the factor as an axis of its own. */
static bool find_place(const struct sp_node *node, const struct sp_rule *rule, uint8_t factor, struct place *ret_place)
{
    for (uint32_t i = 0; i < rule->input_count + rule->output_count; i++) {
        const struct sp_operand_rule *operand = sp_rule_operand(rule, i);
        struct sp_value *value = i < rule->input_count ? node->inputs[i] : node->outputs[i - rule->input_count];
        for (uint32_t axis = 0; value != NULL && axis < operand->rank; axis++) {
            if (operand->axes[axis].count != 1 || operand->axes[axis].factors[0] != factor)
                continue;
            *ret_place = (struct place){value, axis, node, &rule->factors[factor]};
            return true;
        }
    }
    return false;
}

static void run_factors(struct test *test, struct sp_node *node)
{
    struct place places[SP_RULE_MAX_FACTORS];
    uint32_t count = 0;
    struct sp_rule *rule = NULL;
    char prefix[64];
    if (sp_op_rule(test->model, node, test->arena, &rule, &test->err) != SP_OK)
        return;
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        if (simulate_may_cut(&rule->factors[f], 2) && find_place(node, rule, (uint8_t)f, &places[count]))
            count++;
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(prefix, sizeof(prefix), "%.10s%u.%.20s-", node->op_type, node->index, places[i].factor->name);
        run_places(test, 1, &places[i], prefix);
        for (uint32_t k = i + 1; k < count; k++) {
            struct place pair[2] = {places[i], places[k]};
            (void)snprintf(prefix, sizeof(prefix), "%.10s%u.%.10s.%.10s-", node->op_type, node->index,
                           places[i].factor->name, places[k].factor->name);
            run_places(test, 2, pair, prefix);
        }
    }
}

static void run_tensors(struct test *test)
{
    for (uint32_t t = 0; t < test->dataflow->tensor_count; t++) {
        struct sp_value *value = test->dataflow->tensors[t];
        if (value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank)
            continue;
        char prefix[24];
        (void)snprintf(prefix, sizeof(prefix), "t%u-", t);
        for (uint32_t a = 0; a < value->type.shape.rank; a++) {
            struct place places[2] = {{.value = value, .axis = a}, {.value = value}};
            run_places(test, 1, places, prefix);
            for (uint32_t b = a + 1; b < value->type.shape.rank; b++) {
                places[1].axis = b;
                run_places(test, 2, places, prefix);
            }
        }
    }
}

static void run_ways(struct test *test)
{
    for (uint32_t n = 0; n < test->dataflow->node_count; n++) {
        if (has_graphs(test->dataflow->nodes[n]) && test->dataflow->nodes[n]->graph == test->model->graph)
            run_factors(test, test->dataflow->nodes[n]);
    }
    run_tensors(test);
    for (int64_t seed = 1; seed <= test->options->seeds; seed++) {
        for (int64_t devices = 2; devices <= 5; devices++) {
            char rest[64];
            (void)snprintf(rest, sizeof(rest), "any.%" PRId64 ".%" PRId64, seed, devices);
            run_way(test, rest, NULL, devices, (uint64_t)(seed + 100 * devices));
        }
    }
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* The model whose results are right. */
static enum sp_status write_original(struct test *test)
{
    struct sp_buf bytes = onnx_encode(test->from->same != NULL ? test->from->same : test->from->notation);
    FILE *file = fopen(test->original, "wb");
    bool is_written = file != NULL && fwrite(bytes.data, 1, bytes.size, file) == bytes.size;
    bool is_closed = file != NULL && fclose(file) == 0;
    sp_buf_release(&bytes);
    return is_written && is_closed
               ? SP_OK
               : sp_fail(&test->err, SP_ERR_IO, "NO_FILE", "The file %s cannot be written.", test->original);
}

static enum sp_status open_model(struct test *test)
{
    struct sp_read_options options = {0};
    struct sp_shape_summary summary;
    enum sp_status status = write_original(test);
    if (status == SP_OK)
        status = sp_onnx_read(test->arena, test->file.data, test->file.size, &options, &test->model, &test->err);
    if (status == SP_OK)
        status = sp_infer_shapes(test->model, NULL, &summary, &test->err);
    return status == SP_OK ? sp_dataflow_create(test->arena, test->model, &test->dataflow, &test->err) : status;
}

static void run_model(const struct options *options, const struct simulate_control *from)
{
    struct test test = {
        .options = options, .from = from, .arena = sp_arena_create(NULL), .file = onnx_encode(from->notation)};
    (void)snprintf(test.original, sizeof(test.original), "%.600s/%.200s.original.onnx", options->folder, from->name);
    if (open_model(&test) == SP_OK)
        run_ways(&test);
    else
        simulate_tell(options->list,
                      json_pack("{s:s, s:s, s:s, s:[], s:o}", "name", from->name, "case", from->name, "op", from->op,
                                "cuts", "failure", json_sprintf("%s: %s", test.err.code, test.err.message)));
    sp_buf_release(&test.file);
    sp_arena_destroy(test.arena);
}

int main(int count, char **arguments)
{
    struct options options = {.folder = count > 1 ? arguments[1] : "", .only = "", .seeds = 6};
    char path[SIMULATE_MAX_PATH + 64];
    bool is_ok = count > 1 && count % 2 == 0;
    for (int i = 2; i + 1 < count; i += 2) {
        if (strcmp(arguments[i], "--only") == 0)
            options.only = arguments[i + 1];
        else if (strcmp(arguments[i], "--seeds") == 0)
            options.seeds = strtoll(arguments[i + 1], NULL, 10);
        else
            is_ok = false;
    }
    if (!is_ok) {
        (void)fprintf(stderr, "usage: simulate_control FOLDER [--only TEXT] [--seeds N]\n");
        return 2;
    }
    (void)snprintf(path, sizeof(path), "%.1000s/list.jsonl", options.folder);
    options.list = fopen(path, "w");
    if (options.list == NULL) {
        (void)fprintf(stderr, "simulate_control: %s cannot be written\n", path);
        return 2;
    }
    for (const struct simulate_control *from = simulate_control_models; from->name != NULL; from++) {
        if (strstr(from->name, options.only) != NULL)
            run_model(&options, from);
    }
    return fclose(options.list) != 0;
}
