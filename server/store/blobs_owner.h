#pragma once
/*
 * blobs_owner - whose prefix of a bucket it is.
 *
 * The prefix that a data folder uses has the object owner/NAME with that folder's name (identity.h). Where another name is
 * there, the prefix belongs to another folder, whose models a sweep would take for orphans.
 */
#include "store/s3/s3.h"
#include "util/problem.h"

/* Network. False with a problem, also when the prefix is another one's. */
bool blobs_take_prefix(struct s3 *s3, const char *data, struct problem *problem);
