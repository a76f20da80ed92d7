#pragma once
/*
 * container - keys of a session from the agent of the node or of the container's service, as EKS Pod Identity and ECS have it.
 *
 * The agent answers GET with {"AccessKeyId": .., "SecretAccessKey": .., "Token": .., "Expiration": ..}. It has to be asked by
 * HTTPS, or to be near: this host, or one of the link-local addresses of these services. Then no proxy is used.
 */
#include "store/s3/request.h"
#include "util/problem.h"

struct container {
    const char *url;        /* AWS_CONTAINER_CREDENTIALS_FULL_URI */
    const char *token_file; /* AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, read anew each time; or NULL */
    const char *token;      /* AWS_CONTAINER_AUTHORIZATION_TOKEN, when there is no file; or NULL: none is asked for */
};

/* Whether the agent may be asked there. */
bool container_is_allowed(const char *url);

/* *ret_ends_at is in milliseconds since 1970. Waits for the network, at most as request.h says. False with a problem,
   BLOBS_UNAVAILABLE where the agent does not answer. */
bool container_ask(const struct container *container, const atomic_bool *stop, struct s3_keys *ret_keys,
                   int64_t *ret_ends_at, struct problem *problem);
