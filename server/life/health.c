/* --healthcheck: asks a daemon whether it is ready, for containers that have no other program to ask with. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "life/life.h"
#include "server.h"
#include "server_limits.h"

struct target {
    char host[256], port[16], path[512];
    bool tls;
    bool verify; /* a URL names whom to trust; the configured listener is this machine */
};

struct talk {
    const struct target *target;
    int fd;
    gnutls_session_t session; /* NULL without TLS */
    gnutls_certificate_credentials_t credentials;
    uint64_t deadline_ms;
    char error[400]; /* a host and why not */
};

static bool fail(struct talk *talk, const char *what, const char *why)
{
    (void)snprintf(talk->error, sizeof talk->error, "%s: %s", what, why);
    return false;
}

/* ---- whom to ask ---- */

/* scheme://host[:port][/path] */
static bool parse_url(const char *url, struct target *target)
{
    const char *host;
    *target = (struct target){.verify = true};
    if (strncmp(url, "https://", 8) == 0) {
        target->tls = true;
        host = url + 8;
    } else if (strncmp(url, "http://", 7) == 0) {
        host = url + 7;
    } else {
        return false;
    }
    size_t authority = strcspn(host, "/?#");
    const char *path = host[authority] == '/' && host[authority + 1] != '\0' ? host + authority : "/readyz";
    bool brackets = host[0] == '[';
    const char *start = brackets ? host + 1 : host;
    const char *end = memchr(start, brackets ? ']' : ':', authority - (size_t)brackets);
    size_t size = end != NULL ? (size_t)(end - start) : authority;
    if (brackets && end != NULL)
        end++;
    if ((brackets && end == NULL) || size == 0 || size >= sizeof target->host || memchr(host, '@', authority) != NULL ||
        strlen(path) >= sizeof target->path || path[strcspn(path, " \r\n\t")] != '\0')
        return false;
    memcpy(target->host, start, size);
    (void)snprintf(target->path, sizeof target->path, "%s", path);
    if (end == NULL || end == host + authority) {
        (void)snprintf(target->port, sizeof target->port, "%s", target->tls ? "443" : "80");
        return true;
    }
    size_t digits = authority - (size_t)(end + 1 - host);
    if (*end != ':' || digits == 0 || digits > 5 || strspn(end + 1, "0123456789") < digits)
        return false;
    memcpy(target->port, end + 1, digits);
    return true;
}

/* The daemon of this configuration; one that listens on every address is asked on this machine's own. A sentence when
   it cannot be asked, else NULL. */
static const char *target_of(const struct config *config, struct target *target)
{
    bool admin = config->admin_listen.text[0] != '\0';
    const struct config_address *address = admin ? &config->admin_listen : &config->listen;
    if (strcmp(address->port, "0") == 0)
        return "--healthcheck needs a URL: the daemon listens on any free port.";
    if (!admin && config->tls_client_ca[0] != '\0' && config->tokens[0] == '\0')
        return "--healthcheck needs --admin-listen: the other listener wants a certificate of every client.";
    *target = (struct target){.tls = !admin && config->tls_certificate[0] != '\0', .path = "/readyz"};
    (void)snprintf(target->host, sizeof target->host, "%s",
                   strcmp(address->host, "0.0.0.0") == 0 ? "127.0.0.1"
                   : strcmp(address->host, "::") == 0    ? "::1"
                                                         : address->host);
    (void)snprintf(target->port, sizeof target->port, "%s", address->port);
    return NULL;
}

/* ---- talking ---- */

static bool wait_for(struct talk *talk, short events)
{
    uint64_t now = server_now_ms();
    struct pollfd poll_fd = {.fd = talk->fd, .events = events};
    if (now >= talk->deadline_ms || poll(&poll_fd, 1, (int)(talk->deadline_ms - now)) <= 0)
        return fail(talk, "no answer", "it took too long");
    return true;
}

static bool connect_to(struct talk *talk)
{
    const struct target *target = talk->target;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int error = getaddrinfo(target->host, target->port, &hints, &list);
    bool connected = false;
    if (error != 0)
        return fail(talk, target->host, gai_strerror(error));
    for (const struct addrinfo *address = list; address != NULL && !connected; address = address->ai_next) {
        int failed = 0;
        socklen_t size = sizeof failed;
        talk->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (talk->fd < 0)
            continue;
        connected = connect(talk->fd, address->ai_addr, address->ai_addrlen) == 0 ||
                    (errno == EINPROGRESS && wait_for(talk, POLLOUT) &&
                     getsockopt(talk->fd, SOL_SOCKET, SO_ERROR, &failed, &size) == 0 && failed == 0);
        if (!connected) {
            (void)fail(talk, "no connection", strerrordesc_np(failed != 0 ? failed : errno));
            (void)close(talk->fd);
            talk->fd = -1;
        }
    }
    freeaddrinfo(list);
    return connected;
}

