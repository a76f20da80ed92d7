/* The kinds of kernels that are measured: what a node of each is, and which class of a device's figures it tells of. */
#include "calibrate/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define DIMS(...)         ((struct sp_kernel_dims){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})
#define WEIGHT(type, ...) ((struct sp_kernel_term){SP_TERM_WEIGHT, type, DIMS(__VA_ARGS__)})
#define INPUT(type, ...)  ((struct sp_kernel_term){SP_TERM_INPUT, type, DIMS(__VA_ARGS__)})

/* Sizes m, k, n. Of int8: the activations are unsigned, as ONNX Runtime's quantiser makes them for processors. */
static void product_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    static const struct sp_kernel_term scale = {SP_TERM_SCALE, SP_DTYPE_FLOAT, {0}},
                                       zero = {SP_TERM_ZERO, SP_DTYPE_UINT8, {0}},
                                       zero_of_weights = {SP_TERM_ZERO, SP_DTYPE_INT8, {0}};
    form->op = "MatMul";
    form->x = DIMS(s[0], s[1]);
    form->y = DIMS(s[0], s[2]);
    form->terms[0] = WEIGHT(dtype, s[1], s[2]);
    if (dtype != SP_DTYPE_INT8)
        return;
    form->op = "QLinearMatMul";
    form->dtype = SP_DTYPE_UINT8;
    form->terms[2] = form->terms[0];
    form->terms[0] = form->terms[3] = form->terms[5] = scale;
    form->terms[1] = form->terms[6] = zero;
    form->terms[4] = zero_of_weights;
}

/* Sizes b, m, k, n: what attention multiplies where it is written out. */
static void batched_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    form->op = "MatMul";
    form->x = DIMS(s[0], s[1], s[2]);
    form->terms[0] = INPUT(dtype, s[0], s[2], s[3]);
    form->y = DIMS(s[0], s[1], s[3]);
}

/* Sizes n, h, c, o, k: square maps and kernels, stride 1, as large a result. */
static void convolution_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    const long long before = (long long)(s[4] - 1) / 2, behind = (long long)s[4] / 2;
    form->op = "Conv";
    form->x = DIMS(s[0], s[2], s[1], s[1]);
    form->terms[0] = WEIGHT(dtype, s[3], s[2], s[4], s[4]);
    form->y = DIMS(s[0], s[3], s[1], s[1]);
    (void)snprintf(form->attributes, sizeof form->attributes, "\"pads\": [%lld, %lld, %lld, %lld]", before, before,
                   behind, behind);
}

static void unary_form(const int64_t *s, struct sp_kernel_form *form, const char *op)
{
    form->op = op;
    form->x = form->y = DIMS(s[0]);
}

static void relu_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    (void)dtype;
    unary_form(s, form, "Relu");
}

static void exp_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    (void)dtype;
    unary_form(s, form, "Exp");
}

static void erf_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    (void)dtype;
    unary_form(s, form, "Erf");
}

static void tanh_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    (void)dtype;
    unary_form(s, form, "Tanh");
}

static void add_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    unary_form(s, form, "Add");
    form->terms[0] = INPUT(dtype, s[0]);
}

/* Sizes: rows, columns. Operators of different kinds in turn, as models have them: some of one operand, some with a row
   or one number for all. */
static void launch_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    static const char *const ops[] = {"Add", "Relu", "Mul", "Neg", "Sub", "Abs", "Div", "Sign"};
    const uint32_t op = form->copy % (sizeof ops / sizeof ops[0]);
    form->op = ops[op];
    form->x = form->y = DIMS(s[0], s[1]);
    if (op % 4 == 0)
        form->terms[0] = WEIGHT(dtype, s[1]);
    else if (op % 4 == 2)
        form->terms[0] = WEIGHT(dtype, 1);
}

/* Sizes: rows, columns. One row is added to all, as biases are. */
static void bias_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    form->op = "Add";
    form->x = form->y = DIMS(s[0], s[1]);
    form->terms[0] = WEIGHT(dtype, s[1]);
}

static void mean_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    (void)dtype;
    form->op = "ReduceMean";
    form->x = DIMS(s[0], s[1]);
    form->y = DIMS(s[0], 1);
    form->terms[0] = (struct sp_kernel_term){SP_TERM_LAST_AXIS, SP_DTYPE_INT64, DIMS(1)};
}

