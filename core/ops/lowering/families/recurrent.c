/*
 * The parts of recurrent layers (recurrent.c). The batch is free; what else may be split:
 *
 *     directions   one device runs the layer forward, the other in reverse, each with its half of the activations
 *     inputs       z = all-reduce(x * transposed w) is what the gates take of the input; the layer then gets z as its
 *                  input and the identity as its weights, because z has to be whole before the first step
 */
#include <ctype.h>
#include <string.h>

#include "base/arith.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"

enum { IN_X, IN_W, LAYER_INPUTS = 8 };

/* ---- directions ----------------------------------------------------------------------------------------------- */

/* How many items of activation_alpha and activation_beta a function takes. */
struct parameters {
    const char *name;
    uint32_t alphas, betas;
};

static bool same_name(const char *name, const char *other)
{
    while (*name != '\0' && tolower((unsigned char)*name) == tolower((unsigned char)*other)) {
        name++;
        other++;
    }
    return *name == *other;
}

static struct parameters parameters_of(const char *name)
{
    static const struct parameters known[] = {{"Affine", 1, 1},     {"LeakyRelu", 1, 0},   {"ThresholdedRelu", 1, 0},
                                              {"ScaledTanh", 1, 1}, {"HardSigmoid", 1, 1}, {"Elu", 1, 0}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (same_name(known[i].name, name))
            return known[i];
    return (struct parameters){name, 0, 0};
}

/* The items [start, start + count) of a list of numbers, as far as it has them. */
static struct sp_lower_attribute some_of(const struct sp_lowering *lower, const char *name, uint32_t start,
                                         uint32_t count)
{
    const struct sp_attribute *list = sp_node_attribute(lower->node, name);
    if (list == NULL || list->type != SP_ATTR_FLOATS || start >= list->count || count == 0)
        return SP_NO_ATTR(name);
    if (count > list->count - start)
        count = list->count - start;
    return (struct sp_lower_attribute){
        .name = name, .type = SP_ATTR_FLOATS, .count = count, .floats = list->floats + start};
}

/* One direction of two: what of the attributes is about it. *ret_count of them; `attributes` has room for four. */
static void take_direction(struct sp_lowering *lower, uint8_t direction, uint32_t functions,
                           struct sp_lower_attribute *attributes, uint32_t *ret_count)
{
    uint32_t side = lower->factors[direction].shard != 0 ? 1 : 0;
    const struct sp_attribute *names = sp_node_attribute(lower->node, "activations");
    attributes[(*ret_count)++] = (struct sp_lower_attribute){
        .name = "direction", .type = SP_ATTR_STRING, .s = side == 0 ? "forward" : "reverse"};
    if (names == NULL || names->type != SP_ATTR_STRINGS || names->count == 0)
        return;
    if (names->count != 2 * functions) {
        sp_lower_refuse(lower, direction, "its activations are not those of two directions");
        return;
    }
    const char **own = SP_NEW_ARRAY(lower->arena, functions, const char *);
    if (own == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return;
    }
    struct parameters sums[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    for (uint32_t i = 0; i < names->count; i++) {
        struct parameters parameters = parameters_of(names->strings[i].bytes);
        sums[i / functions].alphas += parameters.alphas;
        sums[i / functions].betas += parameters.betas;
        if (i / functions == side)
            own[i % functions] = names->strings[i].bytes;
    }
    attributes[(*ret_count)++] =
        (struct sp_lower_attribute){.name = "activations", .type = SP_ATTR_STRINGS, .count = functions, .strings = own};
    attributes[(*ret_count)++] = some_of(lower, "activation_alpha", side * sums[0].alphas, sums[side].alphas);
    attributes[(*ret_count)++] = some_of(lower, "activation_beta", side * sums[0].betas, sums[side].betas);
}

/* ---- inputs --------------------------------------------------------------------------------------------------- */

/* [directions, rows, directions * rows]: for each direction the rows that pick its own of all columns. */
static struct sp_piece *selection(struct sp_lowering *lower, enum sp_dtype dtype, int64_t directions, int64_t rows)
{
    const int64_t all = directions * rows, dims[] = {directions, rows, all};
    struct sp_piece *numbers = sp_lower_iota(lower, 0, all);
    struct sp_piece *column = sp_lower_unsqueeze(lower, numbers, 1), *row = sp_lower_unsqueeze(lower, numbers, 0);
    struct sp_piece *is_own = sp_lower_compare(lower, "Equal", column, row);
    return sp_lower_reshape(lower, sp_lower_cast(lower, is_own, dtype), 3, dims);
}

static void reduce_inputs(struct sp_lowering *lower, uint8_t input, struct sp_piece **pieces)
{
    static const int64_t swapped[] = {1, 0};
    const struct sp_lower_operand *w = &lower->inputs[IN_W];
    int64_t rows;
    if (w->rank != 3 || w->axes[0].size < 0 || w->axes[1].size < 0 ||
        !sp_mul_i64(w->axes[0].size, w->axes[1].size, &rows)) {
        sp_lower_refuse(lower, input, "the size of its hidden state is not known");
        return;
    }
    const int64_t matrix[] = {rows, w->axes[2].size};
    struct sp_piece *weights = sp_lower_reshape(lower, pieces[IN_W], 2, matrix);
    struct sp_piece *z = sp_lower_matmul(lower, pieces[IN_X], sp_lower_transpose(lower, weights, 2, swapped));
    pieces[IN_X] = sp_lower_all_reduce(lower, z, SP_COMBINE_SUM, 1, &input);
    pieces[IN_W] =
        pieces[IN_X] == NULL ? NULL : selection(lower, pieces[IN_X]->dtype, w->axes[0].size, w->axes[1].size);
}

/* `functions`: activations for each direction. */
static enum sp_status lower_layer(struct sp_lowering *lower, uint32_t functions)
{
    struct sp_lower_attribute attributes[4];
    struct sp_piece *pieces[LAYER_INPUTS] = {NULL};
    struct sp_piece **outputs = SP_NEW_ARRAY(lower->arena, (size_t)lower->output_count + 1, struct sp_piece *);
    uint8_t input = sp_lower_split_named(lower, "i"), direction = sp_lower_split_named(lower, "d");
    uint32_t count = 0, input_count = lower->input_count < LAYER_INPUTS ? lower->input_count : LAYER_INPUTS;
    if (outputs == NULL)
        return sp_fail_memory(lower->err);
    for (uint32_t i = 0; i < input_count; i++)
        pieces[i] = sp_lower_input(lower, i);
    if (direction != SP_RULE_NO_FACTOR)
        take_direction(lower, direction, functions, attributes, &count);
    if (input != SP_RULE_NO_FACTOR)
        reduce_inputs(lower, input, pieces);
    if (sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower);
    sp_lower_same_many(lower, input_count, pieces, count, attributes, outputs);
    for (uint32_t i = 0; i < lower->output_count; i++)
        if (lower->outputs[i].value != NULL)
            sp_lower_output(lower, i, outputs[i]);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_lstm(struct sp_lowering *lower)
{
    return lower_layer(lower, 3);
}

enum sp_status sp_lower_gru(struct sp_lowering *lower)
{
    return lower_layer(lower, 2);
}

enum sp_status sp_lower_rnn(struct sp_lowering *lower)
{
    return lower_layer(lower, 1);
}
