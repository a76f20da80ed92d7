#include "realize/device.h"

#include <string.h>

/* ---- worlds -------------------------------------------------------------------------------------------------------
 */

struct worlds {
    int64_t *parents; /* by device: another of its world, or itself */
    const struct sp_device_plan *plan;
};

static int64_t world_root(int64_t *parents, int64_t device)
{
    while (parents[device] != device) {
        parents[device] = parents[parents[device]];
        device = parents[device];
    }
    return device;
}

static enum sp_status join_worlds(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    struct worlds *worlds = context;
    (void)err;
    if (!sp_device_makes_world(worlds->plan, exchange))
        return SP_OK;
    for (uint32_t i = 1; i < exchange->member_count; i++) {
        const struct sp_exchange_member *one = &exchange->members[i - 1], *other = &exchange->members[i];
        if (one->group != other->group)
            continue;
        const int64_t a = world_root(worlds->parents, one->device), b = world_root(worlds->parents, other->device);
        worlds->parents[a > b ? a : b] = a < b ? a : b; /* the least number stands for all */
    }
    return SP_OK;
}

/* Numbers worlds in the order of their first devices, and ranks in the order of devices. */
static enum sp_status number_worlds(struct sp_device_plan *plan, int64_t *parents, struct sp_error *err)
{
    const int64_t count = plan->device_count;
    plan->worlds = SP_NEW_ARRAY(plan->arena, (size_t)count, struct sp_world);
    int64_t *devices = SP_NEW_ARRAY(plan->arena, (size_t)count, int64_t);
    if (plan->worlds == NULL || devices == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < count; i++) {
        const int64_t root = world_root(parents, i);
        plan->devices[i].world = root == i ? plan->world_count++ : plan->devices[root].world;
        plan->devices[i].rank = plan->worlds[plan->devices[i].world].size++;
    }
    for (uint32_t w = 0; w < plan->world_count; w++) {
        plan->worlds[w].devices = devices;
        devices += plan->worlds[w].size;
    }
    for (int64_t i = 0; i < count; i++)
        ((int64_t *)plan->worlds[plan->devices[i].world].devices)[plan->devices[i].rank] = i;
    return SP_OK;
}

static enum sp_status find_worlds(struct sp_device_plan *plan, const struct sp_realize_request *request,
                                  struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(request->partition.model->arena));
    struct worlds worlds = {.plan = plan};
    const struct sp_part_sink sink = {.context = &worlds, .exchange = join_worlds};
    if (arena == NULL)
        return sp_fail_memory(err);
    worlds.parents = SP_NEW_ARRAY(arena, (size_t)plan->device_count, int64_t);
    enum sp_status status = worlds.parents == NULL ? sp_fail_memory(err) : SP_OK;
    for (int64_t i = 0; status == SP_OK && i < plan->device_count; i++)
        worlds.parents[i] = i;
    const struct sp_partition_request partition = sp_device_partition(plan, request);
    if (status == SP_OK && plan->target != SP_TARGET_SESSIONS)
        status = sp_partition_run(arena, &partition, &sink, err);
    if (status == SP_OK)
        status = number_worlds(plan, worlds.parents, err);
    sp_arena_destroy(arena);
    return status;
}

/* ---- the plan -----------------------------------------------------------------------------------------------------
 */

/* An input of which the device has one box only is called as in the original. */
static void name_inputs(struct sp_device_state *state)
{
    for (uint32_t p = 0; p < state->part_count; p++) {
        const struct sp_port_list *list = &state->parts[p]->inputs;
        for (uint32_t i = 0; i < list->count; i++) {
            struct sp_device_port *port = list->items[i];
            bool is_only = port->kind == SP_PORT_MODEL;
            for (uint32_t q = 0; is_only && q < state->part_count; q++) {
                const struct sp_port_list *others = &state->parts[q]->inputs;
                for (uint32_t k = 0; is_only && k < others->count; k++)
                    is_only = others->items[k]->kind != SP_PORT_MODEL || others->items[k]->value != port->value ||
                              strcmp(others->items[k]->key, port->key) == 0;
            }
            if (is_only)
                port->name = port->value->name;
        }
    }
}

/* Every rank has all inputs of the model, also those that only others need. */
static enum sp_status share_inputs(struct sp_device_plan *plan, const struct sp_model *model, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t k = 0; status == SP_OK && k < model->graph->input_count; k++) {
        const struct sp_value *value = model->graph->inputs[k];
        bool is_used = false;
        for (int64_t i = 0; !is_used && i < plan->device_count; i++)
            is_used = sp_device_find_port(plan, i, 0, false, value->name) != NULL;
        const struct sp_device_port port = {.kind = SP_PORT_MODEL,
                                            .key = value->name,
                                            .name = value->name,
                                            .is_whole = true,
                                            .value = value,
                                            .tensor = {.is_whole = true}};
        for (int64_t i = 0; status == SP_OK && is_used && i < plan->device_count; i++) {
            if (plan->devices[i].is_used)
                status = sp_device_add_port(plan, i, 0, false, &port, err);
        }
    }
    return status;
}

