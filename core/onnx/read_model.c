#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "onnx/read.h"

/* Field numbers of ModelProto. */
enum {
    IR_VERSION = 1,
    PRODUCER_NAME = 2,
    PRODUCER_VERSION = 3,
    DOMAIN = 4,
    MODEL_VERSION = 5,
    DOC_STRING = 6,
    GRAPH = 7,
    OPSET_IMPORT = 8,
    METADATA_PROPS = 14,
    TRAINING_INFO = 20,
    FUNCTIONS = 25,
    CONFIGURATION = 26
};

/* How often the repeated fields occur: arrays are allocated once, at their size. */
struct counts {
    uint64_t opsets, metadata, functions, configurations, training;
};

static enum sp_status count_fields(struct sp_reader *r, struct sp_span span, struct counts *counts)
{
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        switch (field.number) {
        case OPSET_IMPORT:
            status = sp_reader_count(r, &counts->opsets, 1, "SP_MAX_METADATA", SP_MAX_METADATA, "operator sets");
            break;
        case METADATA_PROPS:
            status = sp_reader_count(r, &counts->metadata, 1, "SP_MAX_METADATA", SP_MAX_METADATA, "metadata entries");
            break;
        case FUNCTIONS:
            status = sp_reader_count(r, &counts->functions, 1, "SP_MAX_FUNCTIONS", SP_MAX_FUNCTIONS, "functions");
            break;
        case CONFIGURATION:
            status = sp_reader_count(r, &counts->configurations, 1, "SP_MAX_METADATA", SP_MAX_METADATA,
                                     "device configurations");
            break;
        case TRAINING_INFO:
            status = sp_reader_count(r, &counts->training, 1, "SP_MAX_METADATA", SP_MAX_METADATA, "training records");
            break;
        default:
            break;
        }
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status allocate(struct sp_reader *r, const struct counts *counts)
{
    struct sp_model *model = r->model;
    model->opsets = SP_NEW_ARRAY(r->arena, counts->opsets, struct sp_opset);
    model->metadata = SP_NEW_ARRAY(r->arena, counts->metadata, struct sp_metadata);
    model->functions = SP_NEW_ARRAY(r->arena, counts->functions, struct sp_function);
    model->configurations = SP_NEW_ARRAY(r->arena, counts->configurations, struct sp_device_configuration);
    if (model->opsets == NULL || model->metadata == NULL || model->functions == NULL || model->configurations == NULL)
        return sp_fail_memory(r->err);
    return SP_OK;
}

/* Text that may be long and is only shown: cut, not refused. What is no UTF-8 is left out. */
static enum sp_status read_prose(struct sp_reader *r, const struct sp_wire_field *field, size_t limit,
                                 const char **ret_text)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    if (status != SP_OK)
        return status;
    const char *bytes = (const char *)r->bytes + field->payload.offset;
    size_t size = sp_utf8_cut(bytes, field->payload.size, limit);
    *ret_text = sp_utf8_valid(bytes, size) ? sp_arena_string(r->arena, bytes, size) : "";
    return *ret_text == NULL ? sp_fail_memory(r->err) : SP_OK;
}

static enum sp_status read_metadata(struct sp_reader *r, const struct sp_wire_field *outer, struct sp_metadata *entry)
{
    struct sp_wire wire = sp_wire_of(r->bytes, outer->payload);
    struct sp_wire_field field;
    enum sp_status status = sp_reader_message(r, outer);
    entry->key = entry->value = "";
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == 1)
            status = sp_reader_text(r, &field, &entry->key);
        else if (field.number == 2)
            status = read_prose(r, &field, SP_MAX_RECORD_BYTES, &entry->value);
        else
            status = sp_reader_unknown(r, &field);
    }
    return status;
}

static enum sp_status read_opset_import(struct sp_reader *r, const struct sp_wire_field *field)
{
    struct sp_model *model = r->model;
    enum sp_status status = sp_reader_message(r, field);
    if (status == SP_OK)
        status = sp_read_opset(r, field->payload, &model->opsets[model->opset_count]);
    if (status == SP_OK)
        model->opset_count++;
    return status;
}

static enum sp_status read_configuration(struct sp_reader *r, const struct sp_wire_field *field)
{
    struct sp_model *model = r->model;
    enum sp_status status = sp_reader_message(r, field);
    if (status == SP_OK)
        status = sp_read_device_configuration(r, field->payload, &model->configurations[model->configuration_count]);
    if (status == SP_OK)
        model->configuration_count++;
    return status;
}

