#pragma once
/* routes - the handlers that the router's table names; see request.h for begin and finish. */
#include "http/request.h"

/* misc.c */
enum verdict index_finish(struct request *request);
enum verdict livez_finish(struct request *request);
enum verdict readyz_finish(struct request *request);
enum verdict metrics_finish(struct request *request);
enum verdict version_finish(struct request *request);
enum verdict openapi_finish(struct request *request);
enum verdict schema_finish(struct request *request);
enum verdict devices_finish(struct request *request);

/* dashboard.c */
enum verdict dashboard_page(struct request *request); /* "/" in a browser */
enum verdict dashboard_asset_finish(struct request *request);

enum verdict store_is_away(struct request *request); /* the 503 of a store that does not answer */

/* sharding.c */
enum verdict sharding_begin(struct request *request);
enum verdict convert_finish(struct request *request);
enum verdict reshard_finish(struct request *request);

/* checks.c */
enum verdict check_begin(struct request *request);
enum verdict check_finish(struct request *request);
enum verdict model_check_begin(struct request *request);
enum verdict model_check_finish(struct request *request);
enum verdict model_infer_begin(struct request *request);
enum verdict model_infer_finish(struct request *request);
enum verdict operators_finish(struct request *request);

/* verify.c */
enum verdict verify_begin(struct request *request);
enum verdict verify_finish(struct request *request);

/* models.c */
enum verdict model_missing(struct request *request); /* the 404 */
enum verdict models_upload_begin(struct request *request);
enum verdict models_upload_finish(struct request *request);
enum verdict models_list_finish(struct request *request);
enum verdict model_get_finish(struct request *request);
enum verdict model_delete_finish(struct request *request);
enum verdict model_content_finish(struct request *request);
enum verdict model_inspect_finish(struct request *request);

/* uploads.c */
enum verdict uploads_create_finish(struct request *request);
enum verdict uploads_list_finish(struct request *request);
enum verdict upload_get_finish(struct request *request);
enum verdict upload_delete_finish(struct request *request);
enum verdict upload_part_begin(struct request *request);
enum verdict upload_part_finish(struct request *request);

/* model_files.c */
enum verdict model_files_add_finish(struct request *request);
enum verdict model_files_list_finish(struct request *request);

/* submit.c */
enum verdict plans_submit_begin(struct request *request);
enum verdict plans_submit_finish(struct request *request);
enum verdict replan_begin(struct request *request);
enum verdict replan_finish(struct request *request);

/* plans.c */
enum verdict plans_list_finish(struct request *request);
enum verdict plan_get_finish(struct request *request);
enum verdict plan_delete_finish(struct request *request);
enum verdict plan_cancel_finish(struct request *request);
enum verdict plan_model_finish(struct request *request);

/* events.c */
enum verdict plan_events_finish(struct request *request);

/* exports.c: files made of a plan that has a result */
enum verdict plan_simulation_finish(struct request *request);
enum verdict plan_timeline_finish(struct request *request);
enum verdict plan_export_finish(struct request *request);
enum verdict plan_device_model_finish(struct request *request);
enum verdict plan_device_data_finish(struct request *request);

/* slice_graph_timeline.c, slice_tables.c: parts of a plan that has a result */
enum verdict plan_summary_finish(struct request *request);
enum verdict plan_graph_finish(struct request *request);
enum verdict plan_memory_finish(struct request *request);
enum verdict plan_nodes_finish(struct request *request);
enum verdict plan_tensors_finish(struct request *request);
enum verdict plan_collectives_finish(struct request *request);
enum verdict plan_diagnostics_finish(struct request *request);
/* The timeline as JSON, and whether that is what the request wants. */
enum verdict plan_timeline_slice(struct request *request);
bool plan_timeline_is_slice(const struct request *request);

/* summary.c: all plans, one flat row for each */
enum verdict summary_finish(struct request *request);

/* The members that lists and a single plan share, into an open object. */
struct plan_row;
struct sp_json;
void plan_write_members(struct sp_json *json, const struct request *request, const struct plan_row *row);

/* The filters of lists of plans, state and model: VERDICT_GO_ON, with what tells one filter from another, or 400. */
#define PLANS_FILTER_SIZE 128
enum verdict plans_filter_check(struct request *request, char ret[PLANS_FILTER_SIZE]);
bool plans_filter_takes(const struct request *request, const struct plan_row *row);

/* The 404 of plans. */
enum verdict plan_missing(struct request *request);

/* What a plan is at the moment: 200 or 202 with the JSON, or text when the client prefers it. Of a plan that is deleted
   VERDICT_GO_ON when it was submitted, so that it can be submitted again, and else the 404. Where its file has to be
   fetched, the request is suspended, and `step` is called afterwards. */
enum {
    PLAN_SUBMITTED = 1, /* the answer to a submission */
    PLAN_REUSED = 2,    /* which this plan was there to answer */
};
enum verdict plan_answer(struct request *request, const char *id, unsigned how,
                         enum verdict (*step)(struct request *request));
