#pragma once
/*
 * run - one search from its options to its answer, and what its parts share.
 *
 *   ../joint.c       the order of the parts
 *   profiles.c       strategies for the whole model on blocks of each size, and the units that stages are cut from
 *   propose_all.c    which stages are proposed, with which profiles
 *   copies.c         the same plan on other devices, too
 *   parts.c          plans for a half of the devices, a third and so on, for copies
 *   shares.c         blocks of unequal devices, alone and beside others; divisions.h: their shares
 *   fewer_devices.c  which plans with fewer devices are as good, up to the tolerance
 *   near_best.c      which of the plans is the answer
 *   answer.c         the result: the plan, the front, what memory is in the way of
 *   routes.c         plans of routes beside those of one
 *   run.c            what comes of a candidate, whether to go on, and what is asked
 *
 * Everything lives in the arena of `joint`. Functions that return a status leave their reason in `err`.
 */
#include "search/joint/candidate.h"
#include "search/joint/joint.h"
#include "search/joint/pareto_front.h"

#define SP_RUN_MEMORY_SHARE 0.9 /* of all blocks' memory that a profile uses: stages are never equally full */

struct sp_search_run {
    struct sp_joint joint;
    struct sp_front front;
    uint32_t profile_count, plain_count;
    struct sp_model_choice **profiles;         /* by option, at most two each */
    struct sp_model_choice **plain;            /* for pipelines, the same without cuts behind major parts */
    struct sp_units *units[2];                 /* for stages of single devices, for any */
    struct sp_joint_candidate *closest;        /* that does not fit, but lacks least */
    enum sp_objective proposed;                /* what stages are proposed for; mostly the objective of the search */
    const struct sp_grouping_result *grouping; /* NULL: not tried */
    struct sp_joint_candidate *grouped;        /* the same as a candidate */
    struct sp_joint_candidate *whole;          /* the best of stages of one device each, or the one that lacks least */
    bool is_proved;                            /* every plan was tried */
    struct sp_error violation;                 /* of a candidate that broke a constraint, or SP_OK */
    double least_latency;                      /* of those that fit and are only too slow; 0: none is */
    uint32_t most_stages;                      /* of what is proposed, beside the constraint's; 0: any number */
    struct sp_error failure;                   /* why a way of searching ended first, or SP_OK: sp_run_go_on_after() */
    struct sp_error *err;

    /* What the caller's watch sees: the parts of the search count in units of their own, and begin again and again. */
    struct sp_joint_options options; /* of the caller, with a watch between */
    const struct sp_watch *outer;
    struct sp_watch watch;
    bool asks_routes;               /* the strategy is that of routes */
    bool finds_routes;              /* it is, or requests may take several routes beside what else there is */
    struct sp_routed *first_routes; /* found before most of the search, taken after it; NULL: none */
    bool groups;                    /* in the search for groupings, which knows seconds */
    double fraction, best_seconds, bound_seconds;
    struct sp_lower_bounds bounds;
    bool has_bounds;
    double any_bound; /* of the interval, for any sets of nodes; 0: not known */
};

/* Whether a plan was found where any will do. */
bool sp_run_is_enough(const struct sp_search_run *search);

/* Whether to go on; when the watch says no, what was found so far is the answer. */
bool sp_run_goes_on(struct sp_search_run *search, double fraction);

/* Takes a candidate that was evaluated into the front where it fits and keeps the constraints, and copies of it (copies.h)
   where there is room for some; else remembers the one
   that lacks least, or why it was refused. Once the watch has said no it is taken only where there is no plan yet: with
   more time what was cut short would have become another plan, perhaps a worse one. So a search with more time has
   tried all that one with less has, and its plan is never worse. */
enum sp_status sp_run_take(struct sp_search_run *search, struct sp_joint_candidate *candidate,
                           enum sp_search_strategy strategy);

/* The same at any time: for what only gets better as long as it is searched. */
enum sp_status sp_run_take_late(struct sp_search_run *search, struct sp_joint_candidate *candidate,
                                enum sp_search_strategy strategy);

