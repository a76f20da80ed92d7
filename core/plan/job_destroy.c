/* The end of a job, of those that go with it, and of what they were made of. */
#include <stdlib.h>

#include "plan/internal.h"
#include "plan/shared_work.h"

static void destroy(struct sp_job *job)
{
    while (job != NULL) {
        struct sp_job *base = job->base;
        if (job->users > 0) {
            job->users--;
            return;
        }
        sp_search_result_release(job->result);
        sp_shared_work_release(job->shared_work);
        sp_arena_destroy(job->arena);
        if (job->owns_file)
            sp_model_file_release(&job->file);
        free(job->name);
        free(job);
        job = base;
    }
}

void sp_job_destroy(struct sp_job *job)
{
    while (job != NULL) {
        struct sp_job *next = job->next;
        destroy(job);
        job = next;
    }
}
