/* Names and patterns become nodes and tensors of the workload that is searched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "plan/request/constraints_internal.h"

/* A node of the workload by its name. */
struct named_node {
    const char *name;
    uint32_t node;
};

struct resolving {
    struct sp_arena *arena;
    const struct sp_demands *demands;
    const struct sp_demanded *of;
    struct sp_constraints *made;
    /* The same as in `made`, to be filled. */
    uint32_t *stage_of, *device_of, *together_of;
    const char **stage_where, **device_where;
    bool *is_whole;
    uint32_t *joined;           /* per group: the one that it is a part of */
    struct named_node *by_name; /* all nodes, sorted; NULL: no name was looked up */
    struct sp_error *err;
};

static enum sp_status refuse(const struct resolving *r, const char *where, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static enum sp_status refuse(const struct resolving *r, const char *where, const char *code, const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    (void)sp_fail(r->err, SP_ERR_REQUEST, code, "%s", message);
    return sp_error_at(r->err, "%s", where);
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

typedef enum sp_status take_node(struct resolving *r, uint32_t node, const char *where, const void *context);

static int compare_names(const void *a, const void *b)
{
    const struct named_node *left = a, *right = b;
    const int order = strcmp(left->name, right->name);
    return order != 0 ? order : (left->node > right->node) - (left->node < right->node);
}

static enum sp_status sort_names(struct resolving *r)
{
    const uint32_t count = r->of->workload->node_count;
    r->by_name = SP_NEW_ARRAY(r->arena, count, struct named_node);
    if (r->by_name == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t n = 0; n < count; n++)
        r->by_name[n] = (struct named_node){r->of->workload->nodes[n].name, n};
    if (count > 0)
        qsort(r->by_name, count, sizeof *r->by_name, compare_names);
    return SP_OK;
}

/* The first place in the sorted names that is not before `name`. */
static uint32_t find_name(const struct resolving *r, const char *name)
{
    uint32_t low = 0, high = r->of->workload->node_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (strcmp(r->by_name[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What a pattern fits. */
struct fitting {
    take_node *take;
    const void *context;
    const char *where;
    bool found, folded;
};

static enum sp_status take_fitting(struct resolving *r, uint32_t node, struct fitting *fitting)
{
    const uint32_t *node_of = r->of->contraction->node_of;
    if (r->of->workload->nodes[node].folded) {
        fitting->folded = true;
        return SP_OK;
    }
    fitting->found = true;
    return fitting->take(r, node_of == NULL ? node : node_of[node], fitting->where, fitting->context);
}

static enum sp_status each_fitting(struct resolving *r, const char *pattern, struct fitting *fitting)
{
    const uint32_t count = r->of->workload->node_count;
    const bool is_name = strpbrk(pattern, "*?") == NULL;
    enum sp_status status = is_name && r->by_name == NULL ? sort_names(r) : SP_OK;
    for (uint32_t i = status == SP_OK && is_name ? find_name(r, pattern) : 0; status == SP_OK && i < count; i++) {
        const uint32_t node = is_name ? r->by_name[i].node : i;
        if (sp_pattern_matches(pattern, r->of->workload->nodes[node].name))
            status = take_fitting(r, node, fitting);
        else if (is_name)
            break;
    }
    return status;
}

/* Calls `take` for each running node that a pattern fits, as a node of the searched workload. */
static enum sp_status each_node(struct resolving *r, const struct sp_demand_nodes *nodes, take_node *take,
                                const void *context)
{
    for (uint32_t p = 0; p < nodes->count; p++) {
        struct fitting fitting = {take, context, nodes->where[p], false, false};
        enum sp_status status = each_fitting(r, nodes->patterns[p], &fitting);
        if (status != SP_OK)
            return status;
        if (!fitting.found && fitting.folded)
            return refuse(r, nodes->where[p], "CONSTRAINT_NO_NODE",
                          "'%.200s' fits only nodes that are computed when the model is loaded: they are in no stage.",
                          nodes->patterns[p]);
        if (!fitting.found)
            return refuse(r, nodes->where[p], "CONSTRAINT_NO_NODE", "No node of the model is called '%.200s'.",
                          nodes->patterns[p]);
    }
    return SP_OK;
}

/* ---- pins -------------------------------------------------------------------------------------------------------- */

static enum sp_status take_pin(struct resolving *r, uint32_t node, const char *where, const void *context)
{
    const struct sp_demand_pin *pin = context;
    const struct sp_cluster *cluster = r->of->cluster;
    uint32_t *of = pin->is_device ? r->device_of : r->stage_of;
    const char **places = pin->is_device ? r->device_where : r->stage_where;
    (void)where;
    if (of == NULL || places == NULL)
        return sp_fail_memory(r->err);
    uint32_t number = pin->number;
    if (pin->is_device && cluster->stated != NULL) {
        number = sp_cluster_numbered(cluster, pin->number);
        if (number == UINT32_MAX)
            return refuse(r, pin->where, "CONSTRAINT_CONFLICT",
                          "Node '%.80s' is pinned to device %u, which the cluster leaves out or does not have.",
                          r->of->contraction->workload->nodes[node].name, pin->number);
    }
    if (of[node] != SP_UNPINNED && of[node] != number)
        return refuse(r, pin->where, "CONSTRAINT_CONFLICT",
                      "Node '%.80s' is pinned to %s %u and to %s %u (%.80s against %.80s).",
                      r->of->contraction->workload->nodes[node].name, pin->is_device ? "device" : "stage",
                      pin->is_device && cluster->stated != NULL ? sp_cluster_number(cluster, of[node]) : of[node],
                      pin->is_device ? "device" : "stage", pin->number, places[node], pin->where);
    of[node] = number;
    places[node] = pin->where;
    return SP_OK;
}

static uint32_t *unpinned(struct sp_arena *arena, uint32_t count)
{
    uint32_t *of = SP_NEW_ARRAY(arena, count, uint32_t);
    for (uint32_t i = 0; of != NULL && i < count; i++)
        of[i] = SP_UNPINNED;
    return of;
}

static enum sp_status resolve_pins(struct resolving *r)
{
    const uint32_t nodes = r->of->contraction->workload->node_count;
    bool has_stages = false, has_devices = false;
    for (uint32_t i = 0; i < r->demands->pin_count; i++) {
        has_devices = has_devices || r->demands->pins[i].is_device;
        has_stages = has_stages || !r->demands->pins[i].is_device;
    }
    if (has_stages) {
        r->made->stage_of = r->stage_of = unpinned(r->arena, nodes);
        r->made->stage_where = r->stage_where = SP_NEW_ARRAY(r->arena, nodes, const char *);
        if (r->stage_of == NULL || r->stage_where == NULL)
            return sp_fail_memory(r->err);
    }
    if (has_devices) {
        r->made->device_of = r->device_of = unpinned(r->arena, nodes);
        r->made->device_where = r->device_where = SP_NEW_ARRAY(r->arena, nodes, const char *);
        if (r->device_of == NULL || r->device_where == NULL)
            return sp_fail_memory(r->err);
    }
    for (uint32_t i = 0; i < r->demands->pin_count; i++) {
        enum sp_status status = each_node(r, &r->demands->pins[i].nodes, take_pin, &r->demands->pins[i]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

static uint32_t group_root(const struct resolving *r, uint32_t group)
{
    while (r->joined[group] != group)
        group = r->joined[group];
    return group;
}

/* A node of two groups makes one of them: the smaller number stays. */
static enum sp_status take_member(struct resolving *r, uint32_t node, const char *where, const void *context)
{
    const uint32_t mine = group_root(r, *(const uint32_t *)context);
    (void)where;
    if (r->together_of[node] != SP_UNPINNED) {
        const uint32_t other = group_root(r, r->together_of[node]);
        r->joined[mine > other ? mine : other] = mine > other ? other : mine;
    } else {
        r->together_of[node] = mine;
    }
    return SP_OK;
}

static enum sp_status resolve_together(struct resolving *r)
{
    const uint32_t nodes = r->of->contraction->workload->node_count, count = r->demands->together_count;
    if (count == 0)
        return SP_OK;
    r->together_of = unpinned(r->arena, nodes);
    r->joined = SP_NEW_ARRAY(r->arena, count, uint32_t);
    if (r->together_of == NULL || r->joined == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t g = 0; g < count; g++)
        r->joined[g] = g;
    for (uint32_t g = 0; g < count; g++) {
        enum sp_status status = each_node(r, &r->demands->together[g], take_member, &g);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t n = 0; n < nodes; n++) {
        if (r->together_of[n] != SP_UNPINNED)
            r->together_of[n] = group_root(r, r->together_of[n]);
    }
    r->made->together_of = r->together_of;
    r->made->together_count = count;
    return SP_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* A tensor that running nodes make or use. */
static enum sp_status find_tensor(const struct resolving *r, const char *name, const char *where, uint32_t *ret_tensor)
{
    for (uint32_t t = 0; t < r->of->workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &r->of->workload->tensors[t];
        const bool runs = tensor->consumer_count > 0 ||
                          (tensor->producer != SP_NO_WORK && !r->of->workload->nodes[tensor->producer].folded);
        if (!runs || tensor->name == NULL || strcmp(tensor->name, name) != 0)
            continue;
        *ret_tensor = t;
        return SP_OK;
    }
    return refuse(r, where, "CONSTRAINT_NO_TENSOR", "No tensor that running nodes make or use is called '%.200s'.",
                  name);
}

static enum sp_status check_shards(const struct resolving *r, const struct sp_demand_spec *spec, uint32_t tensor)
{
    const struct sp_value *value = r->of->workload->tensors[tensor].value;
    if (value == NULL || !value->type.shape.has_rank)
        return SP_OK;
    if (value->type.shape.rank != spec->rank)
        return refuse(r, spec->where, "CONSTRAINT_SHARDS", "'%.100s' has %u axes, but the spec gives shards for %u.",
                      spec->tensor, value->type.shape.rank, spec->rank);
    for (uint32_t a = 0; a < spec->rank; a++) {
        const struct sp_dim *dim = &value->type.shape.dims[a];
        if (dim->kind == SP_DIM_KNOWN && dim->value % spec->shards[a] != 0)
            return refuse(r, spec->where, "CONSTRAINT_SHARDS",
                          "Axis %u of '%.100s' has %lld elements, which %lld shards do not divide evenly.", a,
                          spec->tensor, (long long)dim->value, (long long)spec->shards[a]);
    }
    return SP_OK;
}

static bool is_cut(const struct sp_demand_spec *spec)
{
    for (uint32_t a = 0; a < spec->rank; a++) {
        if (spec->shards[a] > 1)
            return true;
    }
    return false;
}

static enum sp_status take_spec(struct resolving *r, const struct sp_demand_spec *spec, struct sp_split_pin *pin)
{
    uint32_t tensor = SP_NO_WORK;
    enum sp_status status = find_tensor(r, spec->tensor, spec->where, &tensor);
    if (status == SP_OK)
        status = check_shards(r, spec, tensor);
    if (status != SP_OK)
        return status;
    if (is_cut(spec) && !r->of->can_split)
        return refuse(r, spec->where, "CONSTRAINT_UNSUPPORTED",
                      "The nodes of a graph of costs cannot be split, so '%.100s' cannot be cut.", spec->tensor);
    *pin = (struct sp_split_pin){.tensor = tensor, .rank = spec->rank, .shards = spec->shards, .where = spec->where};
    return SP_OK;
}

static int by_tensor(const void *a, const void *b)
{
    const struct sp_split_pin *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    if (x->is_forbidden != y->is_forbidden)
        return x->is_forbidden ? 1 : -1;
    return strcmp(x->where, y->where);
}

static bool exclude(const struct sp_split_pin *a, const struct sp_split_pin *b)
{
    if (a->is_forbidden || b->is_forbidden) {
        const struct sp_split_pin *spec = a->is_forbidden ? b : a, *ban = a->is_forbidden ? a : b;
        return !spec->is_forbidden && ban->axis < spec->rank && spec->shards[ban->axis] != 1;
    }
    for (uint32_t i = 0; i < a->rank && i < b->rank; i++) {
        if (a->shards[i] != b->shards[i])
            return true;
    }
    return a->rank != b->rank;
}

/* Two demands of one tensor that exclude each other. */
static enum sp_status check_pairs(const struct resolving *r, const struct sp_split_pin *pins, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count && pins[j].tensor == pins[i].tensor; j++) {
            if (exclude(&pins[i], &pins[j]))
                return refuse(r, pins[j].where, "CONSTRAINT_CONFLICT",
                              "Two demands for the shards of tensor '%.80s' exclude each other (%.80s against %.80s).",
                              r->of->workload->tensors[pins[i].tensor].name, pins[i].where, pins[j].where);
        }
    }
    return SP_OK;
}

static enum sp_status take_ban(struct resolving *r, const struct sp_demand_ban *ban, struct sp_split_pin *pin)
{
    uint32_t tensor = SP_NO_WORK;
    enum sp_status status = find_tensor(r, ban->tensor, ban->where, &tensor);
    if (status != SP_OK)
        return status;
    const struct sp_value *value = r->of->workload->tensors[tensor].value;
    if (value != NULL && value->type.shape.has_rank && ban->axis >= value->type.shape.rank)
        return refuse(r, ban->where, "CONSTRAINT_NO_AXIS", "'%.100s' has %u axes, so there is no axis %u.", ban->tensor,
                      value->type.shape.rank, ban->axis);
    *pin = (struct sp_split_pin){.tensor = tensor, .is_forbidden = true, .axis = ban->axis, .where = ban->where};
    return SP_OK;
}

static enum sp_status resolve_splits(struct resolving *r)
{
    const struct sp_demands *demands = r->demands;
    struct sp_split_pin *pins =
        SP_NEW_ARRAY(r->arena, (size_t)demands->spec_count + demands->ban_count, struct sp_split_pin);
    uint32_t count = 0;
    if (pins == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t i = 0; i < demands->spec_count; i++) {
        enum sp_status status = take_spec(r, &demands->specs[i], &pins[count++]);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t i = 0; i < demands->ban_count; i++) {
        if (demands->bans[i].kind != SP_DEMAND_BAN_AXIS)
            continue;
        enum sp_status status = take_ban(r, &demands->bans[i], &pins[count++]);
        if (status != SP_OK)
            return status;
    }
    if (count > 1)
        qsort(pins, count, sizeof *pins, by_tensor);
    enum sp_status status = check_pairs(r, pins, count);
    /* Where nothing can be split everything is whole, as what is left demands. */
    r->made->splits = pins;
    r->made->split_count = r->of->can_split ? count : 0;
    return status;
}

/* ---- what is forbidden ------------------------------------------------------------------------------------------- */

static enum sp_status take_whole(struct resolving *r, uint32_t node, const char *where, const void *context)
{
    (void)where;
    (void)context;
    r->is_whole[node] = true;
    return SP_OK;
}

static enum sp_status resolve_bans(struct resolving *r)
{
    const struct sp_demands *demands = r->demands;
    const char **levels = SP_NEW_ARRAY(r->arena, demands->ban_count, const char *);
    r->made->levels = levels;
    r->is_whole = SP_NEW_ARRAY(r->arena, r->of->contraction->workload->node_count, bool);
    if (levels == NULL || r->is_whole == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t i = 0; i < demands->ban_count; i++) {
        const struct sp_demand_ban *ban = &demands->bans[i];
        if (ban->kind == SP_DEMAND_BAN_NODES) {
            enum sp_status status = each_node(r, &ban->nodes, take_whole, NULL);
            if (status != SP_OK)
                return status;
            r->made->is_whole = r->is_whole;
        } else if (ban->kind == SP_DEMAND_BAN_LEVEL) {
            uint32_t l = 0;
            while (l < r->of->cluster->level_count && strcmp(r->of->cluster->levels[l].name, ban->level) != 0)
                l++;
            if (l == r->of->cluster->level_count)
                return refuse(r, ban->where, "CONSTRAINT_NO_LEVEL",
                              "The cluster's mesh has no level '%.100s'; its outermost is '%.100s'.", ban->level,
                              r->of->cluster->levels[0].name);
            levels[r->made->level_count++] = ban->level;
        }
    }
    return SP_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static enum sp_status check_reserved(const struct resolving *r)
{
    for (uint32_t d = 0; d < r->of->cluster->device_count; d++) {
        if (r->demands->reserved_bytes > 0 && sp_cluster_memory(r->of->cluster, d) <= r->demands->reserved_bytes)
            return refuse(r, r->demands->where, "CONSTRAINT_CONFLICT",
                          "Of device %u's %.0f bytes %.0f are reserved (%.80s/reserved_bytes): nothing is left.",
                          sp_cluster_number(r->of->cluster, d), sp_cluster_memory(r->of->cluster, d),
                          r->demands->reserved_bytes, r->demands->where);
    }
    return SP_OK;
}

/* What can be had of a device. */
static double room_of(const struct sp_demands *demands, const struct sp_cluster *cluster, uint32_t device)
{
    return fmax(0, sp_cluster_memory(cluster, device) - demands->reserved_bytes);
}

enum sp_status sp_demands_apply(const struct sp_demands *demands, struct sp_model *model,
                                const struct sp_cluster *cluster, struct sp_workload *workload, struct sp_error *err)
{
    const struct resolving r = {.demands = demands, .err = err};
    double kept = 0, room = 0;
    uint32_t nodes = 0;
    if (demands->cache.member == NULL)
        return SP_OK;
    const char *where = sp_arena_printf(workload->arena, "%s/%s", demands->where, demands->cache.member);
    if (where == NULL)
        return sp_fail_memory(err);
    enum sp_status status =
        model == NULL ? SP_OK : sp_workload_cache(workload, model, cluster, &demands->cache.demand, &nodes, err);
    if (status != SP_OK)
        return status == SP_ERR_REQUEST ? sp_error_at(err, "%s", where) : status;
    if (nodes == 0)
        return refuse(&r, where, "CONSTRAINT_NO_ATTENTION",
                      "A cache of keys and values is demanded, but the model has no attention that keeps any: neither "
                      "an operator (Attention, GroupQueryAttention, MultiHeadAttention) nor MatMuls around a Softmax.");
    for (uint32_t n = 0; n < workload->node_count; n++)
        kept += workload->nodes[n].resident_bytes;
    for (uint32_t d = 0; d < cluster->device_count; d++)
        room += room_of(demands, cluster, d);
    if (kept > room)
        return refuse(&r, where, "CONSTRAINT_CONFLICT",
                      "The keys and values of all sequences are %.0f bytes, but all %u devices together have %.0f.",
                      kept, cluster->device_count, room);
    return SP_OK;
}

enum sp_status sp_demands_resolve(struct sp_arena *arena, const struct sp_demands *demands,
                                  const struct sp_demanded *of, const struct sp_constraints **ret_constraints,
                                  struct sp_error *err)
{
    struct resolving r = {
        .arena = arena, .demands = demands, .of = of, .made = SP_NEW(arena, struct sp_constraints), .err = err};
    if (r.made == NULL)
        return sp_fail_memory(err);
    r.made->where = demands->where;
    r.made->max_stages = demands->max_stages;
    r.made->max_latency_seconds = demands->max_latency_seconds;
    r.made->reserved_bytes = demands->reserved_bytes;
    r.made->cache_member = demands->cache.member;
    enum sp_status status = check_reserved(&r);
    if (status == SP_OK)
        status = resolve_pins(&r);
    if (status == SP_OK)
        status = resolve_together(&r);
    if (status == SP_OK)
        status = resolve_splits(&r);
    if (status == SP_OK)
        status = resolve_bans(&r);
    if (status == SP_OK)
        status = sp_constraints_check(arena, r.made, of->contraction->workload, of->cluster, err);
    if (status == SP_OK)
        *ret_constraints = r.made;
    return status;
}
