#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "ops/table/signature.h"
#include "realize/program.h"
#include "realize/protobuf_fields.h"

#define SMALL_FILLED 1024 /* bytes up to which a filled tensor is written out */

/* ---- inputs and weights ----------------------------------------------------------------------------------------- */

/* The place of the name of a box: of an input (its value), or of a weight (its tensor). */
static void **box_entry(struct sp_program *program, const void *what, const struct sp_box *box)
{
    struct sp_buf key;
    sp_buf_init(&key, SP_MAX_RECORD_BYTES * 16);
    sp_buf_append(&key, "box", sizeof "box");
    const bool is_part = box != NULL && !box->is_whole;
    sp_weight_key(&key, what, is_part ? box->rank : 0, is_part ? box->axes : NULL);
    void **entry = sp_buf_failed(&key) ? NULL : sp_program_entry(program->made, key.data, key.size);
    sp_buf_release(&key);
    return entry;
}

/* The extents of a tensor's type, -1 where not known; NULL without a rank or memory. */
static const int64_t *type_dims(struct sp_program *program, const struct sp_type *type)
{
    if (type->kind != SP_TYPE_TENSOR || !type->shape.has_rank)
        return NULL;
    int64_t *dims = SP_NEW_ARRAY(program->scratch, type->shape.rank, int64_t);
    for (uint32_t i = 0; dims != NULL && i < type->shape.rank; i++)
        dims[i] = sp_dim_is_known(type->shape.dims[i]) ? type->shape.dims[i].value : -1;
    return dims;
}

static struct sp_program_tensor tensor_of(struct sp_program *program, const char *name,
                                          const struct sp_part_source *source)
{
    return (struct sp_program_tensor){name, source->box.rank, type_dims(program, &source->value->type)};
}

enum sp_status sp_program_input(struct sp_program *program, const struct sp_part_source *source, struct sp_error *err)
{
    const char *name = source->value->name;
    if (source->box.is_whole)
        return sp_program_alias(program, source->piece, name, err);
    void **entry = box_entry(program, source->value, &source->box);
    enum sp_status status = SP_OK;
    if (entry == NULL)
        return sp_fail_memory(err);
    const struct sp_arena_mark mark = sp_arena_mark(program->scratch);
    program->hint = source->piece->name;
    if (status == SP_OK && *entry == NULL) {
        const struct sp_program_tensor whole = tensor_of(program, name, source);
        status = sp_program_cut(program, &whole, source->piece->dtype, &source->box, source->piece->name, &name, err);
        if (status == SP_OK)
            *entry = (void *)name;
    }
    sp_arena_rewind(program->scratch, mark);
    return status == SP_OK ? sp_program_alias(program, source->piece, *entry, err) : status;
}

/* An initializer of this name; *ret_done false where the box cannot be had from the file. */
static enum sp_status put_weight(struct sp_program *program, const struct sp_part_source *source, const char *name,
                                 const struct sp_box *box, bool *ret_done, struct sp_error *err)
{
    const bool is_sparse = source->tensor == NULL;
    const bool is_whole = box == NULL || box->is_whole;
    enum sp_status status;
    sp_recipe_clear(program->message);
    *ret_done = is_whole;
    if (is_sparse && !is_whole)
        return SP_OK;
    if (is_sparse)
        status = sp_weight_put_sparse(&program->weights, program->message, name, source->value->sparse, err);
    else
        status = sp_weight_put(&program->weights, program->message, name, source->tensor, is_whole ? NULL : box->axes,
                               ret_done, err);
    if (status == SP_OK && *ret_done)
        status = sp_program_add_initializer(
            program, is_sparse ? SP_PUT_GRAPH_SPARSE_INITIALIZER : SP_PUT_GRAPH_INITIALIZER, name, err);
    return status;
}

/* The whole weight is in the file, once, and a node takes the box out of it. */
static enum sp_status cut_weight(struct sp_program *program, const struct sp_part_source *source, const void *what,
                                 const char **ret_name, struct sp_error *err)
{
    void **entry = box_entry(program, what, NULL);
    enum sp_status status = SP_OK;
    bool done;
    if (entry == NULL)
        return sp_fail_memory(err);
    if (*entry == NULL) {
        *entry = (void *)sp_program_fresh(program, "whole");
        status = *entry == NULL ? sp_fail_memory(err) : put_weight(program, source, *entry, NULL, &done, err);
    }
    if (status == SP_OK && program->request->note != NULL) {
        char text[SP_ERROR_MESSAGE_SIZE];
        (void)snprintf(text, sizeof text,
                       "The weight '%.200s' is kept in a form that cannot be cut in the file: it is there whole, and a "
                       "node takes the part out of it.",
                       source->value->name);
        const struct sp_part_note note = {.code = "WEIGHT_WHOLE", .tensor = source->value->name, .message = text};
        status = program->request->note(program->request->note_context, &note, err);
    }
    const struct sp_arena_mark mark = sp_arena_mark(program->scratch);
    if (status == SP_OK) {
        const struct sp_program_tensor whole = tensor_of(program, *entry, source);
        status =
            sp_program_cut(program, &whole, source->piece->dtype, &source->box, source->piece->name, ret_name, err);
    }
    sp_arena_rewind(program->scratch, mark);
    return status;
}