static enum sp_status read_function(struct sp_reader *r, const struct sp_wire_field *field)
{
    struct sp_model *model = r->model;
    enum sp_status status = sp_reader_message(r, field);
    if (status == SP_OK)
        status = sp_read_function(r, field->payload, &model->functions[model->function_count]);
    if (status == SP_OK)
        model->function_count++;
    return status;
}

static enum sp_status read_field(struct sp_reader *r, const struct sp_wire_field *field, struct sp_span *graph,
                                 bool *has_graph)
{
    struct sp_model *model = r->model;
    enum sp_status status;
    switch (field->number) {
    case IR_VERSION:
        model->has_ir_version = true;
        return sp_reader_int(r, field, &model->ir_version);
    case PRODUCER_NAME:
        return read_prose(r, field, SP_MAX_NAME_BYTES, &model->producer_name);
    case PRODUCER_VERSION:
        return read_prose(r, field, SP_MAX_NAME_BYTES, &model->producer_version);
    case DOMAIN:
        return read_prose(r, field, SP_MAX_NAME_BYTES, &model->domain);
    case MODEL_VERSION:
        return sp_reader_int(r, field, &model->model_version);
    case DOC_STRING:
        return read_prose(r, field, SP_MAX_NAME_BYTES, &model->doc);
    case GRAPH:
        status = sp_reader_single(r, field, has_graph);
        *graph = field->payload;
        return status;
    case OPSET_IMPORT:
        return read_opset_import(r, field);
    case METADATA_PROPS:
        return read_metadata(r, field, &model->metadata[model->metadata_count++]);
    case TRAINING_INFO:
        model->training_count++;
        return sp_reader_message(r, field);
    case FUNCTIONS:
        return read_function(r, field);
    case CONFIGURATION:
        return read_configuration(r, field);
    default:
        return sp_reader_unknown(r, field);
    }
}

static int by_domain(const void *left, const void *right)
{
    const struct sp_opset *a = left, *b = right;
    int order = strcmp(a->domain, b->domain);
    return order != 0 ? order : (a->version > b->version) - (a->version < b->version);
}

/* One domain with two versions would leave open what its operators mean; the same version twice does no harm. */
static enum sp_status check_opsets(struct sp_reader *r)
{
    const struct sp_model *model = r->model;
    struct sp_arena_mark mark = sp_arena_mark(r->scratch);
    struct sp_opset *sorted = SP_NEW_ARRAY(r->scratch, model->opset_count, struct sp_opset);
    enum sp_status status = sorted == NULL ? sp_fail_memory(r->err) : SP_OK;
    for (uint32_t i = 0; sorted != NULL && i < model->opset_count; i++)
        sorted[i] = model->opsets[i];
    if (sorted != NULL)
        qsort(sorted, model->opset_count, sizeof *sorted, by_domain);
    for (uint32_t i = 1; status == SP_OK && i < model->opset_count; i++) {
        if (strcmp(sorted[i - 1].domain, sorted[i].domain) == 0 && sorted[i - 1].version != sorted[i].version)
            status = sp_fail(r->err, SP_ERR_MODEL, "DUPLICATE_OPSET",
                             "The model imports operator set '%.80s' twice, in versions %" PRId64 " and %" PRId64 ".",
                             sorted[i].domain, sorted[i - 1].version, sorted[i].version);
    }
    sp_arena_rewind(r->scratch, mark);
    return status;
}

static enum sp_status check_model(struct sp_reader *r, bool has_graph)
{
    const struct sp_model *model = r->model;
    if (!has_graph) {
        sp_fail(r->err, SP_ERR_MALFORMED, "NO_GRAPH",
                "The input is protobuf without a graph: it is no ONNX model, or it is cut off.");
        sp_error_at(r->err, "byte %" PRIu64, model->size);
        return SP_ERR_MALFORMED;
    }
    if (model->ir_version < 0 || model->ir_version > INT32_MAX)
        return sp_fail(r->err, SP_ERR_MODEL, "BAD_IR_VERSION", "The model's ir_version %" PRId64 " is out of range.",
                       model->ir_version);
    return check_opsets(r);
}

enum sp_status sp_read_model(struct sp_reader *r, struct sp_span *ret_graph)
{
    struct sp_span whole = {0, r->model->size};
    struct sp_wire wire = sp_wire_of(r->bytes, whole);
    struct sp_wire_field field;
    struct counts counts = {0};
    bool has_graph = false;
    enum sp_status status = count_fields(r, whole, &counts);
    if (status == SP_OK)
        status = allocate(r, &counts);
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0)
        status = read_field(r, &field, ret_graph, &has_graph);
    if (status == SP_OK)
        status = check_model(r, has_graph);
    return status == SP_OK ? sp_sort_functions(r) : status;
}
