#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "server.h"
#include "server_limits.h"

#define MAX_CHAIN 16

/* A chain and its key. A handshake borrows them, so a pair that was replaced is kept until every handshake that may
   have begun with it is over or has been cut off. */
struct pair {
    struct pair *next;
    gnutls_pcert_st chain[MAX_CHAIN];
    unsigned length;
    gnutls_privkey_t key;
    uint64_t retired_ms;
};

struct tls {
    const struct config *config;
    char *authority;
    bool required; /* clients must have a certificate */
    pthread_mutex_t mutex;
    struct pair *current; /* the mutex guards it */
    struct pair *retired; /* main thread */
    struct stat certificate_seen, key_seen;
    uint64_t looked_ms;
};

/* The HTTP library hands no context to the callbacks of a handshake. There is one daemon in a process. */
static struct tls *only;

/* ---- files ---- */

/* A whole file, NUL-terminated; NULL with a problem. The caller frees it. */
static char *read_pem(const char *path, const char *what, struct stat *ret_seen, struct problem *problem)
{
    char *text = malloc(SPD_MAX_PEM_BYTES + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    ssize_t got = fd >= 0 && text != NULL && fstat(fd, ret_seen) == 0 ? 1 : -1;
    while (got > 0 && size < SPD_MAX_PEM_BYTES) {
        got = read(fd, text + size, SPD_MAX_PEM_BYTES - size);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            size += (size_t)got;
    }
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    if (got == 0) {
        text[size] = '\0';
        return text;
    }
    (void)problem_set(problem, 500, "BAD_CERTIFICATE", "The %s %s cannot be read: %s.", what, path,
                      got > 0 ? "it is too large" : strerrordesc_np(error));
    free(text);
    return NULL;
}

static void free_pem(char *text)
{
    if (text != NULL)
        gnutls_memset(text, 0, strlen(text)); /* it may have been a key */
    free(text);
}

static void pair_free(struct pair *pair)
{
    if (pair == NULL)
        return;
    for (unsigned i = 0; i < pair->length; i++)
        gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key != NULL)
        gnutls_privkey_deinit(pair->key);
    free(pair);
}

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

/* The halves belong together when they have the same public key. */
static bool belong_together(const struct pair *pair)
{
    unsigned char of_key[64], of_certificate[64];
    size_t key_size = sizeof of_key, certificate_size = sizeof of_certificate;
    gnutls_pubkey_t public_key = NULL;
    bool ok = gnutls_pubkey_init(&public_key) == 0 && gnutls_pubkey_import_privkey(public_key, pair->key, 0, 0) == 0 &&
              gnutls_pubkey_get_key_id(public_key, GNUTLS_KEYID_USE_SHA256, of_key, &key_size) == 0 &&
              gnutls_pubkey_get_key_id(pair->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, of_certificate,
                                       &certificate_size) == 0 &&
              key_size == certificate_size && memcmp(of_key, of_certificate, key_size) == 0;
    if (public_key != NULL)
        gnutls_pubkey_deinit(public_key);
    return ok;
}

