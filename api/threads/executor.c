#include "threads/executor.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#define MAX_THREADS 256

struct sp_threads {
    struct sp_executor executor;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint32_t thread_count; /* of its own */
    pthread_t threads[MAX_THREADS];
    /* The work at hand, under the lock. */
    void (*task)(void *argument, uint32_t index);
    void *argument;
    uint32_t count, next, ended;
    bool is_closing;
};

/* Takes tasks until there are none; called and returns with the lock held. */
static void work_on(struct sp_threads *threads)
{
    while (threads->next < threads->count) {
        uint32_t index = threads->next++;
        void (*task)(void *, uint32_t) = threads->task;
        void *argument = threads->argument;
        pthread_mutex_unlock(&threads->lock);
        task(argument, index);
        pthread_mutex_lock(&threads->lock);
        if (++threads->ended == threads->count)
            pthread_cond_broadcast(&threads->done);
    }
}

static void *thread_main(void *argument)
{
    struct sp_threads *threads = argument;
    pthread_mutex_lock(&threads->lock);
    while (!threads->is_closing) {
        work_on(threads);
        if (!threads->is_closing)
            pthread_cond_wait(&threads->work, &threads->lock);
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

static void run(void *context, uint32_t count, void (*task)(void *argument, uint32_t index), void *argument)
{
    struct sp_threads *threads = context;
    pthread_mutex_lock(&threads->lock);
    threads->task = task;
    threads->argument = argument;
    threads->count = count;
    threads->next = 0;
    threads->ended = 0;
    pthread_cond_broadcast(&threads->work);
    work_on(threads);
    while (threads->ended < threads->count)
        pthread_cond_wait(&threads->done, &threads->lock);
    threads->count = 0;
    threads->next = 0;
    pthread_mutex_unlock(&threads->lock);
}

static uint32_t processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

struct sp_threads *sp_threads_create(uint32_t count)
{
    struct sp_threads *threads = calloc(1, sizeof *threads);
    if (threads == NULL)
        return NULL;
    if (count == 0)
        count = processors();
    if (count > MAX_THREADS)
        count = MAX_THREADS;
    if (pthread_mutex_init(&threads->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&threads->work, NULL) != 0)
        goto no_work;
    if (pthread_cond_init(&threads->done, NULL) != 0)
        goto no_done;
    while (threads->thread_count + 1 < count &&
           pthread_create(&threads->threads[threads->thread_count], NULL, thread_main, threads) == 0)
        threads->thread_count++;
    threads->executor = (struct sp_executor){run, threads, threads->thread_count + 1};
    return threads;
no_done:
    pthread_cond_destroy(&threads->work);
no_work:
    pthread_mutex_destroy(&threads->lock);
no_lock:
    free(threads);
    return NULL;
}

void sp_threads_destroy(struct sp_threads *threads)
{
    if (threads == NULL)
        return;
    pthread_mutex_lock(&threads->lock);
    threads->is_closing = true;
    pthread_cond_broadcast(&threads->work);
    pthread_mutex_unlock(&threads->lock);
    for (uint32_t i = 0; i < threads->thread_count; i++)
        pthread_join(threads->threads[i], NULL);
    pthread_cond_destroy(&threads->done);
    pthread_cond_destroy(&threads->work);
    pthread_mutex_destroy(&threads->lock);
    free(threads);
}

const struct sp_executor *sp_threads_executor(const struct sp_threads *threads)
{
    return threads == NULL ? NULL : &threads->executor;
}
