#include "cost/micro_batches.h"

uint32_t sp_micro_waiting(const struct sp_workload *workload, uint32_t tensor)
{
    for (uint32_t i = 0; workload->micro_batches > 1 && i < workload->state_count; i++) {
        if (workload->states[i].present == tensor)
            return workload->micro_batches - 1;
    }
    return 0;
}

void sp_workload_set_micro_batches(struct sp_workload *workload, uint32_t count)
{
    workload->micro_batches = count;
    for (uint32_t i = 0; count > 1 && i < workload->state_count; i++) {
        const struct sp_work_tensor *present = &workload->tensors[workload->states[i].present];
        workload->nodes[present->producer].resident_bytes += (count - 1) * present->bytes;
    }
}
