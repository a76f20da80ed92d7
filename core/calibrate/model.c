/*
 * Models of one kind of kernel: x -> node -> node -> .. -> the last node's result, or, where a node cannot take what
 * the one before it makes, one node alone. Described as a tensor graph (json/json.h), of which the ONNX file is made.
 */
#include "calibrate/internal.h"

#include <stdio.h>

#include "cost/kernel_work.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "ops/table/op.h"
#include "json/json.h"

#define OPSET            23 /* the first with Attention */
#define MAX_COPIES       4096
#define MAX_MODEL_BYTES  ((size_t)16 << 20)
#define MAX_MODEL_MEMORY ((size_t)256 << 20)
#define MAX_NAME         128

struct chain {
    struct sp_kernel_key key;
    uint32_t copies;
    struct sp_json *json;
    double weight_bytes;
    bool is_too_large;
};

static void form_of(const struct chain *chain, uint32_t copy, struct sp_kernel_form *form)
{
    struct sp_kernel_key key = chain->key;
    sp_kernel_turn(&key, copy);
    *form = (struct sp_kernel_form){.op = "", .domain = "", .dtype = key.dtype, .copy = copy};
    key.kind->form(key.sizes, key.dtype, form);
}

static double bytes_of(const struct sp_kernel_dims *dims, enum sp_dtype dtype)
{
    double bytes = sp_dtype_bits(dtype) / 8.0;
    for (uint32_t i = 0; i < dims->rank; i++)
        bytes *= (double)dims->dims[i];
    return bytes;
}

static void name_of_node(const struct chain *chain, uint32_t copy, char *name)
{
    struct sp_kernel_key key = chain->key;
    char text[MAX_NAME - 16];
    sp_kernel_turn(&key, copy);
    sp_kernel_key_write(&key, text, sizeof text);
    (void)snprintf(name, MAX_NAME, "%s#%u", text, copy);
}

/* "w3_0": of node 3; "y0": of all. */
static void name_of_term(const struct sp_kernel_form *form, uint32_t copy, uint32_t term, char *name)
{
    if (form->terms[term].kind == SP_TERM_INPUT)
        (void)snprintf(name, MAX_NAME, "y%u", term);
    else
        (void)snprintf(name, MAX_NAME, "w%u_%u", copy, term);
}

/* {"name", "dtype", "shape"}, left open. */
static void begin_value(struct sp_json *json, const char *name, enum sp_dtype dtype, const struct sp_kernel_dims *dims)
{
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", name);
    sp_json_member_string(json, "dtype", sp_dtype_name(dtype));
    sp_json_key(json, "shape");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < dims->rank; i++)
        sp_json_int(json, dims->dims[i]);
    sp_json_end_array(json);
}

static void write_inputs(struct chain *chain)
{
    struct sp_kernel_form form;
    char name[MAX_NAME];
    form_of(chain, 0, &form);
    sp_json_key(chain->json, "inputs");
    sp_json_begin_array(chain->json);
    begin_value(chain->json, "x", form.dtype, &form.x);
    sp_json_end_object(chain->json);
    chain->is_too_large = chain->is_too_large || bytes_of(&form.x, form.dtype) > SP_KERNEL_BYTES ||
                          bytes_of(&form.y, form.dtype) > SP_KERNEL_BYTES;
    for (uint32_t t = 0; t < SP_KERNEL_TERMS; t++) {
        if (form.terms[t].kind != SP_TERM_INPUT)
            continue;
        chain->is_too_large =
            chain->is_too_large || bytes_of(&form.terms[t].dims, form.terms[t].dtype) > SP_KERNEL_BYTES;
        name_of_term(&form, 0, t, name);
        begin_value(chain->json, name, form.terms[t].dtype, &form.terms[t].dims);
        sp_json_end_object(chain->json);
    }
    sp_json_end_array(chain->json);
}

static void write_weights(struct chain *chain)
{
    struct sp_kernel_form form;
    char name[MAX_NAME];
    sp_json_key(chain->json, "initializers");
    sp_json_begin_array(chain->json);
    for (uint32_t copy = 0; copy < chain->copies; copy++) {
        form_of(chain, copy, &form);
        for (uint32_t t = 0; t < SP_KERNEL_TERMS; t++) {
            const struct sp_kernel_term *term = &form.terms[t];
            if (term->kind == SP_TERM_NONE || term->kind == SP_TERM_INPUT)
                continue;
            name_of_term(&form, copy, t, name);
            begin_value(chain->json, name, term->dtype, &term->dims);
            if (term->kind == SP_TERM_WEIGHT) {
                chain->weight_bytes += bytes_of(&term->dims, term->dtype);
            } else {
                sp_json_key(chain->json, "data");
                sp_json_begin_array(chain->json);
                sp_json_double(chain->json, term->kind == SP_TERM_SCALE       ? 0.0625
                                            : term->kind == SP_TERM_LAST_AXIS ? -1
                                                                              : 0);
                sp_json_end_array(chain->json);
            }
            sp_json_end_object(chain->json);
        }
    }
    chain->is_too_large = chain->is_too_large || chain->weight_bytes > SP_KERNEL_BYTES;
    sp_json_end_array(chain->json);
}

