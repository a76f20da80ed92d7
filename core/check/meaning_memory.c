/*
 * What each device must hold at least: the pieces of weights that its nodes use, and what must be there together while
 * the hungriest of its nodes runs. That is less than any runtime needs, so where it does not fit, nothing does. Which
 * node runs when plays no part, because annotations do not say it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/sorted.h"
#include "check/meaning.h"

#define LARGEST 3 /* tensors that the message names */

/* A weight at an operand. */
struct weight_use {
    uint32_t tensor, node, operand;
};

struct memory {
    struct sp_meaning *meaning;
    int64_t devices;
    double *weights;           /* per device */
    double *peak;              /* per device: the most that one node holds together */
    const struct sp_node **at; /* per device: that node */
    double *piece;             /* per device: of the tensor or node at hand */
    uint32_t use_count;
    struct weight_use *uses; /* ascending by tensor */
    uint64_t work;           /* devices looked at */
};

static const struct sp_value *operand_value(const struct sp_node *node, uint32_t operand)
{
    return operand < node->input_count ? node->inputs[operand] : node->outputs[operand - node->input_count];
}

static bool is_weight(const struct sp_value *value)
{
    return value->kind == SP_VALUE_INITIALIZER;
}

/* Quantised weights in their float form: they are there as weights already. */
static bool is_dequantized(const struct sp_value *value)
{
    return value->is_constant && value->stored_bits > 0;
}

/* ---- pieces --------------------------------------------------------------------------------------------------- */

/* Elements of what one device holds, exactly. */
static enum sp_status held_elements(struct memory *memory, const struct sp_sharding *sharding, uint32_t rank,
                                    const int64_t *shape, int64_t device, double *ret_elements)
{
    struct sp_held held;
    struct sp_meaning *meaning = memory->meaning;
    enum sp_status status = sp_sharding_held(meaning->scratch, sharding, rank, shape, device, &held, meaning->err);
    double total = 0;
    for (uint32_t s = 0; status == SP_OK && s < held.shard_count; s++) {
        double elements = 1;
        for (uint32_t axis = 0; axis < rank; axis++) {
            const struct sp_axis_ranges *ranges = &held.shards[(size_t)s * rank + axis];
            double length = 0;
            for (uint32_t i = 0; i < ranges->count; i++)
                length += (double)(ranges->ranges[i].limit - ranges->ranges[i].start);
            elements *= length;
        }
        total += elements;
    }
    if (status == SP_OK)
        *ret_elements = total;
    return status;
}

/* Calls for each device that holds a piece: raises or adds to piece[device]. */
static void account(double *piece, double bytes, bool adds)
{
    if (adds)
        *piece += bytes;
    else if (bytes > *piece)
        *piece = bytes;
}

static enum sp_status account_sharded(struct memory *memory, const struct sp_value *value,
                                      const struct sp_sharding *sharding, double total, bool adds)
{
    struct sp_meaning *meaning = memory->meaning;
    const uint32_t rank = value->type.shape.rank;
    int64_t shape[SP_MAX_RANK] = {0}, tile[SP_MAX_RANK] = {0}, count = 0;
    const int64_t *devices = NULL;
    double elements = 1, tiled = 1, shards = 1;
    for (uint32_t axis = 0; axis < rank; axis++) {
        shape[axis] = value->type.shape.dims[axis].value;
        elements *= (double)shape[axis];
    }
    enum sp_status status = sp_sharding_tile_shape(sharding, rank, shape, tile, meaning->err);
    if (status == SP_OK)
        status = sp_sharding_devices(meaning->scratch, sharding, memory->devices, &count, &devices, meaning->err);
    for (uint32_t axis = 0; status == SP_OK && axis < rank; axis++) {
        tiled *= (double)tile[axis];
        shards *= (double)sp_sharding_shards(sharding, axis);
    }
    memory->work += (uint64_t)count;
    const bool is_even = tiled * shards == elements;
    for (int64_t d = 0; status == SP_OK && d < count; d++) {
        double own = tiled;
        struct sp_arena_mark mark = sp_arena_mark(meaning->scratch);
        if (!is_even)
            status = held_elements(memory, sharding, rank, shape, devices[d], &own);
        sp_arena_rewind(meaning->scratch, mark);
        if (status == SP_OK && elements > 0)
            account(&memory->piece[devices[d]], total * own / elements, adds);
    }
    return status;
}

