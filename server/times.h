#pragma once
/* times - milliseconds since 1970 as text. */
#include <stdint.h>

#define TIMES_SIZE 32

/* RFC 3339 in UTC with milliseconds into `ret` (TIMES_SIZE bytes), which is returned; NULL for 0. */
const char *times_format(int64_t milliseconds, char *ret);
