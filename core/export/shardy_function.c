#include "export/shardy_function.h"

#include <inttypes.h>
#include <string.h>

#define HEAD "#sdy.sharding"

static const char *element_name(enum sp_dtype dtype)
{
    static const char *const names[] = {
        [SP_DTYPE_FLOAT] = "f32",
        [SP_DTYPE_UINT8] = "ui8",
        [SP_DTYPE_INT8] = "i8",
        [SP_DTYPE_UINT16] = "ui16",
        [SP_DTYPE_INT16] = "i16",
        [SP_DTYPE_INT32] = "i32",
        [SP_DTYPE_INT64] = "i64",
        [SP_DTYPE_BOOL] = "i1",
        [SP_DTYPE_FLOAT16] = "f16",
        [SP_DTYPE_DOUBLE] = "f64",
        [SP_DTYPE_UINT32] = "ui32",
        [SP_DTYPE_UINT64] = "ui64",
        [SP_DTYPE_COMPLEX64] = "complex<f32>",
        [SP_DTYPE_COMPLEX128] = "complex<f64>",
        [SP_DTYPE_BFLOAT16] = "bf16",
        [SP_DTYPE_FLOAT8E4M3FN] = "f8E4M3FN",
        [SP_DTYPE_FLOAT8E4M3FNUZ] = "f8E4M3FNUZ",
        [SP_DTYPE_FLOAT8E5M2] = "f8E5M2",
        [SP_DTYPE_FLOAT8E5M2FNUZ] = "f8E5M2FNUZ",
        [SP_DTYPE_UINT4] = "ui4",
        [SP_DTYPE_INT4] = "i4",
        [SP_DTYPE_FLOAT4E2M1] = "f4E2M1FN",
        [SP_DTYPE_FLOAT8E8M0] = "f8E8M0FNU",
        [SP_DTYPE_UINT2] = "ui2",
        [SP_DTYPE_INT2] = "i2",
    };
    return (size_t)dtype < sizeof names / sizeof *names ? names[dtype] : NULL;
}

static bool is_tensor(const struct sp_value *value)
{
    return value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank && element_name(value->type.dtype) != NULL;
}

static void write_type(struct sp_export *out, const struct sp_value *value)
{
    const struct sp_shape *shape = &value->type.shape;
    sp_export_text(out, "tensor<");
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (sp_dim_is_known(shape->dims[i]))
            sp_export_printf(out, "%" PRId64 "x", shape->dims[i].value);
        else
            sp_export_text(out, "?x");
    }
    sp_export_text(out, element_name(value->type.dtype)); /* is_tensor() */
    sp_export_text(out, ">");
}

static void write_name(struct sp_export *out, const struct sp_value *value)
{
    sp_export_printf(out, "%%v%" PRIu32, value->id);
}

/* " {sdy.sharding = #sdy.sharding<..>}", or nothing. */
static void write_attribute(struct sp_export *out, const char *text)
{
    if (text == NULL)
        return;
    sp_export_text(out, " {sdy.sharding = ");
    sp_export_text(out, text);
    sp_export_text(out, "}");
}

/* "@MatMul", or quoted where it is no bare name; behind the domain: "com.microsoft.FusedMatMul". */
static enum sp_status write_call(struct sp_export *out, const struct sp_node *node, struct sp_error *err)
{
    static const char bare[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    const char *name =
        node->domain[0] == '\0' ? node->op_type : sp_arena_printf(out->scratch, "%s.%s", node->domain, node->op_type);
    if (name == NULL)
        return sp_fail_memory(err);
    sp_export_text(out, "@");
    if (name[strspn(name, bare)] == '\0')
        sp_export_text(out, name);
    else
        sp_export_quoted(out, name);
    return SP_OK;
}

/* An output without a sharding may have any. */
static void write_shardings(struct sp_export *out, const struct sp_shardy_function *function,
                            const struct sp_node *node)
{
    const char *some = NULL;
    bool is_first = true;
    for (uint32_t i = 0; i < node->output_count; i++)
        some = node->outputs[i] != NULL && function->of[node->outputs[i]->id] != NULL
                   ? function->of[node->outputs[i]->id]
                   : some;
    if (some == NULL)
        return;
    sp_export_text(out, " {sdy.sharding = #sdy.sharding_per_value<[");
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct sp_value *value = node->outputs[i];
        if (value == NULL)
            continue;
        sp_export_text(out, is_first ? "" : ", ");
        is_first = false;
        if (function->of[value->id] != NULL) {
            sp_export_text(out, function->of[value->id] + strlen(HEAD));
            continue;
        }
        sp_export_bytes(out, some + strlen(HEAD), strcspn(some + strlen(HEAD), ","));
        sp_export_text(out, ", [");
        for (uint32_t k = 0; k < value->type.shape.rank; k++)
            sp_export_text(out, k > 0 ? ", {?}" : "{?}");
        sp_export_text(out, "]>");
    }
    sp_export_text(out, "]>}");
}

