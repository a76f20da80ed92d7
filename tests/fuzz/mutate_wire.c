/*
 * The mutator of libFuzzer for models. Half of the changes know what a model is (mutate_model.h). The others know the
 * wire format and no schema: they work on whole fields, at any depth, and write all lengths anew, so that most of what
 * they make is still a message.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "mutate_model.h"
#include "onnx/wire.h"

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
                                 uint8_t *out, size_t max_size, unsigned seed);

#define MAX_FIELDS 4096
#define MAX_DEPTH  24
#define MAX_MODEL  ((size_t)32 << 10) /* bytes of a model that is changed as one: messages nest no deeper than a stack */

/* A field, and the one that holds it. */
struct node {
    struct sp_wire_field field;
    uint64_t end;
    int parent; /* -1: the file */
};

struct tree {
    const uint8_t *bytes;
    int count;
    struct node nodes[MAX_FIELDS];
};

/* Whether the payload can be taken for a message: it has fields to its very end. */
static bool is_message(const uint8_t *bytes, struct sp_span span)
{
    struct sp_wire wire = sp_wire_of(bytes, span);
    struct sp_wire_field field;
    if (span.size < 2)
        return false;
    while (sp_wire_next(&wire, &field, NULL) == SP_OK) {
        if (field.number == 0)
            return true;
        if (field.number > 100)
            return false;
    }
    return false;
}

static void add_fields(struct tree *tree, struct sp_span span, int parent)
{
    struct sp_wire wire = sp_wire_of(tree->bytes, span);
    struct sp_wire_field field;
    while (tree->count < MAX_FIELDS && sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0)
        tree->nodes[tree->count++] = (struct node){field, wire.at, parent};
}

static void read_tree(struct tree *tree, const uint8_t *bytes, size_t size)
{
    tree->bytes = bytes;
    tree->count = 0;
    add_fields(tree, (struct sp_span){0, size}, -1);
    for (int i = 0; i < tree->count; i++) {
        const struct node node = tree->nodes[i];
        if (node.field.type == SP_WIRE_LEN && is_message(bytes, node.field.payload))
            add_fields(tree, node.field.payload, i);
    }
}

static void put_varint(struct sp_buf *buf, uint64_t value)
{
    unsigned char bytes[10];
    uint32_t width = sp_wire_varint_size(value);
    sp_wire_put_varint(bytes, value, width);
    sp_buf_append(buf, bytes, width);
}

/*
 * The file with bytes [at, end) replaced, the place being inside the field `parent` (-1: the file itself): the lengths
 * of all fields around it are written anew, innermost first.
 */
static size_t rebuild(const struct tree *tree, size_t size, int parent, uint64_t at, uint64_t end,
                      const struct sp_buf *with, uint8_t *out, size_t max_size)
{
    struct sp_buf inner, outer;
    size_t result = 0;
    sp_buf_init(&inner, max_size + (1 << 16));
    sp_buf_init(&outer, max_size + (1 << 16));
    sp_buf_append(&inner, with->data != NULL ? with->data : "", with->size);
    for (int depth = 0; depth < MAX_DEPTH; depth++) {
        uint64_t from = parent < 0 ? 0 : tree->nodes[parent].field.payload.offset;
        uint64_t to = parent < 0 ? size : from + tree->nodes[parent].field.payload.size;
        sp_buf_clear(&outer);
        sp_buf_append(&outer, tree->bytes + from, at - from);
        sp_buf_append(&outer, inner.data != NULL ? inner.data : "", inner.size);
        sp_buf_append(&outer, tree->bytes + end, to - end);
        if (parent < 0)
            break;
        at = tree->nodes[parent].field.at;
        end = tree->nodes[parent].end;
        sp_buf_clear(&inner);
        put_varint(&inner, (uint64_t)tree->nodes[parent].field.number << 3 | SP_WIRE_LEN);
        put_varint(&inner, outer.size);
        sp_buf_append(&inner, outer.data != NULL ? outer.data : "", outer.size);
        parent = tree->nodes[parent].parent;
    }
    if (!sp_buf_failed(&inner) && !sp_buf_failed(&outer) && parent < 0 && outer.size > 0 && outer.size <= max_size) {
        memcpy(out, outer.data, outer.size);
        result = outer.size;
    }
    sp_buf_release(&inner);
    sp_buf_release(&outer);
    return result;
}