enum sp_status sp_program_weight(struct sp_program *program, const struct sp_part_source *source, struct sp_error *err)
{
    const void *what = source->tensor != NULL ? (const void *)source->tensor : source->value->sparse;
    void **entry = box_entry(program, what, &source->box);
    enum sp_status status = SP_OK;
    bool done = true;
    if (entry == NULL)
        return sp_fail_memory(err);
    program->hint = source->piece->name;
    if (status == SP_OK && *entry == NULL) {
        const char *name = source->piece->name;
        status = put_weight(program, source, name, &source->box, &done, err);
        if (status == SP_OK && !done)
            status = cut_weight(program, source, what, &name, err);
        if (status == SP_OK)
            *entry = (void *)name;
    }
    return status == SP_OK ? sp_program_alias(program, source->piece, *entry, err) : status;
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

/* A tensor of these bytes, or, filled, of so many times these bytes. */
static enum sp_status put_tensor(struct sp_program *program, const struct sp_part_constant *constant, const char *name,
                                 uint32_t rank, int64_t times, struct sp_error *err)
{
    struct sp_recipe *out = program->message;
    sp_recipe_clear(out);
    for (uint32_t i = 0; i < rank; i++)
        sp_put_int(out, SP_PUT_TENSOR_DIMS, constant->dims[i]);
    sp_put_int(out, SP_PUT_TENSOR_DATA_TYPE, constant->dtype);
    sp_put_text(out, SP_PUT_TENSOR_NAME, name);
    /* Strings have no raw data; a tensor of none has neither. */
    if (constant->dtype != SP_DTYPE_STRING)
        sp_put_head(out, SP_PUT_TENSOR_RAW_DATA, (uint64_t)times * constant->size);
    for (int64_t i = 0; i < times; i++)
        (void)sp_recipe_add(out, constant->bytes, constant->size);
    return sp_program_add_initializer(program, SP_PUT_GRAPH_INITIALIZER, name, err);
}

/* One element and a shape: the file stays small. */
static enum sp_status put_filled(struct sp_program *program, const struct sp_part_constant *constant, int64_t elements,
                                 const char *name, struct sp_error *err)
{
    int64_t bytes;
    const char *inputs[2] = {sp_program_fresh(program, "value")};
    if (!sp_mul_i64(elements, (int64_t)constant->size, &bytes))
        bytes = INT64_MAX;
    if (bytes <= SMALL_FILLED || (program->opset < 8 && bytes <= SP_MAX_REPACKED_BYTES)) {
        return put_tensor(program, constant, name, constant->rank, elements, err);
    }
    if (program->opset < 8)
        return sp_fail_limit(err, "CONSTANT_TOO_LARGE", "SP_MAX_REPACKED_BYTES", SP_MAX_REPACKED_BYTES, bytes,
                             "A constant of more than %" PRId64 " bytes cannot be written in operator set %" PRId64
                             "; convert the model to 8 or newer.",
                             SP_MAX_REPACKED_BYTES, program->opset);
    if (inputs[0] == NULL)
        return sp_fail_memory(err);
    enum sp_status status = put_tensor(program, constant, inputs[0], 0, 1, err);
    if (status == SP_OK)
        status = sp_program_ints(program, constant->rank, constant->dims, &inputs[1], err);
    const struct sp_program_op op = {.op_type = "Expand", .input_count = 2, .inputs = inputs, .want = name};
    const char *result;
    return status == SP_OK ? sp_program_emit(program, &op, &result, err) : status;
}

enum sp_status sp_program_constant(struct sp_program *program, const struct sp_part_constant *constant,
                                   struct sp_error *err)
{
    struct sp_buf key;
    int64_t elements = 1;
    for (uint32_t i = 0; i < constant->rank; i++) {
        if (!sp_mul_i64(elements, constant->dims[i], &elements))
            return sp_fail(err, SP_ERR_INTERNAL, "BAD_CONSTANT", "A constant has more elements than 64 bits count.");
    }
    const uint32_t head[3] = {constant->dtype, constant->is_filled, constant->rank};
    sp_buf_init(&key, (size_t)1 << 30);
    sp_buf_append(&key, "constant", sizeof "constant");
    sp_buf_append(&key, head, sizeof head);
    sp_buf_append(&key, constant->dims, constant->rank * sizeof *constant->dims);
    sp_buf_append(&key, constant->bytes, constant->size);
    void **entry = sp_buf_failed(&key) ? NULL : sp_program_entry(program->made, key.data, key.size);
    sp_buf_release(&key);
    enum sp_status status = SP_OK;
    program->hint = constant->piece->name;
    if (entry == NULL)
        return sp_fail_memory(err);
    if (*entry == NULL) {
        *entry = (void *)constant->piece->name;
        if (constant->is_filled)
            status = put_filled(program, constant, elements, constant->piece->name, err);
        else
            status = put_tensor(program, constant, constant->piece->name, constant->rank, 1, err);
    }
    if (status == SP_OK)
        status = sp_recipe_status(program->initializers, err);
    return status == SP_OK ? sp_program_alias(program, constant->piece, *entry, err) : status;
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

enum sp_status sp_program_check_opset(struct sp_program *program, const struct sp_node *node, const char *domain,
                                      const char *op_type, struct sp_error *err)
{
    const int64_t version = sp_graph_opset(node->graph, domain);
    void **entry = sp_program_entry(program->opsets, domain, strlen(domain));
    if (entry == NULL)
        return sp_fail_memory(err);
    if (*entry == NULL) {
        int64_t *copy = SP_NEW(program->arena, int64_t);
        if (copy == NULL)
            return sp_fail_memory(err);
        *copy = version;
        *entry = copy;
    }
    const int64_t here = *(const int64_t *)*entry;
    if (version == here)
        return SP_OK;
    const struct sp_signature *there = sp_signature_find(domain, op_type, version);
    if (there != NULL && there == sp_signature_find(domain, op_type, here))
        return SP_OK;
    char label[SP_ERROR_WHERE_SIZE];
    sp_fail(err, SP_ERR_UNSUPPORTED, "FUNCTION_OPSET",
            "Node %s is in a function of operator set %" PRId64
            " of '%.80s', in which %.80s is another operator than in "
            "set %" PRId64 ", which the model uses; convert the model or its functions.",
            sp_node_label(node, label, sizeof label), version, domain[0] == '\0' ? "ai.onnx" : domain, op_type, here);
    return SP_ERR_UNSUPPORTED;
}

/* Whether the node comes from a function's body: names inside its subgraphs are then not the main graph's. */
static bool is_in_body(const struct sp_program *program, const struct sp_node *node)
{
    const struct sp_graph *graph = node->graph;
    while (graph->parent != NULL)
        graph = graph->parent;
    return graph != program->model->graph;
}

static enum sp_status note_captures(struct sp_program *program, const struct sp_part_op *op, struct sp_error *err)
{
    program->captures = NULL;
    program->missing = NULL;
    if (op->capture_count == 0)
        return SP_OK;
    program->captures = sp_intern_create(program->scratch, 0);
    for (uint32_t i = 0; program->captures != NULL && i < op->capture_count; i++) {
        void **entry = sp_program_entry(program->captures, &op->captures[i].value, sizeof op->captures[i].value);
        if (entry == NULL)
            return sp_fail_memory(err);
        *entry = (void *)op->captures[i].piece;
    }
    return program->captures == NULL ? sp_fail_memory(err) : SP_OK;
}

static const char **piece_names(const struct sp_program *program, uint32_t count, const struct sp_piece *const *pieces)
{
    const char **names = SP_NEW_ARRAY(program->scratch, count, const char *);
    for (uint32_t i = 0; names != NULL && i < count; i++)
        names[i] = pieces[i] == NULL ? "" : sp_program_name(program, pieces[i]);
    return names;
}

/* A model output that is no tensor cannot be passed on by a node in every operator set: the first operator that makes
   it gives it the output's name at once. */
static enum sp_status name_outputs(struct sp_program *program, const struct sp_part_op *op, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && op->is_same && i < op->output_count && i < op->node->output_count; i++) {
        const struct sp_value *value = op->node->outputs[i];
        if (op->outputs[i] == NULL || value == NULL || !value->is_graph_output || value->type.kind == SP_TYPE_TENSOR ||
            value->graph != program->model->graph)
            continue;
        void **entry = box_entry(program, value, NULL);
        if (entry == NULL)
            return sp_fail_memory(err);
        if (*entry == NULL)
            status = sp_program_alias(program, op->outputs[i], value->name, err);
        *entry = (void *)value->name;
    }
    return status;
}

/* Whether all extents of a piece are known, and no operand has the same. */
static bool is_of_own_size(const struct sp_part_op *op, const struct sp_piece *piece)
{
    bool is_own = piece != NULL && piece->dtype != SP_DTYPE_UNDEFINED && piece->dims != NULL;
    for (uint32_t axis = 0; is_own && axis < piece->rank; axis++)
        is_own = piece->dims[axis] >= 0;
    for (uint32_t i = 0; is_own && i < op->input_count; i++) {
        const struct sp_piece *input = op->inputs[i];
        is_own = input == NULL || input->dims == NULL || input->rank != piece->rank ||
                 memcmp(input->dims, piece->dims, piece->rank * sizeof *piece->dims) != 0;
    }
    return is_own;
}

/* Of an operator outside ai.onnx a runtime may know less than the plan, and it gives the memory of an operand to a result
   that it takes for as large: ONNX Runtime infers keys and values of GroupQueryAttention as long as the past ones. So
   the extents of results that are like no operand are told. */
static enum sp_status tell_outputs(struct sp_program *program, const struct sp_part_op *op, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && op->domain[0] != '\0' && i < op->output_count; i++) {
        const struct sp_piece *piece = op->outputs[i];
        if (is_of_own_size(op, piece))
            status = sp_put_tensor_info(program->initializers, SP_PUT_GRAPH_VALUE_INFO, sp_program_name(program, piece),
                                        piece->dtype, piece->rank, piece->dims, err);
    }
    return status;
}

