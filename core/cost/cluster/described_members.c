/* What the readers of a described device share: lists of numbers, names of element types. */
#include "cost/cluster/internal.h"

#define MAX_QUOTED_MEMBER 64 /* bytes of a wrong member's name that an error repeats */

enum sp_status sp_described_numbers(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                    const struct sp_described_number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum sp_status status = sp_members_number(reader, json, pointer, numbers[i].member, numbers[i].range,
                                                  numbers[i].required, numbers[i].ret);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

enum sp_status sp_described_dtype(struct sp_members_reader *reader, const char *pointer, const char *name,
                                  enum sp_dtype *ret_dtype)
{
    const enum sp_dtype dtype = sp_dtype_parse(name);

    if (dtype == SP_DTYPE_UNDEFINED && strlen(name) > MAX_QUOTED_MEMBER)
        return sp_members_refuse(reader, pointer, "CLUSTER_DTYPE",
                                 "A member's name is no element type; write float32, int8, ...");
    if (dtype == SP_DTYPE_UNDEFINED)
        return sp_members_refuse(
            reader, sp_members_child(reader, pointer, name), "CLUSTER_DTYPE",
            "'%s' is no element type; write float32, float16, bfloat16, int8 or another one's name.", name);
    *ret_dtype = dtype;
    return SP_OK;
}
