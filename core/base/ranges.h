#pragma once
/* ranges - sets of indices along an axis. */
#include <stdint.h>

struct sp_range {
    int64_t start, limit; /* half open */
};

struct sp_axis_ranges {
    uint32_t count;          /* 0: empty */
    struct sp_range *ranges; /* ascending, not touching each other */
};
