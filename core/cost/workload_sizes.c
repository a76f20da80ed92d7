#include "cost/workload_internal.h"

const char *sp_workload_shorten(const char *name, char *text, size_t size)
{
    size_t length = strnlen(name, size);
    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
            length--;
    }
    memcpy(text, name, length);
    text[length] = '\0';
    return text;
}

/* The symbol to bind for this dimension: rather one that the file names. NULL without memory. */
static const char *find_symbol(struct sp_arena *arena, struct sp_dims *dims, struct sp_dim dim, bool *ret_is_fresh)
{
    const char *found = NULL;
    bool *inside = SP_NEW_ARRAY(arena, sp_dims_symbol_count(dims), bool);
    if (inside == NULL)
        return NULL;
    sp_dim_mark(dim);
    sp_dims_take_marks(dims, inside);
    for (uint32_t i = 0; i < sp_dims_symbol_count(dims); i++) {
        const bool fresh = sp_dims_symbol_is_fresh(dims, i);
        if (!inside[i] || (found != NULL && (fresh || !*ret_is_fresh)))
            continue;
        found = sp_dims_symbol_name(dims, i);
        *ret_is_fresh = fresh;
    }
    return found;
}

static enum sp_status refuse_value(const struct sp_model *model, const struct sp_value *value, struct sp_error *err)
{
    char name[SP_WORKLOAD_TEXT_SIZE], symbol_text[SP_WORKLOAD_TEXT_SIZE];
    const char *symbol = NULL;
    bool fresh = false;

    (void)sp_workload_shorten(value->name, name, sizeof name);
    for (uint32_t i = 0; symbol == NULL && value->type.shape.has_rank && i < value->type.shape.rank; i++) {
        if (value->type.shape.dims[i].kind == SP_DIM_SYMBOLIC)
            symbol = find_symbol(model->arena, model->dims, value->type.shape.dims[i], &fresh);
    }
    if (symbol == NULL)
        (void)sp_fail(err, SP_ERR_MODEL, "SHAPE_UNKNOWN",
                      "The size of the value '%s' is not known: its type or shape could not be inferred; give it one "
                      "with --shape '%s=2,seq,64'.",
                      name, name);
    else if (fresh)
        (void)sp_fail(err, SP_ERR_MODEL, "DIMENSION_DEPENDS_ON_DATA",
                      "The size of the value '%s' depends on the data that flows through the model (dimension '%s'); "
                      "give it one with --dim %s=N.",
                      name, sp_workload_shorten(symbol, symbol_text, sizeof symbol_text), symbol_text);
    else
        (void)sp_fail(err, SP_ERR_MODEL, "DIMENSION_UNBOUND",
                      "The size of the value '%s' is not known: the dimension '%s' has no number; give it one with "
                      "--dim %s=N.",
                      name, sp_workload_shorten(symbol, symbol_text, sizeof symbol_text), symbol_text);
    return sp_error_at(err, "%s", name);
}

static int64_t value_bytes(const struct sp_work_tensor *tensor)
{
    const struct sp_value *value = tensor->value;
    if (value->tensor != NULL)
        return value->tensor->bytes;
    if (value->sparse != NULL && value->sparse->values != NULL && value->sparse->indices != NULL)
        return value->sparse->values->bytes + value->sparse->indices->bytes;
    return tensor->kind == SP_WORK_WEIGHT ? sp_value_stored_bytes(value) : sp_value_bytes(value);
}

static bool is_needed(const struct sp_work_tensor *tensor)
{
    return tensor->consumer_count > 0 || (tensor->is_output && tensor->kind != SP_WORK_WEIGHT);
}

static bool is_tensor(const struct sp_value *value)
{
    return value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_NONE;
}

/* What is no tensor, where nothing goes into it that says more: one tensor of its type, or nothing where that has no
   size. A map has a few words and numbers. */
static double container_bytes(const struct sp_type *type)
{
    while (type->elem != NULL && type->kind != SP_TYPE_MAP)
        type = type->elem;
    const int64_t elements =
        type->kind == SP_TYPE_TENSOR || type->kind == SP_TYPE_SPARSE_TENSOR ? sp_shape_estimate(&type->shape) : -1;
    const int64_t bytes = elements < 0 ? 0 : sp_dtype_bytes(type->dtype, elements);
    return bytes > 0 ? (double)bytes : 0;
}

