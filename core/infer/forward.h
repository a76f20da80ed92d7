#pragma once
/*
 * forward - missing specs as ONNX proposal 0007 completes them, literally and in one pass.
 *
 *  - a missing input spec is the one of the node that made the tensor, stated or inferred
 *  - a model input or initializer without a spec is whole on every device that the node uses (SP_SPEC_ASSUMED); with
 *    SET ones it is what was set
 *  - a missing output spec follows from the input specs and the operator's rule (view.h): axes are cut as their factors
 *    are, devices are composed by intersection, a split reduction leaves the result on all devices that took part
 *
 * A node none of whose operands has a spec stays without. Where operands contradict each other, the outputs stay
 * without a spec and a stop says why; with `gathers_contradictions` of the assignment, inputs are restated first as the
 * node can take them (settle.h).
 */
#include "infer/view/view.h"

enum sp_status sp_infer_forward(struct sp_assignment *assignment, struct sp_error *err);
