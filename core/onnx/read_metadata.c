#include <string.h>

#include "base/utf8.h"
#include "onnx/read.h"

/* The keys that something here reads. Exporters write kilobytes of others (stack traces, scopes), which stay unread. */
static const char *const keys[] = {"mhlo.sharding", "sharding", "layer_ann"};

static const char *find_key(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strlen(keys[i]) == size && memcmp(keys[i], bytes, size) == 0)
            return keys[i];
    }
    return NULL;
}

static enum sp_status append(struct sp_reader *r, struct sp_metadata_list **list, const char *key, struct sp_span value)
{
    struct sp_metadata_list *entries = *list != NULL ? *list : SP_NEW(r->arena, struct sp_metadata_list);
    const char *bytes = (const char *)r->bytes + value.offset;
    if (entries == NULL)
        return sp_fail_memory(r->err);
    *list = entries;
    r->model->has_kept_metadata = true;
    if (entries->count == sizeof entries->items / sizeof entries->items[0] || value.size > SP_MAX_RECORD_BYTES ||
        !sp_utf8_valid(bytes, value.size))
        return SP_OK;
    char *copy = sp_arena_string(r->arena, bytes, value.size);
    if (copy == NULL)
        return sp_fail_memory(r->err);
    entries->items[entries->count++] = (struct sp_metadata){key, copy};
    return SP_OK;
}

enum sp_status sp_read_metadata_entry(struct sp_reader *r, const struct sp_wire_field *outer,
                                      struct sp_metadata_list **list)
{
    struct sp_wire_field field;
    struct sp_span value = {0, 0};
    const char *key = NULL;
    enum sp_status status = sp_wire_expect(outer, SP_WIRE_LEN, r->err);
    if (status != SP_OK)
        return status;
    struct sp_wire wire = sp_wire_of(r->bytes, outer->payload);
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number > 2)
            continue;
        if ((status = sp_wire_expect(&field, SP_WIRE_LEN, r->err)) != SP_OK)
            return status;
        if (field.number == 1)
            key = find_key(r->bytes + field.payload.offset, field.payload.size);
        else
            value = field.payload;
    }
    return status == SP_OK && key != NULL ? append(r, list, key, value) : status;
}
