#pragma once
/*
 * quarantine - DATA/quarantine, where files go that are not what they have to be: nobody is sent them any more, and who
 * runs the service can look at them.
 *
 * Beside each stands NAME.json, which says what it was, what is wrong with it and when that was found. All together have
 * a size; the oldest go.
 */
#include <stdbool.h>
#include <stdint.h>

struct quarantined {
    const char *path; /* a file, or a folder of files */
    const char *what, *id, *how;
    int64_t at; /* milliseconds since 1970 */
};

/* Moves it there. False with errno when it is where it was; ENOENT is no wonder where several find the same. `most` is
   what all may have, in bytes. */
bool quarantine_take(const char *data, const struct quarantined *quarantined, uint64_t most);
