#include <inttypes.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "onnx/leaf.h"

enum sp_status sp_read_opset(struct sp_reader *r, struct sp_span span, struct sp_opset *ret_opset)
{
    struct sp_arena_mark mark = sp_arena_mark(r->scratch);
    ProtobufCMessage *message;
    enum sp_status status = sp_leaf_unpack(r, &onnx__operator_set_id_proto__descriptor, span, &message);
    if (status != SP_OK)
        goto done;
    const Onnx__OperatorSetIdProto *proto = (const Onnx__OperatorSetIdProto *)message;
    if (!sp_leaf_intern(r, proto->domain == NULL ? "" : proto->domain, &ret_opset->domain)) {
        status = sp_fail_memory(r->err);
        goto done;
    }
    if (strcmp(ret_opset->domain, "ai.onnx") == 0 && !sp_leaf_intern(r, "", &ret_opset->domain)) {
        status = sp_fail_memory(r->err);
        goto done;
    }
    ret_opset->version = proto->version;
    if (!proto->has_version || proto->version < 1 || proto->version > INT32_MAX)
        status = sp_fail(r->err, SP_ERR_MODEL, "BAD_OPSET_VERSION",
                         "The version of operator set '%.80s' is missing or out of range (%" PRId64 ").",
                         ret_opset->domain, proto->version);
done:
    sp_arena_rewind(r->scratch, mark);
    return status;
}
