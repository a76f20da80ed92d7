#pragma once
/* What constraints.c reads and constraints_resolve.c resolves. */
#include "cost/cache.h"
#include "plan/request/constraints.h"

struct sp_demand_nodes {
    uint32_t count;
    const char *const *patterns;
    const char *const *where; /* per pattern */
};

struct sp_demand_pin {
    struct sp_demand_nodes nodes;
    bool is_device;
    uint32_t number; /* of the stage, or the device */
    const char *where;
};

struct sp_demand_spec {
    const char *tensor, *where;
    uint32_t rank;
    const int64_t *shards;
};

enum sp_demand_ban_kind { SP_DEMAND_BAN_AXIS, SP_DEMAND_BAN_NODES, SP_DEMAND_BAN_LEVEL };
struct sp_demand_ban {
    enum sp_demand_ban_kind kind;
    const char *tensor, *level, *where;
    uint32_t axis;
    struct sp_demand_nodes nodes;
};

/* Of keys and values: one of the two. */
struct sp_demand_cache {
    const char *member; /* "kv_cache" or "kv_cache_bytes"; NULL: no such demand */
    struct sp_cache_demand demand;
};

struct sp_demands {
    const char *where;
    uint32_t max_stages;
    double max_latency_seconds, reserved_bytes; /* 0: not demanded */
    struct sp_demand_cache cache;
    uint32_t pin_count, together_count, spec_count, ban_count;
    struct sp_demand_pin *pins;
    struct sp_demand_nodes *together;
    struct sp_demand_spec *specs;
    struct sp_demand_ban *bans;
};
