/*
 * The way from one sharding of a tensor to another, as people ask for it.
 */
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "cost/cluster/cluster.h"
#include "plan/answer/readable_text.h"
#include "plan/convert/internal.h"

#define ASSUMED_DEVICE "h100-sxm-80gb"

struct resharding {
    struct sp_members_reader reader;
    struct sp_dialect_context context;
    struct sp_convert_mesh mesh;
    struct sp_convert_spec from_spec, to_spec;
    enum sp_dtype dtype;
    double memory_limit;
    int64_t devices; /* of the request, 0: not given */
    struct sp_sharding *from, *to;
    struct sp_cluster *cluster;
    bool is_assumed; /* the cluster */
    struct sp_links links;
    struct sp_losses losses;
    struct sp_reshard *plan;
    struct sp_buf *after; /* per step: the sharding as text */
};

/* ---- the request ---- */

static enum sp_status read_dtype(struct resharding *resharding, const json_t *request)
{
    const json_t *value = json_object_get(request, "dtype");
    const char *name = json_string_value(value);
    resharding->dtype = SP_DTYPE_FLOAT;
    if (value == NULL)
        return SP_OK;
    resharding->dtype = name != NULL ? sp_dtype_parse(name) : SP_DTYPE_UNDEFINED;
    if (sp_dtype_bits(resharding->dtype) > 0)
        return SP_OK;
    return sp_members_refuse(
        &resharding->reader, "/dtype", "DTYPE_UNKNOWN",
        "'dtype' must be the name of an element type of a fixed size, like \"float32\", \"bfloat16\" "
        "or \"int8\".");
}

static enum sp_status check_shape(struct resharding *resharding)
{
    const struct sp_dialect_context *context = &resharding->context;
    struct sp_members_reader *reader = &resharding->reader;
    int64_t count = 1;
    if (context->shape == NULL)
        return sp_members_refuse(reader, "/shape", "SHAPE_MISSING",
                                 "'shape' is missing: bytes and times depend on the tensor's shape.");
    for (int64_t i = 0; i < context->rank; i++) {
        if (context->shape[i] < 0)
            return sp_members_refuse(reader, sp_members_item(reader, "/shape", (size_t)i), "SHAPE_UNKNOWN",
                                     "Bytes and times depend on every extent: null will not do here.");
        if (context->shape[i] > 0 && !sp_mul_i64(count, context->shape[i], &count))
            return sp_members_refuse(reader, "/shape", "SHAPE_TOO_LARGE", "The tensor has too many elements.");
    }
    if (sp_dtype_bytes(resharding->dtype, count) < 0)
        return sp_members_refuse(reader, "/shape", "SHAPE_TOO_LARGE", "The tensor has too many bytes.");
    return SP_OK;
}

static enum sp_status read_shardings(struct resharding *resharding)
{
    struct sp_members_reader *reader = &resharding->reader;
    enum sp_status status = sp_convert_read_sharding(reader, &resharding->from_spec, &resharding->context,
                                                     &resharding->mesh, &resharding->from, &resharding->losses);
    if (status == SP_OK)
        status = sp_convert_read_sharding(reader, &resharding->to_spec, &resharding->context, &resharding->mesh,
                                          &resharding->to, &resharding->losses);
    for (int i = 0; i < 2 && status == SP_OK; i++) {
        if ((i == 0 ? resharding->from : resharding->to)->kind == SP_SHARDING_TUPLE)
            status = sp_members_refuse(reader, i == 0 ? "/from" : "/to", "TUPLE",
                                       "A tuple is the sharding of several tensors: ask for each of them.");
    }
    return status;
}

