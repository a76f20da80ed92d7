/*
 * stated_specs - all specs that the file or the request states, as cuts of one mesh of positions.
 */
#include <inttypes.h>
#include <string.h>

#include "infer/propagate/internal.h"
#include "infer/view/axis_cuts.h"
#include "sharding/convert_forms.h"

enum sp_status sp_infer_extents(struct sp_inference *all, const struct sp_value *value, const int64_t **ret_shape)
{
    const struct sp_shape *shape = &value->type.shape;
    int64_t extents[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < shape->rank; axis++)
        extents[axis] = sp_dim_is_known(shape->dims[axis]) ? shape->dims[axis].value : -1;
    *ret_shape = sp_keep_numbers(&all->extents, shape->rank, extents);
    return *ret_shape == NULL ? sp_fail_memory(all->err) : SP_OK;
}

static bool is_place(const void *item, const void *key)
{
    const struct sp_infer_place *place = item;
    const struct sp_position_layout *layout = key;
    return place->count == layout->count &&
           memcmp(place->devices, layout->devices, (size_t)layout->count * sizeof(int64_t)) == 0;
}

/* The place of these devices, new if need be; the layout gets its list of them. */
static enum sp_status find_place(struct sp_inference *all, struct sp_position_layout *layout, bool has_shares,
                                 uint32_t *ret_place)
{
    struct sp_digest digest;
    const size_t bytes = (size_t)layout->count * sizeof(int64_t);
    sp_digest_begin(&digest, all->assignment->dataflow->model->hash_seed);
    sp_digest_add(&digest, layout->devices, bytes);
    const uint64_t hash = sp_digest_end(&digest);
    struct sp_infer_place *place = sp_hash_set_find(&all->given.placed, hash, is_place, layout);
    if (place == NULL) {
        if (all->given.place_count == SP_MAX_SPEC_PLACES)
            return sp_fail_limit(all->err, "TOO_MANY_PLACES", "SP_MAX_SPEC_PLACES", SP_MAX_SPEC_PLACES,
                                 SP_MAX_SPEC_PLACES + 1, "The specs name more than %d different sets of devices.",
                                 SP_MAX_SPEC_PLACES);
        int64_t *devices = SP_NEW_ARRAY(all->scratch, (size_t)layout->count, int64_t);
        place = &all->given.places[all->given.place_count];
        if (devices == NULL || !sp_hash_set_add(&all->given.placed, hash, place))
            return sp_fail_memory(all->err);
        memcpy(devices, layout->devices, bytes);
        *place = (struct sp_infer_place){.count = layout->count, .devices = devices, .has_shares = has_shares};
        all->given.place_count++;
    }
    layout->devices = place->devices;
    *ret_place = (uint32_t)(place - all->given.places);
    return SP_OK;
}

/* Where devices have several shards that follow one another, each shard and replica as a position of its own. */
static enum sp_status number_shares(struct sp_inference *all, uint32_t rank, struct sp_statement *says)
{
    const struct sp_sharding *source = says->source, *regular = NULL;
    says->equal = source;
    if (source->kind != SP_SHARDING_BLOCKS || source->first == NULL || source->rank != rank)
        return SP_OK;
    const int64_t shards = source->shard_count, copies = source->first[1];
    for (int64_t shard = 0; shard < shards; shard++)
        if (source->first[shard + 1] - source->first[shard] != copies)
            return SP_OK;
    enum sp_status status = sp_sharding_regular(all->passing, source, says->shape, &regular, all->err);
    if (status != SP_OK || regular == NULL || !sp_sharding_has_shares(regular))
        return status;
    struct sp_sharding *equal = SP_NEW(all->scratch, struct sp_sharding);
    uint32_t *first = SP_NEW_ARRAY(all->scratch, (size_t)shards + 1, uint32_t);
    int64_t *numbers = SP_NEW_ARRAY(all->scratch, (size_t)(shards * copies), int64_t);
    if (equal == NULL || first == NULL || numbers == NULL)
        return sp_fail_memory(all->err);
    for (int64_t shard = 0; shard <= shards; shard++)
        first[shard] = (uint32_t)(shard * copies);
    for (int64_t i = 0; i < shards * copies; i++)
        numbers[i] = i;
    *equal = *source;
    equal->first = first;
    equal->devices = numbers;
    equal->run = SP_RUN_UNKNOWN;
    says->equal = equal;
    says->devices = source->devices;
    return SP_OK;
}

