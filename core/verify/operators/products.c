/*
 * Sums of products: MatMul, Gemm, Einsum.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

/* ---- operators -------------------------------------------------------------------------------------------------- */

enum { M = 40, N = 41, K = 42 };

static enum sp_status scale(struct sp_call *call, const struct sp_numbers *x, double factor, struct sp_numbers **ret)
{
    struct sp_numbers *number;
    if (factor == 1)
        return sp_numbers_view(call->arena, x, x->rank, x->axes, ret, call->err);
    enum sp_status status = sp_numbers_create(call->arena, x->dtype, 0, NULL, &number, call->err);
    if (status != SP_OK)
        return status;
    number->items[0] = sp_number_of_real(factor);
    number->is_known = true;
    return sp_numbers_binary(call->arena, x, number, x->dtype, sp_number_multiply, ret, call->err);
}

/* With the first axis moved behind those of batches: [m, b.., k] as [b.., m, k]. */
static enum sp_status turn_batch(struct sp_call *call, const struct sp_numbers **x)
{
    uint32_t perm[32];
    struct sp_numbers *turned;
    const uint32_t rank = (*x)->rank;
    if (rank < 3 || rank > 32)
        return SP_OK;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i + 2 < rank ? i + 1 : i + 2 == rank ? 0 : i;
    enum sp_status status = sp_numbers_transpose(call->arena, *x, perm, &turned, call->err);
    *x = status == SP_OK ? turned : *x;
    return status;
}

/* MatMul, and FusedMatMul with turned operands and a factor. */
static enum sp_status evaluate_matmul(struct sp_call *call)
{
    const struct sp_numbers *a = sp_call_in(call, 0), *b = sp_call_in(call, 1);
    uint8_t labels[SP_LABELS];
    uint32_t rank = 0;
    if (a == NULL || b == NULL || a->rank == 0 || b->rank == 0 || a->rank > 32 || b->rank > 32)
        return sp_call_refuse(call, "its operands have no axes");
    enum sp_status turned = sp_node_int(call->node, "transBatchA", 0) != 0 ? turn_batch(call, &a) : SP_OK;
    if (turned == SP_OK && sp_node_int(call->node, "transBatchB", 0) != 0)
        turned = turn_batch(call, &b);
    if (turned != SP_OK)
        return turned;
    struct sp_labelled operands[2] = {{.x = a}, {.x = b}};
    const bool turned_a = sp_node_int(call->node, "transA", 0) != 0 && a->rank > 1,
               turned_b = sp_node_int(call->node, "transB", 0) != 0 && b->rank > 1;
    const uint32_t batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0,
                   batch = batch_a > batch_b ? batch_a : batch_b;
    for (uint32_t i = 0; i < batch; i++) {
        labels[rank++] = (uint8_t)i;
        if (i + batch_a >= batch)
            operands[0].labels[i + batch_a - batch] = (uint8_t)i;
        if (i + batch_b >= batch)
            operands[1].labels[i + batch_b - batch] = (uint8_t)i;
    }
    operands[0].labels[a->rank - 1] = turned_a ? M : K;
    operands[1].labels[b->rank - 1] = turned_b || b->rank == 1 ? K : N;
    if (a->rank > 1) {
        operands[0].labels[a->rank - 2] = turned_a ? K : M;
        labels[rank++] = M;
    }
    if (b->rank > 1) {
        operands[1].labels[b->rank - 2] = turned_b ? N : K;
        labels[rank++] = N;
    }
    struct sp_numbers *product;
    if (a->axes[a->rank - (turned_a ? 2 : 1)].extent != b->axes[b->rank - (turned_b || b->rank == 1 ? 1 : 2)].extent)
        return sp_fail(call->err, SP_ERR_MODEL, "SHAPES_DIFFER",
                       "Its operands have %lld and %lld elements to sum over.",
                       (long long)a->axes[a->rank - (turned_a ? 2 : 1)].extent,
                       (long long)b->axes[b->rank - (turned_b || b->rank == 1 ? 1 : 2)].extent);
    enum sp_status status = sp_numbers_contract(call->arena, 2, operands, rank, labels, &product, call->err);
    return status == SP_OK ? scale(call, product, sp_node_float(call->node, "alpha", 1), &call->out[0]) : status;
}

