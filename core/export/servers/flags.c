/*
 * What a plan is in the options of servers of language models: degrees, and how many layers each stage has.
 *
 *   vllm-args      --tensor-parallel-size 2 --pipeline-parallel-size 2, and before it VLLM_PP_LAYER_PARTITION=12,14
 *   sglang-args    --tp-size 2 --pp-size 2, and before it SGLANG_PP_LAYER_PARTITION=12,14
 *   trtllm-args    --tp_size 2 --pp_size 2, and behind it the line pp_partition: [12, 14] of its YAML file
 *   llamacpp-args  -sm layer -ts 12,14 -dev CUDA0,CUDA1 -ngl all
 *   mlx            --backend ring, and --pipeline for a pipeline
 *   exo            shard metadata of each rank, as POST /instance takes them
 *
 * Of a service of a language model vLLM and SGLang are told its chunks, since both cut prompts when nothing is said: vLLM's
 * --max-num-batched-tokens counts the prompts of a step and a token of each sequence in flight, SGLang's
 * --chunked-prefill-size the prompts alone, which --enable-mixed-chunk lets run beside the sequences. Where prompts run
 * whole it is --no-enable-chunked-prefill, and --chunked-prefill-size -1.
 *
 * Variables of the environment stand in a line of their own, before the options; they are left out where all stages have
 * equally many layers. Sources: docs of vLLM, SGLang, TensorRT-LLM (TorchLlmArgs), llama.cpp (docs/multi-gpu.md), MLX-LM
 * (models/pipeline.py) and exo (shared/types/worker).
 */
#include <inttypes.h>

#include "export/servers/layers.h"

#define LLAMACPP_MOST_SPLIT 16 /* devices of -sm tensor */

static void write_counts(struct sp_export *out, const struct sp_layered *layered, const char *separator)
{
    for (uint32_t s = 0; s < layered->stages; s++)
        sp_export_printf(out, "%s%" PRIu32, s > 0 ? separator : "", layered->counts[s]);
}

static void write_partition(struct sp_export *out, const struct sp_layered *layered, const char *variable)
{
    if (layered->is_even)
        return;
    sp_export_printf(out, "%s=", variable);
    write_counts(out, layered, ",");
    sp_export_text(out, "\n");
}

/* The way in which a server cuts a layer's operators is its own. */
static enum sp_status tell_splits(struct sp_export *out, const struct sp_layered *layered, struct sp_error *err)
{
    if (layered->tensor == 1)
        return SP_OK;
    return sp_export_note(out, "SPLITS_LOST", NULL, err,
                          "The options say over how many devices layers are split; which axes are, is the server's own "
                          "choice.");
}

enum sp_status sp_export_vllm(struct sp_export *out, struct sp_error *err)
{
    const struct sp_subject_steps *steps = &out->subject->steps;
    struct sp_layered layered;
    enum sp_status status = sp_layered_find(out, "vLLM", &layered, err);
    if (status != SP_OK)
        return status;
    write_partition(out, &layered, "VLLM_PP_LAYER_PARTITION");
    sp_export_printf(out, "--tensor-parallel-size %" PRIu32 " --pipeline-parallel-size %" PRIu32, layered.tensor,
                     layered.stages);
    if (layered.copies > 1)
        sp_export_printf(out, " --data-parallel-size %" PRIu32, layered.copies);
    if (layered.has_experts)
        sp_export_text(out, " --enable-expert-parallel");
    if (steps->chunk > 0)
        sp_export_printf(out, " --enable-chunked-prefill --max-num-batched-tokens %" PRId64,
                         steps->chunk + steps->sequences);
    else if (steps->are_known)
        sp_export_text(out, " --no-enable-chunked-prefill");
    sp_export_text(out, "\n");
    return tell_splits(out, &layered, err);
}

enum sp_status sp_export_sglang(struct sp_export *out, struct sp_error *err)
{
    const struct sp_subject_steps *steps = &out->subject->steps;
    struct sp_layered layered;
    enum sp_status status = sp_layered_find(out, "SGLang", &layered, err);
    if (status != SP_OK)
        return status;
    write_partition(out, &layered, "SGLANG_PP_LAYER_PARTITION");
    sp_export_printf(out, "--tp-size %" PRIu32 " --pp-size %" PRIu32, layered.tensor, layered.stages);
    if (layered.copies > 1)
        sp_export_printf(out, " --dp-size %" PRIu32, layered.copies);
    if (layered.has_experts)
        sp_export_printf(out, " --ep-size %" PRIu32, layered.tensor);
    if (steps->chunk > 0)
        sp_export_printf(out, " --chunked-prefill-size %" PRId64 " --enable-mixed-chunk", steps->chunk);
    else if (steps->are_known)
        sp_export_text(out, " --chunked-prefill-size -1");
    sp_export_text(out, "\n");
    return tell_splits(out, &layered, err);
}

static enum sp_status tell_copies(struct sp_export *out, const struct sp_layered *layered, const char *tool,
                                  struct sp_error *err)
{
    if (layered->copies == 1)
        return SP_OK;
    return sp_export_note(out, "COPIES_APART", NULL, err,
                          "The plan has %" PRIu32
                          " copies of the model: start %s that many times, each on its own devices.",
                          layered->copies, tool);
}