static void write_list(struct sp_export *out, uint32_t count, struct sp_value *const *values, bool is_types)
{
    bool is_first = true;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] == NULL)
            continue;
        sp_export_text(out, is_first ? "" : ", ");
        is_first = false;
        if (is_types)
            write_type(out, values[i]);
        else
            write_name(out, values[i]);
    }
}

/* Uses of this node that take another sharding, each as a value of its own; *use goes past them. */
static void write_constraints(struct sp_export *out, const struct sp_shardy_function *function,
                              const struct sp_node *node, uint32_t from, uint32_t *ret_end)
{
    uint32_t i = from;
    for (; i < function->use_count && function->uses[i].node == node->index; i++) {
        const struct sp_shardy_use *use = &function->uses[i];
        const struct sp_value *value = node->inputs[use->operand];
        sp_export_printf(out, "    %%u%" PRIu32 " = sdy.sharding_constraint ", i);
        write_name(out, value);
        sp_export_text(out, " ");
        sp_export_text(out, use->text + strlen(HEAD));
        sp_export_text(out, " : ");
        write_type(out, value);
        sp_export_text(out, "\n");
    }
    *ret_end = i;
}

static void write_operands(struct sp_export *out, const struct sp_shardy_function *function, const struct sp_node *node,
                           uint32_t from, uint32_t end)
{
    bool is_first = true;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == NULL)
            continue;
        sp_export_text(out, is_first ? "" : ", ");
        is_first = false;
        if (from < end && function->uses[from].operand == i)
            sp_export_printf(out, "%%u%" PRIu32, from++);
        else
            write_name(out, node->inputs[i]);
    }
}

static enum sp_status write_node(struct sp_export *out, const struct sp_shardy_function *function,
                                 const struct sp_node *node, uint32_t *use, struct sp_error *err)
{
    const uint32_t from = *use;
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < node->output_count; i++)
        outputs += node->outputs[i] != NULL;
    write_constraints(out, function, node, from, use);
    sp_export_text(out, "    ");
    write_list(out, node->output_count, node->outputs, false);
    sp_export_text(out, outputs > 0 ? " = stablehlo.custom_call " : "stablehlo.custom_call ");
    enum sp_status status = write_call(out, node, err);
    sp_export_text(out, "(");
    write_operands(out, function, node, from, *use);
    sp_export_text(out, ")");
    write_shardings(out, function, node);
    sp_export_text(out, " : (");
    write_list(out, node->input_count, node->inputs, true);
    sp_export_text(out, outputs == 1 ? ") -> " : ") -> (");
    write_list(out, node->output_count, node->outputs, true);
    sp_export_text(out, outputs == 1 ? "\n" : ")\n");
    return status;
}

static void write_head(struct sp_export *out, const struct sp_shardy_function *function)
{
    const struct sp_graph *graph = out->subject->model->graph;
    bool is_first = true;
    sp_export_text(out, "  func.func @main(");
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        if (value->producer != NULL)
            continue;
        sp_export_text(out, is_first ? "" : ", ");
        is_first = false;
        write_name(out, value);
        sp_export_text(out, ": ");
        write_type(out, value);
        write_attribute(out, function->of[value->id]);
    }
    sp_export_text(out, ") -> (");
    for (uint32_t i = 0; i < graph->output_count; i++) {
        sp_export_text(out, i > 0 ? ", " : "");
        write_type(out, graph->outputs[i]);
        write_attribute(out, function->of[graph->outputs[i]->id]);
    }
    sp_export_text(out, ") {\n");
}

enum sp_status sp_shardy_write_function(struct sp_export *out, const struct sp_shardy_function *function,
                                        struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    enum sp_status status = SP_OK;
    uint32_t use = 0;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (!is_tensor(graph->values[i]))
            return sp_export_note(
                out, "FUNCTION_LEFT_OUT", graph->values[i]->producer, err,
                "There is no function in the module, only its table of shardings: '%.200s' is no tensor "
                "of a known rank whose type MLIR has.",
                graph->values[i]->name);
    }
    write_head(out, function);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const struct sp_arena_mark mark = sp_arena_mark(out->scratch);
        status = write_node(out, function, &graph->nodes[i], &use, err);
        sp_arena_rewind(out->scratch, mark);
    }
    sp_export_text(out, graph->output_count > 0 ? "    return " : "    return");
    write_list(out, graph->output_count, graph->outputs, false);
    sp_export_text(out, graph->output_count > 0 ? " : " : "");
    write_list(out, graph->output_count, graph->outputs, true);
    sp_export_text(out, "\n  }\n");
    return status;
}