static void concat_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    form->op = "Concat";
    form->x = DIMS(1, s[0]);
    form->terms[0] = INPUT(dtype, 1, s[0]);
    form->y = DIMS(2, s[0]);
    (void)snprintf(form->attributes, sizeof form->attributes, "\"axis\": 0");
}

/* Sizes: rows, columns. */
static void norm_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    form->op = "LayerNormalization";
    form->x = form->y = DIMS(s[0], s[1]);
    form->terms[0] = form->terms[1] = WEIGHT(dtype, s[1]);
}

static void softmax_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    (void)dtype;
    form->op = "Softmax";
    form->x = form->y = DIMS(s[0], s[1]);
}

/* Sizes b, s, h, d: heads of attention behind each other. */
static void transpose_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    (void)dtype;
    form->op = "Transpose";
    form->x = DIMS(s[0], s[1], s[2], s[3]);
    form->y = DIMS(s[0], s[2], s[1], s[3]);
    (void)snprintf(form->attributes, sizeof form->attributes, "\"perm\": [0, 2, 1, 3]");
}

/* Sizes b, h, s, d. */
static void prefill_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    form->op = "Attention";
    form->x = form->y = DIMS(s[0], s[1], s[2], s[3]);
    form->terms[0] = form->terms[1] = INPUT(dtype, s[0], s[1], s[2], s[3]);
    (void)snprintf(form->attributes, sizeof form->attributes, "\"is_causal\": 1");
}

/* Sizes b, h, kv, keys, d: one query of each sequence. */
static void decode_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    form->op = "Attention";
    form->x = form->y = DIMS(s[0], s[1], 1, s[4]);
    form->terms[0] = form->terms[1] = INPUT(dtype, s[0], s[2], s[3], s[4]);
}

/* Sizes: ranks, bytes; of an all-gather those of the result. As the target ort-collectives writes them. */
static void collective_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form, const char *op)
{
    const int64_t size = sp_dtype_bits(dtype) / 8, count = s[1] / (size > 0 ? size : 1) / s[0];
    form->op = op;
    form->domain = "com.microsoft";
    form->x = DIMS(s[0], count > 0 ? count : 1);
    form->y = form->x;
    (void)snprintf(form->attributes, sizeof form->attributes, "\"group_size\": %lld", (long long)s[0]);
}

static void all_reduce_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    collective_form(s, dtype, form, "AllReduce");
    form->attributes[0] = '\0';
}

static void all_gather_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    collective_form(s, dtype, form, "AllGather");
    form->x.dims[0] = 1;
}

static void all_to_all_form(const int64_t *s, enum sp_dtype dtype, struct sp_kernel_form *form)
{
    collective_form(s, dtype, form, "AllToAll");
}

static const struct sp_kernel_kind kinds[] = {
    {"product", "m x k x n", SP_GROUP_PRODUCTS, 3, 1, true, 0, product_form},
    {"batched", "b x m x k x n", SP_GROUP_PRODUCTS, 4, 0, true, 0, batched_form},
    {"convolution", "n x h x c x o x k", SP_GROUP_PRODUCTS, 5, 2, true, 0, convolution_form},
    {"add", "elements", SP_GROUP_OTHER, 1, 0, true, 0, add_form},
    {"launch", "rows x columns", SP_GROUP_OTHER, 2, 0, true, 0, launch_form},
    {"relu", "elements", SP_GROUP_OTHER, 1, 0, true, 0, relu_form},
    {"exp", "elements", SP_GROUP_OTHER, 1, 0, true, 0, exp_form},
    {"erf", "elements", SP_GROUP_OTHER, 1, 0, true, 0, erf_form},
    {"tanh", "elements", SP_GROUP_OTHER, 1, 0, true, 0, tanh_form},
    {"norm", "rows x columns", SP_GROUP_OTHER, 2, 0, true, 0, norm_form},
    {"softmax", "rows x columns", SP_GROUP_OTHER, 2, 0, true, 0, softmax_form},
    {"bias", "rows x columns", SP_GROUP_OTHER, 2, 0, true, 0, bias_form},
    {"mean", "rows x columns", SP_GROUP_OTHER, 2, 0, false, 0, mean_form},
    {"concat", "elements of each", SP_GROUP_OTHER, 1, 0, false, 0, concat_form},
    {"transpose", "b x s x h x d", SP_GROUP_OTHER, 4, 0, false, 0, transpose_form},
    {"prefill", "b x h x s x d", SP_GROUP_PREFILL, 4, 0, true, 0, prefill_form},
    {"decode", "b x h x kv x keys x d", SP_GROUP_DECODE, 5, 0, true, 0, decode_form},
    {"all_reduce", "ranks x bytes", SP_GROUP_COLLECTIVES, 2, 0, true, SP_DEVICE_ALL_REDUCE, all_reduce_form},
    {"all_gather", "ranks x bytes", SP_GROUP_COLLECTIVES, 2, 0, false, SP_DEVICE_ALL_GATHER, all_gather_form},
    {"reduce_scatter", "ranks x bytes", SP_GROUP_COLLECTIVES, 2, 0, false, SP_DEVICE_REDUCE_SCATTER, NULL},
    {"all_to_all", "ranks x bytes", SP_GROUP_COLLECTIVES, 2, 0, true, SP_DEVICE_ALL_TO_ALL, all_to_all_form},
};

