#pragma once
/*
 * credentials - who this daemon is for the object store, and that it stays so.
 *
 * One source, chosen at the start by what is configured, in this order:
 *
 *   1. a file (--blobs-credentials-file): lines of `aws_access_key_id = ..`, `aws_secret_access_key = ..` and perhaps
 *      `aws_session_token = ..`, in the form of AWS's tools. Of several profiles the first one is taken. Read again
 *      every SPD_S3_FILE_SECONDS, and when the store refuses the keys.
 *   2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and perhaps AWS_SESSION_TOKEN.
 *   3. a web identity (IAM roles for service accounts): AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, whose token is
 *      changed for keys at STS (AWS_ENDPOINT_URL_STS, else https://sts.REGION.amazonaws.com/). Renewed
 *      SPD_S3_RENEW_SECONDS before they end.
 *   4. an agent of the node (EKS Pod Identity, ECS): AWS_CONTAINER_CREDENTIALS_FULL_URI (container.h), renewed as those of
 *      a web identity are.
 *
 * A source that is configured and fails is an error: another one, perhaps with other rights, never takes its place.
 * Secrets are in no message and in no line of the log. Any thread may call; one renews for all.
 */
#include "store/s3/request.h"
#include "util/problem.h"

struct credentials;

/* Keys are got at once, so that a daemon that has none does not start; where STS does not answer, they are got later. `file` is "" or a path; the strings must outlive
   it. False with a problem that says what is missing. */
bool credentials_open(const char *file, const char *region, const atomic_bool *stop,
                      struct credentials **ret_credentials, struct problem *problem);
void credentials_close(struct credentials *credentials); /* NULL is allowed */

/* Keys that are good for some minutes; wipe them after use. */
bool credentials_get(struct credentials *credentials, struct s3_keys *ret_keys, struct problem *problem);

/* The store refused these: the next call gets new ones, when nobody has since. */
void credentials_refused(struct credentials *credentials, const struct s3_keys *keys);
