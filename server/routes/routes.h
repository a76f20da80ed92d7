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

/* models.c */
enum verdict model_missing(struct request *request); /* the 404 */
enum verdict models_upload_begin(struct request *request);
enum verdict models_upload_finish(struct request *request);
enum verdict models_list_finish(struct request *request);
enum verdict model_get_finish(struct request *request);
enum verdict model_delete_finish(struct request *request);
enum verdict model_content_finish(struct request *request);
enum verdict model_inspect_finish(struct request *request);

/* submit.c */
enum verdict plans_submit_begin(struct request *request);
enum verdict plans_submit_finish(struct request *request);

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

/* The 404 of plans. */
enum verdict plan_missing(struct request *request);

/* What a plan is at the moment: 200 or 202 with the JSON, or text when the client prefers it. Of a plan that is deleted
   VERDICT_GO_ON when it was submitted, so that it can be submitted again, and else the 404. */
enum {
    PLAN_SUBMITTED = 1, /* the answer to a submission */
    PLAN_REUSED = 2,    /* which this plan was there to answer */
};
enum verdict plan_answer(struct request *request, const char *id, unsigned how);