const struct sp_kernel_kind *sp_kernel_kinds(uint32_t *ret_count)
{
    *ret_count = sizeof kinds / sizeof kinds[0];
    return kinds;
}

const struct sp_kernel_kind *sp_kernel_kind_find(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i].name) == size && memcmp(kinds[i].name, name, size) == 0)
            return &kinds[i];
    }
    return NULL;
}

/* ---- names --------------------------------------------------------------------------------------------------------
 */

static bool read_sizes(const char *text, size_t size, struct sp_kernel_key *key)
{
    size_t at = 0;
    for (uint32_t i = 0; i < key->kind->size_count; i++) {
        int64_t value = 0;
        const size_t start = at;
        for (; at < size && text[at] >= '0' && text[at] <= '9' && value < SP_KERNEL_EXTENT; at++)
            value = value * 10 + (text[at] - '0');
        if (at == start || value < 1 || value > SP_KERNEL_EXTENT)
            return false;
        key->sizes[i] = value;
        if (i + 1 < key->kind->size_count && (at >= size || text[at++] != 'x'))
            return false;
    }
    return at == size;
}

static bool read_key(const char *const *texts, const size_t *lengths, struct sp_kernel_key *ret_key)
{
    char dtype[32];
    struct sp_kernel_key key = {.kind = sp_kernel_kind_find(texts[0], lengths[0])};
    if (key.kind == NULL || lengths[1] >= sizeof dtype)
        return false;
    memcpy(dtype, texts[1], lengths[1]);
    dtype[lengths[1]] = '\0';
    key.dtype = sp_dtype_parse(dtype);
    if (key.dtype == SP_DTYPE_UNDEFINED || sp_dtype_bits(key.dtype) < 8 || !read_sizes(texts[2], lengths[2], &key))
        return false;
    *ret_key = key;
    return true;
}

bool sp_kernel_key_read(const char *kind, const char *dtype, const char *sizes, struct sp_kernel_key *ret_key)
{
    const char *const texts[] = {kind, dtype, sizes};
    const size_t lengths[] = {strlen(kind), strlen(dtype), strlen(sizes)};
    return read_key(texts, lengths, ret_key);
}

bool sp_kernel_key_of_name(const char *name, size_t size, struct sp_kernel_key *ret_key)
{
    const char *end = memchr(name, '#', size), *texts[3];
    size_t lengths[3] = {0}, at = 0;
    size = end != NULL ? (size_t)(end - name) : size;
    for (uint32_t part = 0; part < 3; part++) {
        const char *dot = part < 2 ? memchr(name + at, '.', size - at) : name + size;
        if (dot == NULL)
            return false;
        texts[part] = name + at;
        lengths[part] = (size_t)(dot - texts[part]);
        at += lengths[part] + 1;
    }
    return read_key(texts, lengths, ret_key);
}

void sp_kernel_key_write(const struct sp_kernel_key *key, char *text, size_t size)
{
    int at = snprintf(text, size, "%s.%s.", key->kind->name, sp_dtype_name(key->dtype));
    for (uint32_t i = 0; i < key->kind->size_count && at >= 0 && (size_t)at < size; i++)
        at += snprintf(text + at, size - (size_t)at, "%s%lld", i > 0 ? "x" : "", (long long)key->sizes[i]);
}

void sp_kernel_turn(struct sp_kernel_key *key, uint32_t copy)
{
    const int first = key->kind->turns;
    if (first == 0 || copy % 2 == 0)
        return;
    const int64_t kept = key->sizes[first];
    key->sizes[first] = key->sizes[first + 1];
    key->sizes[first + 1] = kept;
}