enum sp_status sp_program_operator(struct sp_program *program, const struct sp_part_op *op, struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(program->scratch);
    struct sp_encode_operator node = {.domain = op->domain,
                                      .op_type = op->op_type,
                                      .input_count = op->input_count,
                                      .output_count = op->output_count,
                                      .node = op->is_same ? op->node : NULL,
                                      .attribute_count = op->attribute_count,
                                      .attributes = op->attributes};
    enum sp_status status = sp_program_check_opset(program, op->node, op->domain, op->op_type, err);
    if (status == SP_OK)
        status = note_captures(program, op, err);
    if (status == SP_OK)
        status = name_outputs(program, op, err);
    node.overload = op->is_same ? op->node->overload : "";
    node.inputs = piece_names(program, op->input_count, op->inputs);
    node.outputs = piece_names(program, op->output_count, op->outputs);
    node.name = sp_program_node_name(program, op->name);
    if (status == SP_OK && (node.inputs == NULL || node.outputs == NULL || node.name == NULL))
        status = sp_fail_memory(err);
    program->encoder.inner_suffix = is_in_body(program, op->node) ? program->inner_suffix : "";
    if (status == SP_OK)
        status = sp_encode_operator(&program->encoder, program->nodes, &node, err);
    if (status == SP_OK)
        status = tell_outputs(program, op, err);
    if (status == SP_OK && program->missing != NULL)
        status = sp_fail(err, SP_ERR_INTERNAL, "CAPTURE_MISSING",
                         "A subgraph uses '%.200s', which is not on its device.", program->missing->name);
    program->captures = NULL;
    sp_arena_rewind(program->scratch, mark);
    return status;
}

