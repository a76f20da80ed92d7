/* What all parts of a description are read with. */
#include <string.h>

#include "ops/table/private.h"
#include "json/graph.h"

enum sp_status sp_description_members(const struct sp_tree *tree, uint32_t object, const char *what,
                                      const char *const *names, uint32_t count, uint32_t *ret_slots)
{
    char known[SP_ERROR_MESSAGE_SIZE / 2] = "";
    if (sp_tree_kind(tree, object) != SP_TREE_OBJECT)
        return sp_tree_fail(tree, object, "OBJECT_EXPECTED", "%s is a JSON object.", what);
    for (uint32_t i = 0; i < count; i++)
        ret_slots[i] = SP_TREE_NONE;
    for (uint32_t name = sp_tree_begin(object); name != sp_tree_end(tree, object);
         name = sp_tree_after(tree, name + 1)) {
        struct sp_tree_text text;
        uint32_t slot = 0;
        enum sp_status status = sp_tree_text(tree, name, &text);
        if (status != SP_OK)
            return status;
        while (slot < count && !sp_tree_text_is(text, names[slot]))
            slot++;
        if (slot < count && ret_slots[slot] == SP_TREE_NONE) {
            ret_slots[slot] = name + 1;
            continue;
        }
        if (slot < count)
            return sp_tree_fail(tree, name, "MEMBER_TWICE", "The member '%s' is there twice.", names[slot]);
        for (size_t i = 0, size = 0; i < count && size < sizeof known; i++)
            size += (size_t)snprintf(known + size, sizeof known - size, "%s%s", i == 0 ? "" : ", ", names[i]);
        return sp_tree_fail(tree, name, "MEMBER_UNKNOWN", "%s has no such member; known are %s.", what, known);
    }
    return SP_OK;
}

enum sp_status sp_description_array(const struct sp_tree *tree, uint32_t value, const char *what)
{
    return sp_tree_kind(tree, value) == SP_TREE_ARRAY
               ? SP_OK
               : sp_tree_fail(tree, value, "ARRAY_EXPECTED", "%s must be a JSON array.", what);
}

enum sp_status sp_description_text(struct sp_description *description, uint32_t field, uint32_t value, const char *what)
{
    const struct sp_tree *tree = description->tree;
    struct sp_arena_mark mark = sp_arena_mark(tree->arena);
    struct sp_tree_text text = {"", 0};
    if (value == SP_TREE_NONE)
        return SP_OK;
    if (sp_tree_kind(tree, value) != SP_TREE_STRING)
        return sp_tree_fail(tree, value, "TEXT_EXPECTED", "%s must be text.", what);
    enum sp_status status = sp_tree_text(tree, value, &text);
    if (status == SP_OK)
        sp_emit_bytes(&description->emit, field, text.bytes, text.size);
    sp_arena_rewind(tree->arena, mark);
    return status;
}

/* The bytes of an array that has been read, brackets included. */
static size_t array_size(const char *text)
{
    size_t at = 0;
    uint32_t depth = 0;
    bool in_text = false;
    do {
        const char c = text[at++];
        if (in_text && c == '\\')
            at++;
        else if (c == '"')
            in_text = !in_text;
        else if (!in_text && (c == '[' || c == '{'))
            depth++;
        else if (!in_text && (c == ']' || c == '}'))
            depth--;
    } while (depth > 0);
    return at;
}

enum sp_status sp_description_operators(struct sp_description *description, uint32_t value)
{
    const struct sp_tree *tree = description->tree;
    if (value == SP_TREE_NONE)
        return SP_OK;
    enum sp_status status = sp_description_array(tree, value, "'operators'");
    if (status != SP_OK)
        return status;
    const char *text = tree->text + tree->values[value].start;
    sp_emit_begin(&description->emit, SP_FIELD_MODEL_METADATA);
    sp_emit_word(&description->emit, SP_FIELD_ENTRY_KEY, SP_PRIVATE_METADATA_KEY);
    sp_emit_bytes(&description->emit, SP_FIELD_ENTRY_VALUE, text, array_size(text));
    sp_emit_end(&description->emit);
    return SP_OK;
}

enum sp_status sp_description_metadata(struct sp_description *description, uint32_t field, uint32_t value)
{
    const struct sp_tree *tree = description->tree;
    enum sp_status status = SP_OK;
    if (value == SP_TREE_NONE)
        return SP_OK;
    if (sp_tree_kind(tree, value) != SP_TREE_OBJECT)
        return sp_tree_fail(tree, value, "OBJECT_EXPECTED", "Metadata is a JSON object of texts.");
    for (uint32_t name = sp_tree_begin(value); status == SP_OK && name != sp_tree_end(tree, value);
         name = sp_tree_after(tree, name + 1)) {
        sp_emit_begin(&description->emit, field);
        status = sp_description_text(description, SP_FIELD_ENTRY_KEY, name, "A key");
        if (status == SP_OK)
            status = sp_description_text(description, SP_FIELD_ENTRY_VALUE, name + 1, "A value of metadata");
        sp_emit_end(&description->emit);
    }
    return status;
}
