/* What is asked of the completion of shardings, member by member. */
#include <string.h>

#include "base/array.h"
#include "plan/convert/internal.h"
#include "plan/infer/internal.h"

/* Tensors that a pattern matches are of few shapes, in turns: so many of them are looked back at. */
#define LOOKED_BACK 16

struct read_spec {
    const struct sp_value *value;
    struct sp_sharding *sharding;
};

struct request {
    struct sp_members_reader reader;
    const struct sp_completion *completion;
    struct sp_completion_request result;
    struct sp_convert_mesh mesh;
    int64_t device_count; /* 0: not known yet */
    uint32_t capacity;
    uint32_t read_count; /* specs of the present member that were read; the last of them */
    struct read_spec read[LOOKED_BACK];
};

/* ---- tensors -------------------------------------------------------------------------------------------------- */

/* Each '*' of the pattern stands for any text. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* The members that set shardings: by the tensor's name, and by the name of the node whose weight it is. */
struct sets {
    const char *path;
    const json_t *specs;
};

static enum sp_status read_one(struct request *request, const struct sets *sets, const char *member,
                               const struct sp_value *value, struct sp_sharding **ret_sharding)
{
    struct sp_arena *arena = request->reader.arena;
    const struct sp_shape *shape = &value->type.shape;
    struct sp_dialect_context context = {.rank = -1, .device_count = request->device_count, .tensor_name = value->name};
    struct sp_convert_spec spec;
    struct sp_losses losses = {0};
    context.mesh = request->mesh.mesh;
    if (value->type.kind == SP_TYPE_TENSOR && shape->has_rank) {
        int64_t *extents = SP_NEW_ARRAY(arena, shape->rank + 1, int64_t);
        if (extents == NULL)
            return sp_fail_memory(request->reader.err);
        for (uint32_t axis = 0; axis < shape->rank; axis++)
            extents[axis] = sp_dim_is_known(shape->dims[axis]) ? shape->dims[axis].value : -1;
        context.rank = shape->rank;
        context.shape = extents;
    }
    enum sp_status status = sp_convert_read_spec(&request->reader, sets->specs, sets->path, member, NULL, &spec);
    if (status == SP_OK)
        status = sp_convert_read_sharding(&request->reader, &spec, &context, &request->mesh, ret_sharding, &losses);
    return status;
}

static bool is_same_shape(const struct sp_type *a, const struct sp_type *b)
{
    if (a->kind != b->kind || a->shape.has_rank != b->shape.has_rank || a->shape.rank != b->shape.rank)
        return false;
    for (uint32_t axis = 0; axis < a->shape.rank; axis++) {
        if (!sp_dim_equal(a->shape.dims[axis], b->shape.dims[axis]))
            return false;
    }
    return true;
}

/* What the same text was read as for another tensor of this shape, or NULL: one sharding costs less than many equal
   ones. */
static struct sp_sharding *read_before(const struct request *request, const json_t *spec, const struct sp_value *value)
{
    for (uint32_t i = 0; json_is_string(spec) && i < request->read_count && i < LOOKED_BACK; i++) {
        const struct read_spec *read = &request->read[i];
        if (is_same_shape(&read->value->type, &value->type))
            return read->sharding;
    }
    return NULL;
}

static enum sp_status add_set(struct request *request, const struct sets *sets, const char *member,
                              const struct sp_value *value)
{
    struct sp_completion_request *result = &request->result;
    struct sp_sharding *sharding = read_before(request, json_object_get(sets->specs, member), value);
    if (sharding == NULL) {
        enum sp_status status = read_one(request, sets, member, value, &sharding);
        if (status != SP_OK)
            return status;
        request->read[request->read_count++ % LOOKED_BACK] = (struct read_spec){value, sharding};
    }
    if (result->set_count == SP_MAX_SET_SPECS)
        return sp_fail_limit(request->reader.err, "TOO_MANY_SPECS", "SP_MAX_SET_SPECS", SP_MAX_SET_SPECS,
                             SP_MAX_SET_SPECS + 1, "A request may set the specs of %d tensors.", SP_MAX_SET_SPECS);
    if (!SP_MAKE_ROOM(request->reader.arena, result->sets, result->set_count, request->capacity, 1))
        return sp_fail_memory(request->reader.err);
    result->sets[result->set_count++] = (struct sp_set_spec){value->name, sharding};
    return SP_OK;
}

