/*
 * Operators that callers describe: whatever is accepted is written out and read again as the same text; what is refused
 * is refused in words, with the place. Then a model whose nodes have them gets its shapes and rules.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "ops/table/private.h"

#define MAX_TEXT ((size_t)64 << 20)

static void write_operators(const struct sp_private_operators *operators, struct sp_buf *buf)
{
    struct sp_json json;
    sp_buf_init(buf, MAX_TEXT);
    sp_json_init_buf(&json, false, buf);
    sp_private_write(operators, &json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        abort();
}

static void check_round_trip(struct sp_arena *arena, const struct sp_private_operators *operators)
{
    struct sp_private_operators again;
    struct sp_buf first, second;
    struct sp_error err = {0};
    write_operators(operators, &first);
    json_t *json = json_loadb(first.data, first.size, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL || sp_private_parse(arena, json, "", &again, &err) != SP_OK) {
        (void)fprintf(stderr, "refused its own text: %s\n%s\n", err.message, first.data);
        abort();
    }
    write_operators(&again, &second);
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0) {
        (void)fprintf(stderr, "written as\n%s\nand then as\n%s\n", first.data, second.data);
        abort();
    }
    json_decref(json);
    sp_buf_release(&first);
    sp_buf_release(&second);
}

/* A node with every operator, on operands of several ranks. */
static void use_operators(struct sp_arena *arena, const struct sp_private_operators *operators)
{
    struct sp_dim extents[6] = {sp_dim_known(2), sp_dim_known(6), sp_dim_known(1), sp_dim_known(12), sp_dim_unknown()};
    for (uint32_t i = 0; i < operators->count; i++) {
        struct sp_graph graph = {0};
        struct sp_model model = {.arena = arena, .dims = sp_dims_create(arena), .graph = &graph};
        struct sp_value inputs[3] = {0}, outputs[2] = {0};
        struct sp_value *in[] = {&inputs[0], &inputs[1], &inputs[2]}, *out[] = {&outputs[0], &outputs[1]};
        struct sp_error err = {0};
        struct sp_rule *rule;
        extents[5] = sp_dim_symbol(model.dims, "s");
        for (uint32_t k = 0; k < 3; k++) {
            inputs[k].name = "in";
            inputs[k].type.kind = SP_TYPE_TENSOR;
            inputs[k].type.dtype = SP_DTYPE_FLOAT;
            inputs[k].type.shape = (struct sp_shape){true, (i + 2 * k) % 6, extents};
        }
        outputs[0].name = outputs[1].name = "out";
        struct sp_node node = {.name = "",
                               .op_type = operators->ops[i].name,
                               .domain = operators->ops[i].domain,
                               .graph = &graph,
                               .op = &operators->ops[i],
                               .version = 1,
                               .inputs = in,
                               .outputs = out,
                               .input_count = 3,
                               .output_count = 2};
        graph.model = &model;
        struct sp_op_context context = {&model, arena, model.dims, &node, 1, &err};
        if (node.op->shapes(&context) == SP_OK)
            (void)sp_op_rule(&model, &node, arena, &rule, &err);
        if (err.status == SP_ERR_INTERNAL) {
            (void)fprintf(stderr, "an internal error: %s %s\n", err.code, err.message);
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)64 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    if (arena != NULL && json != NULL) {
        struct sp_private_operators operators;
        struct sp_error err = {0};
        if (sp_private_parse(arena, json, "/operators", &operators, &err) == SP_OK) {
            check_round_trip(arena, &operators);
            use_operators(arena, &operators);
        } else if (err.message[0] == '\0' || err.code[0] == '\0' || err.status == SP_ERR_INTERNAL) {
            abort();
        }
    }
    json_decref(json);
    sp_arena_destroy(arena);
    return 0;
}
