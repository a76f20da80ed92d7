#pragma once
/*
 * realize - a partitioned model as ONNX files that runtimes load.
 *
 *   simulation  one model of plain ai.onnx operators with the original's inputs and outputs: every device's operators
 *               side by side, collectives written as Add, Max, Min, Mul, Concat and Slice. It computes what the devices
 *               would, so it proves a plan on any runtime.
 *
 *   device      the model of one device: its own operators, its own parts of weights, and how it exchanges pieces with
 *               the others.
 *
 * A file is a recipe: pieces of the original (and of its external data), new bytes, and strided parts of weights. It is
 * small whatever the weights' size, and streams; weights are never in memory.
 *
 * Names. Pieces are called VALUE@DEVICE, where the model has no '@' in its names (else '@@', ..); model inputs and
 * outputs keep theirs. Nodes are called NODE@DEVICE, so that a profile can be read beside the original.
 *
 * What a simulation does not have: annotations, training information, documentation, and what only describes (value
 * infos, quantisation annotations). Inputs with a default stay inputs; below IR version 4, where every weight is listed
 * as an input, they are weights, and the file says IR version 4. Model-local functions are kept where a node still
 * calls one.
 */
#include "base/json_writer.h"
#include "onnx/splice.h"
#include "partition/partition.h"
#include "realize/cuts.h"
#include "realize/recipe.h"

/* What becomes of weights that lie in other files. */
enum sp_realize_external {
    SP_EXTERNAL_INLINE = 0, /* they are read when the result is, and are part of it */
    SP_EXTERNAL_REFER       /* the result refers to the same files; parts of them that are not one run of bytes are cut
                               out by a node, and a note says so */
};

/* Which boxes of weights the data files of one folder hold, of one model's file. Models of devices have to be complete
   without the files of other devices: they add to it, and refer to what their own data file has already, where a device
   has models of several phases. A simulation refers to what is there, and its own data file has only the rest. */
struct sp_weight_places;
struct sp_weight_places *sp_weight_places_create(struct sp_arena *arena); /* lives there; NULL without memory */

/* The key of a tensor's metadata with its box, "0:4,8:16+24:32": for each axis ranges of indices. */
#define SP_BOX_KEY "shardplan.box"

/* The key of the metadata of a device's model that has the fingerprint of its manifest. */
#define SP_MANIFEST_KEY "shardplan.manifest"

#define SP_MAX_MANIFEST_BYTES ((size_t)1 << 30)
#define SP_MANIFEST_VERSION   1 /* changes when a member that a reader needs changes its meaning */

/* How devices' models are written where runtimes, or their versions, differ. All false: as their newest versions take
   it. Sources: NVIDIA's own writer (Polygraphy 0.49.25 and later), the operator's page and header (TensorRT 11.0), the
   multi-device guide, and ONNX Runtime's change 31571. */
struct sp_realize_forms {
    /* TensorRT's DistCollective. Its values are in lower case and gathers have reduce_op "sum", as NVIDIA's writer has
       them; is_upper: in upper case, and gathers have NONE, as the operator's page prints them. */
    bool is_upper;
    bool lists_world; /* groups has all ranks of a world and group_size their number; else [] and 0 stand for them */
    bool has_casts;   /* 16-bit floats are float32 in collectives, with a Cast on both sides: TensorRT's compiler then
                            does not fuse a collective with what is beside it, which it may refuse to build */
    bool has_no_alltoall; /* TensorRT 10.16 has no ALL_TO_ALL: everybody gathers all pieces */
    /* Inputs of models are all of the model's, and are cut inside; outputs are all of the model's, on one device, or of
       TensorRT's on every rank, where every rank has the same inputs and outputs. What calls the models then need not
       know of boxes: Triton feeds every rank with all of each input, and returns what rank 0 gives. */
    bool is_whole;
    bool has_no_bfloat16; /* ONNX Runtime before 1.30 has no collectives of bfloat16: they are float32 in them */
};