static enum sp_status read_request(struct resharding *resharding, const json_t *request)
{
    static const char *const members[] = {"shape",      "dtype", "from",    "to",      "from_dialect",
                                          "to_dialect", "mesh",  "devices", "cluster", "memory_limit_bytes"};
    static const struct sp_members_range bytes = {"a number of bytes", 1, SP_MAX_FIGURE};
    struct sp_members_reader *reader = &resharding->reader;
    enum sp_status status = sp_members_check(reader, (json_t *)(uintptr_t)request, "", "A request to reshard", members,
                                             sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_convert_read_spec(reader, request, "", "from", "from_dialect", &resharding->from_spec);
    if (status == SP_OK)
        status = sp_convert_read_spec(reader, request, "", "to", "to_dialect", &resharding->to_spec);
    if (status == SP_OK)
        status = sp_convert_read_context(reader, request, &resharding->context, &resharding->mesh);
    if (status == SP_OK)
        status = read_dtype(resharding, request);
    if (status == SP_OK)
        status = check_shape(resharding);
    if (status == SP_OK)
        status = sp_members_number(reader, request, "", "memory_limit_bytes", &bytes, false, &resharding->memory_limit);
    return status == SP_OK ? read_shardings(resharding) : status;
}

/* ---- the cluster ---- */

/* The number of devices up to the last one that a sharding names; 0 when it names none. */
static enum sp_status named_devices(struct resharding *resharding, const struct sp_sharding *sharding,
                                    const struct sp_convert_spec *spec, int64_t *ret_count)
{
    struct sp_error err = {0};
    const int64_t *devices;
    int64_t count = 0;
    *ret_count = 0;
    enum sp_status status = sp_sharding_devices(resharding->reader.arena, sharding, 0, &count, &devices, &err);
    if (status == SP_ERR_REQUEST && strcmp(err.code, "DEVICES_UNKNOWN") == 0)
        return SP_OK;
    if (status == SP_OK && count > 0 && devices[count - 1] >= SP_MAX_DEVICES)
        status = sp_fail_limit(&err, "TOO_MANY_DEVICES", "SP_MAX_DEVICES", SP_MAX_DEVICES, devices[count - 1],
                               "A cluster may have %d devices; the sharding names device %lld.", SP_MAX_DEVICES,
                               (long long)devices[count - 1]);
    if (status != SP_OK) {
        if (resharding->reader.err != NULL)
            *resharding->reader.err = err;
        return sp_convert_blame(spec, resharding->reader.err);
    }
    *ret_count = count > 0 ? devices[count - 1] + 1 : 0;
    return SP_OK;
}

static enum sp_status take_cluster(struct resharding *resharding, const json_t *request)
{
    struct sp_members_reader *reader = &resharding->reader;
    const json_t *given = json_object_get(request, "cluster");
    int64_t from, to;
    enum sp_status status = named_devices(resharding, resharding->from, &resharding->from_spec, &from);
    if (status == SP_OK)
        status = named_devices(resharding, resharding->to, &resharding->to_spec, &to);
    if (status != SP_OK)
        return status;
    int64_t count = from > to ? from : to;
    if (count < resharding->context.device_count)
        count = resharding->context.device_count;
    resharding->is_assumed = given == NULL;
    if (given != NULL) {
        status = sp_cluster_parse(reader->arena, given, "/cluster", &resharding->cluster, reader->err);
        const uint32_t devices = status == SP_OK ? sp_cluster_described(resharding->cluster) : 0;
        if (status == SP_OK && devices < count)
            status = sp_members_refuse(reader, "/cluster", "CLUSTER_TOO_SMALL",
                                       "The cluster has %u devices, but the shardings are on %lld.", (unsigned)devices,
                                       (long long)count);
        for (uint32_t number = 0; status == SP_OK && number < count; number++) {
            if (sp_cluster_numbered(resharding->cluster, number) == UINT32_MAX)
                status = sp_members_refuse(reader, "/cluster/exclude", "CLUSTER_EXCLUDE",
                                           "The cluster leaves out device %u, which the shardings are on.", number);
        }
        return status;
    }
    if (count == 0)
        return sp_members_refuse(reader, "/devices", "DEVICES_UNKNOWN",
                                 "Neither sharding says on which devices the tensor is: give 'devices' or 'cluster'.");
    if (count > SP_MAX_DEVICES)
        return sp_members_refuse(reader, "/devices", "TOO_MANY_DEVICES", "A cluster may have %d devices.",
                                 SP_MAX_DEVICES);
    return sp_cluster_uniform(reader->arena, ASSUMED_DEVICE, count, &resharding->cluster, reader->err);
}

/* ---- the plan ---- */

/* A sharding on the way, in the notation that was asked for where that can say it. */
static enum sp_status write_sharding(struct resharding *resharding, const struct sp_sharding *sharding,
                                     struct sp_buf *buf)
{
    enum sp_dialect wanted = resharding->to_spec.dialect;
    /* Bytes mean nothing to a reader, and a mesh on a line of its own not much. */
    const enum sp_dialect order[] = {wanted == SP_DIALECT_OP_SHARDING ? SP_DIALECT_HLO : wanted, SP_DIALECT_SHARDY,
                                     SP_DIALECT_HLO, SP_DIALECT_ONNX};
    struct sp_error err = {0};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        enum sp_status status;
        sp_error_clear(&err);
        sp_buf_clear(buf);
        if (order[i] == SP_DIALECT_SHARDY)
            status = sp_shardy_write(sharding, true, buf, &err);
        else
            status =
                sp_dialect_write(resharding->reader.arena, order[i], sharding, &resharding->context, buf, NULL, &err);
        if (status == SP_OK)
            status = sp_convert_check_text(buf, &err);
        if (status == SP_OK)
            return SP_OK;
        if (status == SP_ERR_MEMORY || status == SP_ERR_INTERNAL)
            break;
    }
    if (resharding->reader.err != NULL)
        *resharding->reader.err = err;
    return err.status;
}

