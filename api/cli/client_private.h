#pragma once
/* What the sources of a client share. */
#include <curl/curl.h>

#include "client.h"

struct client {
    CURL *curl;
    const struct common *common;
    const char *url;
    char token[CLIENT_MAX_TOKEN + 1]; /* "": none */
    char curl_error[CURL_ERROR_SIZE];
    char limit[64]; /* the name of a limit that a problem told */
};