/* On a mesh; where the tensor's axes cannot say it, by parts of them. */
static enum sp_status to_axes(struct sp_inference *all, struct sp_arena *arena, uint32_t rank,
                              struct sp_statement *stated, struct sp_sharding **ret_axes, struct sp_error *err)
{
    struct sp_sharding *blocks = NULL;
    struct sp_error again = {0};
    struct sp_dialect_context of = {
        .rank = rank, .shape = stated->shape, .device_count = all->assignment->device_count};
    if (stated->devices != NULL)
        of.device_count = stated->equal->first[stated->equal->shard_count];
    enum sp_status status = sp_sharding_to_axes(arena, stated->equal, &of, ret_axes, NULL, err);
    if (status != SP_ERR_UNSUPPORTED || stated->source->kind != SP_SHARDING_BLOCKS)
        return status;
    if (sp_infer_parts(all->scratch, stated->equal, rank, stated->shape, &blocks, &stated->parts, &again) ==
        SP_ERR_MEMORY)
        return sp_fail_memory(err);
    if (stated->parts == NULL)
        return status;
    of.rank = stated->parts->rank;
    of.shape = stated->parts->shape;
    if (sp_sharding_to_axes(arena, blocks, &of, ret_axes, NULL, &again) == SP_OK) {
        sp_error_clear(err);
        return SP_OK;
    }
    stated->parts = NULL;
    return again.status == SP_ERR_MEMORY ? sp_fail_memory(err) : status;
}

/* The digits of a layout that goes. */
static enum sp_status keep_layout(struct sp_inference *all, struct sp_position_layout *layout)
{
    struct sp_digits *dims = SP_NEW_ARRAY(all->scratch, layout->rank, struct sp_digits);
    if (dims == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        const struct sp_digits *from = &layout->dims[axis];
        dims[axis] = (struct sp_digits){from->count, SP_NEW_ARRAY(all->scratch, from->count, struct sp_mesh_digit)};
        if (dims[axis].digits == NULL)
            return sp_fail_memory(all->err);
        if (from->count > 0)
            memcpy(dims[axis].digits, from->digits, from->count * sizeof *from->digits);
    }
    layout->dims = dims;
    return SP_OK;
}

/* Each device of a spec is looked at a few times. Many specs that each name many others are too much. */
static enum sp_status spend(struct sp_inference *all, const struct sp_sharding *source)
{
    const int64_t devices = sp_placed_devices(source, all->assignment->device_count);
    if (sp_view_cache_spend(all->assignment->cache, SP_STATED_POINTS * devices))
        return SP_OK;
    return sp_fail_limit(all->err, "TOO_MANY_SPEC_DEVICES", "SP_FREE_VIEW_POINTS", SP_FREE_VIEW_POINTS, devices,
                         "The specs for configuration '%.80s' list too many devices for the size of the file.",
                         all->assignment->configuration);
}

/* Positions of equal shards are of devices. */
static enum sp_status name_devices(struct sp_inference *all, struct sp_statement *says)
{
    int64_t *devices = SP_NEW_ARRAY(all->passing, (size_t)says->layout.count, int64_t);
    if (devices == NULL)
        return sp_fail_memory(all->err);
    for (int64_t i = 0; i < says->layout.count; i++)
        devices[i] = says->devices[says->layout.devices[i]];
    says->layout.devices = devices;
    return SP_OK;
}

