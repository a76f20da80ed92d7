#pragma once
/*
 * build_export - planned and annotated models, and what exports write of them.
 *
 *     struct planned_model model;
 *     planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
 *     struct exported text = export_of(model.subject, "csv");
 *     cr_assert_str_eq(text.bytes.data, ...);
 *     exported_release(&text);
 *     planned_release(&model);
 */
#include "export/export.h"
#include "onnx_bytes.h"

#define PLANNED_SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct planned_model {
    struct sp_buf file;
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_subject *subject; /* of the plan */
};

/* Plans on so many A100s for throughput. The file's bytes are taken over. */
void planned_make(struct planned_model *ret_model, struct sp_buf file, int64_t devices);
void planned_mlp(struct planned_model *ret_model, const struct onnx_mlp *mlp, int64_t devices);
void planned_release(struct planned_model *model);

/* The plan as JSON; the caller releases it. */
json_t *planned_json(const struct planned_model *model);
/* The annotated model; the caller releases the bytes. */
struct sp_buf planned_annotated(const struct planned_model *model);
/* The subject of an annotated model. */
struct sp_subject *subject_of(const struct sp_buf *file);

/* What one export wrote, and the codes of its notes, each followed by a blank. */
struct exported {
    struct sp_buf bytes, notes;
    enum sp_status status;
    struct sp_error err;
};
struct exported export_any(const struct sp_subject *subject, const char *format);
struct exported export_for(const struct sp_subject *subject, const char *format, int64_t device);
/* With so many cores of each device. */
struct exported export_in(const struct sp_subject *subject, const char *format, int64_t cores);
/* It must succeed. */
struct exported export_of(const struct sp_subject *subject, const char *format);
void exported_release(struct exported *exported);
