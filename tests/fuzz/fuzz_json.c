/*
 * Descriptions of models in JSON: whatever is accepted is a message that protobuf's own code reads, is the same a
 * second time, and is read or refused like any file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "onnx.pb-c.h"
#include "onnx/reader.h"
#include "json/json.h"

#define BUDGET ((size_t)256 << 20)

static void check_error(enum sp_status status, const struct sp_error *err)
{
    if (err->status != status || err->message[0] == '\0' || err->code[0] == '\0')
        abort();
}

static void check_bytes(const struct sp_buf *bytes)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_error err = {0};
    struct sp_model *model;
    const uint8_t *data = bytes->data != NULL ? (const uint8_t *)bytes->data : (const uint8_t *)"";
    ProtobufCMessage *message = protobuf_c_message_unpack(&onnx__model_proto__descriptor, NULL, bytes->size, data);
    if (message == NULL)
        abort();
    protobuf_c_message_free_unpacked(message, NULL);
    if (arena != NULL) {
        enum sp_status status = sp_onnx_read(arena, data, bytes->size, NULL, &model, &err);
        if (status != SP_OK)
            check_error(status, &err);
    }
    sp_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_buf first = {0}, second = {0};
    struct sp_error err = {0};
    (void)sp_json_is(bytes, size);
    enum sp_status status = sp_json_to_onnx(&budget, (const char *)bytes, size, NULL, &first, &err);
    if (status != SP_OK) {
        check_error(status, &err);
        return 0;
    }
    if (budget.used != first.capacity ||
        sp_json_to_onnx(&budget, (const char *)bytes, size, NULL, &second, &err) != SP_OK ||
        first.size != second.size || (first.size > 0 && memcmp(first.data, second.data, first.size) != 0))
        abort();
    check_bytes(&first);
    sp_buf_release(&first);
    sp_buf_release(&second);
    return 0;
}
