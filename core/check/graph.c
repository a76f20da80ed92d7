/* What onnx.checker checks of a model. */
#include "check/check.h"
