#include "spec_bytes.h"

#include <string.h>

#include "base/buf.h"
#include "onnx/reader.h"
#include "onnx/write.h"

enum sp_status spec_read_bytes(struct sp_arena *arena, const void *bytes, size_t size,
                               struct sp_sharding_spec *ret_spec, struct sp_error *err)
{
    struct sp_buf configuration, node, graph, file;
    struct sp_buf *const all[] = {&configuration, &node, &graph, &file};
    struct sp_model *model;
    enum sp_status status = SP_OK;
    for (int i = 0; i < 4; i++)
        sp_buf_init(all[i], SIZE_MAX / 4);
    sp_encode_field(1, "c", 1, &configuration);      /* NodeDeviceConfigurationProto.configuration_id */
    sp_encode_field(2, bytes, size, &configuration); /* its sharding_spec */
    sp_encode_field(2, "y", 1, &node);               /* NodeProto.output */
    sp_encode_field(4, "Op", 2, &node);              /* its op_type */
    sp_encode_field(10, configuration.data, configuration.size, &node); /* its device_configurations */
    sp_encode_field(1, node.data, node.size, &graph);                   /* GraphProto.node */
    sp_encode_field(2, "g", 1, &graph);                                 /* its name */
    sp_buf_append(&file, "\x08\x0b", 2);                                /* ModelProto.ir_version */
    sp_encode_field(7, graph.data, graph.size, &file);                  /* its graph */
    sp_encode_field(8, "\x10\x12", 2, &file);                           /* its opset_import, version 18 */
    void *kept = sp_arena_alloc(arena, file.size); /* what is read of the model stays in its bytes */
    if (kept == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_onnx_read(arena, memcpy(kept, file.data, file.size), file.size, NULL, &model, err);
    if (status == SP_OK) {
        *ret_spec = model->graph->nodes[0].configurations[0].specs[0];
        if (ret_spec->tensor_name[0] == '\0')
            ret_spec->tensor_name = NULL;
    }
    for (int i = 0; i < 4; i++)
        sp_buf_release(all[i]);
    return status;
}