static enum sp_status size_tensor(struct sp_workload *workload, const struct sp_model *model, uint32_t t,
                                  struct sp_error *err)
{
    struct sp_work_tensor *tensor = &workload->tensors[t];
    int64_t bytes = value_bytes(tensor);

    if (bytes < 0 && is_tensor(tensor->value) && is_needed(tensor))
        return refuse_value(model, tensor->value, err);
    tensor->bytes = bytes >= 0 ? (double)bytes : container_bytes(&tensor->value->type);
    return SP_OK;
}

/*
 * Whether a size that nobody tells comes of an operator without a rule, or is that of a sequence or a map: the value's
 * own, or that of what its node takes.
 */
static bool follows_unknown(const struct sp_workload *workload, const struct sp_work_node *node, uint32_t output,
                            const bool *is_guessed)
{
    const struct sp_node *producer = workload->tensors[output].value->producer;
    bool result = (producer != NULL && producer->op == NULL && producer->body == NULL) ||
                  !is_tensor(workload->tensors[output].value);
    for (uint32_t i = 0; !result && i < node->input_count; i++)
        result = is_guessed[node->inputs[i]];
    return result;
}

/* What a sequence or a map is taken to have: all that goes into it. A tensor that nobody tells: the largest of that. */
static double guess_bytes(const struct sp_workload *workload, const struct sp_work_node *node, bool is_tensor)
{
    double largest = 0, sum = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        double bytes = workload->tensors[node->inputs[i]].bytes;
        largest = bytes > largest ? bytes : largest;
        sum += bytes;
    }
    return is_tensor ? largest : sum;
}

static enum sp_status size_outputs(struct sp_workload *workload, const struct sp_model *model,
                                   const struct sp_work_node *node, bool *is_guessed, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        uint32_t t = node->outputs[i];
        struct sp_work_tensor *tensor = &workload->tensors[t];
        bool is_open = value_bytes(tensor) < 0 && is_needed(tensor);
        is_guessed[t] = is_open && follows_unknown(workload, node, t, is_guessed);
        if (is_guessed[t])
            tensor->bytes = guess_bytes(workload, node, is_tensor(tensor->value));
        else
            status = size_tensor(workload, model, t, err);
    }
    return status;
}

static bool add_up_weights(struct sp_workload *workload)
{
    struct sp_arena_mark mark = sp_arena_mark(workload->arena);
    bool *counted = SP_NEW_ARRAY(workload->arena, workload->tensor_count, bool);

    if (counted == NULL)
        return false;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        uint32_t root = tensor->alias_of == SP_NO_WORK ? t : tensor->alias_of;
        if (tensor->kind != SP_WORK_WEIGHT || tensor->consumer_count == 0 || counted[root])
            continue;
        counted[root] = true;
        workload->weight_bytes += workload->tensors[root].bytes;
    }
    sp_arena_rewind(workload->arena, mark);
    return true;
}

enum sp_status sp_workload_size_tensors(struct sp_workload *workload, const struct sp_model *model,
                                        struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(workload->arena);
    bool *is_guessed = SP_NEW_ARRAY(workload->arena, workload->tensor_count, bool);
    enum sp_status status = is_guessed != NULL ? SP_OK : sp_fail_memory(err);

    for (uint32_t t = 0; status == SP_OK && t < workload->tensor_count; t++) {
        if (workload->tensors[t].producer != SP_NO_WORK)
            continue;
        status = size_tensor(workload, model, t, err);
        is_guessed[t] = !is_tensor(workload->tensors[t].value);
    }
    for (uint32_t n = 0; status == SP_OK && n < workload->node_count; n++)
        status = size_outputs(workload, model, &workload->nodes[n], is_guessed, err);
    sp_arena_rewind(workload->arena, mark);
    if (status == SP_OK && !add_up_weights(workload))
        status = sp_fail_memory(err);
    return status;
}
