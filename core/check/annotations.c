/* The structure of multi-device data. */
#include "check/check.h"

const struct sp_diagnostic_code sp_codes_annotations[] = {
    {0},
};
