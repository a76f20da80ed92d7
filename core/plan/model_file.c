#include "plan/model_file.h"

#include <string.h>

static enum sp_status read_any(struct sp_budget *budget, const void *bytes, uint64_t size,
                               const struct sp_read_options *options, bool takes_costs, struct sp_model_file *ret_file,
                               struct sp_error *err)
{
    struct sp_model_file file = {.bytes = bytes, .size = size, .given_size = size};
    if (sp_json_is(bytes, size)) {
        enum sp_status status = takes_costs
                                    ? sp_json_read(budget, bytes, size, options, &file.converted, &file.costs, err)
                                    : sp_json_to_onnx(budget, bytes, size, options->watch, &file.converted, err);
        if (status != SP_OK)
            return status;
        file.is_converted = true;
        file.bytes = file.converted.data != NULL ? file.converted.data : "";
        file.size = file.converted.size;
    }
    *ret_file = file;
    return SP_OK;
}

enum sp_status sp_model_file_open(struct sp_budget *budget, const void *bytes, uint64_t size,
                                  const struct sp_watch *watch, struct sp_model_file *ret_file, struct sp_error *err)
{
    const struct sp_read_options options = {.watch = watch};
    return read_any(budget, bytes, size, &options, false, ret_file, err);
}

enum sp_status sp_model_file_open_any(struct sp_budget *budget, const void *bytes, uint64_t size, uint64_t hash_seed,
                                      const struct sp_watch *watch, struct sp_model_file *ret_file,
                                      struct sp_error *err)
{
    const struct sp_read_options options = {.hash_seed = hash_seed, .watch = watch};
    return read_any(budget, bytes, size, &options, true, ret_file, err);
}

void sp_model_file_release(struct sp_model_file *file)
{
    sp_buf_release(&file->converted);
    sp_json_graph_destroy(file->costs);
    *file = (struct sp_model_file){0};
}

struct copying {
    const struct sp_model_file *file;
    struct sp_splice *to;
};

static bool add(void *context, const void *bytes, size_t size)
{
    const struct copying *copying = context;
    return sp_splice_add(copying->to, bytes, size);
}

static bool add_kept(void *context, uint64_t offset, uint64_t size)
{
    const struct copying *copying = context;
    return sp_splice_add(copying->to, (const char *)copying->file->bytes + offset, (size_t)size);
}

enum sp_status sp_model_file_splice(const struct sp_model_file *file, struct sp_splice **splice, struct sp_error *err)
{
    struct copying copying = {.file = file};
    const struct sp_sink sink = {.write = add, .copy = add_kept, .context = &copying};
    if (!file->is_converted)
        return SP_OK;
    copying.to = sp_splice_create(file->given_size);
    const bool is_made = copying.to != NULL && sp_splice_stream(*splice, NULL, &sink, NULL) == SP_OK;
    sp_splice_destroy(*splice);
    *splice = is_made ? copying.to : NULL;
    if (is_made)
        return SP_OK;
    sp_splice_destroy(copying.to);
    return sp_fail_memory(err);
}