static bool import(struct pair *pair, const struct config *config, char *chain, char *key, struct problem *problem)
{
    gnutls_datum_t chain_datum = datum(chain), key_datum = datum(key);
    unsigned length = MAX_CHAIN;
    int result = gnutls_pcert_list_import_x509_raw(pair->chain, &length, &chain_datum, GNUTLS_X509_FMT_PEM, 0);
    if (result < 0 || length == 0)
        return problem_set(problem, 500, "BAD_CERTIFICATE", "The certificate %s cannot be used: %s.",
                           config->tls_certificate, gnutls_strerror(result));
    pair->length = length;
    result = gnutls_privkey_init(&pair->key);
    if (result == 0)
        result = gnutls_privkey_import_x509_raw(pair->key, &key_datum, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (result < 0)
        return problem_set(problem, 500, "BAD_CERTIFICATE", "The key %s cannot be used: %s.", config->tls_key,
                           gnutls_strerror(result));
    if (!belong_together(pair))
        return problem_set(problem, 500, "BAD_CERTIFICATE", "The key %s does not belong to the certificate %s.",
                           config->tls_key, config->tls_certificate);
    return true;
}

static struct pair *read_pair(struct tls *tls, struct problem *problem)
{
    const struct config *config = tls->config;
    char *chain = read_pem(config->tls_certificate, "certificate", &tls->certificate_seen, problem);
    char *key = chain != NULL ? read_pem(config->tls_key, "key", &tls->key_seen, problem) : NULL;
    struct pair *pair = key != NULL ? calloc(1, sizeof *pair) : NULL;
    if (pair != NULL && !import(pair, config, chain, key, problem)) {
        pair_free(pair);
        pair = NULL;
    } else if (key != NULL && pair == NULL) {
        (void)problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    }
    free_pem(chain);
    free_pem(key);
    return pair;
}

/* ---- the whole ---- */

static bool check_options(const struct config *config, struct problem *problem)
{
    bool certificate = config->tls_certificate[0] != '\0', key = config->tls_key[0] != '\0';
    if (certificate != key)
        return problem_set(problem, 500, "BAD_CERTIFICATE",
                           "TLS needs both --tls-certificate FILE and --tls-key FILE; one of them is missing.");
    if (!certificate && config->tls_client_ca[0] != '\0')
        return problem_set(problem, 500, "BAD_CERTIFICATE",
                           "--tls-client-ca needs TLS: give --tls-certificate FILE and --tls-key FILE too.");
    return true;
}

/* The HTTP library would start with an authority without a certificate in it, and then trust nobody or fail. */
static bool check_authority(const struct tls *tls, struct problem *problem)
{
    gnutls_x509_trust_list_t list = NULL;
    gnutls_datum_t text = datum(tls->authority);
    int count = gnutls_x509_trust_list_init(&list, 0);
    if (count == 0)
        count = gnutls_x509_trust_list_add_trust_mem(list, &text, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    if (list != NULL)
        gnutls_x509_trust_list_deinit(list, 1);
    if (count <= 0)
        return problem_set(problem, 500, "BAD_CERTIFICATE", "The client authority %s has no usable certificate.",
                           tls->config->tls_client_ca);
    return true;
}

bool tls_create(const struct config *config, struct tls **ret_tls, struct problem *problem)
{
    struct stat ignored;
    if (!check_options(config, problem))
        return false;
    if (config->tls_certificate[0] == '\0')
        return true;
    struct tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    tls->config = config;
    tls->required = config->tokens[0] == '\0';
    (void)pthread_mutex_init(&tls->mutex, NULL);
    tls->current = read_pair(tls, problem);
    if (tls->current != NULL && config->tls_client_ca[0] != '\0') {
        tls->authority = read_pem(config->tls_client_ca, "client authority", &ignored, problem);
        if (tls->authority != NULL)
            (void)check_authority(tls, problem);
    }
    if (problem->status != 0) {
        tls_destroy(tls);
        return false;
    }
    only = tls;
    *ret_tls = tls;
    return true;
}

void tls_destroy(struct tls *tls)
{
    if (tls == NULL)
        return;
    if (only == tls)
        only = NULL;
    while (tls->retired != NULL) {
        struct pair *pair = tls->retired;
        tls->retired = pair->next;
        pair_free(pair);
    }
    pair_free(tls->current);
    free(tls->authority);
    (void)pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

bool tls_reload(struct tls *tls, struct problem *problem)
{
    struct pair *fresh = read_pair(tls, problem);
    if (fresh == NULL)
        return false;
    (void)pthread_mutex_lock(&tls->mutex);
    struct pair *old = tls->current;
    tls->current = fresh;
    (void)pthread_mutex_unlock(&tls->mutex);
    old->retired_ms = server_now_ms();
    old->next = tls->retired;
    tls->retired = old;
    return true;
}

static bool has_changed(const char *path, const struct stat *seen)
{
    struct stat now;
    return stat(path, &now) == 0 &&
           (now.st_ino != seen->st_ino || now.st_size != seen->st_size || now.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec || now.st_dev != seen->st_dev);
}

/* A handshake takes SPD_HEADER_SECONDS at most; then its connection is shut down. */
static void free_retired(struct tls *tls, uint64_t now_ms)
{
    for (struct pair **at = &tls->retired; *at != NULL;) {
        struct pair *pair = *at;
        if (now_ms - pair->retired_ms < 4 * SPD_HEADER_SECONDS * 1000) {
            at = &pair->next;
            continue;
        }
        *at = pair->next;
        pair_free(pair);
    }
}

void tls_tick(struct tls *tls, uint64_t now_ms)
{
    struct problem problem = {0};
    if (tls == NULL || now_ms - tls->looked_ms < SPD_CERTIFICATE_LOOK_MS)
        return;
    tls->looked_ms = now_ms;
    free_retired(tls, now_ms);
    if (!has_changed(tls->config->tls_certificate, &tls->certificate_seen) &&
        !has_changed(tls->config->tls_key, &tls->key_seen))
        return;
    /* Two files do not change at one moment: halves that do not fit are looked at again when the other one changes. */
    if (tls_reload(tls, &problem))
        LOG(LOG_INFO, "certificate reloaded");
    else
        LOG(LOG_WARNING, "certificate not reloaded, the old one stays", log_s("detail", problem.detail));
}

/* ---- handshakes ---- */

const char *tls_authority(const struct tls *tls)
{
    return tls->authority;
}

/* TLS 1.2 and 1.3, ephemeral keys and authenticated encryption only. */
const char *tls_priorities(void)
{
    return "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-256-GCM:"
           "+CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD:-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:"
           "%SERVER_PRECEDENCE";
}

int tls_give_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **ret_chain,
                         unsigned *ret_length, gnutls_ocsp_data_st **ret_ocsp, unsigned *ret_ocsp_length,
                         gnutls_privkey_t *ret_key, unsigned *ret_flags)
{
    (void)session;
    (void)info;
    (void)pthread_mutex_lock(&only->mutex);
    struct pair *pair = only->current;
    (void)pthread_mutex_unlock(&only->mutex);
    *ret_chain = pair->chain;
    *ret_length = pair->length;
    *ret_key = pair->key;
    *ret_ocsp = NULL;
    *ret_ocsp_length = 0;
    *ret_flags = 0; /* they stay ours */
    return 0;
}

/* In the middle of a handshake: a certificate that was shown must be one of the authority, for clients. */
static int verify_client(gnutls_session_t session)
{
    unsigned count = 0, status = 0;
    if (gnutls_certificate_get_peers(session, &count) == NULL || count == 0)
        return 0; /* whether one is needed is said by the request for it */
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = (void *)GNUTLS_KP_TLS_WWW_CLIENT};
    return gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 && status == 0 ? 0 : -1;
}

static gnutls_session_t session_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info != NULL ? (gnutls_session_t)info->tls_session : NULL;
}

