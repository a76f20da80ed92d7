#include "net/rate.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* knows more counters than <netinet/tcp.h>, and cannot be included together with it */
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

bool rate_progress(int fd, bool incoming, uint64_t *ret_bytes)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int unsent = 0;
    if (!incoming && (ioctl(fd, SIOCOUTQ, &unsent) != 0 || unsent == 0))
        return false;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    *ret_bytes = incoming ? info.tcpi_bytes_received : info.tcpi_bytes_acked;
    return true;
}
