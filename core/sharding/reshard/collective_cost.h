#pragma once
/*
 * collective_cost - how long a collective takes on a hierarchy of links.
 *
 * Alpha-beta model: a message costs the latency (alpha) of its link level and its bytes over the level's bandwidth (per
 * device and direction). A group of p devices is described by how many of them differ at each level, outermost first:
 * span = [2, 4] are 8 devices, 4 in each of 2 nodes. Its time is the least of
 *   ring     all p devices in one ring, at the slowest level that they span
 *   tree     the logarithmic algorithms (recursive doubling, halving; double binary tree for all-reduce)
 *   levels   one level after the other: all-gather outermost level first, reduce-scatter innermost first, an all-reduce
 *            as reduce-scatter inwards, all-reduce on the outermost, all-gather outwards
 * Where a runtime starts collectives from the host one by one, the host adds to each of them the same (host_seconds),
 * over however many levels it goes; a send waits for no such start. Nothing across levels is quicker than the same
 * collective of as many devices within the innermost, where that was measured.
 *
 * The slowest level has the largest latency and the smallest bandwidth of all that the group spans; a send goes over
 * the outermost level at which the two devices differ.
 *
 * Formulas, with p ranks, n bytes of the whole gathered or reduced value, a the latency and B the bandwidth:
 *
 *   all-reduce      ring  2 (p-1) a + 2 (p-1)/p n/B
 *                   tree  2 ceil(log2 p) a + 2 (p-1)/p n/B    (halving and doubling)
 *   reduce-scatter, ring  (p-1) a + (p-1)/p n/B
 *   all-gather      tree  ceil(log2 p) a + (p-1)/p n/B
 *   all-to-all      (p-1) a + (p-1)/p^2 n/B                   (direct; each rank holds n/p)
 *   send            a + bytes/B
 *
 * Sources: Thakur, Rabenseifner, Gropp 2005 (optimization of collective communication in MPICH); Patarasuk, Yuan 2009.
 */
#include <stdbool.h>
#include <stdint.h>

enum sp_collective {
    SP_ALL_SLICE = 0, /* no communication */
    SP_ALL_GATHER,
    SP_ALL_TO_ALL,
    SP_COLLECTIVE_PERMUTE,
    SP_ALL_REDUCE,
    SP_REDUCE_SCATTER,
    SP_SEND_RECEIVE,
    SP_TO_PARTIAL, /* no communication: one replica keeps the value, the others take the combiner's neutral element */
    SP_COLLECTIVE_COUNT
};

/*
 * What was measured of a library's collective of n bytes among p devices of one level: start_seconds + rank_seconds
 * (p - 1) + f (n + sqrt(n half_bytes)) / bandwidth[p], with f as in the formulas above, but of an all-to-all (p-1)/p,
 * its n being what one rank has. The root: a message is cut into pieces whose number grows with the root of its length.
 */
#define SP_LINK_GROUP_SIZES 3                          /* groups of up to 2, 4 and more devices */
#define SP_LINK_GROUP_MOST  (1 << SP_LINK_GROUP_SIZES) /* devices of the largest that were measured */
struct sp_link_form {
    enum sp_collective kind;
    double start_seconds, rank_seconds, half_bytes;
    double bandwidth[SP_LINK_GROUP_SIZES]; /* bytes per second; 0: not known of such groups */
    double low, high;                      /* 9 of 10 measured times are from seconds / high to seconds / low */
};

/* Of several forms of one collective, the fastest counts. */
struct sp_link_forms {
    uint32_t count;
    const struct sp_link_form *items;
};

/* `bandwidth` and `latency` are what messages reach. They are what is stated of the level, but where `forms` are known:
   then they are such that an all-gather takes what its form says (sp_level_take_forms()), where two devices reach no
   less than eight at once, and outside such a level no message is quicker than within it. What is stated is kept beside
   them then. */
struct sp_mesh_level {
    const char *name;
    uint32_t size;
    double bandwidth;                        /* bytes per second, per device and direction */
    double latency;                          /* seconds */
    double host_seconds;                     /* that the host adds to each collective, none to a send */
    const struct sp_link_forms *forms;       /* NULL: none are known */
    double stated_bandwidth, stated_latency; /* where they differ; bandwidth 0: they do not */
    double send_bandwidth;                   /* of one device while others are silent; 0: `bandwidth`, always */
    const double *bandwidth_of_size;         /* of levels with fewer parts, by their number; NULL: the same */
};