static enum sp_status evaluate_gemm(struct sp_call *call)
{
    const struct sp_numbers *a = sp_call_in(call, 0), *b = sp_call_in(call, 1), *c = sp_call_in(call, 2);
    if (a == NULL || b == NULL || a->rank != 2 || b->rank != 2)
        return sp_call_refuse(call, "its operands are no matrices");
    const bool turned_a = sp_node_int(call->node, "transA", 0) != 0,
               turned_b = sp_node_int(call->node, "transB", 0) != 0;
    const struct sp_labelled operands[2] = {{a, {turned_a ? K : M, turned_a ? M : K}},
                                            {b, {turned_b ? N : K, turned_b ? K : N}}};
    const uint8_t labels[2] = {M, N};
    struct sp_numbers *product, *added;
    enum sp_status status = sp_numbers_contract(call->arena, 2, operands, 2, labels, &product, call->err);
    if (status == SP_OK)
        status = scale(call, product, sp_node_float(call->node, "alpha", 1), &call->out[0]);
    if (status != SP_OK || c == NULL)
        return status;
    sp_call_tell(call, call->out[0]);
    status = scale(call, c, sp_node_float(call->node, "beta", 1), &added);
    return status == SP_OK
               ? sp_numbers_binary(call->arena, call->out[0], added, a->dtype, sp_number_add, &call->out[0], call->err)
               : status;
}

/* Labels are the letters; those behind an ellipsis get numbers from the back. */
static bool read_term(const char **text, uint32_t rank, uint8_t *labels, uint32_t *ret_count)
{
    uint32_t letters = 0, count = 0;
    bool has_dots = false;
    for (const char *at = *text; *at != '\0' && *at != ',' && *at != '-'; at++)
        letters += *at != '.' && *at != ' ';
    for (; **text != '\0' && **text != ',' && **text != '-'; ++*text) {
        const char letter = **text;
        if (letter == ' ')
            continue;
        if (letter == '.') {
            for (uint32_t i = 0; !has_dots && letters + i < rank; i++)
                labels[count++] = (uint8_t)(63 - (rank - letters - i));
            has_dots = true;
            continue;
        }
        const int place = letter >= 'a' && letter <= 'z'   ? letter - 'a'
                          : letter >= 'A' && letter <= 'Z' ? letter - 'A' + 26
                                                           : -1;
        if (place < 0 || count >= rank || place > 51)
            return false;
        labels[count++] = (uint8_t)place;
    }
    *ret_count = count;
    return count == rank;
}

static enum sp_status evaluate_einsum(struct sp_call *call)
{
    const char *text = sp_node_string(call->node, "equation", "");
    struct sp_labelled operands[SP_STRIDES_MAX];
    uint8_t labels[SP_LABELS];
    uint32_t rank = 0, count, dots = 0;
    if (call->in_count == 0 || call->in_count > SP_STRIDES_MAX || strstr(text, "->") == NULL)
        return sp_evaluate_by_rule(call);
    memset(operands, 0, sizeof operands);
    for (uint32_t i = 0; i < call->in_count; i++) {
        if (call->in[i] == NULL || call->in[i]->rank > 10)
            return sp_call_refuse(call, "an operand is missing");
        operands[i].x = call->in[i];
        if (!read_term(&text, call->in[i]->rank, operands[i].labels, &count))
            return sp_call_refuse(call, "its equation cannot be read");
        for (uint32_t k = 0; k < count; k++)
            dots = operands[i].labels[k] > 51 && (uint32_t)(63 - operands[i].labels[k]) > dots
                       ? (uint32_t)(63 - operands[i].labels[k])
                       : dots;
        text += *text == ',';
    }
    if (strncmp(text, "->", 2) != 0)
        return sp_call_refuse(call, "its equation cannot be read");
    text += 2;
    const char *at = text;
    for (; *at != '\0'; at++)
        rank += *at != '.' && *at != ' ';
    rank += strchr(text, '.') != NULL ? dots : 0;
    if (rank > 20 || !read_term(&text, rank, labels, &count))
        return sp_call_refuse(call, "its equation cannot be read");
    return sp_numbers_contract(call->arena, call->in_count, operands, rank, labels, &call->out[0], call->err);
}

/* A list of an operator's attribute as a tensor. */
static struct sp_numbers *listed(struct sp_steps *steps, const char *name, enum sp_dtype dtype, int64_t rows)
{
    const struct sp_attribute *list = sp_node_attribute(steps->call->node, name);
    struct sp_numbers *out = NULL;
    if (steps->status != SP_OK || list == NULL || list->floats == NULL || rows < 1 || list->count % rows != 0)
        return NULL;
    const int64_t extents[] = {rows, list->count / rows};
    steps->status = sp_numbers_create_full(steps->call->arena, dtype, 2, extents, &out, steps->call->err);
    for (uint32_t i = 0; steps->status == SP_OK && i < list->count; i++)
        out->items[i] = sp_number_of_real(list->floats[i]);
    return out;
}

