#include "index/label.h"

#include <assert.h>
#include <string.h>

#include "base/units.h"

#define LIST_BYTES ((size_t)1 << 20) /* all devices that a cluster may have, no two of them neighbours */

/* Bytes of the character at `at`: of any bytes 1 to 4, so that what is written stays within the label. */
static size_t character_size(const char *text, size_t size, size_t at)
{
    size_t length = 1;
    while (length < 4 && at + length < size && ((unsigned char)text[at + length] & 0xc0) == 0x80)
        length++;
    return length;
}

const char *sp_index_label(const char *text, size_t size, uint32_t most, char *ret)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    size_t at = 0, cut = 0; /* cut: where the last character begins that may be there */
    uint32_t characters = 0;
    assert(most > 0);
    for (; at < size && characters < most; characters++) {
        cut = at;
        at += character_size(text, size, at);
    }
    if (at >= size) {
        memcpy(ret, text, size);
        ret[size] = '\0';
    } else {
        memcpy(ret, text, cut);
        memcpy(ret + cut, ellipsis, sizeof ellipsis);
    }
    return ret;
}

const char *sp_index_label_new(struct sp_arena *arena, const char *text, size_t size, uint32_t most)
{
    char label[SP_INDEX_LABEL_SIZE(SP_INDEX_MOST_LABEL)];
    assert(most <= SP_INDEX_MOST_LABEL);
    (void)sp_index_label(text, size, most, label);
    return sp_arena_string(arena, label, strlen(label));
}

void sp_index_list_devices(const struct sp_index *index, uint32_t first, uint32_t count, struct sp_json *json)
{
    struct sp_buf list;
    sp_buf_init(&list, LIST_BYTES);
    sp_text_numbers(&list, index->numbers, first, count);
    if (sp_buf_failed(&list))
        json->failed = true;
    else
        sp_json_member_string(json, "device_list", list.data);
    sp_buf_release(&list);
}