/* The pieces of one operand of a node. Of a node with nothing but a stage, nobody says where it is. */
static enum sp_status account_operand(struct memory *memory, uint32_t node, uint32_t operand, bool adds)
{
    const struct sp_assignment *assignment = memory->meaning->assignment;
    const struct sp_value *value = operand_value(assignment->dataflow->nodes[node], operand);
    const struct sp_spec_entry *entry = sp_spec_of(assignment, node, operand);
    const int64_t bytes = sp_value_stored_bytes(value);
    if (bytes <= 0)
        return SP_OK;
    if (entry->sharding != NULL) {
        struct sp_arena_mark mark = sp_arena_mark(memory->meaning->scratch);
        enum sp_status status = account_sharded(memory, value, entry->sharding, (double)bytes, adds);
        sp_arena_rewind(memory->meaning->scratch, mark);
        return status;
    }
    if (assignment->nodes[node].has_stage)
        return SP_OK;
    memory->work += (uint64_t)memory->devices;
    for (int64_t d = 0; d < memory->devices; d++)
        account(&memory->piece[d], (double)bytes, adds);
    return SP_OK;
}

static void clear_pieces(struct memory *memory)
{
    memory->work += (uint64_t)memory->devices;
    memset(memory->piece, 0, (size_t)memory->devices * sizeof *memory->piece);
}

/* ---- weights -------------------------------------------------------------------------------------------------- */

SP_ASCENDING(by_tensor, struct weight_use, tensor, node, operand)

static bool is_weight_input(const struct sp_dataflow *dataflow, const struct sp_relation *relation, uint32_t operand)
{
    const uint32_t tensor = relation->tensors[operand];
    return relation->kind == SP_RELATION_NODE && operand < relation->input_count && tensor != SP_NO_TENSOR &&
           is_weight(dataflow->tensors[tensor]);
}

static enum sp_status find_uses(struct memory *memory)
{
    const struct sp_dataflow *dataflow = memory->meaning->assignment->dataflow;
    uint32_t count = 0;
    for (uint32_t r = 0; r < dataflow->relation_count; r++) {
        for (uint32_t i = 0; i < dataflow->relations[r].input_count; i++)
            count += is_weight_input(dataflow, &dataflow->relations[r], i);
    }
    memory->uses = SP_NEW_ARRAY(memory->meaning->scratch, count, struct weight_use);
    if (memory->uses == NULL)
        return sp_fail_memory(memory->meaning->err);
    for (uint32_t r = 0; r < dataflow->relation_count; r++) {
        const struct sp_relation *relation = &dataflow->relations[r];
        for (uint32_t i = 0; i < relation->input_count; i++) {
            if (is_weight_input(dataflow, relation, i))
                memory->uses[memory->use_count++] = (struct weight_use){relation->tensors[i], relation->node_id, i};
        }
    }
    if (count > 0)
        qsort(memory->uses, count, sizeof *memory->uses, by_tensor);
    return SP_OK;
}

/* The largest piece of one weight that each device needs, in memory->piece; *at moves behind its uses. */
static enum sp_status weigh(struct memory *memory, uint32_t *at)
{
    const uint32_t tensor = memory->uses[*at].tensor;
    enum sp_status status = SP_OK;
    clear_pieces(memory);
    for (; status == SP_OK && *at < memory->use_count && memory->uses[*at].tensor == tensor; (*at)++)
        status = account_operand(memory, memory->uses[*at].node, memory->uses[*at].operand, false);
    return status;
}

static enum sp_status add_weights(struct memory *memory)
{
    enum sp_status status = SP_OK;
    for (uint32_t at = 0; status == SP_OK && at < memory->use_count && memory->work <= SP_MAX_COMPOSE_STEPS;) {
        status = weigh(memory, &at);
        for (int64_t d = 0; status == SP_OK && d < memory->devices; d++)
            memory->weights[d] += memory->piece[d];
    }
    return status;
}

/* ---- activations ---------------------------------------------------------------------------------------------- */

static bool is_first_operand(const struct sp_node *node, uint32_t operand)
{
    /* The same tensor twice is the rare case of neighbours: f(x, x). */
    return operand == 0 || operand >= node->input_count || node->inputs[operand] != node->inputs[operand - 1];
}

static enum sp_status add_activations(struct memory *memory)
{
    const struct sp_dataflow *dataflow = memory->meaning->assignment->dataflow;
    enum sp_status status = SP_OK;
    for (uint32_t r = 0; status == SP_OK && r < dataflow->relation_count && memory->work <= SP_MAX_COMPOSE_STEPS; r++) {
        const struct sp_relation *relation = &dataflow->relations[r];
        const struct sp_node *node = relation->node;
        if (relation->kind != SP_RELATION_NODE || node->is_folded)
            continue;
        clear_pieces(memory);
        for (uint32_t i = 0; status == SP_OK && i < node->input_count + node->output_count; i++) {
            const struct sp_value *value = operand_value(node, i);
            if (value != NULL && !is_weight(value) && !is_dequantized(value) && is_first_operand(node, i))
                status = account_operand(memory, relation->node_id, i, true);
        }
        for (int64_t d = 0; status == SP_OK && d < memory->devices; d++) {
            if (memory->piece[d] > memory->peak[d]) {
                memory->peak[d] = memory->piece[d];
                memory->at[d] = node;
            }
        }
    }
    return status;
}

