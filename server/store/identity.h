#pragma once
/*
 * identity - which data folder it is, so that a database is never used with another one.
 *
 * Rows of the store refer to files of the folder, unless these are in an object store (blobs_owner.h). Where the store is a server of its own, a daemon could be started with
 * its database and a folder that has none of these files: it would take plans that it cannot make, and its sweep would
 * remove what other daemons' folder lacks. So each folder has a random name in DATA/identity, made when it is opened
 * first, and the database keeps the name of the folder that it was first used with.
 */
#include "store/store.h"

#define IDENTITY_SIZE 33 /* 16 bytes in hexadecimal digits and a NUL */

/* The folder's name, which is made when it has none. */
bool identity_name(const char *data, char ret_name[IDENTITY_SIZE], struct problem *problem);

/* Whether folder and store belong together; the first pair does. 500 OTHER_FOLDER, or why one of them cannot be read. */
bool identity_check(const char *data, struct store *store, struct problem *problem);
