#include "infer/complete.h"

#include <string.h>

#include "infer/forward.h"
#include "infer/propagate/propagate.h"

enum sp_status sp_assignment_completed(struct sp_arena *arena, const struct sp_dataflow *dataflow,
                                       const char *configuration, int64_t device_count,
                                       struct sp_assignment **ret_assignment, struct sp_error *err)
{
    struct sp_assignment *assignment = NULL;
    struct sp_error why = {0};
    enum sp_status status = SP_ERR_INTERNAL;
    for (int propagates = 1; propagates >= 0; propagates--) {
        sp_error_clear(&why);
        status = sp_assignment_create(arena, dataflow, configuration, device_count, NULL, &assignment, &why);
        if (status == SP_OK) {
            assignment->gathers_contradictions = true;
            status = propagates ? sp_infer_propagate(assignment, NULL, &why) : sp_infer_forward(assignment, &why);
        }
        if (status != SP_ERR_REQUEST || strcmp(why.code, "NO_COMMON_MESH") != 0)
            break;
    }
    if (status == SP_OK)
        *ret_assignment = assignment;
    else if (err != NULL)
        *err = why;
    return status;
}
