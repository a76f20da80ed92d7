/*
 * One exchange, as the devices' models have it.
 *
 * What a member's new piece is made of is the same as in a simulation: cells of pieces of its group. A piece of the
 * device itself is there; one of another device of its world comes by a collective where the target has one; any other
 * is an input of the part at work and an output of the part that made it, already cut to the cell.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "base/limits.h"
#include "realize/device.h"

struct passing {
    struct sp_device_walk *walk;
    const struct sp_exchange *exchange;
    const struct sp_exchange_grid *grids; /* of members with a piece after */
    bool *gets;                           /* by world: something comes in as an input */
    enum sp_device_form *forms;           /* by world: how devices of it exchange among each other */
    const char **rows;                    /* the device at work has others' pieces under these names */
};

static uint32_t world_of(const struct sp_device_walk *walk, int64_t device)
{
    return walk->plan->devices[device].world;
}

/* Whether one device gives another something as an output of its model; else by a collective. */
static bool is_by_ports(struct passing *passing, int64_t from, int64_t to)
{
    const struct sp_device_walk *walk = passing->walk;
    const uint32_t world = world_of(walk, from);
    if (world != world_of(walk, to))
        return true;
    if (passing->forms[world] == SP_FORM_NONE)
        passing->forms[world] = sp_device_form_of(walk->plan, passing->exchange, world);
    return passing->forms[world] == SP_FORM_PORTS;
}

/* The extents of a cell's box; the piece's own where there is none. */
static const int64_t *cell_dims(struct sp_device_walk *walk, const struct sp_exchange *exchange,
                                const struct sp_piece *before, const struct sp_range *box)
{
    if (box == NULL)
        return before->dims;
    int64_t *dims = SP_NEW_ARRAY(walk->scratch, exchange->rank, int64_t);
    for (uint32_t i = 0; dims != NULL && i < exchange->rank; i++)
        dims[i] = box[i].limit - box[i].start;
    return dims;
}

static bool is_all_of(const struct sp_exchange *exchange, const struct sp_piece *before, const struct sp_range *box)
{
    for (uint32_t i = 0; box != NULL && i < exchange->rank; i++) {
        if (before->dims == NULL || box[i].start != 0 || box[i].limit != before->dims[i])
            return false;
    }
    return true;
}

static const char *key_of(struct sp_device_walk *walk, const struct sp_exchange *exchange,
                          const struct sp_piece *before, const struct sp_range *box)
{
    return sp_device_key(walk->scratch, before->name, exchange->rank, is_all_of(exchange, before, box) ? NULL : box);
}

/* The port by which a cell's source goes from one world to another. */
static enum sp_status make_port(struct passing *passing, const struct sp_piece *before, const struct sp_range *box,
                                struct sp_device_port *ret_port, struct sp_error *err)
{
    struct sp_device_walk *walk = passing->walk;
    const struct sp_exchange *exchange = passing->exchange;
    const struct sp_device_piece *known = sp_device_lookup(walk, before);
    const char *key = key_of(walk, exchange, before, box);
    if (key == NULL || known == NULL)
        return sp_fail_memory(err);
    *ret_port = (struct sp_device_port){.kind = SP_PORT_DEVICE,
                                        .key = key,
                                        .name = key,
                                        .piece = before->name,
                                        .is_whole = is_all_of(exchange, before, box),
                                        .rank = box == NULL ? before->rank : exchange->rank,
                                        .box = box,
                                        .dtype = before->dtype,
                                        .dims = cell_dims(walk, exchange, before, box),
                                        .value = exchange->value,
                                        .device = before->device,
                                        .part = known->part};
    return SP_OK;
}