static enum sp_status write_shardings(struct resharding *resharding)
{
    uint32_t count = resharding->plan->step_count;
    enum sp_status status = SP_OK;
    resharding->after = SP_NEW_ARRAY(resharding->reader.arena, (size_t)count + 1, struct sp_buf);
    if (resharding->after == NULL)
        return sp_fail_memory(resharding->reader.err);
    for (uint32_t i = 0; i < count; i++)
        sp_buf_init(&resharding->after[i], SP_MAX_ANSWER_BYTES);
    for (uint32_t i = 0; i < count && status == SP_OK; i++)
        status = write_sharding(resharding, resharding->plan->steps[i].after, &resharding->after[i]);
    return status;
}

static enum sp_status plan(struct resharding *resharding)
{
    if (!sp_cluster_numbered_links(resharding->reader.arena, resharding->cluster, &resharding->links))
        return sp_fail_memory(resharding->reader.err);
    const struct sp_reshard_request request = {
        .links = &resharding->links,
        .rank = (uint32_t)resharding->context.rank,
        .shape = resharding->context.shape,
        .dtype = resharding->dtype,
        .from = resharding->from,
        .to = resharding->to,
        .device_count = resharding->context.device_count,
        .memory_limit_bytes = resharding->memory_limit,
    };
    enum sp_status status =
        sp_reshard_plan(resharding->reader.arena, &request, &resharding->plan, resharding->reader.err);
    return status == SP_OK ? write_shardings(resharding) : status;
}

static enum sp_status reshard(struct resharding *resharding, struct sp_arena *arena, const json_t *request,
                              struct sp_error *err)
{
    *resharding = (struct resharding){.reader = {arena, err}, .context = {.rank = -1}};
    enum sp_status status = read_request(resharding, request);
    if (status == SP_OK)
        status = take_cluster(resharding, request);
    return status == SP_OK ? plan(resharding) : status;
}

static void resharding_release(struct resharding *resharding)
{
    for (uint32_t i = 0; resharding->after != NULL && i < resharding->plan->step_count; i++)
        sp_buf_release(&resharding->after[i]);
}

