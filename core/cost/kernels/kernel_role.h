#pragma once
/* kernel_role - what a node is to a kernel, by its operator's rule. */
#include "graph/model.h"
#include "ops/table/op.h"

enum sp_kernel_role {
    SP_ROLE_ALONE = 0,
    SP_ROLE_VIEW, /* no work */
    SP_ROLE_ELEMENTWISE,
    SP_ROLE_NORMALISATION,
    SP_ROLE_PRODUCT,
    SP_ROLE_CONVOLUTION, /* a product along windows */
    SP_ROLE_ATTENTION    /* of kernels only */
};

/* Of a node that is no view and has nothing inside; `rule` is its rule. */
enum sp_kernel_role sp_kernel_role(const struct sp_node *node, const struct sp_rule *rule);

/*
 * Whether its kernel goes through rows, a block of threads for each, rather than through the elements as they lie:
 * what reduces, looks at neighbours or computes with a whole axis, and what changes the order of axes. Such kernels
 * reach half of what a sum of two tensors does: microsoft/vidur's tables of layers on A100 and H100 (api/devices/fit).
 */
bool sp_kernel_goes_by_rows(const struct sp_node *node, const struct sp_rule *rule);
