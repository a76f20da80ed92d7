#pragma once
/*
 * cluster - the devices a plan may use and the links between them.
 *
 * Devices are numbered 0.. in the order of the groups. Links form a hierarchy: `mesh` lists its levels from the
 * outermost (slow, between nodes) to the innermost (fast, inside a node); the sizes multiply to the number of devices,
 * and device numbers count row-major. Two devices talk over the outermost level at which their coordinates differ.
 *
 *   mesh [{node,2},{gpu,4}]     device 5 = (1,1); 5 and 6 differ at gpu: fast; 1 and 5 differ at node: slow
 *
 * Without a mesh there is one level, "link", as slow as the slowest device's link (its host link, when it has none).
 *
 * JSON forms
 *   short   {"device": NAME or {..}, "count": N}
 *   full    {"groups": [{"name", "count", "device": NAME or {..}, "runtime"}, ..], "device_count": N}
 *   both    "mesh": [{"name", "size", "bandwidth", "latency"}, ..], "memory_limit_bytes", "efficiency",
 *           "launch_seconds", "runtime"
 *   device  {"name", "memory_bytes", "memory_bandwidth", "flops": {DTYPE: FLOP per second, ..}}, and if wanted the
 *           other members of api/schema/device.schema.json, which the files of api/devices have too
 *
 * Required: device and count, or groups with device and count in each; size and bandwidth of a level; the four members
 * of a described device. Everything else has a default. A group without a runtime has the cluster's. "device_count"
 * plans on the first N devices only; it keeps the numbering of a mesh of which only a part is used. Unknown members
 * are errors; an error's `where` is the JSON pointer of the member, its message says what is expected there.
 *
 * Invariants: 1 <= device_count <= SP_MAX_DEVICES; group counts add up to it; level sizes multiply to it, or to more
 * when sp_cluster_prefix() cut a mesh in the middle. All figures are finite and positive (latencies may be 0).
 */
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "cost/cluster/device.h"
#include "sharding/reshard/collective_cost.h"

struct sp_device_group_spec {
    const char *name;
    uint32_t count;
    struct sp_device device;
};

struct sp_cluster {
    uint32_t device_count, group_count, level_count;
    struct sp_device_group_spec *groups;
    uint32_t *group_of;           /* device -> group */
    struct sp_mesh_level *levels; /* outermost first; never empty */
    bool links_assumed;           /* nobody stated them: the devices' own links count, the slowest for all */
    double memory_limit_bytes;    /* per device, 0 = the device's own */
    double efficiency;            /* share of peaks that kernels of all devices reach, (0, 1]; 0: the devices' own */
    double launch_seconds;        /* to start a kernel of any device; below 0: the devices' own */
    double reserved_bytes;        /* of each device's memory, for others; a request's, so no part of the JSON */
};

/* Of devices without a kind, where nothing is stated: 0.7 for compute and memory, 7e-6 s (autoparallel's published
   constants). */
#define SP_DEFAULT_EFFICIENCY     0.7
#define SP_DEFAULT_LAUNCH_SECONDS 7e-6
#define SP_LAUNCH_NOT_STATED      (-1)

/* Figures outside are typing errors, and would make sums of times meaningless. */
#define SP_MIN_EFFICIENCY 1e-6
#define SP_MAX_FIGURE     1e24 /* bytes, bytes per second, FLOP per second; the smallest is 1 */
#define SP_MAX_SECONDS    1e6  /* a latency, a launch */

/* `count` catalog devices; SP_ERR_REQUEST for an unknown name (the message lists similar ones) or a bad count. */
enum sp_status sp_cluster_uniform(struct sp_arena *arena, const char *device, int64_t count,
                                  struct sp_cluster **ret_cluster, struct sp_error *err);

/* SP_ERR_REQUEST "UNKNOWN_DEVICE" for a name that the catalog lacks; the message lists similar ones. */
enum sp_status sp_cluster_unknown_device(const char *name, struct sp_error *err);

/* From JSON; `pointer` is the JSON pointer of `json` in the request ("" or "/cluster"), used in errors' `where`. */
enum sp_status sp_cluster_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_cluster **ret_cluster, struct sp_error *err);

/*
 * The same cluster with its first `count` devices (1 <= count <= device_count); NULL without memory. Levels are kept,
 * their sizes shrink to the part that is used: 4 of [{node,2},{gpu,8}] are [{node,1},{gpu,4}]; 12 keep both sizes.
 */
struct sp_cluster *sp_cluster_prefix(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t count);

/* What device `device` is; it lives as long as the cluster. */
const struct sp_device *sp_cluster_device(const struct sp_cluster *cluster, uint32_t device);

/* Bytes that a plan may use on a device: of a GPU what it reports (else the printed size) less what the runtime's
   process takes of it. */
double sp_device_usable_bytes(const struct sp_device *device);

/* The same, at most the cluster's limit, less what is reserved. */
double sp_cluster_memory(const struct sp_cluster *cluster, uint32_t device);

/* The link levels, for what is costed by them; they live as long as the cluster. */
static inline struct sp_links sp_cluster_links(const struct sp_cluster *cluster)
{
    return (struct sp_links){cluster->level_count, cluster->levels};
}

/* The link level between two different devices. */
const struct sp_mesh_level *sp_cluster_link(const struct sp_cluster *cluster, uint32_t a, uint32_t b);

/* Seconds to move `bytes` from a to b: latency + bytes / bandwidth; 0 when a == b. */
double sp_cluster_transfer_seconds(const struct sp_cluster *cluster, uint32_t a, uint32_t b, double bytes);

/* Writes a device as an object, what is not stated left out; the text about each figure only `with_sources`. A
   described device of this form is the same device. */
void sp_device_write(const struct sp_device *device, bool with_sources, struct sp_json *json);

/* Writes the full form with every figure that is stated, without `sources`; sp_cluster_parse() makes the same cluster
   of it. */
void sp_cluster_write(const struct sp_cluster *cluster, struct sp_json *json);