static enum sp_status add_member(struct request *request, const struct sets *sets, const char *member)
{
    const struct sp_graph *graph = request->completion->model->graph;
    const struct sp_value *exact = sp_graph_value(graph, member);
    enum sp_status status = SP_OK;
    bool found = false;
    if (exact != NULL)
        return add_set(request, sets, member, exact);
    for (uint32_t i = 0; status == SP_OK && strchr(member, '*') != NULL && i < graph->value_count; i++) {
        const char *name = graph->values[i]->name;
        if (!matches(member, name) || json_object_get(sets->specs, name) != NULL)
            continue;
        found = true;
        status = add_set(request, sets, member, graph->values[i]);
    }
    if (status == SP_OK && !found)
        return sp_members_refuse(&request->reader, sp_members_child(&request->reader, sets->path, member),
                                 "UNKNOWN_TENSOR", "The model has no tensor '%.200s'.", member);
    return status;
}

/* The largest operand of a node that is there before a request comes, or NULL: its weight, not the bias or a shape. */
static const struct sp_value *weight_of(const struct sp_node *node)
{
    const struct sp_value *weight = NULL;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        if (value != NULL && value->is_constant && value->graph == node->graph &&
            (weight == NULL || sp_value_bytes(value) > sp_value_bytes(weight)))
            weight = value;
    }
    return weight;
}

static bool is_set(const struct request *request, const struct sp_value *value)
{
    for (uint32_t i = 0; i < request->result.set_count; i++) {
        if (request->result.sets[i].tensor == value->name)
            return true;
    }
    return false;
}

/* A weight that several of the nodes have is set once. */
static enum sp_status add_weight_member(struct request *request, const struct sets *sets, const char *member)
{
    const struct sp_graph *graph = request->completion->model->graph;
    enum sp_status status = SP_OK;
    bool found = false;
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        const struct sp_value *weight = matches(member, node->name) ? weight_of(node) : NULL;
        if (weight == NULL)
            continue;
        found = true;
        if (!is_set(request, weight))
            status = add_set(request, sets, member, weight);
    }
    if (status == SP_OK && !found)
        return sp_members_refuse(&request->reader, sp_members_child(&request->reader, sets->path, member),
                                 "UNKNOWN_NODE", "The model has no node '%.200s' that has a weight.", member);
    return status;
}

static enum sp_status read_sets(struct request *request, json_t *root, const char *name,
                                enum sp_status (*add)(struct request *, const struct sets *, const char *))
{
    json_t *specs = json_object_get(root, name), *value;
    const char *member;
    enum sp_status status = SP_OK;
    if (specs == NULL)
        return SP_OK;
    const struct sets sets = {sp_members_child(&request->reader, "", name), specs};
    if (!json_is_object(specs))
        return sp_members_refuse(&request->reader, sets.path, "MEMBER_TYPE",
                                 "'%s' must be an object: names, and their shardings.", name);
    json_object_foreach(specs, member, value)
    {
        request->read_count = 0;
        if (status == SP_OK)
            status = add(request, &sets, member);
    }
    return status;
}

/* ---- the configuration ---------------------------------------------------------------------------------------- */

static const struct sp_device_configuration *find_configuration(const struct sp_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->configuration_count; i++) {
        if (strcmp(model->configurations[i].name, name) == 0)
            return &model->configurations[i];
    }
    return NULL;
}

static enum sp_status determine_configuration(struct request *request, struct sp_completion *completion)
{
    const struct sp_model *model = completion->model;
    const char *name = request->result.configuration;
    if (name == NULL && model->configuration_count > 1)
        return sp_members_refuse(&request->reader, "/configuration", "WHICH_CONFIGURATION",
                                 "The model has %u configurations; say which one is to be completed.",
                                 model->configuration_count);
    if (name == NULL)
        name = model->configuration_count == 1 ? model->configurations[0].name : SP_PLAN_CONFIGURATION;
    const struct sp_device_configuration *found = find_configuration(model, name);
    request->result.configuration = name;
    completion->configuration = name;
    completion->is_new_configuration = found == NULL;
    if (found == NULL || !found->has_num_devices || found->num_devices < 1)
        return SP_OK;
    if (request->device_count != 0 && request->device_count != found->num_devices)
        return sp_members_refuse(&request->reader, "/devices", "DEVICE_COUNT",
                                 "The configuration '%.100s' has %d devices, not %lld.", name, found->num_devices,
                                 (long long)request->device_count);
    request->device_count = found->num_devices;
    return SP_OK;
}

