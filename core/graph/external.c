#include "graph/external.h"

enum sp_status sp_external_look(const struct sp_model *model, const struct sp_external_files *files, bool *ret_has,
                                const char **ret_missing, struct sp_error *err)
{
    const struct sp_graph *graph = model->graph;
    const char *location = NULL, *missing = NULL;
    int64_t size = -1;
    for (uint32_t i = 0; graph != NULL && i < graph->initializer_count; i++) {
        const struct sp_tensor *tensor = graph->initializers[i]->tensor;
        if (tensor == NULL || tensor->storage != SP_STORAGE_EXTERNAL)
            continue;
        if (tensor->external.location != location) /* names are the same where their texts are */
            size = files->size_of(files->context, tensor->external.location);
        location = tensor->external.location;
        if (missing == NULL && size < 0)
            missing = location;
        if (size >= 0 && (tensor->bytes > size || tensor->external.offset > size - tensor->bytes))
            return sp_fail(err, SP_ERR_MODEL, "EXTERNAL_DATA_SHORT",
                           "The file '%.200s' has %lld bytes, and the weight '%.200s' is %lld bytes from byte %lld on: "
                           "the file is cut off, or it is another model's.",
                           location, (long long)size, graph->initializers[i]->name, (long long)tensor->bytes,
                           (long long)tensor->external.offset);
    }
    *ret_has = location != NULL;
    *ret_missing = missing;
    return SP_OK;
}
