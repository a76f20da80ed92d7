#include "graph/state_names.h"

#include <ctype.h>
#include <string.h>

enum place { ANYWHERE, FIRST, LAST };

static const struct role {
    const char *word;
    bool is_output;
    enum sp_state_role strength;
    enum place place;
} roles[] = {
    {"past", false, SP_ROLE_STRONG, ANYWHERE},
    {"prev", false, SP_ROLE_STRONG, ANYWHERE},
    {"old", false, SP_ROLE_STRONG, ANYWHERE},
    {"previous", false, SP_ROLE_STRONG, ANYWHERE},
    {"in", false, SP_ROLE_WEAK, ANYWHERE},
    {"input", false, SP_ROLE_WEAK, ANYWHERE},
    {"init", false, SP_ROLE_WEAK, ANYWHERE},
    {"initial", false, SP_ROLE_WEAK, ANYWHERE},
    {"i", false, SP_ROLE_WEAK, LAST},
    {"0", false, SP_ROLE_WEAK, LAST},
    {"present", true, SP_ROLE_STRONG, ANYWHERE},
    {"new", true, SP_ROLE_STRONG, ANYWHERE},
    {"next", true, SP_ROLE_STRONG, ANYWHERE},
    {"updated", true, SP_ROLE_STRONG, ANYWHERE},
    {"cur", true, SP_ROLE_STRONG, ANYWHERE},
    {"current", true, SP_ROLE_STRONG, ANYWHERE},
    {"out", true, SP_ROLE_WEAK, ANYWHERE},
    {"output", true, SP_ROLE_WEAK, ANYWHERE},
    {"final", true, SP_ROLE_WEAK, ANYWHERE},
    {"n", true, SP_ROLE_WEAK, LAST},
    {"o", true, SP_ROLE_WEAK, LAST},
    {"y", true, SP_ROLE_WEAK, FIRST},
    {"r", true, SP_ROLE_WEAK, FIRST},
};

static const char *const states[] = {"state",  "states", "cache", "caches", "cached",    "kv",  "hidden", "h",   "c",
                                     "memory", "mem",    "conv",  "ssm",    "recurrent", "rnn", "lstm",   "gru", "r"};

/* The words of a name in small letters, one after the other. */
struct words {
    uint32_t count;
    char text[SP_STATE_NAME_BYTES * 2];
    uint16_t begin[SP_STATE_WORDS + 1];
};

enum sort { OTHER, SMALL, CAPITAL, DIGIT };

static enum sort sort_of(char c)
{
    const unsigned char byte = (unsigned char)c;
    return isdigit(byte) ? DIGIT : isupper(byte) ? CAPITAL : isalpha(byte) || byte >= 0x80 ? SMALL : OTHER;
}

/* Whether a word begins with the character at `i`. */
static bool begins_word(const char *name, size_t i)
{
    const enum sort own = sort_of(name[i]), before = i == 0 ? OTHER : sort_of(name[i - 1]);
    if (own == OTHER || before == OTHER || (own == DIGIT) != (before == DIGIT))
        return own != OTHER;
    return own == CAPITAL && (before == SMALL || sort_of(name[i + 1]) == SMALL); /* "keyCache", "KVCache" */
}

static bool is_word(const struct words *words, uint32_t w, const char *text)
{
    const size_t size = (size_t)words->begin[w + 1] - words->begin[w];
    return w < words->count && strlen(text) == size && memcmp(words->text + words->begin[w], text, size) == 0;
}

/* "hn" and "cn" are two words each. */
static bool divides(const struct words *words, uint32_t used)
{
    const uint32_t begin = words->begin[words->count - 1];
    return used - begin == 1 && (words->text[begin] == 'h' || words->text[begin] == 'c');
}

static bool split(const char *name, struct words *words)
{
    const size_t size = strlen(name);
    uint32_t used = 0;
    *words = (struct words){0};
    if (size > SP_STATE_NAME_BYTES)
        return false;
    for (size_t i = 0; i < size; i++) {
        const char c = (char)tolower((unsigned char)name[i]);
        if (sort_of(name[i]) == OTHER)
            continue;
        const bool is_last = i + 1 == size || sort_of(name[i + 1]) == OTHER;
        if (begins_word(name, i) || (c == 'n' && is_last && divides(words, used))) {
            if (words->count == SP_STATE_WORDS)
                return false;
            words->begin[words->count++] = (uint16_t)used;
        }
        words->text[used++] = c;
        words->begin[words->count] = (uint16_t)used;
    }
    return words->count > 0;
}

static bool names_state(const struct words *words, uint32_t w)
{
    size_t i = 0;
    while (i < sizeof states / sizeof *states && !is_word(words, w, states[i]))
        i++;
    if (i == sizeof states / sizeof *states)
        return false;
    return !(is_word(words, w, "hidden") && is_word(words, w + 1, "states")) &&
           !(w > 0 && is_word(words, w, "states") && is_word(words, w - 1, "hidden"));
}

/* The words but those from `from` to `to`. */
static void leave_out(const struct words *words, uint32_t from, uint32_t to, enum sp_state_role role,
                      struct sp_state_reading *reading)
{
    size_t used = 0;
    *reading = (struct sp_state_reading){.role = role};
    for (uint32_t w = 0; w < words->count; w++) {
        if (w >= from && w < to)
            continue;
        const size_t size = (size_t)words->begin[w + 1] - words->begin[w];
        reading->names_state = reading->names_state || names_state(words, w);
        memcpy(reading->words + used, words->text + words->begin[w], size);
        used += size;
        reading->words[used++] = ' ';
    }
}

static const struct role *role_of(const struct words *words, uint32_t w, bool is_output)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const struct role *role = &roles[i];
        const bool fits = role->place == ANYWHERE || w == (role->place == FIRST ? 0 : words->count - 1);
        if (role->is_output == is_output && fits && is_word(words, w, role->word))
            return role;
    }
    return NULL;
}

uint32_t sp_state_read_name(const char *name, bool is_output, struct sp_state_reading ret_readings[SP_STATE_READINGS])
{
    struct words words;
    uint32_t count = 0;
    if (!split(name, &words))
        return 0;
    for (uint32_t w = 0; w < words.count && count + 1 < SP_STATE_READINGS; w++) {
        const struct role *role = role_of(&words, w, is_output);
        const bool is_filled = is_word(&words, w + 1, "key") && is_word(&words, w + 2, "values");
        if (role != NULL)
            leave_out(&words, w, w + (is_filled && role->strength == SP_ROLE_STRONG ? 3 : 1), role->strength,
                      &ret_readings[count++]);
    }
    leave_out(&words, 0, 0, SP_ROLE_NONE, &ret_readings[count++]);
    return count;
}

uint32_t sp_state_rank(const struct sp_state_reading *input, const struct sp_state_reading *output)
{
    const bool is_strong = input->role == SP_ROLE_STRONG || output->role == SP_ROLE_STRONG;
    if (input->role == SP_ROLE_STRONG && output->role == SP_ROLE_STRONG)
        return 0;
    if ((input->role == SP_ROLE_NONE && output->role == SP_ROLE_NONE) || !input->names_state)
        return SP_STATE_RANKS;
    return is_strong ? 1 : 2;
}