/* Reads one statement; it says why where no mesh can say it. */
static enum sp_status read_statement(struct sp_inference *all, uint32_t rank, const struct sp_mesh *base,
                                     struct sp_statement *says, bool *ret_is_linear)
{
    struct sp_arena_mark mark = sp_arena_mark(all->passing);
    struct sp_sharding *axes = NULL;
    struct sp_error why = {0};
    enum sp_status status = spend(all, says->source);
    if (status == SP_OK)
        status = number_shares(all, rank, says);
    if (status != SP_OK)
        return status;
    status = to_axes(all, all->passing, rank, says, &axes, &why);
    if (status == SP_ERR_UNSUPPORTED || status == SP_ERR_REQUEST) {
        says->mute = sp_arena_string(all->scratch, why.message, strlen(why.message));
        sp_arena_rewind(all->passing, mark);
        return says->mute != NULL ? SP_OK : sp_fail_memory(all->err);
    }
    if (status != SP_OK) {
        *all->err = why;
        return status;
    }
    status = sp_layout_create(all->passing, axes, says->devices == NULL ? base : NULL, &says->layout, ret_is_linear,
                              all->err);
    if (status == SP_OK && says->devices != NULL)
        status = name_devices(all, says);
    if (status == SP_OK && *ret_is_linear)
        status = find_place(all, &says->layout, says->devices != NULL, &says->place);
    if (status == SP_OK && *ret_is_linear)
        status = keep_layout(all, &says->layout);
    sp_arena_rewind(all->passing, mark);
    if (status != SP_OK || *ret_is_linear)
        return status;
    status = to_axes(all, all->scratch, rank, says, &axes, &why); /* once more: the mesh stays */
    all->given.odd_mesh = status == SP_OK ? axes->mesh : NULL;
    return status == SP_OK ? SP_OK : sp_fail_memory(all->err);
}

static bool is_statement(const void *item, const void *key)
{
    const struct sp_statement *a = item, *b = key;
    return a->source == b->source && a->shape == b->shape;
}

/* The statement of this spec and shape, read when it is the first. */
static enum sp_status find_statement(struct sp_inference *all, const struct sp_statement *wanted, uint32_t rank,
                                     const struct sp_mesh *base, struct sp_statement **ret_says, bool *ret_is_linear)
{
    struct sp_digest digest;
    sp_digest_begin(&digest, all->assignment->dataflow->model->hash_seed);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)wanted->source);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)wanted->shape);
    const uint64_t hash = sp_digest_end(&digest);
    *ret_says = sp_hash_set_find(&all->given.statements, hash, is_statement, wanted);
    if (*ret_says != NULL)
        return SP_OK;
    struct sp_statement *says = SP_NEW(all->scratch, struct sp_statement);
    if (says == NULL)
        return sp_fail_memory(all->err);
    *says = *wanted;
    enum sp_status status = read_statement(all, rank, base, says, ret_is_linear);
    if (status == SP_OK && *ret_is_linear && !sp_hash_set_add(&all->given.statements, hash, says))
        return sp_fail_memory(all->err);
    *ret_says = says;
    return status;
}

static enum sp_status read_stated(struct sp_inference *all, uint32_t node_id, uint32_t operand,
                                  const struct sp_mesh *base, bool *ret_is_linear)
{
    const struct sp_node *node = all->assignment->dataflow->nodes[node_id];
    const struct sp_value *value = sp_infer_operand(node, operand);
    struct sp_statement wanted = {.source = sp_spec_of(all->assignment, node_id, operand)->sharding};
    struct sp_statement *says = NULL;
    *ret_is_linear = true;
    enum sp_status status = sp_infer_extents(all, value, &wanted.shape);
    if (status == SP_OK)
        status = find_statement(all, &wanted, value->type.shape.rank, base, &says, ret_is_linear);
    if (status != SP_OK || !*ret_is_linear)
        return status;
    if (says->mute != NULL)
        return sp_assignment_stop(all->assignment, "NO_MESH_FORM", node, value->name, all->err,
                                  "The spec of '%.120s' is not carried on: %.400s", value->name, says->mute);
    all->given.stated[all->given.stated_count++] =
        (struct sp_stated){.node = node_id, .operand = operand, .says = says};
    return SP_OK;
}

static enum sp_status fail_meshes(struct sp_inference *all, const struct sp_stated *a, const struct sp_stated *b)
{
    char labels[2][264];
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    return sp_fail(
        all->err, SP_ERR_REQUEST, "NO_COMMON_MESH",
        "No mesh explains both the spec of '%.120s' at %.200s and the spec of '%.120s' at %.200s: they cut the "
        "devices differently.",
        sp_infer_operand(dataflow->nodes[a->node], a->operand)->name,
        sp_node_label(dataflow->nodes[a->node], labels[0], sizeof labels[0]),
        sp_infer_operand(dataflow->nodes[b->node], b->operand)->name,
        sp_node_label(dataflow->nodes[b->node], labels[1], sizeof labels[1]));
}

