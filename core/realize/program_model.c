#include <string.h>

#include "onnx/writer.h"
#include "realize/program.h"
#include "realize/protobuf_fields.h"

#define MIN_IR_VERSION    4 /* weights need not be inputs */
#define IR_WITH_FUNCTIONS 8
#define IR_WITH_OPTIONALS 8
#define MAX_MESSAGE_BYTES 2147483647 /* of protobuf */

void sp_program_put_opsets(const struct sp_program *program, struct sp_recipe *out, uint32_t field)
{
    for (uint32_t i = 0; i < sp_intern_count(program->opsets); i++) {
        const char *domain = sp_intern_name(program->opsets, i);
        const int64_t *version = *sp_intern_mark(domain);
        sp_recipe_clear(program->message);
        if (domain[0] != '\0')
            sp_put_text(program->message, 1, domain);
        sp_put_int(program->message, 2, *version);
        sp_put_message(out, field, program->message);
    }
}

/* The original's, but for what Shardplan itself says of a file. */
static void put_metadata(const struct sp_program *program, struct sp_recipe *out)
{
    const struct sp_model *model = program->model;
    for (uint32_t i = 0; i < model->metadata_count; i++) {
        if (strcmp(model->metadata[i].key, SP_WRITER_METADATA_KEY) != 0 &&
            strcmp(model->metadata[i].key, SP_MANIFEST_KEY) != 0)
            sp_put_entry(out, SP_MODEL_METADATA_PROPS, model->metadata[i].key, model->metadata[i].value);
    }
    if (program->fingerprint != NULL)
        sp_put_entry(out, SP_MODEL_METADATA_PROPS, SP_MANIFEST_KEY, program->fingerprint);
}

/* The original's, without the annotations that raised it. Who annotated a model in another way left no record of that:
   then the least that its types and functions need, as a runtime refuses what is newer than it is. */
static int64_t ir_version_of(const struct sp_model *model)
{
    const int64_t original = sp_onnx_original_ir_version(model);
    int64_t least = model->function_count > 0 ? IR_WITH_FUNCTIONS : MIN_IR_VERSION;
    if (original < SP_MULTI_DEVICE_IR_VERSION || model->configuration_count == 0)
        return original > MIN_IR_VERSION ? original : MIN_IR_VERSION;
    for (uint32_t i = 0; i < model->graph->value_count; i++) {
        const struct sp_type *type = &model->graph->values[i]->type;
        const int64_t first = type->kind == SP_TYPE_OPTIONAL ? IR_WITH_OPTIONALS : sp_dtype_ir_version(type->dtype);
        least = first > least ? first : least;
    }
    return least < original ? least : original;
}

enum sp_status sp_program_finish(struct sp_program *program, const struct sp_recipe *interface, const char *name,
                                 struct sp_recipe **ret_recipe, struct sp_error *err)
{
    const struct sp_model *model = program->model;
    struct sp_recipe *out = sp_recipe_create(), *head = sp_recipe_create();
    enum sp_status status = out == NULL || head == NULL ? sp_fail_memory(err) : SP_OK;
    if (status != SP_OK)
        goto done;
    sp_put_text(head, SP_PUT_GRAPH_NAME, name[0] == '\0' ? "graph" : name);
    const struct sp_recipe *const parts[] = {program->nodes, head, program->initializers, interface};
    uint64_t size = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        size += sp_recipe_size(parts[i]);
    const int64_t ir_version = ir_version_of(model),
                  least = program->function != NULL ? IR_WITH_FUNCTIONS : MIN_IR_VERSION;
    sp_put_int(out, SP_MODEL_IR_VERSION, ir_version > least ? ir_version : least);
    sp_put_text(out, SP_MODEL_PRODUCER_NAME, "shardplan");
    sp_put_head(out, SP_MODEL_GRAPH, size);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        (void)sp_recipe_append(out, parts[i]);
    sp_program_put_opsets(program, out, SP_MODEL_OPSET_IMPORT);
    put_metadata(program, out);
    if (program->function != NULL)
        sp_put_message(out, SP_MODEL_FUNCTIONS, program->function);
    for (uint32_t i = 0; status == SP_OK && program->encoder.has_calls && i < model->function_count; i++)
        status = sp_encode_function(model, out, &model->functions[i], err);
    if (status == SP_OK)
        status = sp_recipe_status(out, err);
    if (status == SP_OK && sp_recipe_size(out) > MAX_MESSAGE_BYTES)
        status = sp_fail(err, SP_ERR_UNSUPPORTED, "MODEL_TOO_LARGE",
                         "The written model would be larger than 2 GiB, which an ONNX file cannot be; ask for its "
                         "weights in a file of their own.");
done:
    sp_recipe_destroy(head);
    if (status == SP_OK)
        *ret_recipe = out;
    else
        sp_recipe_destroy(out);
    return status;
}