struct sp_realize_request {
    struct sp_partition_request partition;
    struct sp_realize_forms forms;
    const char *name; /* of the graph; NULL: the original's */
    enum sp_realize_external external;
    /* Weights above a kilobyte go into a file of their own beside the model, which is needed where all is more than
       2 GiB: the name that the model calls it by, and the recipe that they are appended to. NULL: they are in the
       model. */
    const char *data_name;
    struct sp_recipe *data;
    bool declares_boxes;                /* tensors of the model say which box of the original's they are (SP_BOX_KEY) */
    struct sp_weight_places *places;    /* with data; NULL: nothing is shared */
    const char *phase;                  /* in the names of the devices' models; NULL: none */
    const struct sp_request_cuts *cuts; /* the model is bound to one part of a request, and the simulation is of all of
                                           them; NULL: a request is whole */
    /* Notes of the partition; may be NULL. */
    enum sp_status (*note)(void *context, const struct sp_part_note *note, struct sp_error *err);
    void *note_context;
};

/* The simulation; the caller destroys the recipe, before the model's bytes are unmapped. */
enum sp_status sp_realize_simulation(const struct sp_realize_request *request, struct sp_recipe **ret_recipe,
                                     struct sp_error *err);

/* ---- models of devices --------------------------------------------------------------------------------------------
 */

/*
 * Worlds. Devices that take part in collectives together are a world; they run at the same time. A rank is a device's
 * place among the devices of its world, in the order of their numbers. What is brought from one world to another (a
 * stage's results to the next stage), or is no collective in the target, leaves as an output of a model and comes in as
 * an input of another.
 *
 * Parts. A model's inputs are there before it runs. So where a world needs something that depends on what it has given
 * away, its models are cut: device 0's second part is "device-0.part-1.onnx". What a part makes and a later one of the
 * same device needs is an output and an input too. Parts of one world with the same number run at the same time.
 *
 * The manifest is JSON:
 *     {"version": 1, "target": "sessions",
 *      "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 8]}],
 *      "outputs": [{"name": "y", "dtype": "float32", "shape": [2, null]}],
 *      "states": [{"past": "past.0", "present": "present.0"}],
 *      "devices": [{"id": 0, "world": 0, "rank": 0, "fingerprint": "8f..", "environment": {..},
 *       "parts": [
 *          {"part": 0, "model": "device-0.onnx",
 *           "inputs": [{"name": "x", "from": "input", "tensor": "x", "box": [[0, 4], [0, 8]]},
 *                      {"name": "h@1.5", "from": "device", "device": 1, "part": 0, "output": "h@1.5"}],
 *           "outputs": [{"name": "y", "to": "output", "tensor": "y", "box": [[0, 2], [0, 8]]},
 *                       {"name": "h@0.4", "to": "device"},
 *                       {"name": "@kept.0", "to": "nobody"}]}]}],
 *      "order": [["device-0.onnx", "device-1.onnx"], ["device-0.part-1.onnx"]],
 *      "notes": [{"code": "FACTOR_WHOLE", "node": "norm", "message": ".."}]}
 * "inputs" and "outputs" are those of the original; a shape is null where its rank is not known, and so is an extent;
 * "states" are its inputs that take outputs of the step before (graph/states.h). The fingerprint tells manifests whose
 * devices, ports or order differ; it is in the metadata of the device's models, too (SP_MANIFEST_KEY), so that models
 * of another plan are noticed. It does not cover the elements of weights.
 *
 * The environment has the variables that the process of a rank is started with; of ONNX Runtime's collectives, with the
 * names that it reads: LOCAL_RANK, LOCAL_WORLD_SIZE, and RANK0_PORT, by which two worlds on one host tell each other
 * apart. Where rank 0 is on another host, RANK0_IP is its address.
 * A box is what of the tensor it is: for each axis [start, limit), or several of them [[start, limit], ..] one behind
 * the other; null where all there is is meant. Models of one entry of "order" run at the same time, entries one after
 * the other (or earlier, once what they need is there). Outputs for nobody keep collectives from being taken out. A box
 * of an output that several devices have comes from each of them. Notes say what was not split, or exchanged in another
 * way than planned; each sentence once.
 *
 * With a plan there are its figures, "estimate": {"latency_seconds", "interval_seconds", "throughput_per_second"}, of
 * all copies together.
 *
 * A plan that cuts requests in parts has models for one of them, and "micro_batches" (cuts.h): they run once for each
 * part, states of which are apart.
 *
 * A plan of which copies take requests in turn has models for the devices of the first one, and "copies":
 * [[0, 1], [2, 3]] beside "devices": the devices of the cluster that run these models, of each copy.
 *
 * Of a plan whose requests take several routes export/routes.h makes a manifest out of those of its routes.
 *
 * Inputs with a default are weights of the devices' models. Control flow runs whole.
 */
