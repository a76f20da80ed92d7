#pragma once
/* data_files - where the test data lies, and files of it in memory. */
#include <stddef.h>

/* $SHARDPLAN_TEST_DATA, else ../shared/data next to the source tree; static. */
const char *data_folder(void);

/* The bytes of a file and a NUL behind them, from malloc; NULL when there is no such file. */
unsigned char *data_read(const char *path, size_t *ret_size);
