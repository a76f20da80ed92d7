/* The tensors of a plan's JSON, and what is exchanged of them. */
#include "plan/answer/plan_json_internal.h"
#include "plan/answer/readable_text.h"
#include "sharding/dialect.h"

static void write_shape(struct sp_plan_json *c, const struct sp_shape *shape)
{
    struct sp_json *json = c->json;
    sp_json_key(json, "shape");
    if (shape == NULL || !shape->has_rank) {
        sp_json_null(json);
        return;
    }
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < shape->rank; i++)
        sp_json_dim(json, shape->dims[i], c->text);
    sp_json_end_array(json);
}

static uint32_t rank_of(const struct sp_shape *shape)
{
    return shape != NULL && shape->has_rank ? shape->rank : 0;
}

/* ---- specs ------------------------------------------------------------------------------------------------------ */

static void write_spec_of(struct sp_plan_json *c, const struct sp_sharding_spec *spec, uint32_t stage, uint32_t layout,
                          uint32_t rank)
{
    struct sp_json *json = c->json;
    sp_json_key(json, "spec");
    sp_json_begin_object(json);
    sp_json_key(json, "onnx");
    sp_onnx_spec_write_json_fields(spec, json);
    if (sp_plan_spec_text(c->plan, stage, layout, rank, c->text, c->err) != SP_OK)
        json->failed = true;
    sp_plan_json_text(c, "text");
    sp_json_end_object(json);
}

/* The devices of a spec as people number them. */
static void number_devices(const struct sp_cluster *cluster, struct sp_sharding_spec *spec)
{
    for (uint32_t i = 0; i < spec->device_count; i++) {
        if (spec->group_count == 0) /* else these are the groups' keys */
            spec->devices[i] = sp_cluster_number(cluster, (uint32_t)spec->devices[i]);
    }
    for (uint32_t g = 0; g < spec->group_count; g++) {
        for (uint32_t i = 0; i < spec->groups[g].count; i++)
            spec->groups[g].devices[i] = sp_cluster_number(cluster, (uint32_t)spec->groups[g].devices[i]);
    }
}

/* A tensor as it is in one place. */
static void write_place_spec(struct sp_plan_json *c, const char *name, const struct sp_plan_place *place, uint32_t rank)
{
    const struct sp_arena_mark mark = sp_arena_mark(c->plan->arena);
    struct sp_sharding_spec spec;
    if (sp_plan_spec(c->plan, place->stage, place->layout, rank, c->plan->result->placement.stage_device[place->stage],
                     &spec, c->err) != SP_OK) {
        c->json->failed = true;
    } else {
        spec.tensor_name = name;
        number_devices(c->plan->cluster, &spec);
        write_spec_of(c, &spec, place->stage, place->layout, rank);
    }
    sp_arena_rewind(c->plan->arena, mark);
}

/* A whole tensor on each device of all stages that have it: no sharded dims. */
static void write_whole_spec(struct sp_plan_json *c, const char *name, uint32_t rank)
{
    const struct sp_arena_mark mark = sp_arena_mark(c->plan->arena);
    struct sp_sharding_spec spec = {.tensor_name = name};
    size_t count = 0;
    for (uint32_t i = 0; i < c->places.count; i++)
        count += sp_plan_stage_devices(c->plan, c->places.stages[i]);
    spec.devices = SP_NEW_ARRAY(c->plan->arena, count, int64_t);
    if (spec.devices == NULL) {
        c->json->failed = true;
        return;
    }
    for (uint32_t i = 0; i < c->places.count; i++) {
        const uint32_t stage = c->places.stages[i], first = c->plan->result->placement.stage_device[stage];
        for (uint32_t d = 0; d < sp_plan_stage_devices(c->plan, stage); d++)
            spec.devices[spec.device_count++] = sp_cluster_number(c->plan->cluster, first + d);
    }
    write_spec_of(c, &spec, 0, 0, rank);
    sp_arena_rewind(c->plan->arena, mark);
}

/* All nodes that take a tensor as it is in this place. */
static void write_users(struct sp_plan_json *c, uint32_t tensor, const struct sp_plan_place *place)
{
    const struct sp_work_tensor *t = &c->plan->workload->tensors[tensor];
    sp_json_key(c->json, "nodes");
    sp_json_begin_array(c->json);
    for (uint32_t i = 0; i < t->consumer_count; i++) {
        const uint32_t node = t->consumers[i];
        if (c->plan->result->placement.stage_of[node] == place->stage &&
            sp_plan_layout(c->plan, node, tensor) == place->layout)
            sp_json_string(c->json, c->plan->workload->nodes[node].name);
    }
    sp_json_end_array(c->json);
}

