/* Shardings against the operators' rules. */
#include "check/check.h"

const struct sp_diagnostic_code sp_codes_meaning[] = {
    {0},
};
