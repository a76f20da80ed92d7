#pragma once
/*
 * layers - a plan as servers of language models know one: whole layers in order, on blocks of equally many devices.
 *
 * Which layer a node is of is said by its name, or by that of a weight that it reads: "/model/layers.3/mlp/MatMul". The
 * text before a number that a '.' or '/' (or for weights '_') ends is a prefix; that with the most numbers is the layers'.
 * A layer has to be on one stage, layers have to ascend over stages, and what has weights outside of them belongs to the
 * first or the last stage (embedding, head).
 *
 * A stage of several devices splits its weights over all of them, or it is of another form: requests or positions that
 * are split are something else than these servers' degrees.
 */
#include "export/internal.h"

struct sp_layered {
    uint32_t layers, stages, tensor; /* tensor: devices of each stage, over which weights are split */
    uint32_t copies;                 /* of the whole, that take requests in turn */
    bool has_experts;                /* weights of experts are split by experts */
    bool is_even;                    /* equally many layers in each stage */
    const uint32_t *counts;          /* of layers, by stage */
    const int64_t *const *devices;   /* `tensor` of them by stage, ascending */
};

/* In the export's scratch arena. SP_ERR_UNSUPPORTED with the reason, and the node, where the plan has another form:
   "LAYERS_UNKNOWN", "LAYER_IS_CUT", "LAYERS_UNORDERED", "DEGREES_DIFFER", "NOT_BY_WEIGHTS". `tool` says for whom. */
enum sp_status sp_layered_find(struct sp_export *out, const char *tool, struct sp_layered *ret_layered,
                               struct sp_error *err);

/* ---- the formats ---- */

enum sp_status sp_export_vllm(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_sglang(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_trtllm(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_llamacpp(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_mlx(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_exo(struct sp_export *out, struct sp_error *err);