/* The places that have the tensor otherwise than the first one. */
static void write_uses(struct sp_plan_json *c, uint32_t tensor, const char *name, uint32_t rank)
{
    struct sp_json *json = c->json;
    sp_json_key(json, "uses");
    sp_json_begin_array(json);
    for (uint32_t i = 1; i < c->places.place_count; i++) {
        const struct sp_plan_place *place = &c->places.places[i];
        sp_json_begin_object(json);
        sp_json_member_int(json, "stage", place->stage);
        sp_json_member_string(json, "node", c->plan->workload->nodes[place->node].name);
        write_users(c, tensor, place);
        write_place_spec(c, name, place, rank);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static bool is_whole(const struct sp_places *places)
{
    for (uint32_t i = 0; i < places->place_count; i++) {
        if (places->places[i].layout != 0)
            return false;
    }
    return true;
}

static void write_tensor(struct sp_plan_json *c, uint32_t t)
{
    static const char *const kinds[] = {
        [SP_WORK_ACTIVATION] = "activation", [SP_WORK_INPUT] = "input", [SP_WORK_WEIGHT] = "weight"};
    const struct sp_work_tensor *tensor = &c->plan->workload->tensors[t];
    const struct sp_value *value = tensor->value;
    const struct sp_shape *shape = value != NULL ? &value->type.shape : NULL;
    struct sp_json *json = c->json;
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", tensor->name);
    sp_json_member_string(json, "kind", kinds[tensor->kind]);
    sp_json_member_string(json, "dtype", value != NULL ? sp_dtype_name(value->type.dtype) : NULL);
    write_shape(c, shape);
    sp_json_member_double(json, "bytes", tensor->bytes);
    if (is_whole(&c->places)) {
        write_whole_spec(c, tensor->name, rank_of(shape));
    } else {
        const struct sp_plan_place *first = c->places.places;
        sp_json_member_double(json, "bytes_per_device", sp_plan_local_bytes(c->plan, first->stage, first->layout, t));
        write_place_spec(c, tensor->name, first, rank_of(shape));
        if (c->places.place_count > 1)
            write_uses(c, t, tensor->name, rank_of(shape));
    }
    sp_reason_tensor(c->plan, t, &c->places, c->text);
    sp_plan_json_text(c, "because");
    sp_json_end_object(json);
}

void sp_plan_json_tensors(struct sp_plan_json *c)
{
    const struct sp_workload *workload = c->plan->workload;
    sp_json_key(c->json, "tensors");
    sp_json_begin_array(c->json);
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        if (!sp_plan_places(c->plan, t, &c->places)) {
            c->json->failed = true;
            break;
        }
        if (c->places.count > 0 || workload->tensors[t].kind == SP_WORK_INPUT)
            write_tensor(c, t); /* the others are used only while constants are computed at load */
    }
    sp_json_end_array(c->json);
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

static const char *node_name(const struct sp_plan_json *c, uint32_t node)
{
    return node == SP_NO_WORK ? NULL : c->plan->workload->nodes[node].name;
}

static void write_sends(struct sp_plan_json *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    const struct sp_placement *placement = &c->plan->result->placement;
    struct sp_json *json = c->json;
    for (uint32_t i = 0; i < evaluation->transfer_count; i++) {
        const struct sp_tensor_transfer *transfer = &evaluation->transfers[i];
        const struct sp_work_tensor *tensor = &c->plan->workload->tensors[transfer->tensor];
        const uint32_t stages[2] = {transfer->from_stage, transfer->to_stage};
        sp_json_begin_object(json);
        sp_json_member_string(json, "kind", "send");
        sp_json_member_string(json, "tensor", tensor->name);
        sp_json_key(json, "devices");
        sp_json_begin_array(json);
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t d = 0; d < sp_placement_size(placement, stages[k]); d++)
                sp_json_int(json, sp_cluster_number(c->plan->cluster, placement->stage_device[stages[k]] + d));
        }
        sp_json_end_array(json);
        sp_json_member_int(json, "from_stage", transfer->from_stage);
        sp_json_member_int(json, "to_stage", transfer->to_stage);
        sp_json_member_double(json, "bytes", sp_plan_runs(c->plan) * transfer->bytes);
        sp_json_member_double(json, "seconds", sp_plan_runs(c->plan) * transfer->seconds);
        sp_json_member_string(json, "after_node", node_name(c, tensor->producer));
        sp_json_end_object(json);
    }
}

struct stage_collectives {
    struct sp_plan_json *c;
    uint32_t stage;
};

static enum sp_status write_collective(void *context, const struct sp_plan_collective *collective, struct sp_error *err)
{
    const struct stage_collectives *stage = context;
    struct sp_plan_json *c = stage->c;
    const struct sp_placement *placement = &c->plan->result->placement;
    const struct sp_work_tensor *tensor =
        collective->tensor != SP_NO_WORK ? &c->plan->workload->tensors[collective->tensor] : NULL;
    struct sp_json *json = c->json;
    (void)err;
    sp_json_begin_object(json);
    sp_json_member_string(json, "kind", collective->kind);
    sp_json_member_string(json, "tensor", tensor != NULL ? tensor->name : NULL);
    sp_plan_json_devices(c, "devices", placement->stage_device[stage->stage],
                         sp_placement_size(placement, stage->stage));
    sp_json_member_int(json, "stage", stage->stage);
    if (collective->group_size > 0)
        sp_json_member_int(json, "group_size", collective->group_size);
    sp_json_member_double(json, "bytes",
                          sp_plan_runs(c->plan) * collective->bytes * sp_placement_size(placement, stage->stage));
    sp_json_member_double(json, "bytes_per_device", sp_plan_runs(c->plan) * collective->bytes);
    sp_json_member_double(json, "seconds", sp_plan_runs(c->plan) * collective->seconds);
    if (collective->overlapped_seconds > 0)
        sp_json_member_double(json, "overlapped_seconds", sp_plan_runs(c->plan) * collective->overlapped_seconds);
    if (collective->is_before) {
        sp_json_member_string(json, "after_node", tensor != NULL ? node_name(c, tensor->producer) : NULL);
        sp_json_member_string(json, "before_node", node_name(c, collective->node));
    } else {
        sp_json_member_string(json, "after_node", node_name(c, collective->node));
    }
    sp_json_end_object(json);
    return SP_OK;
}

void sp_plan_json_collectives(struct sp_plan_json *c)
{
    sp_json_key(c->json, "collectives");
    sp_json_begin_array(c->json);
    write_sends(c);
    for (uint32_t s = 0; s < c->plan->result->placement.stage_count; s++) {
        struct stage_collectives context = {c, s};
        if (sp_plan_collectives(c->plan, s, write_collective, &context, c->err) != SP_OK)
            c->json->failed = true;
    }
    sp_json_end_array(c->json);
}
