/* What a model computes of the size of its batch: a mean over it, numbers of its rows. */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "plan/internal.h"
#include "plan/micro/micro.h"

/* Operands behind the first one are sizes or places there, which follow the batch. */
static bool takes_sizes(const struct sp_node *node)
{
    static const char *const names[] = {"Reshape", "Expand", "Slice",         "Tile",     "Resize",
                                        "Pad",     "Split",  "CenterCropPad", "Upsample", "SplitToSequence"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(node->op_type, names[i]) == 0)
            return true;
    }
    return false;
}

/* The elements as numbers; NULL where one is not known. */
static const double *numbers_of(struct sp_arena *arena, const struct sp_data *data)
{
    double *numbers = SP_NEW_ARRAY(arena, data->count, double);
    for (uint32_t i = 0; numbers != NULL && i < data->count; i++) {
        if (data->ints != NULL && !sp_dim_is_known(data->ints[i]))
            return NULL;
        numbers[i] = data->ints != NULL ? (double)data->ints[i].value : data->reals[i];
    }
    return numbers;
}

/* Whether a node that runs takes this as it takes any tensor, and it is known and computed at load. */
static bool is_told(const struct sp_node *node, uint32_t input)
{
    const struct sp_value *value = node->inputs[input];
    return value != NULL && value->is_constant && value->kind == SP_VALUE_NODE_OUTPUT && value->data != NULL &&
           !(input > 0 && takes_sizes(node));
}

enum sp_status sp_micro_note_constants(struct sp_arena *arena, const struct sp_model *whole,
                                       struct sp_micro_batches *micro, struct sp_error *err)
{
    struct sp_micro_constant *constants = NULL;
    uint32_t count = 0, capacity = 0;
    for (uint32_t n = 0; n < whole->graph->node_count; n++) {
        const struct sp_node *node = &whole->graph->nodes[n];
        for (uint32_t i = 0; !node->is_folded && i < node->input_count; i++) {
            if (!is_told(node, i))
                continue;
            const double *numbers = numbers_of(arena, node->inputs[i]->data);
            const char *name = node->name[0] != '\0' ? node->name : node->op_type;
            if (!SP_MAKE_ROOM(arena, constants, count, capacity, 1))
                return sp_fail_memory(err);
            constants[count] = (struct sp_micro_constant){
                .name = sp_arena_string(arena, node->inputs[i]->name, strlen(node->inputs[i]->name)),
                .node = sp_arena_string(arena, name, strlen(name)),
                .count = node->inputs[i]->data->count,
                .numbers = numbers};
            if (constants[count].name == NULL || constants[count].node == NULL)
                return sp_fail_memory(err);
            count += numbers != NULL;
        }
    }
    micro->constant_count = count;
    micro->constants = constants;
    return SP_OK;
}

/* The same elements, or the same one everywhere. */
static bool is_same(const struct sp_micro_constant *whole, uint32_t count, const double *numbers)
{
    const bool is_as_long = count == whole->count;
    for (uint32_t i = 0; i < whole->count; i++) {
        const double other = is_as_long ? numbers[i] : count > 0 ? numbers[0] : NAN;
        if (whole->numbers[i] != other && !(isnan(whole->numbers[i]) && isnan(other)))
            return false;
    }
    for (uint32_t i = 1; !is_as_long && i < count; i++) {
        if (numbers[i] != numbers[0])
            return false;
    }
    return true;
}

enum sp_status sp_micro_check_constants(const struct sp_micro_batches *micro, const struct sp_model *part,
                                        struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(part->arena));
    enum sp_status status = scratch != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < micro->constant_count; i++) {
        const struct sp_micro_constant *constant = &micro->constants[i];
        const struct sp_value *value = sp_graph_value(part->graph, constant->name);
        const double *numbers = value != NULL && value->data != NULL ? numbers_of(scratch, value->data) : NULL;
        if (numbers == NULL || is_same(constant, value->data->count, numbers))
            continue;
        status =
            sp_fail(err, SP_ERR_REQUEST, "MICRO_BATCHES_MIXED",
                    "The model cannot be cut in micro-batches along '%.80s': node '%.200s' takes '%.200s', which is "
                    "computed of the size of the batch.",
                    micro->dimension, constant->node, constant->name);
        (void)sp_error_at(err, "/options/micro_batches");
    }
    sp_arena_destroy(scratch);
    return status;
}