/* One way of searching has ended with `status`. A failure of it ends no search: it is remembered, and the other ways'
   plans are the answer, which tells of it. SP_OK then; want of memory, cancelling, and what is wrong with the request
   come back. */
enum sp_status sp_run_go_on_after(struct sp_search_run *search, enum sp_status status);

/* Remembers the best plan whose stages are one device each; while none fits, the one that lacks least. */
void sp_run_note_whole(struct sp_search_run *search, struct sp_joint_candidate *candidate);

/* Profiles of the blocks that are worthwhile, and units. None where no block can run the model. Stages of a block are
   proposed as soon as it has its profiles: a search that ends early has tried what is small and quick to try. */
enum sp_status sp_run_make_profiles(struct sp_search_run *search);

/* Further meshes for the blocks that promise most, which `is_whole` says are all of a plan. */
enum sp_status sp_run_try_further_meshes(struct sp_search_run *search, bool is_whole);

bool sp_run_has_pins(const struct sp_constraints *constraints);

/* How many stages a plan may have at most, of `max_stages` and of the constraints; 0 is any number. */
uint32_t sp_run_stage_limit(const struct sp_search_run *search, uint32_t max_stages);

/* Whether a stage may be all of a plan, so that its meshes are worth more work. */
bool sp_run_is_often_whole(const struct sp_search_run *search);

/* The option whose profiles begin at `first` and are the last ones, alone: one stage and, unless `is_whole`, as many as
   it likes. */
enum sp_status sp_run_propose_latest(struct sp_search_run *search, uint32_t first, bool is_whole);

/* All options together; before, `with_options`, each one alone. Then the same with profiles that are not cut behind major
   parts. */
enum sp_status sp_run_propose_all(struct sp_search_run *search, bool with_options);

/* For the throughput: stages for a half of the devices, a third and so on, of which copies take requests in turn. */
enum sp_status sp_run_propose_parts(struct sp_search_run *search);

/* Stages of any blocks that have devices as the space is laid (unequal/unequal.h). */
enum sp_status sp_run_propose_laid(struct sp_search_run *search);

/* With pins: stages of any blocks, and replicas of them. */
enum sp_status sp_run_propose_mixed(struct sp_search_run *search);

/* Stages of the blocks that the plan has, with the fewest devices that take requests at least so often. */
enum sp_status sp_run_propose_fewest(struct sp_search_run *search, const struct sp_joint_candidate *plan,
                                     double most_seconds);

/* Whether the next one has something to try. */
bool sp_run_tries_shares(const struct sp_search_run *search);

/* Blocks of unequal devices, in which each has a share of what is cut: one stage, and stages beside others. */
enum sp_status sp_run_propose_shares(struct sp_search_run *search);

/* Where one stage turns out to be the best plan, it on further meshes. */
enum sp_status sp_run_try_whole_on_further_meshes(struct sp_search_run *search);

/* The best plan once more, with more work: choices that memory binds end before they are the best that there are. */
enum sp_status sp_run_polish(struct sp_search_run *search);

/* Plans with fewer devices that are near the best one (near_best.h). */
enum sp_status sp_run_try_fewer_devices(struct sp_search_run *search);

/* Plans as if there were memory enough, to say what memory is in the way of, if it is. */
enum sp_status sp_run_look_beyond(struct sp_search_run *search);

/* Plans of routes, where search->finds_routes. On large clusters that is a search of its own, which comes last; so that
   one with a time limit has some, too, the beginning of it comes first. What that finds is kept aside, for the others must
   not depend on it, and is taken in the end where it is the best plan, by however little: else a search that ended
   earlier, when nothing else was as good, would have had a better one. */
enum sp_status sp_run_find_first_routes(struct sp_search_run *search);
enum sp_status sp_run_take_first_routes(struct sp_search_run *search);
enum sp_status sp_run_try_routes(struct sp_search_run *search);

/* What no plan can be better than, into `bounds`; computed once. */
enum sp_status sp_run_find_bounds(struct sp_search_run *search);

/* The best plan of the front, which is not empty, or what is near it (near_best.h), and what else is known. */
enum sp_status sp_run_answer(struct sp_search_run *search, struct sp_search_result **ret_result);