/* ---- exchanges -------------------------------------------------------------------------------------------------- */

/* What a cell's source is called here; *ret_is_cut when that is the cell's part of it already. */
static enum sp_status name_source(struct sp_program *program, const struct sp_exchange *exchange, uint32_t member,
                                  const struct sp_exchange_cell *cell, const char **ret_name, bool *ret_is_cut,
                                  struct sp_error *err)
{
    *ret_is_cut = cell->box == NULL;
    if (program->source != NULL)
        return program->source(program->source_context, exchange, member, cell->box, ret_name, ret_is_cut, err);
    *ret_name = sp_program_name(program, exchange->members[member].before);
    return SP_OK;
}

/* Whether the cell is all of a source. */
static bool is_all(const struct sp_exchange *exchange, const struct sp_exchange_cell *cell)
{
    const struct sp_piece *before = exchange->members[cell->sources[0]].before;
    for (uint32_t i = 0; cell->box != NULL && i < exchange->rank; i++) {
        if (cell->box[i].start != 0 || before->dims == NULL || cell->box[i].limit != before->dims[i])
            return false;
    }
    return true;
}

/* The cell in the type that carries the exchange's. */
static enum sp_status put_cell(struct sp_program *program, const struct sp_exchange *exchange,
                               const struct sp_exchange_cell *cell, const char *want, const char **ret_name,
                               struct sp_error *err)
{
    const enum sp_dtype carrier = sp_program_carrier(program, exchange->dtype);
    const char **names = SP_NEW_ARRAY(program->scratch, cell->source_count, const char *);
    enum sp_status status = SP_OK;
    if (names == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < cell->source_count; i++) {
        struct sp_program_tensor piece = {.rank = exchange->rank,
                                          .dims = exchange->members[cell->sources[i]].before->dims};
        bool is_cut = false;
        status = name_source(program, exchange, cell->sources[i], cell, &names[i], &is_cut, err);
        if (status == SP_OK && carrier != exchange->dtype)
            status = sp_program_cast(program, names[i], carrier, NULL, &names[i], err);
        piece.name = names[i];
        if (status == SP_OK && !is_cut)
            status =
                sp_program_slice(program, &piece, cell->box, cell->source_count == 1 ? want : NULL, &names[i], err);
    }
    if (status == SP_OK && cell->source_count == 1)
        *ret_name = names[0];
    else if (status == SP_OK)
        status = sp_program_combine(
            program, exchange->combiner, carrier,
            &(struct sp_program_op){.input_count = cell->source_count, .inputs = names, .want = want}, ret_name, err);
    return status;
}