/* Worlds in which something is done have as many parts as any of their devices; devices without work have none. */
static enum sp_status equalize_parts(struct sp_device_plan *plan, const struct sp_device_walk *walk,
                                     struct sp_error *err)
{
    for (int64_t i = 0; i < plan->device_count; i++) {
        struct sp_device_state *state = &plan->devices[i];
        if (state->is_used && sp_device_part(plan, i, walk->parts[state->world]) == NULL)
            return sp_fail_memory(err);
        /* Ranks of a world run together, also those that give nothing. */
        for (uint32_t p = 0; p < state->part_count && plan->worlds[state->world].size > 1; p++) {
            struct sp_device_part *part = state->parts[p];
            if (part->outputs.count == 0 && part->first.key != NULL &&
                sp_device_add_port(plan, i, p, true, &part->first, err) != SP_OK)
                return SP_ERR_MEMORY;
        }
        name_inputs(state);
    }
    for (uint32_t w = 0; w < plan->world_count; w++) {
        struct sp_world *world = &plan->worlds[w];
        if (world->part_count > 0)
            continue;
        world->times = SP_NEW(plan->arena, uint64_t);
        if (world->times == NULL)
            return sp_fail_memory(err);
        world->part_count = plan->devices[world->devices[0]].part_count;
        for (uint32_t k = 1; k < world->size; k++) {
            const uint32_t parts = plan->devices[world->devices[k]].part_count;
            world->part_count = parts > world->part_count ? parts : world->part_count;
        }
    }
    return SP_OK;
}

/* What people have to know before they run the models. */
static enum sp_status tell_of_use(struct sp_device_walk *walk, struct sp_error *err)
{
    const struct sp_part_note sizes = {
        .code = "SIZES_FIXED",
        .message = "The models of devices are for the sizes of this plan: dimensions that were bound or assumed are "
                   "numbers in them. 'shardplan export' of the annotated model keeps open what no --dim says."};
    enum sp_status status = sp_device_tell_needs(walk, err);
    if (status == SP_OK && walk->request->partition.model->has_bound_sizes)
        status = sp_device_tell(walk, &sizes, err);
    struct sp_part_note old;
    if (status == SP_OK && sp_program_is_old(walk->request, &old))
        status = sp_device_tell(walk, &old, err);
    return status;
}

enum sp_status sp_device_plan_create(struct sp_arena *arena, const struct sp_realize_request *request,
                                     enum sp_realize_target target, struct sp_device_plan **ret_plan,
                                     struct sp_error *err)
{
    struct sp_device_plan *plan = SP_NEW(arena, struct sp_device_plan);
    if (plan == NULL)
        return sp_fail_memory(err);
    *plan = (struct sp_device_plan){.arena = arena,
                                    .target = target,
                                    .model = request->partition.model,
                                    .phase = request->phase,
                                    .forms = request->forms,
                                    .device_count = request->partition.assignment->device_count};
    plan->devices = SP_NEW_ARRAY(arena, (size_t)plan->device_count, struct sp_device_state);
    plan->notes = sp_intern_create(arena, 0);
    if (plan->devices == NULL || plan->notes == NULL)
        return sp_fail_memory(err);
    struct sp_device_walk walk = {.plan = plan, .request = request};
    enum sp_status status = find_worlds(plan, request, err);
    if (status == SP_OK)
        status = sp_device_walk_run(&walk, err);
    if (status == SP_OK)
        status = equalize_parts(plan, &walk, err);
    if (status == SP_OK && plan->forms.is_whole && plan->target == SP_TARGET_TENSORRT)
        status = share_inputs(plan, request->partition.model, err);
    if (status == SP_OK)
        status = tell_of_use(&walk, err);
    if (status == SP_OK)
        status = sp_model_states(arena, plan->model, &plan->states, err);
    if (status == SP_OK)
        status = sp_device_plan_identify(plan, err);
    sp_arena_destroy(walk.scratch);
    sp_arena_destroy(walk.arena);
    if (status == SP_OK)
        *ret_plan = plan;
    return status;
}

/* ---- writing one device -------------------------------------------------------------------------------------------
 */

enum sp_status sp_realize_device(const struct sp_realize_request *request, const struct sp_device_plan *plan,
                                 int64_t device, struct sp_recipe **ret_recipes, struct sp_error *err)
{
    const uint32_t count = sp_device_plan_parts(plan, device);
    struct sp_program program;
    struct sp_device_walk walk = {.plan = (struct sp_device_plan *)plan,
                                  .request = request,
                                  .device = device,
                                  .program = &program,
                                  .recipes = ret_recipes};
    if (count == 0)
        return sp_fail(err, SP_ERR_REQUEST, "DEVICE_UNUSED", "Device %lld has nothing to do.", (long long)device);
    for (uint32_t i = 0; i < count; i++)
        ret_recipes[i] = NULL;
    enum sp_status status = sp_program_init(&program, request, err);
    if (status == SP_OK)
        status = sp_device_walk_run(&walk, err);
    if (status == SP_OK)
        status = sp_device_end_part(&walk, err);
    sp_program_release(&program);
    for (uint32_t i = 0; status != SP_OK && i < count; i++) {
        sp_recipe_destroy(ret_recipes[i]);
        ret_recipes[i] = NULL;
    }
    sp_arena_destroy(walk.scratch);
    sp_arena_destroy(walk.arena);
    return status;
}