static void put_field(struct sp_buf *buf, const struct tree *tree, const struct node *node)
{
    sp_buf_append(buf, tree->bytes + node->field.at, node->end - node->field.at);
}

/* What takes the place of the field: nothing, itself twice, another field, another number, or changed text. */
static void change(const struct tree *tree, const struct node *node, const struct tree *donor, unsigned *seed,
                   struct sp_buf *with)
{
    const struct node *other = &donor->nodes[(unsigned)rand_r(seed) % (unsigned)donor->count];
    uint8_t text[256];
    switch (rand_r(seed) % 6) {
    case 0:
        return;
    case 1:
        put_field(with, tree, node);
        put_field(with, tree, node);
        return;
    case 2:
        put_field(with, donor, other);
        return;
    case 3:
        put_field(with, tree, node);
        put_field(with, donor, other);
        return;
    case 4:
        if (node->field.type != SP_WIRE_VARINT)
            break;
        put_varint(with, (uint64_t)node->field.number << 3 | SP_WIRE_VARINT);
        static const uint64_t numbers[] = {0, 1, 2, 3, 4, 7, 8, 64, 127, 4096, 65536, 1u << 31, UINT64_MAX, INT64_MAX};
        put_varint(with, rand_r(seed) % 2 == 0 ? numbers[(unsigned)rand_r(seed) % (sizeof numbers / sizeof *numbers)]
                                               : node->field.value + (uint64_t)(rand_r(seed) % 3) - 1);
        return;
    default:
        break;
    }
    if (node->field.type != SP_WIRE_LEN || node->field.payload.size > sizeof text) {
        put_field(with, donor, other);
        return;
    }
    memcpy(text, tree->bytes + node->field.payload.offset, node->field.payload.size);
    size_t size = LLVMFuzzerMutate(text, node->field.payload.size, sizeof text);
    put_varint(with, (uint64_t)node->field.number << 3 | SP_WIRE_LEN);
    put_varint(with, size);
    sp_buf_append(with, text, size);
}

static size_t mutate(const uint8_t *bytes, size_t size, const uint8_t *second, size_t second_size, uint8_t *out,
                     size_t max_size, unsigned seed)
{
    struct tree *tree = malloc(sizeof *tree), *donor = malloc(sizeof *donor);
    struct sp_buf with;
    size_t result = 0;
    sp_buf_init(&with, max_size);
    if (tree != NULL && donor != NULL) {
        read_tree(tree, bytes, size);
        read_tree(donor, second, second_size);
        if (tree->count > 0 && donor->count > 0) {
            const struct node *node = &tree->nodes[(unsigned)rand_r(&seed) % (unsigned)tree->count];
            change(tree, node, donor, &seed, &with);
            if (!sp_buf_failed(&with))
                result = rebuild(tree, size, node->parent, node->field.at, node->end, &with, out, max_size);
        }
    }
    sp_buf_release(&with);
    free(tree);
    free(donor);
    return result;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max_size, unsigned seed)
{
    if (seed % 8 == 0 || size == 0)
        return LLVMFuzzerMutate(bytes, size, max_size);
    size_t result = seed % 2 == 1 && size <= MAX_MODEL ? mutate_model(bytes, size, bytes, max_size, seed) : 0;
    if (result != 0)
        return result;
    uint8_t *copy = malloc(size);
    if (copy != NULL) {
        memcpy(copy, bytes, size);
        result = mutate(copy, size, copy, size, bytes, max_size, seed);
    }
    free(copy);
    return result != 0 ? result : LLVMFuzzerMutate(bytes, size, max_size);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
                                 uint8_t *out, size_t max_size, unsigned seed)
{
    return mutate(first, first_size, second, second_size, out, max_size, seed);
}