/* Everything that the cells of all members take, one by one. */
static enum sp_status each_source(struct passing *passing,
                                  enum sp_status (*visit)(struct passing *passing, uint32_t member, uint32_t source,
                                                          const struct sp_range *box, struct sp_error *err),
                                  struct sp_error *err)
{
    const struct sp_exchange *exchange = passing->exchange;
    enum sp_status status = SP_OK;
    for (uint32_t m = 0; status == SP_OK && m < exchange->member_count; m++) {
        const struct sp_exchange_grid *grid = &passing->grids[m];
        for (uint64_t c = 0; status == SP_OK && exchange->members[m].after != NULL && c < grid->cell_count; c++) {
            for (uint32_t s = 0; status == SP_OK && s < grid->cells[c].source_count; s++)
                status = visit(passing, m, grid->cells[c].sources[s], grid->cells[c].box, err);
        }
    }
    return status;
}

/* Who gives: what it gives is there in the part at work, or was made in an earlier one. */
static enum sp_status give(struct passing *passing, uint32_t member, uint32_t source, const struct sp_range *box,
                           struct sp_error *err)
{
    struct sp_device_walk *walk = passing->walk;
    const struct sp_exchange_member *to = &passing->exchange->members[member];
    const struct sp_exchange_member *from = &passing->exchange->members[source];
    const uint32_t world = world_of(walk, from->device);
    struct sp_device_port port;
    if (from->device == to->device || !is_by_ports(passing, from->device, to->device))
        return SP_OK;
    passing->gets[world_of(walk, to->device)] = true;
    struct sp_device_piece *known = sp_device_lookup(walk, from->before);
    if (known == NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "PIECE_UNKNOWN", "The piece '%.200s' is sent before it is made.",
                       from->before->name);
    enum sp_status status = SP_OK;
    if (known->is_source || sp_device_is_anywhere(known)) {
        status = sp_device_bring(walk, from->before, err);
        known->part = walk->parts[world];
    }
    walk->has_given[world] = walk->has_given[world] || known->part == walk->parts[world];
    if (status == SP_OK && walk->program == NULL)
        status = make_port(passing, from->before, box, &port, err);
    if (status == SP_OK && walk->program == NULL)
        status = sp_device_add_port(walk->plan, from->device, known->part, true, &port, err);
    return status;
}

/* Who gets: an input of the part at work; and the device's own pieces must be there. */
static enum sp_status take(struct passing *passing, uint32_t member, uint32_t source, const struct sp_range *box,
                           struct sp_error *err)
{
    struct sp_device_walk *walk = passing->walk;
    const struct sp_exchange_member *to = &passing->exchange->members[member];
    const struct sp_exchange_member *from = &passing->exchange->members[source];
    struct sp_device_port port;
    if (from->device == to->device)
        return sp_device_bring(walk, from->before, err);
    if (walk->program != NULL || !is_by_ports(passing, from->device, to->device))
        return SP_OK;
    enum sp_status status = make_port(passing, from->before, box, &port, err);
    return status == SP_OK
               ? sp_device_add_port(walk->plan, to->device, sp_device_walk_part(walk, to->device), false, &port, err)
               : status;
}

/* A world that has given something away begins a new part where it gets something: what it gets may depend on that. */
static enum sp_status begin_parts(struct passing *passing, struct sp_error *err)
{
    struct sp_device_walk *walk = passing->walk;
    for (uint32_t w = 0; w < walk->plan->world_count; w++) {
        struct sp_world *world = &walk->plan->worlds[w];
        if (!passing->gets[w])
            continue;
        if (walk->has_given[w]) {
            if (walk->program != NULL && w == world_of(walk, walk->device)) {
                enum sp_status status = sp_device_end_part(walk, err);
                if (status != SP_OK)
                    return status;
            }
            if (++walk->parts[w] >= SP_MAX_DEVICE_PARTS)
                return sp_fail_limit(err, "TOO_MANY_PARTS", "SP_MAX_DEVICE_PARTS", SP_MAX_DEVICE_PARTS, walk->parts[w],
                                     "A device's model would be cut into more than %d parts.", SP_MAX_DEVICE_PARTS);
            walk->has_given[w] = false;
        }
        if (walk->program != NULL)
            continue;
        if (!SP_MAKE_PLACE(walk->plan->arena, world->times, world->part_capacity, walk->parts[w]))
            return sp_fail_memory(err);
        world->part_count = walk->parts[w] + 1;
        world->times[walk->parts[w]] = walk->time;
    }
    return SP_OK;
}

