#pragma once
/* internal - what the files of stored.h share. */
#include <gnutls/crypto.h>
#include <pthread.h>

#include "server_limits.h"
#include "store/integrity/checked.h"
#include "store/integrity/stored.h"

enum stored_kind { STORED_MODEL, STORED_INSPECTION, STORED_RESULT, STORED_RESULT_COPY, STORED_SHEET };

struct stored {
    struct stored_options options;
    pthread_mutex_t sealing; /* sums of one file are made by one thread at a time */
};

/* What a file is, for those who find that it is wrong. */
struct stored_subject {
    enum stored_kind kind;
    char id[65];                      /* of the model, or of the plan */
    char key[SPD_MAX_OBJECT_KEY + 1]; /* the file is DATA/KEY; of a result the folder; "" without memory */
    char sha256[65];                  /* that the file must have; "": not known */
    int64_t attempt;                  /* of a result, */
    char digest[65];                  /* and of its sums; "": not known */
};

/* Is told how many bytes are read, and ends that (ECANCELED) with false. NULL: all at once. */
typedef bool (*stored_pace)(void *context, size_t bytes);

/* Hashes all of the file into `sums` and, unless that is NULL, into `sha`. False with errno. */
bool stored_sum_bytes(int fd, struct sums *sums, gnutls_hash_hd_t sha, stored_pace pace, void *context);

/* Puts sums where they belong, in one step; where that fails they are made again. */
void stored_put_sums(const struct stored *stored, const struct sums *sums, const char *beside);

/* Makes the sums of one file, of which nothing is read yet, and its SHA-256 when that is wanted. NULL with errno. */
struct sums *stored_sum_file(int fd, const char *of, char ret_sha[65], stored_pace pace, void *context);

/* Moves what is wrong away, and tells it. `fd` is the file that was found wrong, -1: it is not there. `error` is what reading
   it said. False where it is not for certain. */
bool stored_condemn(struct stored *stored, const struct stored_subject *subject, int fd, int error);

/* Whether that means that what is stored is wrong or not there. */
bool stored_is_damage(int error);

/* The same, and the problem that it is. */
void stored_refuse(struct stored *stored, const struct stored_subject *subject, int fd, int error,
                   struct problem *problem);

/* Network: the object store does not have the file, or has other bytes: `wrong`, a temporary file that goes, has them (NULL:
   it is missing). What is wrong is put away and removed there, so that nobody fetches it again, and it is told; and what
   the problem is. */
void stored_lose_object(struct stored *stored, const struct blob_file *file, const char *wrong,
                        struct problem *problem);

/* The result is lost: true when nobody said so before. */
bool stored_lose_result(struct stored *stored, const struct stored_subject *subject);
void stored_tell(const struct stored *stored, const char *what, const struct stored_subject *subject, const char *how,
                 const char *became);

/* Of a file that stands alone and whose SHA-256 is known: reads all of it. False with errno. */
bool stored_read_whole(struct stored *stored, const struct stored_subject *subject, int fd, uint64_t size,
                       stored_pace pace, void *context);

/* Sums of a result as the row has them, read or made again. NULL with errno. */
struct sums *stored_result_sums(struct stored *stored, const struct stored_subject *subject, stored_pace pace,
                                void *context);
/* All files of a result. False with errno. */
bool stored_read_result(struct stored *stored, const struct stored_subject *subject, stored_pace pace, void *context);
struct stored_subject stored_subject_of_plan(const struct plan_row *row);
struct stored_subject stored_subject_of_file(const struct blob_file *file);
