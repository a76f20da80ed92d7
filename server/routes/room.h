#pragma once
/*
 * room - keeps the files of all models within --max-store.
 *
 * Who wants to store a model takes room for it first. A tenant's models count in full, whoever else has them. Half of
 * --max-store is divided into equal shares of the tenants, which are theirs whatever others do; what a tenant has beyond
 * its share is in the other half, which is common. (A single tenant has all of it.) Where that has too little left,
 * models to which no plan refers are removed, but none that a request holds at the moment: the tenant's own first, then
 * those of tenants with more than their share, those first that were unused longest. What a request has taken counts
 * until its model is in the store, so requests at the same time do not take the same room.
 * Daemons that share a store do not know of each other's, so together they may exceed the limit by what they take in at
 * one moment.
 *
 * Whether the bytes are stored already, perhaps by another tenant, makes no difference: that must not show.
 */
#include <stdbool.h>
#include <stdint.h>

#include "util/problem.h"

struct model_row;
struct room;
struct server;

/* Takes room for the model of this tenant, id and size, and holds it against eviction. Without a limit (*ret_room is
   NULL) there always is. False with a problem: 507 STORE_FULL, 503. Deletes files: not to be called with the lock of a
   model. */
bool room_take(struct server *server, const struct model_row *row, struct room **ret_room, struct problem *problem);

/* The model is stored, or will not be: its bytes are counted by the store or not at all. It is still held. */
void room_stop_counting(struct room *room); /* NULL is allowed */

/* The request is over. */
void room_release(struct room *room); /* NULL is allowed */
