#pragma once
/*
 * model_file - a model as a caller gives it: an ONNX file, or a description in JSON (json/json.h) that becomes one
 * first.
 *
 * Everything behind works on `bytes`. Only two things differ for a description: the converted bytes are owned and must
 * live as long as the model that is read from them, and a splice over them means nothing to a caller, who has the text;
 * sp_model_file_splice() makes one that stands alone.
 *
 * A description may also be a graph of costs: then there are no bytes of an ONNX file, and what needs operators is
 * refused.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "onnx/splice.h"
#include "json/json.h"

struct sp_model_file {
    const void *bytes; /* of an ONNX file, or of something that its reader will refuse */
    uint64_t size;
    uint64_t given_size; /* what the caller gave */
    bool is_converted;
    struct sp_buf converted;     /* counted against the budget as long as that lives, and so is what follows */
    struct sp_json_graph *costs; /* or NULL; then bytes are "" */
};

/* `bytes` must stay as long as the file is used. Errors are those of sp_json_to_onnx(): a graph of costs is refused. */
enum sp_status sp_model_file_open(struct sp_budget *budget, const void *bytes, uint64_t size,
                                  const struct sp_watch *watch, struct sp_model_file *ret_file, struct sp_error *err);
/* The same for those who know what to do with a graph of costs. */
enum sp_status sp_model_file_open_any(struct sp_budget *budget, const void *bytes, uint64_t size, uint64_t hash_seed,
                                      const struct sp_watch *watch, struct sp_model_file *ret_file,
                                      struct sp_error *err);
void sp_model_file_release(struct sp_model_file *file); /* zeroed memory is allowed */

/* Makes a splice over the file's bytes one over what the caller gave: of a converted file nothing is kept, all is new.
   On an error *splice is destroyed. */
enum sp_status sp_model_file_splice(const struct sp_model_file *file, struct sp_splice **splice, struct sp_error *err);

/* What the file takes of a budget beside what is read from it. */
static inline size_t sp_model_file_memory(const struct sp_model_file *file)
{
    return file->converted.capacity + (file->costs != NULL ? file->costs->budget.used : 0);
}