/* ai.onnx.ml's: rows by coefficients for each target, and what is made of the results of a row. */
static enum sp_status evaluate_regressor(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *x = sp_call_in(call, 0);
    const char *transform = sp_node_string(call->node, "post_transform", "NONE");
    const struct sp_numbers *w = listed(&steps, "coefficients", SP_DTYPE_FLOAT, sp_node_int(call->node, "targets", 1)),
                            *b = listed(&steps, "intercepts", SP_DTYPE_FLOAT, 1);
    if (x == NULL || x->rank != 2 || w == NULL || !sp_dtype_is_float(x->dtype) ||
        x->axes[1].extent != w->axes[1].extent)
        return sp_evaluate_by_rule(call);
    const struct sp_labelled operands[] = {{x, {M, K}}, {w, {N, K}}};
    struct sp_numbers *y = sp_step_product(&steps, &operands[0], &operands[1], 2, (const uint8_t[]){M, N});
    if (b != NULL)
        y = sp_step(&steps, y, b, sp_number_add);
    if (strcmp(transform, "LOGISTIC") == 0)
        y = sp_step_apply(&steps, y, "Sigmoid", sp_real_sigmoid);
    else if (strcmp(transform, "SOFTMAX") == 0)
        y = sp_step_softmax(&steps, y, 2);
    else if (strcmp(transform, "NONE") != 0)
        return sp_evaluate_by_rule(call);
    call->out[0] = y;
    return steps.status;
}

/* The label of the largest score of each row; each part of the numbers has its own. */
static enum sp_status give_labels(struct sp_call *call, const struct sp_numbers *scores,
                                  const struct sp_attribute *labels)
{
    const uint32_t classes = scores->axes[1].count;
    enum sp_status status = sp_numbers_create(call->arena, SP_DTYPE_INT64, 1, scores->axes, &call->out[0], call->err);
    for (uint64_t row = 0; status == SP_OK && row < call->out[0]->count; row++) {
        const struct sp_number *own = &scores->items[row * classes];
        uint32_t best[2] = {0, 0};
        for (uint32_t i = 1; i < classes; i++) {
            best[0] = sp_field_is_less(own[best[0]].field, own[i].field) ? i : best[0];
            best[1] = own[best[1]].real < own[i].real ? i : best[1];
        }
        call->out[0]->items[row] = (struct sp_number){(uint64_t)labels->ints[best[0]], (double)labels->ints[best[1]]};
    }
    return status;
}

/* ai.onnx.ml's, with a row of coefficients for each of its labels, which are integers. */
static enum sp_status evaluate_classifier(struct sp_call *call)
{
    const struct sp_attribute *labels = sp_node_attribute(call->node, "classlabels_ints"),
                              *list = sp_node_attribute(call->node, "coefficients"),
                              *more = sp_node_attribute(call->node, "intercepts");
    const struct sp_numbers *x = sp_call_in(call, 0);
    const char *transform = sp_node_string(call->node, "post_transform", "NONE");
    struct sp_steps steps = {call, SP_OK};
    if (x == NULL || x->rank != 2 || !sp_dtype_is_float(x->dtype) || labels == NULL || labels->ints == NULL ||
        labels->count < 2 || list == NULL || (int64_t)list->count != x->axes[1].extent * labels->count ||
        (more != NULL && more->count != labels->count) || call->out_count < 2)
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *w = listed(&steps, "coefficients", SP_DTYPE_FLOAT, labels->count),
                            *b = listed(&steps, "intercepts", SP_DTYPE_FLOAT, 1);
    const struct sp_labelled operands[] = {{x, {M, K}}, {w, {N, K}}};
    struct sp_numbers *y = sp_step_product(&steps, &operands[0], &operands[1], 2, (const uint8_t[]){M, N});
    if (b != NULL)
        y = sp_step(&steps, y, b, sp_number_add);
    if (steps.status == SP_OK)
        steps.status = give_labels(call, y, labels);
    if (strcmp(transform, "LOGISTIC") == 0)
        y = sp_step_apply(&steps, y, "Sigmoid", sp_real_sigmoid);
    else if (strcmp(transform, "SOFTMAX") == 0)
        y = sp_step_softmax(&steps, y, 2);
    else if (strcmp(transform, "NONE") != 0)
        return sp_evaluate_by_rule(call);
    call->out[1] = y;
    return steps.status;
}

/* ai.onnx.ml's: what is left of each feature less its offset, times its scale. */
static enum sp_status evaluate_scaler(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *x = sp_call_in(call, 0), *offset = listed(&steps, "offset", SP_DTYPE_FLOAT, 1),
                            *factor = listed(&steps, "scale", SP_DTYPE_FLOAT, 1);
    if (x == NULL || !sp_dtype_is_float(x->dtype) || x->rank == 0 || offset == NULL || factor == NULL)
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *distance = sp_step(&steps, x, offset, sp_number_subtract);
    call->out[0] = sp_step(&steps, distance, factor, sp_number_multiply);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_products[] = {
    {"MatMul", evaluate_matmul},
    {"FusedMatMul", evaluate_matmul},
    {"TransposeMatMul", evaluate_matmul},
    {"Gemm", evaluate_gemm},
    {"Einsum", evaluate_einsum},
    {"LinearRegressor", evaluate_regressor},
    {"Scaler", evaluate_scaler},
    {"LinearClassifier", evaluate_classifier},
    {NULL, NULL},
};
