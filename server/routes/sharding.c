#include "routes/ask.h"
#include "routes/routes.h"

/* POST /v1/convert and /v1/reshard. */

static const struct ask convert = {.kind = "convert"}, reshard = {.kind = "reshard"};

enum verdict sharding_begin(struct request *request)
{
    return ask_begin(request, &convert);
}

enum verdict convert_finish(struct request *request)
{
    return ask_worker(request, &convert);
}

enum verdict reshard_finish(struct request *request)
{
    return ask_worker(request, &reshard);
}
