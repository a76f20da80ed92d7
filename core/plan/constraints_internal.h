#pragma once
/* What constraints.c reads and constraints_resolve.c resolves. */
#include "cost/cache.h"
#include "plan/constraints.h"

struct demand_nodes {
    uint32_t count;
    const char *const *patterns;
    const char *const *where; /* per pattern */
};

struct demand_pin {
    struct demand_nodes nodes;
    bool is_device;
    uint32_t number; /* of the stage, or the device */
    const char *where;
};

struct demand_spec {
    const char *tensor, *where;
    uint32_t rank;
    const int64_t *shards;
};

enum demand_ban_kind { DEMAND_BAN_AXIS, DEMAND_BAN_NODES, DEMAND_BAN_LEVEL };
struct demand_ban {
    enum demand_ban_kind kind;
    const char *tensor, *level, *where;
    uint32_t axis;
    struct demand_nodes nodes;
};

/* Of keys and values: one of the two. */
struct demand_cache {
    const char *member; /* "kv_cache" or "kv_cache_bytes"; NULL: no such demand */
    struct sp_cache_demand demand;
};

struct sp_demands {
    const char *where;
    uint32_t max_stages;
    double reserved_bytes;
    struct demand_cache cache;
    uint32_t pin_count, together_count, spec_count, ban_count;
    struct demand_pin *pins;
    struct demand_nodes *together;
    struct demand_spec *specs;
    struct demand_ban *bans;
};
