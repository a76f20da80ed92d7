#pragma once
/* web_identity - keys of a session for the token of a Kubernetes service account: AssumeRoleWithWebIdentity of STS. */
#include "store/s3/request.h"
#include "util/problem.h"

struct web_identity {
    const char *role;       /* its ARN */
    const char *token_file; /* read anew each time: it is replaced before it ends */
    const char *region;
};

/* The token that a file has, without the end of its line. False with a problem: there is no such file, it is empty or too
   long. The caller wipes the token. */
bool web_identity_token(const char *path, char *ret_token, size_t size, struct problem *problem);

/* *ret_ends_at is in milliseconds since 1970. Waits for the network, at most as request.h says. False with a problem,
   BLOBS_UNAVAILABLE where STS does not answer. */
bool web_identity_assume(const struct web_identity *identity, const atomic_bool *stop, struct s3_keys *ret_keys,
                         int64_t *ret_ends_at, struct problem *problem);
