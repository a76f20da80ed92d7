#include "build_sheet.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/buf.h"

#define BUILT_STAGES 16

struct built_sheet {
    struct sp_sheet sheet;
    struct sp_buf nodes, tensors, consumers, texts;
    struct sp_sheet_stage stages[BUILT_STAGES];
};

struct built_sheet *built_new(void)
{
    struct built_sheet *built = calloc(1, sizeof *built);
    cr_assert_not_null(built);
    sp_buf_init(&built->nodes, (size_t)1 << 30);
    sp_buf_init(&built->tensors, (size_t)1 << 30);
    sp_buf_init(&built->consumers, (size_t)1 << 30);
    sp_buf_init(&built->texts, (size_t)1 << 30);
    built->sheet.stage_count = 1;
    return built;
}

void built_release(struct built_sheet *built)
{
    sp_buf_release(&built->nodes);
    sp_buf_release(&built->tensors);
    sp_buf_release(&built->consumers);
    sp_buf_release(&built->texts);
    free(built);
}

static uint32_t add_text(struct built_sheet *built, const char *text)
{
    const size_t at = built->texts.size;
    sp_buf_append(&built->texts, text, strlen(text) + 1);
    return (uint32_t)at;
}

uint32_t built_node(struct built_sheet *built, const char *name, const char *operator_type, uint32_t stage,
                    double seconds)
{
    static const char *const operators[] = {"MatMul", "Add", "Relu", "Gather", "Split", "Concat", "Softmax"};
    uint32_t operator_text = 0;
    if (built->texts.size == 0) { /* one text for each operator, as a sheet has */
        for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
            (void)add_text(built, operators[i]);
    }
    while (operator_text < built->texts.size && strcmp(built->texts.data + operator_text, operator_type) != 0)
        operator_text += (uint32_t)strlen(built->texts.data + operator_text) + 1;
    cr_assert_lt(operator_text, built->texts.size);
    cr_assert_lt(stage, BUILT_STAGES);
    const struct sp_sheet_node node = {.name = add_text(built, name),
                                       .operator_type = operator_text,
                                       .stage = stage,
                                       .seconds = seconds,
                                       .collective_seconds = seconds / 2,
                                       .flops = seconds * 1e6,
                                       .bytes = seconds * 1e3,
                                       .weights_bytes = seconds * 100};
    sp_buf_append(&built->nodes, &node, sizeof node);
    if (stage >= built->sheet.stage_count)
        built->sheet.stage_count = stage + 1;
    built->stages[stage].node_count++;
    return built->sheet.node_count++;
}

uint32_t built_tensor(struct built_sheet *built, const char *name, double bytes, uint32_t producer, uint32_t count,
                      const uint32_t *consumers)
{
    const struct sp_sheet_tensor tensor = {.name = add_text(built, name),
                                           .spec = SP_SHEET_NONE,
                                           .producer = producer,
                                           .first_consumer = built->sheet.consumer_count,
                                           .consumer_count = count,
                                           .bytes = bytes,
                                           .bytes_per_device = bytes};
    sp_buf_append(&built->tensors, &tensor, sizeof tensor);
    if (count > 0)
        sp_buf_append(&built->consumers, consumers, count * sizeof *consumers);
    built->sheet.consumer_count += count;
    return built->sheet.tensor_count++;
}

const struct sp_sheet *built_finish(struct built_sheet *built)
{
    built->sheet.nodes = (const void *)built->nodes.data;
    built->sheet.tensors = (const void *)built->tensors.data;
    built->sheet.consumers = (const void *)built->consumers.data;
    built->sheet.texts = built->texts.data;
    built->sheet.text_size = built->texts.size;
    built->sheet.requests = 1;
    for (uint32_t s = 0; s < built->sheet.stage_count; s++) {
        built->stages[s].first_device = s;
        built->stages[s].device_count = built->stages[s].replicas = 1;
    }
    built->sheet.stages = built->stages;
    return &built->sheet;
}
