#include "store/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/files.h"
#include "util/text.h"

#define NAME_SIZE IDENTITY_SIZE

static bool make_name(char name[NAME_SIZE])
{
    unsigned char random[(NAME_SIZE - 1) / 2];
    if (gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0)
        return false;
    text_to_hex(random, sizeof random, name);
    return true;
}

/* A complete file under a name of its own becomes the identity by one link, which fails where there is one: daemons that
   start together read what one of them has written. */
static bool make_file(const char *data, const char *path, const char *own)
{
    char name[NAME_SIZE];
    const int fd = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || !make_name(name)) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    bool ok = write(fd, name, NAME_SIZE - 1) == NAME_SIZE - 1 && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    ok = ok && (link(own, path) == 0 || errno == EEXIST) && files_sync_folder(data);
    const int error = errno;
    (void)unlink(own);
    errno = error;
    return ok;
}

static bool read_file(const char *path, char name[NAME_SIZE])
{
    uint64_t size = 0;
    const int fd = files_open_read(path, &size);
    if (fd < 0)
        return false;
    bool ok = size == NAME_SIZE - 1 && files_read_at(fd, 0, name, NAME_SIZE - 1);
    (void)close(fd);
    name[NAME_SIZE - 1] = '\0';
    if (ok && text_is_hex(name, NAME_SIZE - 1))
        return true;
    errno = EINVAL;
    return false;
}

bool identity_name(const char *data, char ret_name[NAME_SIZE], struct problem *problem)
{
    char *path = NULL, *own = NULL, suffix[NAME_SIZE];
    bool ok = make_name(suffix) && asprintf(&path, "%s/identity", data) >= 0 &&
              asprintf(&own, "%s/tmp/identity-%s", data, suffix) >= 0;
    if (ok && access(path, F_OK) != 0)
        ok = make_file(data, path, own);
    ok = ok && read_file(path, ret_name);
    if (!ok)
        (void)problem_from_errno(problem, path == NULL || own == NULL ? ENOMEM : errno,
                                 "Reading which data folder it is (DATA/identity)");
    free(path);
    free(own);
    return ok;
}

bool identity_check(const char *data, struct store *store, struct problem *problem)
{
    char name[NAME_SIZE], kept[STORE_SETTING_SIZE];
    if (!identity_name(data, name, problem) || !store_setting(store, "data_folder", name, kept, problem))
        return false;
    if (strcmp(name, kept) == 0)
        return true;
    return problem_set(problem, 500, "OTHER_FOLDER",
                       "The database belongs to another data folder than %s. Give the one that it was first used with, "
                       "or a database of its own; where its files were moved here, move DATA/identity too.",
                       data);
}
