#include "partition/communications.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"

struct listing {
    const struct sp_assignment *assignment;
    struct sp_communications *list;
    struct sp_arena *scratch;
};

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* The elements of a box, -1 where they are not known. */
static double elements_of(const struct sp_box *box)
{
    double elements = 1;
    for (uint32_t a = 0; a < box->rank; a++) {
        double extent = 0;
        for (uint32_t r = 0; r < box->axes[a].count; r++) {
            const struct sp_range *range = &box->axes[a].ranges[r];
            if (range->limit < 0)
                return -1;
            extent += (double)(range->limit - range->start);
        }
        elements *= extent;
    }
    return elements;
}

struct sent {
    int64_t group_size; /* of the largest group */
    double bytes, total_bytes;
    bool is_any; /* something goes from one device to another */
};

/* What each device gives in an exchange of any pieces. */
static enum sp_status count_cells(struct listing *all, const struct sp_exchange *exchange, double width,
                                  struct sent *sent)
{
    double *gives = SP_NEW_ARRAY(all->scratch, exchange->member_count, double);
    struct sp_error why = {0};
    if (gives == NULL)
        return SP_ERR_MEMORY;
    for (uint32_t m = 0; m < exchange->member_count; m++) {
        struct sp_exchange_grid grid;
        if (exchange->members[m].after == NULL)
            continue;
        enum sp_status status = sp_exchange_cells(all->scratch, exchange, m, &grid, &why);
        if (status == SP_ERR_MEMORY)
            return status;
        if (status != SP_OK) {
            *sent = (struct sent){.group_size = sent->group_size, .bytes = -1, .total_bytes = -1, .is_any = true};
            return SP_OK;
        }
        for (uint64_t c = 0; c < grid.cell_count; c++) {
            uint32_t source = grid.cells[c].sources[0];
            double elements = 1;
            for (uint32_t a = 0; grid.cells[c].box != NULL && a < exchange->rank; a++)
                elements *= (double)(grid.cells[c].box[a].limit - grid.cells[c].box[a].start);
            if (exchange->members[source].device != exchange->members[m].device)
                gives[source] += elements * width;
        }
    }
    for (uint32_t m = 0; m < exchange->member_count; m++) {
        sent->bytes = gives[m] > sent->bytes ? gives[m] : sent->bytes;
        sent->total_bytes += gives[m];
    }
    sent->is_any = sent->total_bytes > 0;
    return SP_OK;
}

/* Bytes of a whole that a collective is of: what is gathered, or what each device has partial. */
static double whole_of(const struct sp_exchange *exchange, double width)
{
    double most = 0;
    for (uint32_t m = 0; m < exchange->member_count; m++) {
        const struct sp_exchange_member *member = &exchange->members[m];
        const struct sp_box *box = exchange->kind == SP_ALL_GATHER ? &member->needed : &member->held;
        if ((exchange->kind == SP_ALL_GATHER ? member->after : member->before) == NULL)
            continue;
        double elements = elements_of(box);
        if (elements < 0)
            return -1;
        most = elements > most ? elements : most;
    }
    return most * width;
}

static enum sp_status measure(struct listing *all, const struct sp_exchange *exchange, struct sent *ret_sent)
{
    struct sent sent = {0};
    double width = (double)sp_dtype_bytes(exchange->dtype, 8) / 8;
    for (uint32_t first = 0, last; first < exchange->member_count; first = last) {
        for (last = first + 1;
             last < exchange->member_count && exchange->members[last].group == exchange->members[first].group;)
            last++;
        sent.group_size = last - first > sent.group_size ? last - first : sent.group_size;
    }
    const bool has_formula =
        exchange->kind == SP_ALL_REDUCE || (exchange->is_regular && exchange->kind != SP_ALL_SLICE);
    enum sp_status status = SP_OK;
    if (exchange->kind == SP_ALL_SLICE || sent.group_size < 2) {
        sent.is_any = false;
    } else if (has_formula) {
        double whole = whole_of(exchange, width);
        if (exchange->kind == SP_ALL_TO_ALL && whole >= 0)
            whole *= (double)sent.group_size;
        sent.is_any = true;
        sent.bytes = whole < 0 ? -1 : sp_collective_bytes(exchange->kind, (double)sent.group_size, whole);
        sent.total_bytes = sent.bytes < 0 ? -1 : sent.bytes * exchange->member_count;
    } else {
        status = count_cells(all, exchange, width, &sent);
    }
    *ret_sent = sent;
    return status;
}