static void write_nodes(const struct chain *chain)
{
    struct sp_json *json = chain->json;
    struct sp_kernel_form form;
    char name[MAX_NAME], before[MAX_NAME] = "x", operand[MAX_NAME];
    sp_json_key(json, "nodes");
    sp_json_begin_array(json);
    for (uint32_t copy = 0; copy < chain->copies; copy++) {
        form_of(chain, copy, &form);
        name_of_node(chain, copy, name);
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", name);
        sp_json_member_string(json, "op", form.op);
        if (form.domain[0] != '\0')
            sp_json_member_string(json, "domain", form.domain);
        sp_json_key(json, "inputs");
        sp_json_begin_array(json);
        sp_json_string(json, before);
        for (uint32_t t = 0; t < SP_KERNEL_TERMS; t++) {
            if (form.terms[t].kind == SP_TERM_NONE)
                continue;
            name_of_term(&form, copy, t, operand);
            sp_json_string(json, operand);
        }
        sp_json_end_array(json);
        sp_json_key(json, "outputs");
        sp_json_begin_array(json);
        sp_json_string(json, name); /* runtimes name what they make of a node by its result, too */
        sp_json_end_array(json);
        sp_json_key(json, "attributes");
        sp_json_begin_object(json);
        if (form.attributes[0] != '\0')
            sp_json_raw(json, form.attributes, strlen(form.attributes));
        sp_json_end_object(json);
        sp_json_end_object(json);
        memcpy(before, name, sizeof before);
    }
    sp_json_end_array(json);
}

static void write_model(struct chain *chain)
{
    struct sp_json *json = chain->json;
    struct sp_kernel_form form;
    char name[MAX_NAME];
    name_of_node(chain, chain->copies - 1, name);
    form_of(chain, chain->copies - 1, &form);
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", chain->key.kind->name);
    sp_json_key(json, "opset");
    sp_json_begin_object(json);
    sp_json_member_int(json, "", OPSET);
    if (form.domain[0] != '\0')
        sp_json_member_int(json, form.domain, 1);
    sp_json_end_object(json);
    write_inputs(chain);
    write_weights(chain);
    sp_json_key(json, "outputs");
    sp_json_begin_array(json);
    begin_value(json, name, form.dtype, &form.y);
    sp_json_end_object(json);
    sp_json_end_array(json);
    write_nodes(chain);
    sp_json_end_object(json);
}

/* *ret_bytes is the caller's, after an error too. */
static enum sp_status make_model(struct chain *chain, struct sp_budget *budget, struct sp_buf *ret_bytes,
                                 struct sp_error *err)
{
    struct sp_json json;
    struct sp_buf text;
    sp_buf_init(&text, MAX_MODEL_BYTES);
    sp_json_init_buf(&json, false, &text);
    chain->json = &json;
    write_model(chain);
    enum sp_status status = sp_json_finish(&json, err);
    if (status == SP_OK && chain->is_too_large)
        status = sp_fail(err, SP_ERR_REQUEST, "CALIBRATION_KERNEL",
                         "A kernel of '%s' is so large that no device could have run it.", chain->key.kind->name);
    if (status == SP_OK)
        status = sp_json_to_onnx(budget, text.data, text.size, NULL, ret_bytes, err);
    sp_buf_release(&text);
    return status;
}

enum sp_status sp_calibrate_model(const struct sp_calibrate_entry *entry, struct sp_buf *ret_bytes,
                                  double *ret_weight_bytes, struct sp_error *err)
{
    struct sp_budget budget = {.limit = MAX_MODEL_MEMORY};
    struct chain chain = {.copies = entry->copies};
    if (!sp_kernel_key_of_name(entry->name, strlen(entry->name), &chain.key) || chain.key.kind->form == NULL ||
        entry->copies == 0 || entry->copies > MAX_COPIES)
        return sp_fail(err, SP_ERR_INTERNAL, "CALIBRATION_KERNEL", "No model is known of '%s'.", entry->name);
    enum sp_status status = make_model(&chain, &budget, ret_bytes, err);
    if (status == SP_OK)
        *ret_weight_bytes = chain.weight_bytes;
    return status;
}

/* ---- what a plan counts of it -------------------------------------------------------------------------------------
 */

static enum sp_status work_of_model(struct sp_arena *scratch, const struct sp_buf *bytes,
                                    struct sp_kernel_work *ret_work, struct sp_error *err)
{
    struct sp_model *model = NULL;
    struct sp_shape_summary summary;
    struct sp_rule *rule = NULL;
    enum sp_status status = sp_onnx_read(scratch, bytes->data, bytes->size, NULL, &model, err);
    if (status == SP_OK)
        status = sp_infer_shapes(model, NULL, &summary, err);
    if (status == SP_OK)
        status = sp_op_rule(model, &model->graph->nodes[0], scratch, &rule, err);
    if (status == SP_OK)
        *ret_work = sp_kernel_work_of(&(struct sp_kernel_part){.node = &model->graph->nodes[0], .rule = rule});
    return status;
}

enum sp_status sp_kernel_key_work(struct sp_arena *arena, const struct sp_kernel_key *key,
                                  struct sp_kernel_work *ret_work, struct sp_error *err)
{
    struct sp_budget budget = {.limit = MAX_MODEL_MEMORY};
    struct chain chain = {.key = *key, .copies = 1};
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    struct sp_buf bytes;
    if (scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = make_model(&chain, &budget, &bytes, err);
    if (status == SP_OK) {
        status = work_of_model(scratch, &bytes, ret_work, err);
        sp_buf_release(&bytes);
    }
    sp_arena_destroy(scratch);
    return status;
}