enum sp_realize_target {
    /* com.microsoft AllReduce, AllGather and AllToAll, which know no groups: a world is the communicator of its
       devices. What they cannot say is an AllGather of all pieces and local operators, and where that would need a size
       that is not known, or a type that no collective carries, models are cut as for sessions; a note says so. */
    SP_TARGET_ORT,
    /* TensorRT's DistCollective: reductions by sum, prod, max and min, and groups of ranks; along the first axis. Since
       TensorRT 10.16, all-to-all since 11.0. */
    SP_TARGET_TENSORRT,
    /* No collectives: each device is a world of its own, and models are cut where anything is exchanged. Runs in any
       runtime that can run a model. */
    SP_TARGET_SESSIONS
};

struct sp_device_plan;

/* What models there are, and what goes in and out. Lives in `arena`, together with what it keeps of the request.
   Every target can say every exchange. Errors: those of the partition; SP_ERR_LIMIT. */
enum sp_status sp_device_plan_create(struct sp_arena *arena, const struct sp_realize_request *request,
                                     enum sp_realize_target target, struct sp_device_plan **ret_plan,
                                     struct sp_error *err);

/* Parts of a device: 0 where it has nothing to do. A part that nobody needs anything of has no model. */
uint32_t sp_device_plan_parts(const struct sp_device_plan *plan, int64_t device);
bool sp_device_plan_has(const struct sp_device_plan *plan, int64_t device, uint32_t part);
enum sp_realize_target sp_device_plan_target(const struct sp_device_plan *plan);

/* An input or output of a part's model. */
struct sp_model_port {
    const char *name;
    const char *tensor; /* the model's input or output that it is; NULL: neither */
    int64_t device;     /* of an input from another model: whose it is, and of which part; its name is the output's */
    uint32_t part;
    enum sp_dtype dtype; /* UNDEFINED: it is no tensor */
    bool has_rank;
    uint32_t rank;
    const int64_t *dims; /* -1: not known */
};
uint32_t sp_device_plan_port_count(const struct sp_device_plan *plan, int64_t device, uint32_t part, bool is_output);
/* What has to be made for it lives in `arena`; without memory it has no rank. */
struct sp_model_port sp_device_plan_port(const struct sp_device_plan *plan, int64_t device, uint32_t part,
                                         bool is_output, uint32_t index, struct sp_arena *arena);

/* "device-3.onnx", "device-3.part-1.onnx"; of a phase "device-3.prefill.onnx", "device-3.prefill.part-1.onnx", NULL:
   of none. Returns `text`. */
#define SP_PHASE_FILE_NAME_SIZE   48 /* at most, of the phase's name */
#define SP_DEVICE_MODEL_NAME_SIZE 128
const char *sp_device_plan_model(const char *phase, int64_t device, uint32_t part,
                                 char text[SP_DEVICE_MODEL_NAME_SIZE]);
/* The members of the manifest, within an object that the caller begins and ends. */
void sp_device_plan_manifest(const struct sp_device_plan *plan, struct sp_json *json);

/* All models of one device, sp_device_plan_parts() of them (NULL where a part has none), which the caller destroys. The
   request is the plan's, but
   for name, data and data_name: its weights may go into a data file for the device. */
enum sp_status sp_realize_device(const struct sp_realize_request *request, const struct sp_device_plan *plan,
                                 int64_t device, struct sp_recipe **ret_recipes, struct sp_error *err);
