/* Tensors, where their data lie, and the indices of sparse ones. */
#include <string.h>

#include "check/graph_internal.h"
#include "onnx/wire.h"

#define INT64_DATA 7 /* field of TensorProto */

/* Where a tensor is: in a node's attribute or among a graph's initializers. */
static struct sp_finding finding_at(const char *code, const struct sp_graph *graph, const struct sp_node *node,
                                    const struct sp_tensor *tensor)
{
    return (struct sp_finding){
        .code = code, .node = node, .graph = graph, .tensor = tensor->name[0] == '\0' ? NULL : tensor->name};
}

/* Relative and without a way up. Backslashes separate too: what is one file here leads elsewhere on another system. */
static bool stays_inside(const char *location)
{
    const char *at = location;
    if (*at == '/' || *at == '\\')
        return false;
    if (((*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z')) && at[1] == ':')
        return false; /* a drive */
    while (*at != '\0') {
        const size_t length = strcspn(at, "/\\");
        if (length == 2 && at[0] == '.' && at[1] == '.')
            return false;
        at += length;
        at += *at == '\0' ? 0 : 1;
    }
    return true;
}

enum sp_status sp_check_tensor(struct sp_graph_check *check, const struct sp_graph *graph, const struct sp_node *node,
                               const struct sp_tensor *tensor)
{
    if (tensor->storage == SP_STORAGE_NONE && tensor->elements > 0) {
        struct sp_finding finding = finding_at("NO_TENSOR_DATA", graph, node, tensor);
        return sp_diagnose(check->list, &finding, check->err, "The tensor '%.120s' has %lld elements but no data.",
                           tensor->name, (long long)tensor->elements);
    }
    /* A location that begins with # names no file: the data are kept by the program itself. */
    const char *location = tensor->external.location;
    if (tensor->storage == SP_STORAGE_EXTERNAL && location[0] != '#' && !stays_inside(location)) {
        struct sp_finding finding = finding_at("EXTERNAL_DATA_PATH", graph, node, tensor);
        return sp_diagnose(check->list, &finding, check->err,
                           "The tensor '%.120s' is external at '%.200s', which is not below the model's folder.",
                           tensor->name, location);
    }
    return SP_OK;
}

/* ---- sparse tensors ------------------------------------------------------------------------------------------- */

/* The elements of an int64 tensor, one after the other, whatever their number. */
struct items {
    struct sp_span raw; /* what is left of raw data */
    struct sp_wire wire;
    struct sp_wire_field field;
    uint64_t left, at; /* of the occurrence in `field` */
};

static bool start_items(const struct sp_model *model, const struct sp_tensor *tensor, struct items *items)
{
    *items = (struct items){.raw = {0, 0}};
    if (tensor->storage == SP_STORAGE_RAW)
        items->raw = tensor->raw;
    else if (tensor->storage == SP_STORAGE_TYPED)
        items->wire = sp_wire_of(model->bytes, tensor->span);
    else
        return false; /* external, or reported as missing */
    return model->bytes != NULL;
}

static bool next_item(const struct sp_model *model, struct items *items, int64_t *ret_item)
{
    if (items->raw.size >= sizeof(int64_t)) {
        uint64_t bits = 0;
        for (uint32_t i = 0; i < sizeof bits; i++)
            bits |= (uint64_t)model->bytes[items->raw.offset + i] << (8 * i);
        items->raw.offset += sizeof bits;
        items->raw.size -= sizeof bits;
        *ret_item = (int64_t)bits;
        return true;
    }
    while (items->left == 0) {
        if (items->wire.bytes == NULL || sp_wire_next(&items->wire, &items->field, NULL) != SP_OK ||
            items->field.number == 0)
            return false;
        if (items->field.number != INT64_DATA)
            continue;
        if (sp_wire_count_items(model->bytes, &items->field, SP_WIRE_VARINT, &items->left, NULL) != SP_OK)
            return false;
        items->at = items->field.payload.offset;
    }
    items->left--;
    *ret_item = (int64_t)sp_wire_item(model->bytes, &items->field, SP_WIRE_VARINT, &items->at);
    return true;
}

/* The next entry's position in the whole tensor; false in *ret_inside when it lies outside. */
static bool next_position(const struct sp_model *model, const struct sp_sparse_tensor *sparse, struct items *items,
                          int64_t *ret_position, bool *ret_inside)
{
    const bool is_linear = sparse->indices->rank == 1;
    int64_t position = 0, elements = 1, index;
    bool inside = true;
    for (uint32_t i = 0; i < sparse->rank; i++)
        elements *= sparse->dims[i]; /* the reader has seen that it fits */
    for (uint32_t i = 0; i < (is_linear ? 1 : sparse->rank); i++) {
        const int64_t extent = is_linear ? elements : sparse->dims[i];
        if (!next_item(model, items, &index))
            return false;
        inside = inside && index >= 0 && index < extent;
        position = inside ? (is_linear ? index : position * extent + index) : 0;
    }
    *ret_position = position;
    *ret_inside = inside;
    return true;
}

static enum sp_status check_indices(struct sp_graph_check *check, const struct sp_graph *graph,
                                    const struct sp_node *node, const struct sp_sparse_tensor *sparse)
{
    struct items items;
    int64_t previous = -1, position;
    bool inside;
    if (!start_items(check->model, sparse->indices, &items))
        return SP_OK;
    for (int64_t i = 0; i < sparse->values->dims[0]; i++, previous = position) {
        if (!next_position(check->model, sparse, &items, &position, &inside))
            return SP_OK; /* the number of items was held against the dims when they were read */
        if (inside && position > previous)
            continue;
        struct sp_finding finding =
            finding_at(inside ? "SPARSE_INDEX_ORDER" : "SPARSE_INDEX_RANGE", graph, node, sparse->values);
        return sp_diagnose(check->list, &finding, check->err, "Entry %lld of the sparse tensor '%.120s' %s.",
                           (long long)i, sparse->values->name,
                           inside ? "does not stand behind the one before it" : "lies outside of its dims");
    }
    return SP_OK;
}

enum sp_status sp_check_sparse(struct sp_graph_check *check, const struct sp_graph *graph, const struct sp_node *node,
                               const struct sp_sparse_tensor *sparse)
{
    enum sp_status status = sp_check_tensor(check, graph, node, sparse->values);
    if (status == SP_OK)
        status = sp_check_tensor(check, graph, node, sparse->indices);
    return status == SP_OK ? check_indices(check, graph, node, sparse) : status;
}
