#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "realize/device.h"

struct sp_device_part *sp_device_part(struct sp_device_plan *plan, int64_t device, uint32_t part)
{
    struct sp_device_state *state = &plan->devices[device];
    while (state->part_count <= part) {
        struct sp_device_part *made = SP_NEW(plan->arena, struct sp_device_part);
        if (made == NULL || !SP_MAKE_ROOM(plan->arena, state->parts, state->part_count, state->part_capacity, 1))
            return NULL;
        made->input_keys = sp_intern_create(plan->arena, 0);
        made->output_keys = sp_intern_create(plan->arena, 0);
        made->results = sp_intern_create(plan->arena, 0);
        if (made->input_keys == NULL || made->output_keys == NULL || made->results == NULL)
            return NULL;
        state->parts[state->part_count++] = made;
    }
    return state->parts[part];
}

const char *sp_device_key(struct sp_arena *arena, const char *name, uint32_t rank, const struct sp_range *box)
{
    struct sp_buf text;
    sp_buf_init(&text, SP_MAX_RECORD_BYTES);
    sp_buf_text(&text, name);
    for (uint32_t i = 0; box != NULL && i < rank; i++)
        sp_buf_printf(&text, "%c%" PRId64 ":%" PRId64, i == 0 ? '[' : ',', box[i].start, box[i].limit);
    if (box != NULL && rank > 0)
        sp_buf_text(&text, "]");
    const char *key = sp_buf_failed(&text) ? NULL : sp_arena_string(arena, text.data, text.size);
    sp_buf_release(&text);
    return key;
}

/* What the port points to must last as long as the plan. */
bool sp_device_copy_port(struct sp_arena *arena, struct sp_device_port *port)
{
    port->key = sp_arena_string(arena, port->key, strlen(port->key));
    port->name = sp_arena_string(arena, port->name, strlen(port->name));
    if (port->piece != NULL)
        port->piece = sp_arena_string(arena, port->piece, strlen(port->piece));
    if (port->box != NULL) {
        struct sp_range *box = SP_NEW_ARRAY(arena, port->rank, struct sp_range);
        if (box == NULL)
            return false;
        memcpy(box, port->box, port->rank * sizeof *box);
        port->box = box;
    }
    if (port->dims != NULL) {
        int64_t *dims = SP_NEW_ARRAY(arena, port->rank, int64_t);
        if (dims == NULL)
            return false;
        memcpy(dims, port->dims, port->rank * sizeof *dims);
        port->dims = dims;
    }
    return port->key != NULL && port->name != NULL &&
           sp_device_copy_box(arena, &port->tensor, &port->tensor, NULL) == SP_OK;
}

static enum sp_status note_result(struct sp_device_part *part, struct sp_device_port *port, struct sp_error *err)
{
    void **entry = sp_program_entry(part->results, port->piece, strlen(port->piece));
    if (entry == NULL)
        return sp_fail_memory(err);
    if (*entry == NULL)
        *entry = port;
    return SP_OK;
}

enum sp_status sp_device_add_port(struct sp_device_plan *plan, int64_t device, uint32_t part, bool is_output,
                                  const struct sp_device_port *port, struct sp_error *err)
{
    struct sp_device_part *at = sp_device_part(plan, device, part);
    if (at == NULL)
        return sp_fail_memory(err);
    struct sp_port_list *list = is_output ? &at->outputs : &at->inputs;
    void **entry = sp_program_entry(is_output ? at->output_keys : at->input_keys, port->key, strlen(port->key));
    if (entry != NULL && *entry != NULL)
        return SP_OK;
    struct sp_device_port *copy = SP_NEW(plan->arena, struct sp_device_port);
    if (entry == NULL || copy == NULL || !SP_MAKE_ROOM(plan->arena, list->items, list->count, list->capacity, 1))
        return sp_fail_memory(err);
    *copy = *port;
    if (!sp_device_copy_port(plan->arena, copy))
        return sp_fail_memory(err);
    list->items[list->count++] = copy;
    *entry = copy;
    return is_output && port->kind == SP_PORT_MODEL && port->is_whole ? note_result(at, copy, err) : SP_OK;
}

static const struct sp_device_port *find_marked(const struct sp_intern *ports, const char *key)
{
    const uint32_t id = sp_intern_find(ports, key, strlen(key));
    return id == SP_NO_NAME ? NULL : *sp_intern_mark(sp_intern_name(ports, id));
}

const struct sp_device_port *sp_device_find_port(const struct sp_device_plan *plan, int64_t device, uint32_t part,
                                                 bool is_output, const char *key)
{
    const struct sp_device_state *state = &plan->devices[device];
    if (part >= state->part_count)
        return NULL;
    return find_marked(is_output ? state->parts[part]->output_keys : state->parts[part]->input_keys, key);
}