enum sp_status sp_export_trtllm(struct sp_export *out, struct sp_error *err)
{
    struct sp_layered layered;
    enum sp_status status = sp_layered_find(out, "TensorRT-LLM", &layered, err);
    if (status != SP_OK)
        return status;
    sp_export_printf(out, "--tp_size %" PRIu32 " --pp_size %" PRIu32, layered.tensor, layered.stages);
    if (layered.has_experts)
        sp_export_printf(out, " --ep_size %" PRIu32, layered.tensor);
    sp_export_text(out, "\n");
    if (!layered.is_even) {
        sp_export_text(out, "pp_partition: [");
        write_counts(out, &layered, ", ");
        sp_export_text(out, "]\n");
    }
    status = tell_copies(out, &layered, "TensorRT-LLM", err);
    return status == SP_OK ? tell_splits(out, &layered, err) : status;
}

static void write_devices(struct sp_export *out, const struct sp_layered *layered)
{
    sp_export_text(out, " -dev ");
    for (uint32_t s = 0; s < layered->stages; s++) {
        for (uint32_t d = 0; d < layered->tensor; d++)
            sp_export_printf(out, "%sCUDA%" PRId64, s + d > 0 ? "," : "", layered->devices[s][d]);
    }
}

enum sp_status sp_export_llamacpp(struct sp_export *out, struct sp_error *err)
{
    struct sp_layered layered;
    enum sp_status status = sp_layered_find(out, "llama.cpp", &layered, err);
    if (status != SP_OK)
        return status;
    if (layered.stages > 1 && layered.tensor > 1)
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "DEGREES_DIFFER",
            "llama.cpp divides a model by layers or splits it by rows of its tensors, and the plan does both: "
            "%u stages of %u devices.",
            layered.stages, layered.tensor);
    if (layered.tensor > LLAMACPP_MOST_SPLIT)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "DEGREES_DIFFER",
                       "llama.cpp splits tensors over %d devices at most, and the plan over %u.", LLAMACPP_MOST_SPLIT,
                       layered.tensor);
    if (layered.tensor > 1) {
        sp_export_text(out, "-sm tensor -fa on -ts ");
        for (uint32_t d = 0; d < layered.tensor; d++)
            sp_export_text(out, d > 0 ? ",1" : "1");
    } else {
        sp_export_text(out, "-sm layer -ts ");
        write_counts(out, &layered, ",");
    }
    write_devices(out, &layered);
    sp_export_text(out, " -ngl all\n");
    status = tell_copies(out, &layered, "llama.cpp", err);
    return status == SP_OK ? tell_splits(out, &layered, err) : status;
}

enum sp_status sp_export_mlx(struct sp_export *out, struct sp_error *err)
{
    struct sp_layered layered;
    enum sp_status status = sp_layered_find(out, "MLX-LM", &layered, err);
    if (status != SP_OK)
        return status;
    if (layered.stages > 1 && layered.tensor > 1)
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "DEGREES_DIFFER",
            "MLX-LM divides a model by layers or splits them, and the plan does both: %u stages of %u devices.",
            layered.stages, layered.tensor);
    if (!layered.is_even)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "LAYERS_UNEVEN",
                       "MLX-LM gives every stage equally many layers, and stage 0 has %u and the last one has %u.",
                       layered.counts[0], layered.counts[layered.stages - 1]);
    sp_export_text(out, layered.stages > 1 ? "--backend ring --pipeline\n" : "--backend ring\n");
    status = tell_copies(out, &layered, "mlx.launch", err);
    if (status == SP_OK && layered.stages > 1)
        status =
            sp_export_note(out, "RANKS_REVERSED", NULL, err,
                           "With --pipeline MLX-LM has the last layers on rank 0: the hosts of --hostfile stand in the "
                           "reverse order of the plan's stages.");
    return status == SP_OK ? tell_splits(out, &layered, err) : status;
}

static void write_shard(const struct sp_layered *layered, uint32_t rank, uint32_t first, struct sp_json *json)
{
    const bool is_pipeline = layered->stages > 1;
    sp_json_begin_object(json);
    sp_json_key(json, is_pipeline ? "PipelineShardMetadata" : "TensorShardMetadata");
    sp_json_begin_object(json);
    sp_json_member_int(json, "deviceRank", rank);
    sp_json_member_int(json, "worldSize", is_pipeline ? layered->stages : layered->tensor);
    sp_json_member_int(json, "startLayer", first);
    sp_json_member_int(json, "endLayer", is_pipeline ? first + layered->counts[rank] : layered->layers);
    sp_json_member_int(json, "nLayers", layered->layers);
    sp_json_end_object(json);
    sp_json_end_object(json);
}

enum sp_status sp_export_exo(struct sp_export *out, struct sp_error *err)
{
    struct sp_layered layered;
    struct sp_json json;
    enum sp_status status = sp_layered_find(out, "exo", &layered, err);
    if (status != SP_OK)
        return status;
    if (layered.stages > 1 && layered.tensor > 1)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "DEGREES_DIFFER",
                       "exo divides a model by layers or splits them, and the plan does both: %u stages of %u devices.",
                       layered.stages, layered.tensor);
    sp_export_json(out, true, &json);
    sp_json_begin_array(&json);
    for (uint32_t rank = 0, first = 0; rank < (layered.stages > 1 ? layered.stages : layered.tensor); rank++) {
        write_shard(&layered, rank, first, &json);
        first += layered.stages > 1 ? layered.counts[rank] : 0;
    }
    sp_json_end_array(&json);
    (void)sp_json_finish(&json, NULL);
    sp_export_text(out, "\n");
    status = sp_export_note(out, "MODEL_CARD", NULL, err,
                            "exo wants its own card of the model in each shard, as the member modelCard: GET "
                            "/instance/previews has it, with an instance that these shards replace those of.");
    return status == SP_OK ? tell_copies(out, &layered, "exo", err) : status;
}