/* All stated specs, with positions in the order of `base`; *ret_is_linear is false where one does not fit it. */
static enum sp_status read_all_stated(struct sp_inference *all, const struct sp_mesh *base, bool *ret_is_linear)
{
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    all->given.stated_count = all->given.place_count = 0;
    all->given.statements = all->given.placed = (struct sp_hash_map){.arena = all->scratch};
    *ret_is_linear = true;
    if (base != NULL) { /* its devices are the first place, also when no spec names them */
        uint32_t first = 0;
        int64_t *devices = SP_NEW_ARRAY(all->scratch, (size_t)base->order.count, int64_t);
        if (devices == NULL)
            return sp_fail_memory(all->err);
        for (int64_t i = 0; i < base->order.count; i++)
            devices[i] = sp_device_order_at(&base->order, i);
        struct sp_position_layout whole = {.count = base->order.count, .devices = devices};
        enum sp_status status = find_place(all, &whole, false, &first);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        for (uint32_t i = 0; i < sp_infer_operand_count(dataflow->nodes[n]); i++) {
            if (!sp_infer_is_stated(sp_spec_of(all->assignment, n, i)) ||
                !sp_infer_has_rank(sp_infer_operand(dataflow->nodes[n], i)))
                continue;
            all->given.odd_node = n;
            all->given.odd_operand = i;
            enum sp_status status = read_stated(all, n, i, base, ret_is_linear);
            if (status != SP_OK || !*ret_is_linear)
                return status;
        }
    }
    return SP_OK;
}

static bool is_split(const struct sp_position_layout *layout)
{
    for (uint32_t axis = 0; axis < layout->rank; axis++) {
        if (layout->dims[axis].count > 0)
            return true;
    }
    return false;
}

static int rank_of(const struct sp_statement *says)
{
    return !is_split(&says->layout) ? 0 : says->devices != NULL ? 1 : 2;
}

/* The mesh of positions that all specs fit, where none is given. Shards of unequal size that do not fit what is in
   equal ones are not carried on. */
static enum sp_status find_mesh(struct sp_inference *all)
{
    struct sp_cuts cuts = {0};
    uint32_t opponent = 0, first = 0;
    for (uint32_t i = 0; i < all->given.stated_count; i++) { /* what is in equal shards counts more */
        if (rank_of(all->given.stated[i].says) > rank_of(all->given.stated[first].says))
            first = i;
    }
    for (uint32_t k = 0; k < all->given.stated_count; k++) {
        uint32_t i = k == 0 ? first : k == first ? 0 : k;
        if (cuts.count > 0 && all->given.stated[i].says->layout.count != cuts.positions) {
            if (rank_of(all->given.stated[i].says) == 2)
                return fail_meshes(all, &all->given.stated[first], &all->given.stated[i]);
            continue;
        }
        if (!sp_cuts_add(&cuts, &all->given.stated[i].says->layout, i, &opponent))
            return fail_meshes(all, &all->given.stated[opponent], &all->given.stated[i]);
    }
    all->positions = cuts.positions;
    return sp_cuts_mesh(all->arena, &cuts, &all->mesh, all->err);
}

static bool has_axes_of(const struct sp_mesh *a, const struct sp_mesh *b)
{
    bool is_same = a->axis_count == b->axis_count;
    for (uint32_t axis = 0; is_same && axis < a->axis_count; axis++)
        is_same = a->axes[axis].size == b->axes[axis].size;
    return is_same;
}

/* What a notation says of propagation (Shardy's ?, p0, p1, .. and replicated): which axes may be split further, when
   splits are carried, and which axes of the mesh are not to be used. */
static void copy_wishes(const struct sp_inference *all, const struct sp_statement *says)
{
    if (says->source->kind == SP_SHARDING_AXES && has_axes_of(says->source->mesh, all->mesh))
        says->axes->replicated = says->source->replicated;
    for (uint32_t axis = 0; says->source->kind == SP_SHARDING_AXES && axis < says->axes->rank; axis++) {
        if (says->parts != NULL || axis >= says->source->rank)
            return;
        says->axes->dims[axis].is_open = says->source->dims[axis].is_open;
        says->axes->dims[axis].has_priority = says->source->dims[axis].has_priority;
        says->axes->dims[axis].priority = says->source->dims[axis].priority;
    }
}

