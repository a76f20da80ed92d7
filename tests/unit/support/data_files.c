#include "data_files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

const char *data_folder(void)
{
    const char *folder = getenv("SHARDPLAN_TEST_DATA");
    return folder != NULL ? folder : SOURCE_ROOT "/../shared/data";
}

unsigned char *data_read(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    unsigned char *bytes = malloc((size_t)size + 1);
    cr_assert(bytes != NULL && fread(bytes, 1, (size_t)size, file) == (size_t)size);
    bytes[size] = '\0';
    (void)fclose(file);
    *ret_size = (size_t)size;
    return bytes;
}
