#pragma once
/*
 * times - milliseconds since 1970, for people and for other machines. Deadlines are of server_now_ms(), which never
 * jumps; who may ask for these is listed in tests/lint/structure.py.
 */
#include <stdint.h>

#define TIMES_SIZE 32

int64_t times_now(void);

/* RFC 3339 in UTC with milliseconds into `ret` (TIMES_SIZE bytes), which is returned; NULL for 0. */
const char *times_format(int64_t milliseconds, char *ret);