/* ---- collectives --------------------------------------------------------------------------------------------------
 */

/* What is left of a collective that a device takes part in for others: named after the exchange. */
static const char *kept_name(struct sp_device_walk *walk, const struct sp_exchange *exchange)
{
    const struct sp_exchange_member *first = &exchange->members[0];
    assert(first->before != NULL || first->after != NULL);
    return sp_arena_printf(walk->scratch, "%s/kept.%" PRIu64,
                           first->before != NULL ? first->before->name : first->after->name, walk->time);
}

/* The members whose pieces the device at work needs. */
static bool *find_wanted(struct passing *passing)
{
    const struct sp_exchange *exchange = passing->exchange;
    bool *wanted = SP_NEW_ARRAY(passing->walk->scratch, exchange->member_count, bool);
    for (uint32_t m = 0; wanted != NULL && m < exchange->member_count; m++) {
        const struct sp_exchange_grid *grid = &passing->grids[m];
        if (exchange->members[m].device != passing->walk->device || exchange->members[m].after == NULL)
            continue;
        for (uint64_t c = 0; c < grid->cell_count; c++) {
            for (uint32_t s = 0; s < grid->cells[c].source_count; s++)
                wanted[grid->cells[c].sources[s]] = true;
        }
    }
    return wanted;
}

static const struct sp_exchange_member *member_of(const struct sp_exchange *exchange, int64_t device, uint32_t *ret_at)
{
    for (uint32_t i = 0; i < exchange->member_count; i++) {
        if (exchange->members[i].device == device) {
            *ret_at = i;
            return &exchange->members[i];
        }
    }
    return NULL;
}

/* One device of a world whose devices exchange among each other. */
static enum sp_status meet(struct passing *passing, int64_t device, enum sp_device_form form, struct sp_error *err)
{
    struct sp_device_walk *walk = passing->walk;
    const struct sp_exchange *exchange = passing->exchange;
    uint32_t at = 0;
    const struct sp_exchange_member *member = member_of(exchange, device, &at);
    const bool needs = member != NULL && member->after != NULL;
    enum sp_status status = SP_OK;
    if (member != NULL && member->before != NULL)
        status = sp_device_bring(walk, member->before, err);
    walk->plan->devices[device].is_used = true;
    if (status != SP_OK)
        return status;
    if (form != SP_FORM_GATHER_ALL)
        return sp_device_walk_writes(walk, device) ? sp_device_put_collective(walk, exchange, form, at, err) : SP_OK;
    const char *kept = needs ? NULL : kept_name(walk, exchange);
    const int64_t one = 1;
    const struct sp_device_port port = {.kind = SP_PORT_NOBODY,
                                        .key = kept,
                                        .name = kept,
                                        .is_whole = true,
                                        .rank = 1,
                                        .dtype = exchange->dtype,
                                        .dims = &one};
    if (!needs && kept == NULL)
        return sp_fail_memory(err);
    if (!needs && walk->program == NULL)
        return sp_device_add_port(walk->plan, device, sp_device_walk_part(walk, device), true, &port, err);
    if (!sp_device_walk_writes(walk, device))
        return SP_OK;
    const bool *wanted = find_wanted(passing);
    return wanted == NULL ? sp_fail_memory(err)
                          : sp_device_put_gather(walk, exchange, wanted, kept, passing->rows, err);
}