/* ---- as JSON ---- */

static void write_axes(const struct sp_mesh *mesh, const struct sp_axis_list *axes, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; mesh != NULL && i < axes->count; i++)
        sp_convert_write_axis(mesh, axes->refs[i], json);
    sp_json_end_array(json);
}

static void write_transfers(const struct sp_reshard_step *step, uint32_t rank, struct sp_json *json)
{
    sp_json_key(json, "transfers");
    sp_json_begin_array(json);
    for (uint64_t i = 0; i < step->transfer_count; i++) {
        const struct sp_transfer *transfer = &step->transfers[i];
        sp_json_begin_object(json);
        sp_json_member_int(json, "source", transfer->source);
        sp_json_member_int(json, "target", transfer->target);
        sp_json_key(json, "box");
        sp_json_begin_array(json);
        for (uint32_t axis = 0; axis < rank; axis++) {
            sp_json_begin_array(json);
            sp_json_int(json, transfer->box[axis].start);
            sp_json_int(json, transfer->box[axis].limit);
            sp_json_end_array(json);
        }
        sp_json_end_array(json);
        sp_json_member_double(json, "bytes", transfer->bytes);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static const struct sp_mesh *mesh_of(const struct sp_reshard_step *step)
{
    if (step->after->kind == SP_SHARDING_AXES)
        return step->after->mesh;
    return step->before->kind == SP_SHARDING_AXES ? step->before->mesh : NULL;
}

static void write_step(const struct resharding *resharding, uint32_t index, struct sp_json *json)
{
    const struct sp_reshard_step *step = &resharding->plan->steps[index];
    const struct sp_mesh *mesh = mesh_of(step);
    struct sp_buf text;
    sp_buf_init(&text, SP_MAX_ANSWER_BYTES);
    sp_reshard_step_write(step, &text);
    sp_json_begin_object(json);
    sp_json_member_string(json, "kind", sp_collective_name(step->kind));
    sp_json_member_string(json, "text", sp_convert_check_text(&text, NULL) == SP_OK ? text.data : NULL);
    sp_buf_release(&text);
    sp_json_key(json, "axes");
    write_axes(mesh, &step->axes, json);
    if (step->dims != NULL) {
        sp_json_key(json, "dims");
        sp_json_begin_array(json);
        for (int64_t a = 0; a < resharding->context.rank; a++)
            write_axes(mesh, &step->dims[a], json);
        sp_json_end_array(json);
    }
    if (step->move_count > 0) {
        sp_json_key(json, "moves");
        sp_json_begin_array(json);
        for (uint32_t i = 0; i < step->move_count; i++) {
            sp_json_begin_object(json);
            sp_json_member_int(json, "source", step->moves[i].source);
            sp_json_member_int(json, "target", step->moves[i].target);
            sp_json_key(json, "axes");
            write_axes(mesh, &step->moves[i].axes, json);
            sp_json_end_object(json);
        }
        sp_json_end_array(json);
    }
    sp_json_member_int(json, "group_size", step->group_size);
    sp_json_member_double(json, "bytes", step->bytes);
    sp_json_member_double(json, "total_bytes", step->total_bytes);
    sp_json_member_double(json, "seconds", step->seconds);
    sp_json_member_double(json, "peak_bytes", step->peak_bytes);
    sp_json_member_string(json, "sharding", resharding->after[index].data);
    if (step->transfers != NULL)
        write_transfers(step, (uint32_t)resharding->context.rank, json);
    sp_json_end_object(json);
}

enum sp_status sp_reshard_json(struct sp_arena *arena, const json_t *request, struct sp_json *json,
                               struct sp_error *err)
{
    struct resharding resharding;
    enum sp_status status = reshard(&resharding, arena, request, err);
    if (status == SP_OK) {
        const struct sp_reshard *result = resharding.plan;
        sp_json_begin_object(json);
        sp_json_member_string(json, "from_dialect", sp_dialect_name(resharding.from_spec.dialect));
        sp_json_member_string(json, "to_dialect", sp_dialect_name(resharding.to_spec.dialect));
        sp_json_member_double(json, "seconds", result->seconds);
        sp_json_member_double(json, "bytes", result->bytes);
        sp_json_member_double(json, "total_bytes", result->total_bytes);
        sp_json_member_double(json, "peak_bytes", result->peak_bytes);
        sp_json_member_bool(json, "optimal", result->is_optimal);
        sp_json_key(json, "steps");
        sp_json_begin_array(json);
        for (uint32_t i = 0; i < result->step_count; i++)
            write_step(&resharding, i, json);
        sp_json_end_array(json);
        sp_json_key(json, "lost");
        sp_convert_write_losses(&resharding.losses, json);
        sp_json_member_bool(json, "cluster_assumed", resharding.is_assumed);
        sp_json_key(json, "cluster");
        sp_cluster_write(resharding.cluster, json);
        sp_json_end_object(json);
    }
    resharding_release(&resharding);
    return status;
}

/* ---- as text ---- */

static void write_head(const struct resharding *resharding, struct sp_buf *buf)
{
    const struct sp_dialect_context *context = &resharding->context;
    const struct sp_cluster *cluster = resharding->cluster;
    int64_t count = 1;
    sp_buf_printf(buf, "Tensor      %s[", sp_dtype_name(resharding->dtype));
    for (int64_t i = 0; i < context->rank; i++) {
        sp_buf_printf(buf, "%s%lld", i > 0 ? ", " : "", (long long)context->shape[i]);
        count *= context->shape[i];
    }
    sp_buf_text(buf, "], ");
    sp_text_bytes(buf, (double)sp_dtype_bytes(resharding->dtype, count));
    sp_buf_printf(buf, "\nCluster     %u x %s", (unsigned)cluster->device_count, cluster->groups[0].device.name);
    if (cluster->group_count > 1)
        sp_buf_text(buf, " and others");
    sp_buf_text(buf, resharding->is_assumed ? ", assumed: as many as the shardings name\n" : "\n");
}

static void write_totals(const struct sp_reshard *result, struct sp_buf *buf)
{
    if (result->step_count == 0) {
        sp_buf_text(buf, "Nothing to do: every device holds what it needs.\n");
        return;
    }
    sp_buf_text(buf, "Total       ");
    sp_text_seconds(buf, result->seconds);
    sp_buf_text(buf, "; the busiest device sends ");
    sp_text_bytes(buf, result->bytes);
    sp_buf_text(buf, ", all together ");
    sp_text_bytes(buf, result->total_bytes);
    sp_buf_text(buf, "; the fullest device holds up to ");
    sp_text_bytes(buf, result->peak_bytes);
    sp_buf_text(buf, result->is_optimal ? "\n            no sequence of collectives takes less time\n" : "\n");
}

enum sp_status sp_reshard_text(struct sp_arena *arena, const json_t *request, struct sp_buf *buf, struct sp_error *err)
{
    struct resharding resharding;
    enum sp_status status = reshard(&resharding, arena, request, err);
    if (status == SP_OK) {
        write_head(&resharding, buf);
        for (uint32_t i = 0; i < resharding.plan->step_count; i++) {
            sp_buf_printf(buf, "Step %-6u ", (unsigned)i + 1);
            sp_reshard_step_write(&resharding.plan->steps[i], buf);
            sp_buf_printf(buf, "\n            -> %s\n", resharding.after[i].data);
        }
        write_totals(resharding.plan, buf);
        for (uint32_t i = 0; i < resharding.losses.count; i++)
            sp_buf_printf(buf, "# lost: %s [%s]\n", resharding.losses.items[i].message,
                          resharding.losses.items[i].code);
        status = sp_convert_check_text(buf, err);
    }
    resharding_release(&resharding);
    return status;
}
