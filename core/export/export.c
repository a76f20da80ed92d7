#include "export/export.h"

#include <string.h>

#include "export/internal.h"
#include "export/servers/layers.h"
#include "plan/cost_graph.h"

struct entry {
    struct sp_export_format format;
    enum sp_status (*write)(struct sp_export *out, struct sp_error *err);
};

#define JSON "application/json"
#define CSV  "text/csv; charset=utf-8"
#define ONNX "application/octet-stream"
#define TEXT "text/plain; charset=utf-8"

static const struct entry table[] = {
    {{"op-sharding", "application/jsonl", "XLA's OpSharding of every value, as bytes and as text", false, true},
     sp_export_op_sharding},
    {{"shardy", "text/plain; charset=utf-8", "meshes and shardings as attributes of an MLIR module", false, true},
     sp_export_shardy},
    {{"poprt", "application/yaml", "sharding points for PopRT's manual sharding", false, true}, sp_export_poprt},
    {{"poprt-model", ONNX, "the model with __ipu_number and __pipeline_stage at each node", false, true},
     sp_export_poprt_model},
    {{"qualcomm-mdp", JSON, "partitions for qaic-compile -mdp-load-partition-config", false, true}, sp_export_mdp},
    {{"ort", ONNX, "one device's model with ONNX Runtime's Distributed operators", false, true}, sp_export_ort},
    {{"ort-layers", ONNX, "the model with layer_ann at each node, for ONNX Runtime's placement", false, true},
     sp_export_ort_layers},
    {{"ort-layers-options", JSON, "the session options that go with ort-layers", false, true},
     sp_export_ort_layers_options},
    {{"ort-layers-names", JSON, "a session option of ONNX Runtime by nodes' names, for the model as it is", false,
      true},
     sp_export_ort_names},
    {{"olive-splits", TEXT, "split_assignments of Olive's SplitModel", false, true}, sp_export_olive},
    {{"netron", ONNX, "the model with stage and devices at each node, as Netron shows them", false, true},
     sp_export_netron},
    {{"polygraphy-hints", JSON, "hints for polygraphy multi-device shard", false, true}, sp_export_polygraphy},
    {{"vllm-args", TEXT, "options of vLLM, and the layers of each stage", false, true}, sp_export_vllm},
    {{"sglang-args", TEXT, "options of SGLang, and the layers of each stage", false, true}, sp_export_sglang},
    {{"trtllm-args", TEXT, "options of TensorRT-LLM, and the layers of each stage", false, true}, sp_export_trtllm},
    {{"llamacpp-args", TEXT, "options of llama.cpp", false, true}, sp_export_llamacpp},
    {{"mlx", TEXT, "options of mlx.launch and MLX-LM", false, true}, sp_export_mlx},
    {{"exo", JSON, "what layers each rank of exo has", false, true}, sp_export_exo},
    {{"perfetto", "application/x-protobuf", "the first requests on every device, as a trace", true, false},
     sp_export_perfetto},
    {{"model-explorer", JSON, "node data for Model Explorer: the stage of each node", false, true},
     sp_export_explorer_stage},
    {{"model-explorer-device", JSON, "the same: the device of each node", false, true}, sp_export_explorer_device},
    {{"model-explorer-seconds", JSON, "the same: seconds of each node", true, true}, sp_export_explorer_seconds},
    {{"model-explorer-bytes", JSON, "the same: memory traffic of each node", true, true}, sp_export_explorer_bytes},
    {{"csv", CSV, "a table of nodes", false, false}, sp_export_csv_nodes},
    {{"csv-devices", CSV, "a table of devices", false, false}, sp_export_csv_devices},
    {{"csv-tensors", CSV, "a table of tensors and their shardings", false, false}, sp_export_csv_tensors},
    {{"csv-collectives", CSV, "a table of what is communicated", false, false}, sp_export_csv_collectives},
};

#define FORMAT_COUNT (sizeof table / sizeof table[0])

static const struct entry *find(const char *name)
{
    for (size_t i = 0; name != NULL && i < FORMAT_COUNT; i++) {
        if (strcmp(table[i].format.name, name) == 0)
            return &table[i];
    }
    return NULL;
}

uint32_t sp_export_format_count(void)
{
    return FORMAT_COUNT;
}

const struct sp_export_format *sp_export_format(uint32_t index)
{
    return &table[index].format;
}

const struct sp_export_format *sp_export_find(const char *name)
{
    const struct entry *entry = find(name);
    return entry != NULL ? &entry->format : NULL;
}

enum sp_status sp_export_write(const struct sp_export_request *request, struct sp_error *err)
{
    const struct entry *entry = find(request->format);
    struct sp_export out = {.subject = request->subject, .request = request};
    if (entry == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_FORMAT", "There is no export format '%.64s'.",
                       request->format != NULL ? request->format : "");
    if (entry->format.needs_plan && request->subject->plan == NULL)
        return sp_fail(
            err, SP_ERR_REQUEST, "NEEDS_PLAN",
            "The format '%s' shows times and memory, which an annotated model does not have; export the plan "
            "('shardplan plan --plan FILE').",
            entry->format.name);
    if (entry->format.needs_model && request->subject->model == NULL)
        return sp_costs_refuse(entry->format.name, err);
    out.scratch = sp_arena_create(sp_arena_budget(request->subject->arena));
    if (out.scratch == NULL)
        return sp_fail_memory(err);
    sp_buf_init(&out.text, 2 * SP_EXPORT_CHUNK);
    enum sp_status status = entry->write(&out, err);
    if (status == SP_OK)
        status = sp_export_finish(&out, err);
    sp_buf_release(&out.text);
    sp_arena_destroy(out.scratch);
    return status;
}