/* All that happens inside worlds. *ret_done: the device that is written has its piece by a direct form. */
static enum sp_status meet_all(struct passing *passing, bool *ret_done, struct sp_error *err)
{
    struct sp_device_walk *walk = passing->walk;
    const enum sp_realize_target target = walk->plan->target;
    bool is_cut =
        sp_device_is_collective(target, passing->exchange) && !sp_device_makes_world(walk->plan, passing->exchange);
    enum sp_status status = SP_OK;
    *ret_done = false;
    for (uint32_t w = 0; status == SP_OK && w < walk->plan->world_count; w++) {
        const struct sp_world *world = &walk->plan->worlds[w];
        const enum sp_device_form form = passing->forms[w];
        is_cut = is_cut || form == SP_FORM_PORTS;
        if (form == SP_FORM_NONE || form == SP_FORM_PORTS)
            continue;
        if (walk->program == NULL)
            sp_device_look_at_form(walk->plan, passing->exchange, form);
        if (form == SP_FORM_GATHER_ALL)
            status = sp_device_tell_form(walk, passing->exchange, form, err);
        for (uint32_t i = 0; status == SP_OK && i < world->size; i++) {
            status = meet(passing, world->devices[i], form, err);
            *ret_done = *ret_done || (form != SP_FORM_GATHER_ALL && sp_device_walk_writes(walk, world->devices[i]));
        }
    }
    return status == SP_OK && is_cut ? sp_device_tell_form(walk, passing->exchange, SP_FORM_PORTS, err) : status;
}

/* ---- writing ------------------------------------------------------------------------------------------------------
 */

/* struct sp_program's `source`. */
static enum sp_status name_source(void *context, const struct sp_exchange *exchange, uint32_t member,
                                  const struct sp_range *box, const char **ret_name, bool *ret_is_cut,
                                  struct sp_error *err)
{
    struct passing *passing = context;
    struct sp_device_walk *walk = passing->walk;
    const struct sp_exchange_member *from = &exchange->members[member];
    *ret_is_cut = box == NULL;
    if (from->device == walk->device) {
        *ret_name = sp_program_name(walk->program, from->before);
        return SP_OK;
    }
    if (!is_by_ports(passing, from->device, walk->device)) {
        *ret_name = passing->rows[member];
        return *ret_name != NULL ? SP_OK
                                 : sp_fail(err, SP_ERR_INTERNAL, "ROW_MISSING", "A collective brings no such piece.");
    }
    const char *key = key_of(walk, exchange, from->before, box);
    const struct sp_device_port *port =
        key == NULL
            ? NULL
            : sp_device_find_port(walk->plan, walk->device, sp_device_walk_part(walk, walk->device), false, key);
    if (port == NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "PORT_MISSING", "What another device sends is not in the plan.");
    *ret_name = port->name;
    *ret_is_cut = true;
    return SP_OK;
}

static enum sp_status write_members(struct passing *passing, struct sp_error *err)
{
    struct sp_device_walk *walk = passing->walk;
    struct sp_program *program = walk->program;
    enum sp_status status = SP_OK;
    program->source = name_source;
    program->source_context = passing;
    for (uint32_t i = 0; status == SP_OK && i < passing->exchange->member_count; i++) {
        const struct sp_exchange_member *member = &passing->exchange->members[i];
        if (member->after != NULL && member->device == walk->device)
            status = sp_program_member(program, passing->exchange, i, err);
    }
    program->source = NULL;
    return status;
}

enum sp_status sp_device_exchange(struct sp_device_walk *walk, const struct sp_exchange *exchange, struct sp_error *err)
{
    const uint32_t worlds = walk->plan->world_count, count = exchange->member_count;
    struct sp_exchange_grid *grids = SP_NEW_ARRAY(walk->scratch, count, struct sp_exchange_grid);
    struct passing passing = {walk, exchange, grids};
    enum sp_status status = SP_OK;
    bool done = false;
    passing.gets = SP_NEW_ARRAY(walk->scratch, worlds, bool);
    passing.forms = SP_NEW_ARRAY(walk->scratch, worlds, enum sp_device_form);
    passing.rows = SP_NEW_ARRAY(walk->scratch, count, const char *);
    if (grids == NULL || passing.gets == NULL || passing.forms == NULL || passing.rows == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        if (exchange->members[i].after != NULL)
            status = sp_exchange_cells(walk->scratch, exchange, i, &grids[i], err);
    }
    if (status == SP_OK)
        status = each_source(&passing, give, err);
    if (status == SP_OK)
        status = begin_parts(&passing, err);
    if (status == SP_OK)
        status = each_source(&passing, take, err);
    if (status == SP_OK)
        status = meet_all(&passing, &done, err);
    if (status == SP_OK && walk->program != NULL && !done)
        status = write_members(&passing, err);
    return status;
}
