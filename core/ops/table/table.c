#include <assert.h>
#include <pthread.h>

#include "base/sorted.h"
#include "ops/table/families.h"

/* One family a line, in the order in which sp_op_all() lists them. */
/* clang-format off */
static const struct sp_op *const families[] = {
    sp_ops_shape,
    sp_ops_reshape,
    sp_ops_movement,
    sp_ops_pad,
    sp_ops_slice,
    sp_ops_indexing,
    sp_ops_scatter,
    sp_ops_casting,
    sp_ops_unary,
    sp_ops_elementwise,
    sp_ops_contraction,
    sp_ops_einsum,
    sp_ops_convolution,
    sp_ops_pooling,
    sp_ops_normalization,
    sp_ops_reduction,
    sp_ops_recurrent,
    sp_ops_selection,
    sp_ops_image,
    sp_ops_rotary,
    sp_ops_attention,
    sp_ops_quantization,
    sp_ops_loss,
    sp_ops_random,
    sp_ops_string,
    sp_ops_ml_features,
    sp_ops_ml_models,
    sp_ops_ml_maps,
    sp_ops_training,
    sp_ops_linear_attention,
    sp_ops_contrib_attention,
    sp_ops_contrib_group_attention,
    sp_ops_contrib_decoding,
    sp_ops_contrib_gates,
    sp_ops_contrib_quantized_matmul,
    sp_ops_contrib_gather,
    sp_ops_contrib_text,
    sp_ops_searches,
    sp_ops_moe,
    sp_ops_contrib_matmul,
    sp_ops_contrib_quantization,
    sp_ops_contrib_tensors,
    sp_ops_qonnx,
    sp_ops_experimental,
    sp_ops_contrib_convolution,
    sp_ops_nchwc,
    sp_ops_contrib_normalization,
    sp_ops_contrib_activation,
    sp_ops_distributed,
    sp_ops_control,
    sp_ops_sequence,
    sp_ops_optional,
    sp_ops_spatial,
    sp_ops_sampling,
    sp_ops_deformable,
    sp_ops_signal,
    sp_ops_matrix,
    sp_ops_dynamic,
    sp_ops_time,
};
/* clang-format on */

#define MAX_ENTRIES 1024

/* Built once, by whoever asks first, and read-only from then on. */
static pthread_once_t built = PTHREAD_ONCE_INIT;
static const struct sp_op *in_order[MAX_ENTRIES];
static const struct sp_op *by_name[MAX_ENTRIES];
static uint32_t entry_count;

static int compare_name(const char *domain, const char *name, const struct sp_op *op)
{
    int order = strcmp(name, op->name);
    return order != 0 ? order : strcmp(domain, op->domain);
}

static int compare_entries(const void *a, const void *b)
{
    const struct sp_op *left = *(const struct sp_op *const *)a, *right = *(const struct sp_op *const *)b;
    int order = compare_name(left->domain, left->name, right);
    if (order != 0)
        return order;
    return (left->since > right->since) - (left->since < right->since);
}

static void build(void)
{
    for (size_t family = 0; family < sizeof families / sizeof families[0]; family++) {
        for (const struct sp_op *op = families[family]; op->name != NULL; op++) {
            assert(entry_count < MAX_ENTRIES);
            in_order[entry_count++] = op;
            bool is_fine = op->rule != NULL || sp_rule_text_parse(op->text, op->read);
            assert(is_fine);
            (void)is_fine;
        }
    }
    memcpy(by_name, in_order, entry_count * sizeof by_name[0]);
    qsort(by_name, entry_count, sizeof by_name[0], compare_entries);
}

const char *sp_op_domain(const char *domain)
{
    if (strcmp(domain, "ai.onnx") == 0)
        return "";
    return strcmp(domain, "com.microsoft.extensions") == 0 ? "ai.onnx.contrib" : domain;
}

const struct sp_op *sp_op_find(const char *domain, const char *name, int64_t version)
{
    (void)pthread_once(&built, build);
    domain = sp_op_domain(domain);
    uint32_t at; /* the first entry that is not before (domain, name) */
    SP_LOWER_BOUND(at, entry_count, compare_name(domain, name, by_name[at]) > 0);
    for (; at < entry_count && compare_name(domain, name, by_name[at]) == 0; at++) {
        if (sp_op_has_version(by_name[at], version))
            return by_name[at];
    }
    return NULL;
}

const struct sp_op *const *sp_op_all(uint32_t *ret_count)
{
    (void)pthread_once(&built, build);
    *ret_count = entry_count;
    return in_order;
}
