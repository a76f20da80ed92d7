#include "net/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth.h"
#include "observe/log.h"
#include "server_limits.h"
#include "util/text.h"

#define FIRST_PASSED 3 /* sd_listen_fds(3) */
#define MAX_PASSED   16

unsigned sockets_take_passed(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int64_t process = 0, number = 0;
    bool ours = pid != NULL && count != NULL && text_to_int(pid, 1, INT32_MAX, &process) && process == getpid() &&
                text_to_int(count, 1, MAX_PASSED, &number);
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    for (int fd = FIRST_PASSED; ours && fd < FIRST_PASSED + number; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return ours ? (unsigned)number : 0;
}

static bool socket_option(int fd, int name, int wanted)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 && value == wanted;
}

int sockets_passed(struct problem *problem)
{
    int fd = FIRST_PASSED, flags = fcntl(fd, F_GETFL);
    if (!socket_option(fd, SO_TYPE, SOCK_STREAM) || !socket_option(fd, SO_ACCEPTCONN, 1) || flags < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        (void)problem_set(problem, 500, "BAD_SOCKET",
                          "LISTEN_FDS speaks of a socket, but descriptor 3 is none that listens for streams.");
        return -1;
    }
    return fd;
}

int sockets_listen(const struct config_address *address, const char *option, struct problem *problem)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int on = 1, error;
    if (getaddrinfo(address->host, address->port, &hints, &found) != 0) {
        (void)problem_set(problem, 500, "BAD_ADDRESS", "%s %s is not a numeric address and port.", option,
                          address->text);
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
              bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SPD_LISTEN_BACKLOG) == 0;
    error = errno;
    freeaddrinfo(found);
    if (ok)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    (void)problem_set(problem, 500, "CANNOT_LISTEN", "Listening on %s failed: %s.", address->text,
                      strerrordesc_np(error));
    return -1;
}

void sockets_describe(int fd, bool tls, char ret_text[SOCKETS_TEXT_SIZE], bool *ret_local)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[64], port[16];
    const char *scheme = tls ? "https" : "http";
    *ret_local = false;
    (void)snprintf(ret_text, SOCKETS_TEXT_SIZE, "%s://?:0", scheme);
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return;
    if (address.ss_family == AF_UNIX) { /* who may connect is what the file's mode says */
        *ret_local = true;
        (void)snprintf(ret_text, SOCKETS_TEXT_SIZE, "%s://unix:0", scheme);
        return;
    }
    if (getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    *ret_local = auth_is_loopback(host);
    (void)snprintf(ret_text, SOCKETS_TEXT_SIZE, address.ss_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s", scheme,
                   host, port);
}

bool sockets_peer(const struct sockaddr *address, unsigned char ret_key[16], bool *ret_local)
{
    memset(ret_key, 0, 16);
    *ret_local = false;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        ret_key[10] = ret_key[11] = 0xff;
        memcpy(ret_key + 12, &v4->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        memcpy(ret_key, &v6->sin6_addr, 16);
        if (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)) {
            *ret_local = true;
            return true;
        }
    } else {
        return false;
    }
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (memcmp(ret_key, mapped, sizeof mapped) == 0)
        *ret_local = ret_key[12] == 127;
    else
        memset(ret_key + 8, 0, 8);
    return true;
}
