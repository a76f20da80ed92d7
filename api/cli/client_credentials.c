/* Who asks: a token that a file or the environment holds. It never stands in a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client.h"

static void warn_once(const char *url)
{
    static bool is_told;
    if (!is_told && strncasecmp(url, "https://", 8) != 0 && !is_loopback_url(url))
        (void)fprintf(
            stderr,
            "shardplan: warning: the token goes to '%s' unencrypted: anyone on the way can read it; use https\n", url);
    is_told = true;
}

/* What may stand in a header: visible characters, blanks around them cut off. */
static enum sp_status take_token(const char *text, size_t size, const char *from, char *ret_token, struct sp_error *err)
{
    static const char blanks[] = " \t\r\n";
    while (size > 0 && text[0] != '\0' && strchr(blanks, text[0]) != NULL)
        text++, size--;
    while (size > 0 && text[size - 1] != '\0' && strchr(blanks, text[size - 1]) != NULL)
        size--;
    bool is_good = size > 0 && size <= CLIENT_MAX_TOKEN;
    for (size_t i = 0; is_good && i < size; i++)
        is_good = text[i] > ' ' && text[i] < 0x7f;
    if (!is_good)
        return sp_fail(err, SP_ERR_REQUEST, "BAD_TOKEN",
                       "%s does not hold a token: one line of up to %d visible characters.", from, CLIENT_MAX_TOKEN);
    memcpy(ret_token, text, size);
    ret_token[size] = '\0';
    return SP_OK;
}

enum sp_status client_read_token(const struct common *common, char ret_token[CLIENT_MAX_TOKEN + 1],
                                 struct sp_error *err)
{
    struct sp_buf text = {0};
    const char *given = getenv("SHARDPLAN_TOKEN");
    enum sp_status status = SP_OK;
    ret_token[0] = '\0';
    if (common->token_file != NULL) {
        char from[SP_ERROR_MESSAGE_SIZE / 2];
        (void)snprintf(from, sizeof from, "'%.200s'", common->token_file);
        status = read_small_file(common->token_file, (size_t)2 * CLIENT_MAX_TOKEN, "CLIENT_MAX_TOKEN", &text, err);
        if (status == SP_OK)
            status = take_token(text.data != NULL ? text.data : "", text.size, from, ret_token, err);
        if (text.data != NULL)
            explicit_bzero(text.data, text.size);
        sp_buf_release(&text);
    } else if (given != NULL && given[0] != '\0') {
        status = take_token(given, strlen(given), "SHARDPLAN_TOKEN", ret_token, err);
    }
    if (ret_token[0] != '\0')
        warn_once(common->server);
    return status;
}