/* Without any other word the devices are those that the specs name. */
static int64_t named_devices(struct request *request)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < request->result.set_count; i++) {
        struct sp_error none = {0};
        const int64_t *devices;
        int64_t count;
        if (sp_sharding_devices(request->reader.arena, request->result.sets[i].sharding, 0, &count, &devices, &none) ==
                SP_OK &&
            count > 0 && devices[count - 1] >= most)
            most = devices[count - 1] + 1;
    }
    return most;
}

static enum sp_status count_devices(struct request *request)
{
    if (request->device_count == 0)
        request->device_count = named_devices(request);
    if (request->device_count == 0)
        return sp_members_refuse(&request->reader, "/devices", "DEVICES_MISSING",
                                 "It is not known how many devices there are: give 'devices' or a mesh.");
    if (request->device_count > SP_MAX_DEVICES)
        return sp_fail_limit(request->reader.err, "TOO_MANY_DEVICES", "SP_MAX_DEVICES", SP_MAX_DEVICES,
                             request->device_count, "A configuration may have %d devices.", SP_MAX_DEVICES);
    return SP_OK;
}

static enum sp_status read_mode(struct request *request, const json_t *root)
{
    const char *mode = NULL;
    enum sp_status status = sp_members_text(&request->reader, root, "", "mode", SP_MAX_NAME_BYTES, &mode);
    if (status != SP_OK || mode == NULL)
        return status;
    request->result.propagates = strcmp(mode, "propagate") == 0;
    if (!request->result.propagates && strcmp(mode, "forward") != 0)
        return sp_members_refuse(&request->reader, "/mode", "MODE_UNKNOWN",
                                 "'mode' must be forward or propagate, not '%.64s'.", mode);
    return SP_OK;
}

enum sp_status sp_completion_read_request(struct sp_completion *completion, const json_t *root,
                                          struct sp_completion_request *ret_request, struct sp_error *err)
{
    static const char *const members[] = {"configuration", "mode", "devices", "mesh",   "set",       "set_weights",
                                          "all",           "dims", "values",  "shapes", "operators", "state"};
    const json_t *all = json_object_get(root, "all");
    struct request request = {.reader = {completion->arena, err}, .completion = completion};
    struct sp_dialect_context context = {.rank = -1};
    json_t *json = (json_t *)(uintptr_t)root;
    enum sp_status status = SP_OK;
    if (root != NULL)
        status = sp_members_check(&request.reader, json, "", "A request to complete shardings", members,
                                  sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_members_text(&request.reader, root, "", "configuration", SP_MAX_NAME_BYTES,
                                 &request.result.configuration);
    if (status == SP_OK)
        status = read_mode(&request, root);
    if (status == SP_OK)
        status = sp_convert_read_context(&request.reader, root, &context, &request.mesh);
    request.device_count = context.device_count;
    if (status == SP_OK && request.device_count == 0 && request.mesh.mesh != NULL)
        request.device_count = request.mesh.mesh->order.count;
    if (status == SP_OK)
        status = determine_configuration(&request, completion);
    if (status == SP_OK)
        status = read_sets(&request, json, "set", add_member);
    if (status == SP_OK)
        status = read_sets(&request, json, "set_weights", add_weight_member);
    if (status == SP_OK && all != NULL && !json_is_boolean(all))
        status = sp_members_refuse(&request.reader, "/all", "MEMBER_TYPE", "'all' must be true or false.");
    completion->lists_all = json_is_true(all);
    if (status == SP_OK)
        status = count_devices(&request);
    if (status != SP_OK)
        return status;
    request.result.devices = request.device_count;
    request.result.mesh = request.mesh.mesh;
    *ret_request = request.result;
    return SP_OK;
}