/* ---- what it is --------------------------------------------------------------------------------------------------- */

/* What a statistic is said to be of: what the node makes, or for what is gathered, takes. */
static const struct sp_value *named_after(const struct sp_exchange *exchange)
{
    const struct sp_node *node = exchange->node;
    static const struct sp_value nothing = {.name = ""};
    bool is_input = exchange->purpose == SP_COMMUNICATE_GATHER;
    uint32_t count = is_input ? node->input_count : node->output_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_value *value = is_input ? node->inputs[i] : node->outputs[i];
        if (value != NULL)
            return value;
    }
    return &nothing;
}

/* "k", "c, r": the factors that a node's own collective is over, and their shards. */
static void name_factors(const struct sp_exchange *exchange, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < exchange->factor_count && used < size; i++) {
        int length = snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                              exchange->rule->factors[exchange->factors[i]].name);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* Why a node's devices combine or exchange what only they know. */
static void explain_own(const struct sp_exchange *exchange, const struct sent *sent, char *text, size_t size)
{
    char goal[SP_SPEC_TEXT_SIZE] = "in pieces of its own", names[128];
    const struct sp_value *value = exchange->value != NULL ? exchange->value : named_after(exchange);
    name_factors(exchange, names, sizeof names);
    if (exchange->goal != NULL)
        (void)sp_spec_text(exchange->goal, goal, sizeof goal);
    if (exchange->purpose == SP_COMMUNICATE_GATHER)
        (void)snprintf(text, size,
                       "'%.120s' is cut along %s, in %" PRId64 "; the devices take what the others have of it.",
                       value->name, names, sent->group_size);
    else if (exchange->value == NULL)
        (void)snprintf(text, size,
                       "'%.120s' stays cut along %s, in %" PRId64
                       "; the devices join what they need to know of each row.",
                       value->name, names, sent->group_size);
    else
        (void)snprintf(text, size, "The reduction over %s is split in %" PRId64 ", so '%.120s' is partial; it %s %s.",
                       names, sent->group_size, value->name,
                       exchange->kind == SP_REDUCE_SCATTER ? "is stated" : "becomes", goal);
}

/* Why a tensor's pieces are brought elsewhere. */
static void explain(const struct sp_exchange *exchange, char *text, size_t size)
{
    char from[SP_SPEC_TEXT_SIZE] = "in other pieces", goal[SP_SPEC_TEXT_SIZE] = "in pieces of its own";
    char label[264], maker[264], where[280] = "the devices hold";
    const char *tensor = exchange->value->name;
    const struct sp_node *producer = exchange->value->producer;
    const char *node = exchange->node != NULL ? sp_node_label(exchange->node, label, sizeof label) : "the model";
    if (exchange->from != NULL)
        (void)sp_spec_text(exchange->from, from, sizeof from);
    if (exchange->goal != NULL)
        (void)sp_spec_text(exchange->goal, goal, sizeof goal);
    if (producer != NULL)
        (void)snprintf(where, sizeof where, "%s makes", sp_node_label(producer, maker, sizeof maker));
    if (exchange->purpose == SP_COMMUNICATE_GATHER)
        (void)snprintf(text, size, "%s needs '%.120s' %s, more than it states.", node, tensor, goal);
    else if (exchange->purpose == SP_COMMUNICATE_HALO)
        (void)snprintf(text, size, "%s needs of '%.120s' also the ends of its neighbours' pieces.", node, tensor);
    else if (exchange->purpose == SP_COMMUNICATE_PERMUTE)
        (void)snprintf(text, size, "%s moves elements of '%.120s' along an axis that is split.", node, tensor);
    else if (producer != NULL && producer == exchange->node)
        (void)snprintf(text, size, "%s computes '%.120s' %s, and states it %s.", node, tensor, from, goal);
    else
        (void)snprintf(text, size, "'%.120s' is %s where %s it, and is needed %s.", tensor, from, where, goal);
}