/* ---- the finding ---------------------------------------------------------------------------------------------- */

struct largest {
    const char *name;
    double bytes;
};

static void keep_largest(struct largest *list, const char *name, double bytes)
{
    for (uint32_t i = 0; i < LARGEST; i++) {
        if (bytes <= list[i].bytes)
            continue;
        memmove(&list[i + 1], &list[i], (LARGEST - 1 - i) * sizeof *list);
        list[i] = (struct largest){name, bytes};
        return;
    }
}

/* "'w1' 1.2 GB, 'w0' 800 MB": the weights that take most of one device. */
static enum sp_status largest_text(struct memory *memory, int64_t device, const char **ret_first, char *text,
                                   size_t size)
{
    const struct sp_dataflow *dataflow = memory->meaning->assignment->dataflow;
    struct largest list[LARGEST] = {{0}};
    enum sp_status status = SP_OK;
    size_t used = 0;
    for (uint32_t at = 0; status == SP_OK && at < memory->use_count;) {
        const struct sp_value *value = dataflow->tensors[memory->uses[at].tensor];
        status = weigh(memory, &at);
        keep_largest(list, value->name, memory->piece[device]);
    }
    text[0] = '\0';
    for (uint32_t i = 0; i < LARGEST && list[i].bytes > 0 && used + 200 < size; i++) {
        char bytes[64];
        used += (size_t)snprintf(text + used, size - used, "%s'%.80s' %s", i == 0 ? "; its largest weights are " : ", ",
                                 list[i].name, sp_meaning_bytes(list[i].bytes, bytes, sizeof bytes));
    }
    *ret_first = list[0].name;
    return status;
}

static enum sp_status report_worst(struct memory *memory)
{
    struct sp_meaning *meaning = memory->meaning;
    char total[64], weights[64], peak[64], capacity[64], largest[512], label[SP_ERROR_WHERE_SIZE];
    const char *first = NULL;
    int64_t worst = 0, over = 0;
    for (int64_t d = 0; d < memory->devices; d++) {
        const double bytes = memory->weights[d] + memory->peak[d];
        over += bytes > meaning->memory_bytes;
        if (bytes > memory->weights[worst] + memory->peak[worst])
            worst = d;
    }
    if (over == 0)
        return SP_OK;
    enum sp_status status = largest_text(memory, worst, &first, largest, sizeof largest);
    if (status != SP_OK)
        return status;
    const struct sp_node *node = memory->at[worst];
    return sp_meaning_report(
        meaning, "MEMORY_TOO_SMALL", node, first, NULL, 0,
        "Device %" PRId64 " must hold at least %s, but has %s: %s of weights, and %s of activations together%s%s%s. "
        "%" PRId64 " of %" PRId64 " devices are over their memory.",
        worst, sp_meaning_bytes(memory->weights[worst] + memory->peak[worst], total, sizeof total),
        sp_meaning_bytes(meaning->memory_bytes, capacity, sizeof capacity),
        sp_meaning_bytes(memory->weights[worst], weights, sizeof weights),
        sp_meaning_bytes(memory->peak[worst], peak, sizeof peak), node == NULL ? "" : " at ",
        node == NULL ? "" : sp_node_label(node, label, sizeof label), largest, over, memory->devices);
}

enum sp_status sp_check_meaning_memory(struct sp_meaning *meaning)
{
    struct sp_arena_mark mark = sp_arena_mark(meaning->scratch);
    const int64_t devices = meaning->assignment->device_count;
    struct memory memory = {.meaning = meaning,
                            .devices = devices,
                            .weights = SP_NEW_ARRAY(meaning->scratch, (size_t)devices, double),
                            .peak = SP_NEW_ARRAY(meaning->scratch, (size_t)devices, double),
                            .piece = SP_NEW_ARRAY(meaning->scratch, (size_t)devices, double),
                            .at = SP_NEW_ARRAY(meaning->scratch, (size_t)devices, const struct sp_node *)};
    if (memory.weights == NULL || memory.peak == NULL || memory.piece == NULL || memory.at == NULL)
        return sp_fail_memory(meaning->err);
    enum sp_status status = find_uses(&memory);
    if (status == SP_OK)
        status = add_weights(&memory);
    if (status == SP_OK)
        status = add_activations(&memory);
    if (status == SP_OK && memory.work > SP_MAX_COMPOSE_STEPS)
        status = sp_meaning_report(meaning, "NOT_LOOKED_AT", NULL, NULL, NULL, 0,
                                   "The model has too many tensors on too many devices to add up all of their memory.");
    if (status == SP_OK)
        status = report_worst(&memory);
    sp_arena_rewind(meaning->scratch, mark);
    return status;
}
