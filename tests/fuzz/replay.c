/* Runs a fuzz target on the files that are named, so that the corpus is tested without a fuzzer. */
#include "fuzz.h"

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    int status = 1;
    uint8_t *bytes = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        /* Exactly as large as the input: reading one byte too many is caught. */
        bytes = size >= 0 ? malloc(size == 0 ? 1 : (size_t)size) : NULL;
        if (bytes != NULL && fread(bytes, 1, (size_t)size, file) == (size_t)size)
            status = LLVMFuzzerTestOneInput(bytes, (size_t)size);
    }
    free(bytes);
    (void)fclose(file);
    return status;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        if (replay(argv[i]) != 0) {
            (void)fprintf(stderr, "%s: not run\n", argv[i]);
            failed = 1;
        }
    }
    return failed;
}