/* Cells become rows, rows become planes, ..: the last axis first. */
static enum sp_status join_cells(struct sp_program *program, const struct sp_exchange_grid *grid, const char **names,
                                 const char *want, const char **ret_name, struct sp_error *err)
{
    uint64_t count = grid->cell_count;
    enum sp_status status = SP_OK;
    for (uint32_t axis = grid->rank; status == SP_OK && axis-- > 0;) {
        const uint32_t side = grid->counts[axis];
        count /= side;
        for (uint64_t i = 0; status == SP_OK && side > 1 && i < count; i++)
            status = sp_program_concat(program, axis, side, &names[i * side], count == 1 ? want : NULL, &names[i], err);
    }
    *ret_name = names[0];
    return status;
}

/* A piece without elements comes from nobody. */
static enum sp_status put_empty(struct sp_program *program, const struct sp_exchange *exchange,
                                const struct sp_piece *piece, struct sp_error *err)
{
    const struct sp_part_constant nothing = {.device = piece->device,
                                             .piece = piece,
                                             .dtype = exchange->dtype,
                                             .rank = piece->rank,
                                             .dims = piece->dims,
                                             .is_filled = true,
                                             .bytes = ""};
    return sp_program_constant(program, &nothing, err);
}

enum sp_status sp_program_member(struct sp_program *program, const struct sp_exchange *exchange, uint32_t member,
                                 struct sp_error *err)
{
    const struct sp_piece *after = exchange->members[member].after;
    const struct sp_arena_mark mark = sp_arena_mark(program->scratch);
    struct sp_exchange_grid grid;
    const char *name = NULL;
    program->hint = after->name;
    enum sp_status status = sp_exchange_cells(program->scratch, exchange, member, &grid, err);
    if (status == SP_OK && grid.cell_count == 0)
        return put_empty(program, exchange, after, err);
    if (status == SP_OK && grid.cell_count == 1 && grid.cells[0].source_count == 1) {
        bool is_cut = false;
        status = name_source(program, exchange, grid.cells[0].sources[0], &grid.cells[0], &name, &is_cut, err);
        if (status != SP_OK || is_cut || is_all(exchange, &grid.cells[0]))
            return status == SP_OK ? sp_program_alias(program, after, name, err) : status;
    }
    const bool is_carried = sp_program_carrier(program, exchange->dtype) != exchange->dtype;
    if (status != SP_OK)
        return status;
    const char **names = SP_NEW_ARRAY(program->scratch, grid.cell_count, const char *);
    const char *want = is_carried ? NULL : after->name;
    if (names == NULL)
        return sp_fail_memory(err);
    for (uint64_t i = 0; status == SP_OK && i < grid.cell_count; i++)
        status = put_cell(program, exchange, &grid.cells[i], grid.cell_count == 1 ? want : NULL, &names[i], err);
    if (status == SP_OK)
        status = join_cells(program, &grid, names, want, &name, err);
    if (status == SP_OK && is_carried)
        status = sp_program_cast(program, name, exchange->dtype, after->name, &name, err);
    if (program->taken == NULL)
        sp_arena_rewind(program->scratch, mark);
    return status == SP_OK ? sp_program_alias(program, after, name, err) : status;
}
