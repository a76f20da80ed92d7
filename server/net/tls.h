#pragma once
/*
 * tls - certificates: the daemon's own, and those that clients show.
 *
 * The daemon's chain and key are read again on demand and when one of the two files has changed; connections that are
 * being made keep the pair that they began with. A pair that cannot be read, or whose halves do not belong together,
 * changes nothing.
 *
 * Client certificates are asked for when there is an authority for them. One that this authority did not sign ends the
 * handshake; whether a client may come without one is told at the start.
 */
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/principal.h"
#include "config/config.h"
#include "util/problem.h"

struct tls;

/* *ret_tls stays NULL when the configuration has no certificate. */
bool tls_create(const struct config *config, struct tls **ret_tls, struct problem *problem);
void tls_destroy(struct tls *tls); /* NULL is allowed; no connection may be left */

/* Reads certificate and key again. Main thread. */
bool tls_reload(struct tls *tls, struct problem *problem);

/* Main thread, now and then: reloads when a file has changed, and logs what came of it. */
void tls_tick(struct tls *tls, uint64_t now_ms);

/* For the HTTP library: the authority as PEM or NULL, the priorities, and how a handshake gets its certificate. */
const char *tls_authority(const struct tls *tls);
const char *tls_priorities(void);
int tls_give_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **ret_chain,
                         unsigned *ret_length, gnutls_ocsp_data_st **ret_ocsp, unsigned *ret_ocsp_length,
                         gnutls_privkey_t *ret_key, unsigned *ret_flags);

/* HTTP threads; without TLS these do nothing. */
void tls_connection_started(struct MHD_Connection *connection);

/* The common name of the certificate that the client has shown and that was verified, into `ret`; false without. */
bool tls_client_name(struct MHD_Connection *connection, char ret[SPD_MAX_PRINCIPAL + 1]);

/* Sends bytes past the HTTP library, through the session where there is one. False when not all could be sent. */
bool tls_send(struct MHD_Connection *connection, const void *bytes, size_t size);

/* Tells the client that nothing more will be sent. */
void tls_say_goodbye(struct MHD_Connection *connection);