static enum sp_status tell_left_out(struct sp_inference *all, const struct sp_stated *stated)
{
    const struct sp_node *node = all->assignment->dataflow->nodes[stated->node];
    const char *name = sp_infer_operand(node, stated->operand)->name;
    return sp_assignment_stop(all->assignment, "NO_MESH_FORM", node, name, all->err,
                              "The spec of '%.120s' is not carried on: its %" PRId64
                              " shards, several of them on one device, do not fit the mesh of %" PRId64
                              " devices that other specs are on.",
                              name, stated->says->layout.count, all->positions);
}

/* Writes every stated spec on the mesh. One of other devices, and whole, says nothing about positions. */
static enum sp_status write_stated(struct sp_inference *all)
{
    for (uint32_t i = 0; i < all->given.stated_count; i++) {
        const struct sp_stated *stated = &all->given.stated[i];
        struct sp_statement *says = stated->says;
        bool fits = says->layout.count == all->positions;
        enum sp_status status = SP_OK;
        if (!fits && says->devices != NULL)
            status = tell_left_out(all, stated);
        if (status != SP_OK)
            return status;
        if (says->axes != NULL || (!fits && (!is_split(&says->layout) || says->devices != NULL)))
            continue;
        if (fits)
            status = sp_layout_to_axes(all->arena, &says->layout, all->mesh, &says->axes, &fits, all->err);
        if (status == SP_OK && !fits) {
            const struct sp_node *node = all->assignment->dataflow->nodes[stated->node];
            return sp_fail(all->err, SP_ERR_REQUEST, "NO_COMMON_MESH",
                           "The spec of '%.120s' cannot be written on the mesh of %" PRId64 " devices.",
                           sp_infer_operand(node, stated->operand)->name, all->positions);
        }
        if (status != SP_OK)
            return status;
        if (says->axes != NULL)
            copy_wishes(all, says);
    }
    return SP_OK;
}

static enum sp_status count_stated(struct sp_inference *all, bool has_mesh)
{
    const struct sp_dataflow *dataflow = all->assignment->dataflow;
    uint32_t count = 0;
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        for (uint32_t i = 0; i < sp_infer_operand_count(dataflow->nodes[n]); i++)
            count += sp_infer_is_stated(sp_spec_of(all->assignment, n, i));
    }
    if (count == 0 && !has_mesh)
        return SP_OK;
    all->given.stated = SP_NEW_ARRAY(all->scratch, count, struct sp_stated);
    all->given.places = SP_NEW_ARRAY(all->scratch, SP_MAX_SPEC_PLACES, struct sp_infer_place);
    return all->given.stated == NULL || all->given.places == NULL ? sp_fail_memory(all->err) : SP_OK;
}

enum sp_status sp_infer_collect(struct sp_inference *all, const struct sp_mesh *mesh)
{
    bool is_linear = true;
    enum sp_status status = count_stated(all, mesh != NULL);
    uint32_t stops = all->assignment->stop_count;
    if (status != SP_OK || all->given.places == NULL)
        return status;
    status = read_all_stated(all, mesh, &is_linear);
    if (status == SP_OK && !is_linear && mesh == NULL) { /* the devices may stand in an order of their own */
        all->assignment->stop_count = stops;
        all->given.base = all->given.odd_mesh;
        status = read_all_stated(all, all->given.base, &is_linear);
    }
    if (status == SP_OK && !is_linear)
        return sp_fail(
            all->err, SP_ERR_REQUEST, "NO_COMMON_MESH",
            "The spec of '%.120s' at %.200s puts its shards on devices in an order that is not the one of "
            "the %s.",
            sp_infer_operand(all->assignment->dataflow->nodes[all->given.odd_node], all->given.odd_operand)->name,
            sp_node_label(all->assignment->dataflow->nodes[all->given.odd_node], (char[264]){0}, 264),
            mesh != NULL ? "mesh" : "other specs");
    if (status == SP_OK && mesh != NULL) {
        all->positions = mesh->order.count;
        status = sp_mesh_create(all->arena, mesh->axis_count, mesh->axes, NULL, &all->mesh, all->err);
    } else if (status == SP_OK && all->given.stated_count > 0) {
        status = find_mesh(all);
    }
    while (status == SP_OK && all->given.first_place + 1 < all->given.place_count &&
           all->given.places[all->given.first_place].count != all->positions)
        all->given.first_place++;
    if (status == SP_OK && all->mesh != NULL)
        status = write_stated(all);
    return status;
}