void tls_connection_started(struct MHD_Connection *connection)
{
    gnutls_session_t session = session_of(connection);
    if (session == NULL || only == NULL || only->authority == NULL)
        return;
    gnutls_certificate_server_set_request(session, only->required ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_REQUEST);
    gnutls_session_set_verify_function(session, verify_client);
}

/* ---- connections ---- */

bool tls_client_name(struct MHD_Connection *connection, char ret[SPD_MAX_PRINCIPAL + 1])
{
    gnutls_session_t session = session_of(connection);
    gnutls_x509_crt_t certificate = NULL;
    unsigned count = 0;
    if (session == NULL || only == NULL || only->authority == NULL)
        return false;
    const gnutls_datum_t *peers = gnutls_certificate_get_peers(session, &count);
    if (peers == NULL || count == 0 || gnutls_x509_crt_init(&certificate) != 0)
        return false;
    char name[256], other[256];
    size_t size = sizeof name, other_size = sizeof other;
    /* One common name, without a NUL in it: what two readers could understand in two ways names nobody. */
    bool ok = gnutls_x509_crt_import(certificate, &peers[0], GNUTLS_X509_FMT_DER) == 0 &&
              gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size) == 0 &&
              gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 1, 0, other, &other_size) ==
                  GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE &&
              size > 0 && size <= SPD_MAX_PRINCIPAL && strlen(name) == size;
    gnutls_x509_crt_deinit(certificate);
    if (ok)
        memcpy(ret, name, size + 1);
    return ok;
}

bool tls_send(struct MHD_Connection *connection, const void *bytes, size_t size)
{
    gnutls_session_t session = session_of(connection);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (session == NULL)
        return info != NULL && send(info->connect_fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
    const char *from = bytes;
    while (size > 0) {
        ssize_t sent = gnutls_record_send(session, from, size);
        if (sent == GNUTLS_E_INTERRUPTED)
            continue;
        if (sent <= 0)
            return false;
        from += sent;
        size -= (size_t)sent;
    }
    return true;
}

void tls_say_goodbye(struct MHD_Connection *connection)
{
    gnutls_session_t session = session_of(connection);
    if (session != NULL)
        (void)gnutls_bye(session, GNUTLS_SHUT_WR);
}