const struct sp_device_port *sp_device_find_result(const struct sp_device_plan *plan, int64_t device, uint32_t part,
                                                   const char *piece)
{
    const struct sp_device_state *state = &plan->devices[device];
    return part < state->part_count ? find_marked(state->parts[part]->results, piece) : NULL;
}

enum sp_status sp_device_copy_box(struct sp_arena *arena, const struct sp_box *box, struct sp_box *ret_box,
                                  struct sp_error *err)
{
    struct sp_axis_ranges *axes = SP_NEW_ARRAY(arena, box->rank, struct sp_axis_ranges);
    if (axes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < box->rank; i++) {
        axes[i].count = box->axes[i].count;
        axes[i].ranges = SP_NEW_ARRAY(arena, axes[i].count, struct sp_range);
        if (axes[i].ranges == NULL)
            return sp_fail_memory(err);
        if (axes[i].count > 0)
            memcpy(axes[i].ranges, box->axes[i].ranges, axes[i].count * sizeof *axes[i].ranges);
    }
    *ret_box = (struct sp_box){.rank = box->rank, .axes = axes, .is_whole = box->is_whole};
    return SP_OK;
}

/* ---- the manifest ------------------------------------------------------------------------------------------------ */

const char *sp_device_plan_model(const char *phase, int64_t device, uint32_t part, char text[SP_DEVICE_MODEL_NAME_SIZE])
{
    char number[24] = "";
    if (part != 0)
        (void)snprintf(number, sizeof number, ".part-%" PRIu32, part);
    (void)snprintf(text, SP_DEVICE_MODEL_NAME_SIZE, "device-%" PRId64 "%s%.*s%s.onnx", device, phase != NULL ? "." : "",
                   SP_PHASE_FILE_NAME_SIZE, phase != NULL ? phase : "", number);
    return text;
}

uint32_t sp_device_plan_parts(const struct sp_device_plan *plan, int64_t device)
{
    if (device < 0 || device >= plan->device_count || !plan->devices[device].is_used)
        return 0;
    return plan->devices[device].part_count;
}

bool sp_device_plan_has(const struct sp_device_plan *plan, int64_t device, uint32_t part)
{
    return part < sp_device_plan_parts(plan, device) && plan->devices[device].parts[part]->outputs.count > 0;
}

enum sp_realize_target sp_device_plan_target(const struct sp_device_plan *plan)
{
    return plan->target;
}

static const struct sp_port_list *ports_of(const struct sp_device_plan *plan, int64_t device, uint32_t part,
                                           bool is_output)
{
    const struct sp_device_part *at = plan->devices[device].parts[part];
    return is_output ? &at->outputs : &at->inputs;
}

uint32_t sp_device_plan_port_count(const struct sp_device_plan *plan, int64_t device, uint32_t part, bool is_output)
{
    return ports_of(plan, device, part, is_output)->count;
}

bool sp_device_port_is_as_value(const struct sp_device_port *port)
{
    return port->value != NULL &&
           (port->dtype == SP_DTYPE_UNDEFINED || port->dims == NULL || !port->value->type.shape.has_rank);
}

/* As put_port_info() in device_part.c writes it. */
static void type_port(const struct sp_device_port *port, struct sp_arena *arena, struct sp_model_port *ret_port)
{
    const struct sp_type *type = sp_device_port_is_as_value(port) ? &port->value->type : NULL;
    ret_port->dtype = type == NULL ? port->dtype : type->kind == SP_TYPE_TENSOR ? type->dtype : SP_DTYPE_UNDEFINED;
    ret_port->rank = type == NULL ? port->rank : type->shape.rank;
    ret_port->has_rank = type == NULL ? port->dims != NULL || port->rank == 0 : type->shape.has_rank;
    ret_port->dims = port->dims;
    if (type == NULL || !ret_port->has_rank)
        return;
    int64_t *dims = SP_NEW_ARRAY(arena, type->shape.rank, int64_t);
    ret_port->has_rank = dims != NULL;
    for (uint32_t i = 0; dims != NULL && i < type->shape.rank; i++)
        dims[i] = sp_dim_is_known(type->shape.dims[i]) ? type->shape.dims[i].value : -1;
    ret_port->dims = dims;
}

struct sp_model_port sp_device_plan_port(const struct sp_device_plan *plan, int64_t device, uint32_t part,
                                         bool is_output, uint32_t index, struct sp_arena *arena)
{
    const struct sp_device_port *port = ports_of(plan, device, part, is_output)->items[index];
    struct sp_model_port told = {.name = port->name,
                                 .tensor = port->kind == SP_PORT_MODEL ? port->value->name : NULL,
                                 .device = port->device,
                                 .part = port->part};
    type_port(port, arena, &told);
    return told;
}
