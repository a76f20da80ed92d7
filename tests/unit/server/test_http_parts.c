/* The small decisions around HTTP: whose connections count together, which pages may ask, and what hides in lines. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "http/cors.h"
#include "net/layout.h"
#include "net/sockets.h"

/* ---- layout ---- */

Test(http_parts, unsound_lines_do_not_pass_this_library)
{
    cr_expect(layout_learn());
}

/* ---- addresses ---- */

static bool key_of(const char *text, unsigned char key[16], bool *local)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return sockets_peer((const struct sockaddr *)&v4, key, local);
    cr_assert_eq(inet_pton(AF_INET6, text, &v6.sin6_addr), 1, "%s", text);
    return sockets_peer((const struct sockaddr *)&v6, key, local);
}

static void expect_same(const char *a, const char *b, bool same)
{
    unsigned char first[16], second[16];
    bool local;
    cr_assert(key_of(a, first, &local) && key_of(b, second, &local));
    cr_expect_eq(memcmp(first, second, sizeof first) == 0, same, "%s and %s", a, b);
}

Test(http_parts, which_addresses_count_as_one)
{
    expect_same("192.0.2.1", "192.0.2.1", true);
    expect_same("192.0.2.1", "192.0.2.2", false);
    expect_same("192.0.2.1", "::ffff:192.0.2.1", true);
    expect_same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true); /* one network of 64 bits */
    expect_same("2001:db8:1:2::1", "2001:db8:1:3::1", false);
}

Test(http_parts, which_addresses_are_of_this_machine)
{
    static const char *const near[] = {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"};
    static const char *const far[] = {"128.0.0.1", "10.0.0.1", "::2", "::ffff:10.0.0.1", "fe80::1"};
    unsigned char key[16];
    bool local;
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
        cr_expect(key_of(near[i], key, &local) && local, "%s", near[i]);
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        cr_expect(key_of(far[i], key, &local) && !local, "%s", far[i]);
    struct sockaddr_un other = {.sun_family = AF_UNIX};
    cr_expect_not(sockets_peer((const struct sockaddr *)&other, key, &local));
}

/* ---- pages ---- */

Test(http_parts, origins_are_compared_whole)
{
    static const char allowed[] = "https://ui.example http://127.0.0.1:3000";
    cr_expect(cors_allows(allowed, "https://ui.example"));
    cr_expect(cors_allows(allowed, "http://127.0.0.1:3000"));
    static const char *const others[] = {"",
                                         "null",
                                         "*",
                                         "http://ui.example",
                                         "https://ui.example:443",
                                         "https://ui.example.evil",
                                         "https://evil.ui.example",
                                         "https://ui.exampl",
                                         "https://ui.example http://127.0.0.1:3000",
                                         " "};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_not(cors_allows(allowed, others[i]), "'%s'", others[i]);
    cr_expect_not(cors_allows("", "https://ui.example"));
    cr_expect_not(cors_allows("* null", "null"));
    cr_expect_not(cors_allows("* null", "*"));
}

Test(http_parts, hosts_of_allowed_origins)
{
    static const char allowed[] = "https://ui.example http://box.example:3000";
    cr_expect(cors_allows_host(allowed, "ui.example"));
    cr_expect(cors_allows_host(allowed, "UI.example"));
    cr_expect(cors_allows_host(allowed, "box.example:3000"));
    static const char *const others[] = {"",        "box.example",     "ui.example:80",
                                         "example", "evil.ui.example", "ui.example.evil"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_not(cors_allows_host(allowed, others[i]), "'%s'", others[i]);
    cr_expect_not(cors_allows_host("", "ui.example"));
}
