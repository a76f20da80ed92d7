/* Findings about notations of other tools, and what their checks have in common. */
#include <string.h>

#include "check/foreign.h"

enum sp_status sp_foreign_report(struct sp_foreign_check *check, const char *code, const struct sp_node *node,
                                 const char *tensor, const char *format, ...)
{
    const struct sp_finding finding = {.code = code, .node = node, .tensor = tensor};
    char message[2048];
    SP_FORMAT(message, format);
    return sp_diagnose(check->list, &finding, check->err, "%s", message);
}

bool sp_is_ort_distributed(const struct sp_node *node)
{
    return strcmp(node->domain, SP_ORT_DOMAIN) == 0 && strncmp(node->op_type, "Distributed", 11) == 0;
}

int64_t sp_ort_extent(const struct sp_ort_operand *operand, uint32_t axis)
{
    const struct sp_value *value = operand->value;
    if (value == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank ||
        axis >= value->type.shape.rank || !sp_dim_is_known(value->type.shape.dims[axis]))
        return -1;
    return value->type.shape.dims[axis].value;
}