/* Waits as the session wants it; false for an error. */
static bool again(struct talk *talk, ssize_t error, const char *what)
{
    if (error == GNUTLS_E_AGAIN || error == GNUTLS_E_INTERRUPTED)
        return wait_for(talk, gnutls_record_get_direction(talk->session) == 0 ? POLLIN : POLLOUT);
    return fail(talk, what, gnutls_strerror((int)error));
}

static bool start_tls(struct talk *talk)
{
    const struct target *target = talk->target;
    int error;
    if (gnutls_certificate_allocate_credentials(&talk->credentials) != 0 ||
        gnutls_init(&talk->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK) != 0)
        return fail(talk, "TLS", "out of memory");
    (void)gnutls_set_default_priority(talk->session);
    (void)gnutls_credentials_set(talk->session, GNUTLS_CRD_CERTIFICATE, talk->credentials);
    if (target->verify) {
        (void)gnutls_certificate_set_x509_system_trust(talk->credentials);
        (void)gnutls_server_name_set(talk->session, GNUTLS_NAME_DNS, target->host, strlen(target->host));
        gnutls_session_set_verify_cert(talk->session, target->host, 0);
    }
    gnutls_transport_set_int(talk->session, talk->fd);
    while ((error = gnutls_handshake(talk->session)) != 0) {
        if (!again(talk, error, "TLS"))
            return false;
    }
    return true;
}

static bool send_all(struct talk *talk, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t sent = talk->session != NULL ? gnutls_record_send(talk->session, text, left)
                                             : send(talk->fd, text, left, MSG_NOSIGNAL);
        if (sent > 0) {
            text += sent;
            left -= (size_t)sent;
        } else if (talk->session != NULL ? !again(talk, sent, "sending")
                                         : errno != EAGAIN || !wait_for(talk, POLLOUT)) {
            return talk->error[0] != '\0' ? false : fail(talk, "sending", strerrordesc_np(errno));
        }
    }
    return true;
}

/* Reads until the end of the first line; the rest is of no interest. */
static bool read_line(struct talk *talk, char *line, size_t size)
{
    size_t used = 0;
    while (used + 1 < size && memchr(line, '\n', used) == NULL) {
        ssize_t got = talk->session != NULL ? gnutls_record_recv(talk->session, line + used, size - 1 - used)
                                            : recv(talk->fd, line + used, size - 1 - used, 0);
        if (got > 0)
            used += (size_t)got;
        else if (got == 0)
            return fail(talk, "no answer", "the connection was closed");
        else if (talk->session != NULL ? !again(talk, got, "receiving") : errno != EAGAIN || !wait_for(talk, POLLIN))
            return talk->error[0] != '\0' ? false : fail(talk, "receiving", strerrordesc_np(errno));
    }
    line[used] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    return true;
}

static bool ask(struct talk *talk)
{
    const struct target *target = talk->target;
    char request[1024], line[256] = "";
    bool colon = strchr(target->host, ':') != NULL;
    (void)snprintf(
        request, sizeof request,
        "GET %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: shardpland-healthcheck\r\nConnection: close\r\n\r\n",
        target->path, colon ? "[" : "", target->host, colon ? "]" : "", target->port);
    if (!connect_to(talk) || (target->tls && !start_tls(talk)) || !send_all(talk, request) ||
        !read_line(talk, line, sizeof line))
        return false;
    if (strncmp(line, "HTTP/1.1 200", 12) == 0)
        return true;
    return fail(talk, "it is not ready", line);
}

int life_health(const struct config *config)
{
    struct target target;
    const char *wrong = NULL;
    if (config->health_url[0] == '\0')
        wrong = target_of(config, &target);
    else if (!parse_url(config->health_url, &target))
        wrong = "--healthcheck wants a URL like http://127.0.0.1:8080.";
    if (wrong != NULL) {
        (void)fprintf(stderr, "shardpland: %s\n", wrong);
        return 2;
    }
    struct talk talk = {.target = &target, .fd = -1, .deadline_ms = server_now_ms() + SPD_HEALTH_SECONDS * 1000};
    bool ok = ask(&talk);
    if (!ok)
        (void)fprintf(stderr, "shardpland: %s port %s: %s.\n", target.host, target.port, talk.error);
    if (talk.session != NULL)
        gnutls_deinit(talk.session);
    if (talk.credentials != NULL)
        gnutls_certificate_free_credentials(talk.credentials);
    if (talk.fd >= 0)
        (void)close(talk.fd);
    return ok ? 0 : 1;
}
