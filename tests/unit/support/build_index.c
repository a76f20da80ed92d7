#include "build_index.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "random_workload.h"

#define BUILT_STAGES 1024

struct built_index {
    struct sp_index index;
    struct sp_buf nodes, tensors, consumers, texts;
    struct sp_index_stage stages[BUILT_STAGES];
};

struct built_index *built_new(void)
{
    struct built_index *built = calloc(1, sizeof *built);
    cr_assert_not_null(built);
    sp_buf_init(&built->nodes, (size_t)1 << 30);
    sp_buf_init(&built->tensors, (size_t)1 << 30);
    sp_buf_init(&built->consumers, (size_t)1 << 30);
    sp_buf_init(&built->texts, (size_t)1 << 30);
    built->index.count.stages = 1;
    return built;
}

void built_release(struct built_index *built)
{
    sp_buf_release(&built->nodes);
    sp_buf_release(&built->tensors);
    sp_buf_release(&built->consumers);
    sp_buf_release(&built->texts);
    free(built);
}

static uint32_t add_text(struct built_index *built, const char *text)
{
    const size_t at = built->texts.size;
    sp_buf_append(&built->texts, text, strlen(text) + 1);
    return (uint32_t)at;
}

uint32_t built_node(struct built_index *built, const char *name, const char *operator_type, uint32_t stage,
                    double seconds)
{
    static const char *const operators[] = {"MatMul", "Add", "Relu", "Gather", "Split", "Concat", "Softmax"};
    uint32_t operator_text = 0;
    if (built->texts.size == 0) { /* one text for each operator, as an index has */
        for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
            (void)add_text(built, operators[i]);
    }
    while (operator_text < built->texts.size && strcmp(built->texts.data + operator_text, operator_type) != 0)
        operator_text += (uint32_t)strlen(built->texts.data + operator_text) + 1;
    cr_assert_lt(operator_text, built->texts.size);
    cr_assert_lt(stage, BUILT_STAGES);
    const struct sp_index_node node = {.name = add_text(built, name),
                                       .operator_type = operator_text,
                                       .stage = stage,
                                       .seconds = seconds,
                                       .collective_seconds = seconds / 2,
                                       .flops = seconds * 1e6,
                                       .bytes = seconds * 1e3,
                                       .weights_bytes = seconds * 100};
    sp_buf_append(&built->nodes, &node, sizeof node);
    if (stage >= built->index.count.stages)
        built->index.count.stages = stage + 1;
    built->stages[stage].node_count++;
    return built->index.count.nodes++;
}

uint32_t built_tensor(struct built_index *built, const char *name, double bytes, uint32_t producer, uint32_t count,
                      const uint32_t *consumers)
{
    const struct sp_index_tensor tensor = {.name = add_text(built, name),
                                           .spec = SP_INDEX_NONE,
                                           .producer = producer,
                                           .first_consumer = built->index.count.consumers,
                                           .consumer_count = count,
                                           .bytes = bytes,
                                           .bytes_per_device = bytes};
    sp_buf_append(&built->tensors, &tensor, sizeof tensor);
    if (count > 0)
        sp_buf_append(&built->consumers, consumers, count * sizeof *consumers);
    built->index.count.consumers += count;
    return built->index.count.tensors++;
}

const struct sp_index *built_finish(struct built_index *built)
{
    built->index.nodes = (const void *)built->nodes.data;
    built->index.tensors = (const void *)built->tensors.data;
    built->index.consumers = (const void *)built->consumers.data;
    built->index.texts = built->texts.data;
    built->index.count.texts = built->texts.size;
    built->index.requests = 1;
    for (uint32_t s = 0; s < built->index.count.stages; s++) {
        built->stages[s].first_device = s;
        built->stages[s].device_count = built->stages[s].replicas = 1;
    }
    built->index.stages = built->stages;
    return &built->index;
}

/* ---- indexes and names of many kinds
   ------------------------------------------------------------------------------ */

static void pick_name(uint64_t *seed, char cut, char *ret_name, size_t size)
{
    static const char *const parts[] = {"a", "b", "layer-1", "", "c", "<b>\"", "0-1@"};
    const uint32_t levels = pick(seed, 5), variety = 1 + pick(seed, 7);
    size_t at = 0;
    ret_name[0] = '\0';
    for (uint32_t i = 0; i <= levels; i++)
        at += (size_t)snprintf(ret_name + at, size - at, "%.*s%s", i > 0, (const char[]){cut},
                               parts[pick(seed, variety)]);
}

struct built_index *built_random(uint64_t *seed)
{
    static const char *const operators[] = {"MatMul", "Add", "Relu", "Gather", "Split", "Concat", "Softmax"};
    struct built_index *built = built_new();
    const uint32_t nodes = 1 + pick(seed, BUILT_RANDOM_NODES), stages = 1 + pick(seed, 5),
                   tensors = pick(seed, 2 * nodes);
    const char cut = pick(seed, 3) == 0 ? '.' : '/';
    char name[128];
    for (uint32_t n = 0; n < nodes; n++) {
        pick_name(seed, cut, name, sizeof name);
        built_node(built, name, operators[pick(seed, 7)], pick(seed, 2) == 0 ? n * stages / nodes : pick(seed, stages),
                   1 + pick(seed, 100));
    }
    for (uint32_t t = 0; t < tensors; t++) {
        uint32_t consumers[BUILT_RANDOM_NODES], count = 0;
        const uint32_t one_in = 1 + pick(seed, nodes);
        for (uint32_t n = 0; n < nodes; n++) {
            if (pick(seed, one_in) == 0 || pick(seed, nodes) == 0)
                consumers[count++] = n;
        }
        (void)snprintf(name, sizeof name, "tensor %u", t);
        built_tensor(built, name, pick(seed, 50), pick(seed, 8) == 0 ? SP_INDEX_NONE : pick(seed, nodes), count,
                     consumers);
    }
    return built;
}

struct built_index *built_stages(uint32_t stages)
{
    struct built_index *built = built_new();
    uint32_t consumers[BUILT_STAGES];
    char name[32];
    for (uint32_t s = 0; s < stages; s++) {
        (void)snprintf(name, sizeof name, "/m/s%u/Add", s);
        built_node(built, name, "Add", s, 1 + s);
    }
    for (uint32_t s = 0; s + 1 < stages; s++) {
        for (uint32_t later = s + 1; later < stages; later++)
            consumers[later - s - 1] = later;
        (void)snprintf(name, sizeof name, "t%u", s);
        built_tensor(built, name, 1 << s % 20, s, stages - 1 - s, consumers);
    }
    return built;
}

char *built_name(char c, size_t count, const char *end)
{
    char *name = malloc(count + strlen(end) + 1);
    cr_assert_not_null(name);
    memset(name, c, count);
    memcpy(name + count, end, strlen(end) + 1);
    return name;
}

char *built_wide_name(const char *begin, size_t count, const char *end)
{
    static const char *const letters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    struct sp_buf name;
    sp_buf_init(&name, 1 << 20);
    sp_buf_append(&name, begin, strlen(begin));
    for (size_t i = 0; i < count; i++)
        sp_buf_append(&name, letters[i % 4], strlen(letters[i % 4]));
    sp_buf_append(&name, end, strlen(end) + 1);
    return name.data; /* from malloc */
}
