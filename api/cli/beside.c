/* Files beside several models: their weights. */
#include <string.h>
#include <unistd.h>

#include "cli.h"

static int file_of(struct beside *beside, const struct input *input, const char *location)
{
    for (uint32_t i = 0; i < beside->count; i++) {
        const struct beside_file *file = &beside->files[i];
        if (file->input == input && (file->location == location || strcmp(file->location, location) == 0))
            return file->fd;
    }
    struct beside_file *file = &beside->files[beside->next];
    if (beside->count == CLI_MAX_BESIDE && file->fd >= 0)
        (void)close(file->fd);
    *file = (struct beside_file){input, location, open_data_of(input, location)};
    beside->next = (beside->next + 1) % CLI_MAX_BESIDE;
    beside->count += beside->count < CLI_MAX_BESIDE;
    return file->fd;
}

bool beside_read(struct beside *beside, const struct input *input, const char *location, uint64_t offset, void *bytes,
                 size_t size)
{
    return read_at(file_of(beside, input, location), offset, bytes, size);
}

void beside_close(struct beside *beside)
{
    for (uint32_t i = 0; i < beside->count; i++) {
        if (beside->files[i].fd >= 0)
            (void)close(beside->files[i].fd);
    }
    beside->count = beside->next = 0;
}
