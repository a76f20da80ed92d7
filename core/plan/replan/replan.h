#pragma once
/*
 * replan - a new plan where devices came, went or changed: the best one when what moving weights takes counts, too.
 *
 * Past. A plan runs, and the devices of its cluster hold its weights. Now there is another cluster: devices are lost or
 * added, links or memory are others. Every plan for it needs some weights where they are not yet (holdings.h); bringing
 * them takes T seconds (moves.h), in which no request is served.
 *
 * What is best. Let c be what the objective minimises: the interval, the latency or the number of devices, and h the
 * *horizon*: how long the new plan will run. The plan with the least
 *
 *     c (h + T) / h  =  c + (c / h) T
 *
 * is the answer: for throughput that is the mean time per request over the moves and the horizon, for others the same
 * weight of moving. A long horizon gives the plan that would be best without the past, a short one what moves least; h
 * = 0 is a plan that moves nothing, where one can run. The tolerance is that of every plan
 * (search/joint/run/near_best.h): of plans that are this close to the best, the one that runs, if it is among them,
 * else those with the fewest devices, and of these what moves in the least time.
 *
 * Candidates
 *   fresh     what the search finds on the new cluster without the past
 *   seen      every plan that this search evaluates and that fits; of tiny models that is every plan
 *   stay      the plan of before, with its devices read as those of the new cluster, where all that it uses are
 *            there; one whose devices have unequal shares only where they are in the same order
 *   repaired  the plan of before without what is lost: with fewer replicas; with the nodes of a lost stage on devices
 *             that are free, or shared out to the stages before and behind it, which keep all that they have
 *
 * Each is evaluated exactly: figures by the search's evaluation, T by its moves.
 *
 * Which device is which. The request says it ("map"), or it is free: fleet.h. Where the numbers of equal devices are
 * changed so that less is moved, the answer says which device of before, and of the request, each one is.
 *
 * Break-even. Where the plan of before can run but is not the answer, the horizon from which on the answer is better.
 */
#include <jansson.h>

#include "cost/contract.h"
#include "plan/replan/moves.h"
#include "search/constraints.h"

#define SP_REPLAN_HORIZON     3600.0 /* seconds, where the request does not say */
#define SP_REPLAN_MAX_HORIZON 1e12

/* What is asked. */
struct sp_replan_terms {
    const char *from; /* the id of the plan */
    double horizon_seconds;
    uint32_t map_count;
    const int64_t *map; /* per device of before its number in the new cluster, or -1: lost. NULL: free */
};

/* {"from": ID, "horizon_seconds": S, "map": [0, null, 1]}; all but "from" may be left out. Strings stay owned by
   `json`; `pointer` is the JSON pointer of `json`. SP_ERR_REQUEST. */
enum sp_status sp_replan_terms_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                     struct sp_replan_terms *ret_terms, struct sp_error *err);
/* The same as one JSON object, canonical. */
void sp_replan_terms_write(const struct sp_replan_terms *terms, struct sp_json *json);

/* The plan of before. */
struct sp_past {
    struct sp_placed placed;
    const struct sp_cluster *cluster;
};

/* What is planned now. */
struct sp_replanned {
    const struct sp_workload *workload;
    const struct sp_contraction *contraction; /* what is searched in its place */
    const struct sp_dataflow *dataflow;       /* NULL: no operator can be split */
    const struct sp_cluster *cluster;
    const struct sp_joint_options *options;
};

/* Figures of a plan on the new cluster, and what it takes to get there. */
struct sp_replan_figures {
    const char *description; /* "4 stages of 2 devices"; NULL: there is no such plan */
    double latency_seconds, interval_seconds;
    uint32_t devices_used;
    double bytes, seconds; /* that are moved, and how long it takes */
};

enum sp_replan_choice { SP_REPLAN_FRESH = 0, SP_REPLAN_SEEN, SP_REPLAN_STAY, SP_REPLAN_REPAIRED };

struct sp_migration {
    const struct sp_replan_terms *terms;
    enum sp_replan_choice choice;
    struct sp_moves moves;                /* with a list */
    const uint32_t *numbers;              /* per device: its number in the request's cluster; where that is known */
    const int64_t *was;                   /* per device: which one of before, or -1 */
    struct sp_replan_figures fresh, stay; /* the best plan without the past; the plan of before on the new cluster */
    double break_even_seconds;            /* INFINITY: never, or there is nothing to compare */
    bool fits_beside; /* old and new weights fit on each device at once, what is too much being in its host's memory */
};

/* "fresh", "seen", "stay", "repaired"; static. */
const char *sp_replan_choice_name(enum sp_replan_choice choice);

struct sp_replan;

/* Before the search. Everything lives in `arena`; what it is given has to live as long. A map that does not fit the two
   clusters is SP_ERR_REQUEST "REPLAN_MAP". */
enum sp_status sp_replan_create(struct sp_arena *arena, const struct sp_replanned *of, const struct sp_past *past,
                                const struct sp_replan_terms *terms, struct sp_replan **ret_replan,
                                struct sp_error *err);

/* For the search on of->contraction->workload. */
const struct sp_plan_listener *sp_replan_listener(const struct sp_replan *replan);

/*
 * After it. *result is what it found, in terms of of->workload, or NULL where nothing fits; it becomes the answer,
 * which takes its tables over. *ret_migration is NULL, and *result as it was, only where there is no plan at all.
 */
enum sp_status sp_replan_choose(struct sp_replan *replan, struct sp_search_result **result,
                                struct sp_migration **ret_migration, struct sp_error *err);