/* What a single send gets. */
static inline double sp_level_send_bandwidth(const struct sp_mesh_level *level)
{
    return level->send_bandwidth > 0 ? level->send_bandwidth : level->bandwidth;
}

/* And each of the sends of all devices at once, one from each. */
static inline double sp_level_permute_bandwidth(const struct sp_mesh_level *level)
{
    const double alone = sp_level_send_bandwidth(level);
    return alone < level->bandwidth ? alone : level->bandwidth;
}

/* What is stated of it. */
static inline double sp_level_bandwidth(const struct sp_mesh_level *level)
{
    return level->stated_bandwidth > 0 ? level->stated_bandwidth : level->bandwidth;
}

static inline double sp_level_latency(const struct sp_mesh_level *level)
{
    return level->stated_bandwidth > 0 ? level->stated_latency : level->latency;
}

/* The levels of a cluster, outermost first; the devices are numbered row-major over them, or have places there. */
struct sp_links {
    uint32_t level_count;
    const struct sp_mesh_level *levels;
    const uint32_t *place; /* of each device; NULL: its number */
    uint32_t device_count; /* entries of `place` */
};

/* Where a device is in the row-major order of the levels; those beyond all are further places. */
static inline int64_t sp_links_place(const struct sp_links *links, int64_t device)
{
    return links->place == NULL || device >= links->device_count ? device : links->place[device];
}

/* "all-gather", "all-slice", ..; static. */
const char *sp_collective_name(enum sp_collective kind);

/* Gives a level forms. */
void sp_level_take_forms(struct sp_mesh_level *level, const struct sp_link_forms *forms);
/* Another size, of which messages may reach more or less. */
void sp_level_resize(struct sp_mesh_level *level, uint32_t size);

/*
 * Seconds of ALL_GATHER, ALL_TO_ALL, ALL_REDUCE, REDUCE_SCATTER among the devices of one group, all groups at once.
 * `span` has links->level_count entries >= 1; their product is p; 0 seconds for p = 1. `bytes` is n above. A group
 * within one level takes what the level's forms say. One that spans several, the innermost with forms, may also go
 * level by level, by the innermost one's forms there.
 */
double sp_collective_seconds(const struct sp_links *links, enum sp_collective kind, const uint32_t *span, double bytes);

/*
 * Seconds in which a device sends so many messages over links of a level, `bytes` in all, at once with all others. The
 * libraries send an all-to-all as such messages, so that it takes what is known of one among as many devices, with the
 * host's part.
 */
double sp_level_messages_seconds(const struct sp_mesh_level *level, double messages, double bytes);

/* Whose seconds these are, where the group is within a level with forms; NULL: those of an algorithm. */
const struct sp_link_form *sp_collective_form(const struct sp_links *links, enum sp_collective kind,
                                              const uint32_t *span, double bytes);

/* Whether the lines are all there is to collectives: no level has forms, and the host adds nothing. */
bool sp_collective_is_lines(const struct sp_links *links);

/* seconds = fixed + slope * bytes, of one algorithm. */
struct sp_collective_line {
    double fixed, slope;
};

/* What no message over a level beats, and no round of a collective in which what a device knows at most doubles; of
   reductions, too, where `reduces`: libraries may get more out of the links for an all-reduce than for any other. */
struct sp_collective_line sp_level_least(const struct sp_mesh_level *level, bool reduces);

#define SP_COLLECTIVE_LINES 3

/* The algorithms of such a collective, for a search that asks for many sizes; the time is the least of them: that of
   sp_collective_seconds() where no level has forms, else as near to it as one line for each is. Returns how many
   there are, 0 for a group of one device and for kinds without groups. */
uint32_t sp_collective_lines(const struct sp_links *links, enum sp_collective kind, const uint32_t *span,
                             struct sp_collective_line ret_lines[SP_COLLECTIVE_LINES]);

/* Bytes that each device sends: (p-1)/p n, 2(p-1)/p n for ALL_REDUCE, (p-1)/p^2 n for ALL_TO_ALL. */
double sp_collective_bytes(enum sp_collective kind, double devices, double bytes);

/* The outermost level at which two device numbers differ, level_count when they are equal. Devices beyond the levels'
   product are far away: level 0. */
uint32_t sp_links_between(const struct sp_links *links, int64_t a, int64_t b);
