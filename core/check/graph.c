/* What onnx.checker checks of a model. */
#include "check/check.h"

const struct sp_diagnostic_code sp_codes_model[] = {
    {0},
};
