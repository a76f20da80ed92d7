#include "store/objects/transfers.h"

#include <pthread.h>
#include <stdlib.h>

struct transfers {
    pthread_mutex_t mutex; /* guards the members up to the next blank line */
    pthread_cond_t changed;
    struct transfer *first, *last;
    unsigned running;
    bool ended;

    unsigned count;
    pthread_t threads[];
};

static void *work(void *context)
{
    struct transfers *transfers = context;
    (void)pthread_mutex_lock(&transfers->mutex);
    for (;;) {
        while (transfers->first == NULL && !transfers->ended)
            (void)pthread_cond_wait(&transfers->changed, &transfers->mutex);
        struct transfer *transfer = transfers->first;
        if (transfer == NULL)
            break;
        transfers->first = transfer->next;
        if (transfers->first == NULL)
            transfers->last = NULL;
        transfers->running++;
        (void)pthread_mutex_unlock(&transfers->mutex);
        transfer->run(transfer);
        (void)pthread_mutex_lock(&transfers->mutex);
        transfers->running--;
    }
    (void)pthread_mutex_unlock(&transfers->mutex);
    return NULL;
}

struct transfers *transfers_create(unsigned threads)
{
    struct transfers *transfers = calloc(1, sizeof *transfers + threads * sizeof(pthread_t));
    if (transfers == NULL)
        return NULL;
    (void)pthread_mutex_init(&transfers->mutex, NULL);
    (void)pthread_cond_init(&transfers->changed, NULL);
    while (transfers->count < threads &&
           pthread_create(&transfers->threads[transfers->count], NULL, work, transfers) == 0)
        transfers->count++;
    if (transfers->count == threads)
        return transfers;
    transfers_destroy(transfers);
    return NULL;
}

void transfers_send(struct transfers *transfers, struct transfer *transfer)
{
    transfer->next = NULL;
    (void)pthread_mutex_lock(&transfers->mutex);
    if (transfers->last != NULL)
        transfers->last->next = transfer;
    else
        transfers->first = transfer;
    transfers->last = transfer;
    (void)pthread_cond_signal(&transfers->changed);
    (void)pthread_mutex_unlock(&transfers->mutex);
}

bool transfers_idle(struct transfers *transfers)
{
    (void)pthread_mutex_lock(&transfers->mutex);
    bool idle = transfers->first == NULL && transfers->running == 0;
    (void)pthread_mutex_unlock(&transfers->mutex);
    return idle;
}

void transfers_destroy(struct transfers *transfers)
{
    if (transfers == NULL)
        return;
    (void)pthread_mutex_lock(&transfers->mutex);
    transfers->ended = true;
    (void)pthread_cond_broadcast(&transfers->changed);
    (void)pthread_mutex_unlock(&transfers->mutex);
    for (unsigned i = 0; i < transfers->count; i++)
        (void)pthread_join(transfers->threads[i], NULL);
    (void)pthread_cond_destroy(&transfers->changed);
    (void)pthread_mutex_destroy(&transfers->mutex);
    free(transfers);
}
