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
 * Without a mesh and links there is one level, "link", as slow as the slowest device's link (its host link, when it has
 * none).
 *
 * JSON forms
 *   short   {"device": NAME or {..}, "count": N}
 *   full    {"groups": [{"name", "count", "device": NAME or {..}, "runtime", "reserved_bytes", "price_per_hour",
 *                        "host"}, ..],
 *            "device_count": N}
 *   both    "mesh": [{"name", "size", "bandwidth", "latency"}, ..], "memory_limit_bytes", "efficiency",
 *           "launch_seconds", "runtime", "exclude": [number or pattern, ..],
 *           "host": {"memory_bytes", "bandwidth", "devices"},
 *           "links": [{"between": [END, END], "bandwidth", "latency"}, ..],
 *           "switches": [{"name", "members": [END, ..], "bandwidth", "member_bandwidth", "latency"}, ..]
 *   device  {"name", "memory_bytes", "memory_bandwidth", "flops": {DTYPE: FLOP per second, ..}}, and if wanted the
 *           other members of api/schema/device.schema.json, which the files of api/devices have too
 *
 * Required: device and count, or groups with device and count in each; size and bandwidth of a level; the four members
 * of a described device. Everything else has a default. A group without a runtime has the cluster's. "device_count"
 * plans on the first N devices only; it keeps the numbering of a mesh of which only a part is used. "exclude" leaves
 * devices out, by number or by a pattern of group names (`*` is any characters, `?` any one). Unknown members are
 * errors; an error's `where` is the JSON pointer of the member, its message says what is expected there.
 *
 * A host is memory beside devices, from which they may copy weights for each request (cost/streaming.h), over one link
 * of `bandwidth` that all of them share; a device's own link to it may be narrower. "devices" neighbours have one host;
 * without it all devices of the group, or of the cluster, where a mesh has a level "node" those of a node. A group's
 * host counts before the cluster's. As devices that compute, processors are a group as any other.
 *
 * Links as they are, beside a mesh or without one: an END is a device's number or the name of a switch, of an earlier
 * one among members. A switch's members share its bandwidth; "member_bandwidth" is what one of them reaches alone. What
 * nothing joins goes over the host. Levels are found along these links (internal.h), so that devices of one fast link
 * are neighbours, and everything that asks for levels stays as it is.
 *
 *   4 devices, links [0,2] and [1,3]     levels [{host,2},{links,2}]     device  0 1 2 3    number  0 2 1 3
 *
 * Whoever plans wants devices that belong together to be neighbours. So a cluster of which devices are left out, or in
 * which groups alike stand apart, is *arranged*: inside it devices have numbers without gaps, each is at a place of the
 * mesh, and sp_cluster_number() is the number that the description gives it. People see that one only.
 *
 *   3 devices, exclude [1]      device  0 1    number  0 2
 *   2 x A, 1 x B, 2 x A         device  0 1 2 3 4    number  0 1 3 4 2
 *   mesh [{2},{3}], exclude [1] device  0 1 2 3 4    number  3 4 5 0 2    the full node first
 *
 * Invariants: 1 <= device_count <= SP_MAX_DEVICES; group counts add up to it; level sizes multiply to it, or to more
 * where places are not used. Places ascend. All figures are finite and positive (latencies may be 0).
 */
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "cost/cluster/device.h"
#include "sharding/reshard/collective_cost.h"

#define SP_NO_HOST UINT32_MAX

/* Memory beside devices, one for so many neighbours from `first` on, by their numbers; devices 0: for all of them. */
struct sp_cluster_host {
    double memory_bytes, bandwidth;
    uint32_t devices, first;
};

struct sp_device_group_spec {
    const char *name;
    uint32_t count;
    struct sp_device device;
    double reserved_bytes;        /* of each device's memory, for others */
    double price_per_hour;        /* US dollars of one device; 0: not stated */
    struct sp_cluster_host *host; /* its own, or NULL */
};

struct sp_cluster_stated; /* the description of an arranged cluster: internal.h */

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
    double spilled_bytes;         /* of a device's weights, that a search lets be in host memory; no part of the JSON */
    bool divides_hosts;           /* a search gives each device no more than its part of its host; the same */
    struct sp_cluster_host *host; /* of groups without one of their own, or NULL */
    uint32_t host_count;
    uint32_t *host_of;                      /* device -> one of host_count hosts, or SP_NO_HOST; NULL: there is none */
    const uint32_t *number;                 /* device -> its number in the description; NULL: the same */
    const uint32_t *numbered;               /* with `number`: number -> device, or one that there is not */
    const uint32_t *place;                  /* device -> its place in the mesh, row-major; NULL: the same */
    const struct sp_cluster_stated *stated; /* NULL: groups and levels are as they were stated */
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

/* The number that the description gives a device. */
static inline uint32_t sp_cluster_number(const struct sp_cluster *cluster, uint32_t device)
{
    return cluster->number == NULL ? device : cluster->number[device];
}

/* The device that the description numbers so; UINT32_MAX: it is left out, or there is none. */
uint32_t sp_cluster_numbered(const struct sp_cluster *cluster, uint32_t number);

/* Numbers are below this. */
uint32_t sp_cluster_described(const struct sp_cluster *cluster);

/* What device `device` is; it lives as long as the cluster. */
const struct sp_device *sp_cluster_device(const struct sp_cluster *cluster, uint32_t device);

/* Bytes that a plan may use on a device: of a GPU what it reports (else the printed size) less what the runtime's
   process takes of it. */
double sp_device_usable_bytes(const struct sp_device *device);

/* The same, at most the cluster's limit, less what is reserved. */
double sp_cluster_memory(const struct sp_cluster *cluster, uint32_t device);

/* The host beside a device, or NULL; and how fast the device alone copies from it, 0 without one. */
const struct sp_cluster_host *sp_cluster_host(const struct sp_cluster *cluster, uint32_t device);
double sp_cluster_host_bandwidth(const struct sp_cluster *cluster, uint32_t device);

/* What a search may put on a device: sp_cluster_memory(), and what may spill into the memory of its host. */
double sp_cluster_room(const struct sp_cluster *cluster, uint32_t device);

/* US dollars of a device and hour, as its group states; 0: it does not. */
static inline double sp_cluster_price(const struct sp_cluster *cluster, uint32_t device)
{
    return cluster->groups[cluster->group_of[device]].price_per_hour;
}

/* The link levels, for what is costed by them; they live as long as the cluster. */
static inline struct sp_links sp_cluster_links(const struct sp_cluster *cluster)
{
    return (struct sp_links){cluster->level_count, cluster->levels, cluster->place, cluster->device_count};
}

/* The same for shardings on devices as the description numbers them; false without memory. */
bool sp_cluster_numbered_links(struct sp_arena *arena, const struct sp_cluster *cluster, struct sp_links *ret_links);

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
