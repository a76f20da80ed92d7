#pragma once
/*
 * simulated_objects - an object store in memory in the place of store/s3, for simulations: the linker puts these calls in the
 * place of the real ones (tests/unit/meson.build). All daemons see one. Objects have names and no bytes.
 *
 * Each request is one step of the simulation. It may fail before it does anything (503, away), or after (the answer is
 * lost); and one that failed before may be done later all the same, as a server does that a client gave up.
 * The threads that wait for the network are replaced, too: what is sent to them waits for objects_work().
 */
#include <stdbool.h>
#include <stdint.h>

struct objects_world {
    bool (*before)(void *context, int daemon); /* false: the request fails, and is not done, or later */
    bool (*after)(void *context, int daemon);  /* false: it is done, and fails */
    bool (*comes_late)(void *context);         /* whether one that failed before is done later */
    void (*changed)(void *context);
    void *context;
};

void objects_begin(const struct objects_world *world); /* empty */
void objects_end(void);
bool objects_have(const char *key);
void objects_lose(const char *key); /* a fault of the store */
void objects_be_late(void);         /* one of the requests that were given up is done now, if there are any */
void objects_each(void (*each)(void *context, const char *key), void *context);
bool objects_work(int daemon); /* runs the oldest thing that its threads have to do; false: there is none */
