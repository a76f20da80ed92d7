#pragma once
/*
 * variants - answers around one plan: the same model planned on a list of clusters.
 *
 *  sweep      The request names several clusters: numbers of devices, types of devices. Each is planned; the plan of
 *             the one that is chosen is the answer, and a row for each says what the others would give.
 *  what if    The cluster is one, and a plan is found. Then one thing of the cluster is changed at a time (one more
 *             device, faster links, less memory, ..), and a row for each change says what it would bring.
 *
 * A row is what sp_job_plan() finds on that cluster, in a job of its own: its memory is given back, only figures stay.
 * The rows of a sweep are exactly the plans that separate requests get. The jobs share the open model and what their
 * searches have in common (plan/shared_work.h), as long as there is memory for both.
 *
 * Rule of the row of a change. A search is no proof: on a better cluster it may find a worse plan. So beside what it
 * finds stands the given plan itself, wherever that can run on the changed cluster and takes no longer there:
 *   one more device, faster links, faster devices, more memory     always: nothing it rests on became worse
 *   less memory                                                    where each of its stages still fits; times are equal
 *   one device fewer                                               where it does not use that device
 * The better of the two by the objective is the row; `is_kept` says that it is the given plan. Its figures are then
 * those that it has on the given cluster, which no longer device or link makes worse. So no such change ever shows a
 * loss. The other way round, what is found with less memory or one device fewer can run on the given cluster, too:
 * where it is better than the given plan, the row's message says so.
 *
 * Of a service (plan/service/service.h) rows are its services: latency is that of a request, an interval the time between two
 * requests of all copies, memory that of the fullest device in any phase. A change of the cluster brings another service.
 *
 * The watch covers all: when it says stop, what was found so far is the answer, and rows that were not looked at say
 * so. Memory that runs out in a variant's job ends only that row; the plans that are held count against the same
 * budget.
 */
#include "plan/job.h"

enum sp_variant_state {
    SP_VARIANT_OPEN = 0, /* not looked at, or not to an end; `message` says why */
    SP_VARIANT_FITS,
    SP_VARIANT_NOFIT /* no plan: `message` */
};

struct sp_variant {
    const char *change;         /* what if: "one more l4-24gb"; NULL in a sweep */
    const char *device;         /* sweep: "l4-24gb", "4 x l4-24gb + 2 x cpu-core"; else NULL */
    bool is_mixed;              /* sweep: of several groups */
    uint32_t devices_available; /* of the variant's cluster */
    enum sp_variant_state state;
    /* With SP_VARIANT_FITS: */
    double latency_seconds, interval_seconds;
    double memory_bytes; /* of the fullest device */
    uint32_t devices_used, stage_count;
    double price_per_hour;   /* of a service; 0: not known */
    const char *description; /* "4 stages of 2 devices" */
    double gain;    /* what if: relative change of the objective, positive is better: of the throughput, the latency or
                       the number of devices */
    bool is_kept;   /* what if: the given plan, as it is */
    bool is_chosen; /* sweep: the answer */
    bool is_pareto; /* sweep: no other uses as few devices, with as short a latency and interval */
    const char *message; /* or NULL */
};

struct sp_variants {
    uint32_t count;
    struct sp_variant *rows;
};

/* ---- what is asked ---- */

enum sp_sweep_choice {
    SP_SWEEP_SMALLEST = 0, /* fewest devices among those that fit, then the objective */
    SP_SWEEP_BEST          /* the objective, then fewest devices; what is within the tolerance counts as equal */
};

struct sp_sweep {
    uint32_t count;
    struct sp_cluster **clusters;
    const char **devices; /* per cluster, as in the rows */
    enum sp_sweep_choice choice;
};

/* What a plan is for: exactly one of these. */
struct sp_plan_target {
    const struct sp_cluster *cluster;
    const struct sp_sweep *sweep;
};

/*
 * Reads the members "cluster" and "sweep" of a request, of which exactly one is there (the other NULL).
 *
 *   {"devices": [1, 2, 4], "types": ["l4-24gb", {described device}, ..], "choose": "smallest" or "best"}
 *   {"devices": [1, 2, 4], "cluster": {..}, "choose": ..}     the first devices of a described cluster
 *
 * "choose" is "smallest" when it is not there. Numbers and types that stand there twice, unknown members, and more than
 * SP_MAX_VARIANTS clusters are SP_ERR_REQUEST or SP_ERR_LIMIT with a JSON pointer below "/cluster" or "/sweep". All is
 * in `arena`.
 */
enum sp_status sp_plan_target_parse(struct sp_arena *arena, const json_t *cluster, const json_t *sweep,
                                    struct sp_plan_target *ret_target, struct sp_error *err);

/* A request's target as people write it in a command or a query; NULL where something is not given. */
struct sp_plan_lists {
    const char *devices; /* a number of devices, or several: "1,2,4" */
    const char *types;   /* names of devices: "l4-24gb,h100-sxm-80gb" */
    json_t *cluster;     /* described, in place of types */
    const char *choose;
};

/* Whether it is a whole number from 1 up, or several with commas between them. */
bool sp_is_count_list(const char *text);

/* Whether several clusters are asked about, or one is to be chosen. */
bool sp_plan_lists_sweep(const struct sp_plan_lists *lists);

/* The member "sweep" of a request where sp_plan_lists_sweep() says so, else "cluster": of `devices` and `types`, or the
   described one itself. The caller's; NULL where a list has an empty part or one that is no number or no UTF-8, and
   without memory. */
json_t *sp_plan_lists_json(const struct sp_plan_lists *lists);

/* "smallest" and "best". */
bool sp_sweep_choice_parse(const char *name, enum sp_sweep_choice *ret_choice);

/* ---- the answer ---- */

/*
 * sp_job_plan() for the target's cluster, or the one of the sweep that is chosen, with plan->sweep and plan->what_if
 * where they are asked for. Rows are in `arena`, which must outlive the plan, as the target must.
 *
 * Where no cluster of a sweep fits, SP_ERR_NOFIT is that of the one that lacks least. Where a single cluster does not
 * fit and options->what_if is set, the message also says which changes would help.
 */
enum sp_status sp_plan_answer(struct sp_arena *arena, const struct sp_job_options *job_options,
                              const struct sp_plan_target *target, const struct sp_plan_options *options,
                              struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err);

/* The members "sweep" and "what_if" of a plan's JSON, those that it has. */
void sp_variants_write_json(const struct sp_plan *plan, struct sp_json *json);

/* The same as tables for people. */
void sp_variants_write_text(const struct sp_plan *plan, struct sp_buf *buf);