static enum sp_status on_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    struct listing *all = context;
    struct sp_communications *list = all->list;
    struct sp_arena *arena = all->assignment->arena;
    char text[SP_ERROR_MESSAGE_SIZE];
    struct sent sent;
    struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    if (measure(all, exchange, &sent) != SP_OK)
        return sp_fail_memory(err);
    sp_arena_rewind(all->scratch, mark);
    if (!sent.is_any)
        return SP_OK;
    if (!SP_MAKE_ROOM(arena, list->items, list->count, list->capacity, 1))
        return sp_fail_memory(err);
    if (exchange->rule != NULL)
        explain_own(exchange, &sent, text, sizeof text);
    else
        explain(exchange, text, sizeof text);
    const char *because = sp_arena_string(arena, text, strlen(text));
    const struct sp_value *value = exchange->value != NULL ? exchange->value : named_after(exchange);
    list->items[list->count++] =
        (struct sp_communication){.kind = exchange->purpose,
                                  .node = exchange->node,
                                  .producer = exchange->purpose == SP_COMMUNICATE_RESHARD ? value->producer : NULL,
                                  .tensor = value->name,
                                  .steps = sp_exchange_name(exchange),
                                  .group_size = sent.group_size,
                                  .group_count = exchange->group_count,
                                  .bytes = sent.bytes,
                                  .total_bytes = sent.total_bytes,
                                  .because = because};
    return because != NULL ? SP_OK : sp_fail_memory(err);
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

/* Whether a partition is quick: it touches each device of each operand, and compares those of one operand with those of
   another. */
static bool is_small(const struct sp_assignment *assignment)
{
    const struct sp_dataflow *dataflow = assignment->dataflow;
    int64_t work = 0;
    for (uint32_t n = 0; n < dataflow->node_count && work <= SP_FREE_TOLD_WORK; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        int64_t points = 0;
        for (uint32_t i = 0; assignment->nodes[n].operands != NULL && i < node->input_count + node->output_count; i++) {
            const struct sp_sharding *sharding = assignment->nodes[n].operands[i].sharding;
            points += sharding == NULL ? 1 : sp_placed_devices(sharding, assignment->device_count);
        }
        work += points > SP_MAX_VIEW_POINTS ? SP_MAX_VIEW_POINTS : points + points * points / SP_TOLD_PAIRS;
    }
    return work <= SP_FREE_TOLD_WORK;
}

enum sp_status sp_part_communications(const struct sp_assignment *assignment, const struct sp_watch *watch,
                                      struct sp_communications *list, struct sp_error *err)
{
    const struct sp_partition_request request = {
        .model = assignment->dataflow->model, .assignment = assignment, .watch = watch};
    struct sp_budget *budget = sp_arena_budget(assignment->arena);
    struct listing all = {.assignment = assignment, .list = list};
    const struct sp_part_sink sink = {.context = &all, .exchange = on_exchange};
    const uint32_t before = list->count;
    struct sp_error why = {0};
    if (!is_small(assignment))
        return sp_assignment_communications(assignment, list, err);
    struct sp_arena *arena = sp_arena_create(budget);
    all.scratch = sp_arena_create(budget);
    enum sp_status status =
        arena != NULL && all.scratch != NULL ? sp_partition_run(arena, &request, &sink, &why) : sp_fail_memory(&why);
    sp_arena_destroy(all.scratch);
    sp_arena_destroy(arena);
    if (status == SP_OK || status == SP_ERR_CANCELLED || status == SP_ERR_INTERNAL) {
        if (status != SP_OK && err != NULL)
            *err = why;
        return status;
    }
    list->count = before;
    return sp_assignment_communications(assignment, list, err);
}
