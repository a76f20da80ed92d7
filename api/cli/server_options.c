/* Which daemon a command asks, and with which credentials. */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

bool take_server_option(struct common *common, int option, const char *value)
{
    switch (option) {
    case OPT_SERVER:
        common->server = value;
        return true;
    case OPT_TOKEN_FILE:
        common->token_file = value;
        return true;
    case OPT_CA_FILE:
        common->ca_file = value;
        return true;
    case OPT_CERTIFICATE:
        common->certificate = value;
        return true;
    case OPT_KEY:
        common->key = value;
        return true;
    default:
        return false;
    }
}

static void take_variable(const char **value, const char *name)
{
    const char *given = *value != NULL ? *value : getenv(name);
    *value = given != NULL && given[0] != '\0' ? given : NULL;
}

/* A part of a URL, from malloc; NULL when there is none. */
static char *part_of(const char *url, CURLUPart part)
{
    char *text = NULL, *copy = NULL;
    CURLU *parsed = curl_url();
    if (parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parsed, part, &text, 0) == CURLUE_OK)
        copy = strdup(text);
    curl_free(text);
    curl_url_cleanup(parsed);
    return copy;
}

static bool has_part(const char *url, CURLUPart part)
{
    char *text = part_of(url, part);
    free(text);
    return text != NULL;
}

bool is_loopback_url(const char *url)
{
    static const char suffix[] = ".localhost";
    char *host = part_of(url, CURLUPART_HOST);
    const size_t length = host != NULL ? strlen(host) : 0;
    /* Names may begin with 127, too: only a number with three dots is an address. */
    const bool is_number = host != NULL && strspn(host, "0123456789.") == length;
    const bool is_ours = host != NULL && ((is_number && strncmp(host, "127.", 4) == 0) || strcmp(host, "[::1]") == 0 ||
                                          strcasecmp(host, "localhost") == 0 ||
                                          (length >= sizeof suffix && strcasecmp(host + length - 10, suffix) == 0));
    free(host);
    return is_ours;
}

int complete_server_options(struct common *common)
{
    static char url[2048];
    take_variable(&common->server, "SHARDPLAN_SERVER");
    take_variable(&common->token_file, "SHARDPLAN_TOKEN_FILE");
    take_variable(&common->ca_file, "SHARDPLAN_CA_FILE");
    take_variable(&common->certificate, "SHARDPLAN_CLIENT_CERTIFICATE");
    take_variable(&common->key, "SHARDPLAN_CLIENT_KEY");
    if (common->server == NULL)
        return EXIT_DONE;
    size_t length = strlen(common->server);
    while (length > 0 && common->server[length - 1] == '/')
        length--;
    if (length >= sizeof url ||
        (strncasecmp(common->server, "http://", 7) != 0 && strncasecmp(common->server, "https://", 8) != 0))
        return report_usage(common, "The server must be a URL like http://127.0.0.1:8080.");
    memcpy(url, common->server, length);
    url[length] = '\0';
    common->server = url;
    if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
        return report_usage(common, "The server's URL must hold no name and no password; a token comes from a file: "
                                    "--token-file FILE.");
    if (common->key != NULL && common->certificate == NULL)
        return report_usage(common, "A client's key needs its certificate: give --client-certificate FILE, too.");
    return EXIT_DONE;
}

int need_server(struct common *common)
{
    int code = complete_server_options(common);
    if (code == EXIT_DONE && common->server == NULL)
        code = report_usage(common, "'%s' asks a daemon: say which with --server URL or SHARDPLAN_SERVER.",
                            common->command);
    return code;
}
