#include "cost/cluster/nvidia_topology.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/union_find.h"

#define MAX_GPUS     64
#define MAX_COLUMNS  192 /* GPUs and network cards */
#define TOKEN_BYTES  32  /* of a cell; longer words are no cells */
#define MOST_NVLINKS 18  /* of one GPU */
#define BRIDGE_LINK  14062500000.0
#define NVLINK_1     20e9 /* bytes per second and direction of one link: P100 */
#define NVLINK_2     25e9 /* V100, A100, H100 */
#define NVLINK_5     50e9 /* B100 and later */

enum relation { SELF = 0, SAME_SWITCH, SAME_NODE, SAME_SYSTEM, RELATIONS };

struct topology {
    const char *at, *end;
    uint32_t line, gpu_count, column_count, row_count;
    int32_t gpu_of_column[MAX_COLUMNS]; /* below 0: a network card */
    bool has_row[MAX_GPUS];
    uint8_t relation[MAX_GPUS][MAX_GPUS];
    uint8_t nvlinks[MAX_GPUS][MAX_GPUS];
    struct sp_error *err;
};

static enum sp_status refuse(const struct topology *t, const char *what)
{
    return sp_fail(t->err, SP_ERR_REQUEST, "TOPOLOGY_UNREADABLE",
                   "This is no output of 'nvidia-smi topo -m': %s (line %u).", what, t->line);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Between words; so are the marks of quoted mail and of tables in Markdown. */
static bool is_blank(char c)
{
    return isspace((unsigned char)c) || c == '>' || c == '|';
}

/* The next word of the line, without escapes; false at the line's end. A word that is too long is cut. */
static bool next_word(struct topology *t, char word[TOKEN_BYTES])
{
    uint32_t size = 0;
    memset(word, 0, TOKEN_BYTES);
    while (t->at < t->end && *t->at != '\n') {
        const char c = *t->at;
        if (c == '\x1b') {
            while (t->at < t->end && *t->at != '\n' && !isalpha((unsigned char)*t->at))
                t->at++;
            t->at += t->at < t->end && *t->at != '\n';
            continue;
        }
        if (is_blank(c) && size > 0)
            break;
        t->at++;
        if (!is_blank(c) && size + 1 < TOKEN_BYTES)
            word[size++] = c;
    }
    word[size] = '\0';
    return size > 0;
}

static void end_line(struct topology *t)
{
    while (t->at < t->end && *t->at != '\n')
        t->at++;
    t->at += t->at < t->end;
    t->line++;
}

/* "GPU12" is 12; below 0: no GPU, or one beyond all. */
static int32_t gpu_number(const char *word)
{
    char *end;
    if (strncmp(word, "GPU", 3) != 0 || !isdigit((unsigned char)word[3]))
        return -1;
    const long number = strtol(word + 3, &end, 10);
    return *end == '\0' && number < MAX_GPUS ? (int32_t)number : -1;
}

/* ---- the matrix -------------------------------------------------------------------------------------------------- */

/* The line that names the columns begins with GPU0; those of affinities, "CPU Affinity" and so on, end them. */
static enum sp_status read_columns(struct topology *t)
{
    char word[TOKEN_BYTES] = "";
    for (; t->at < t->end; end_line(t)) {
        if (!next_word(t, word) || gpu_number(word) != 0)
            continue;
        do {
            const int32_t gpu = gpu_number(word);
            if (strcmp(word, "CPU") == 0 || strcmp(word, "GPU") == 0 || strcmp(word, "NUMA") == 0)
                break;
            if (t->column_count == MAX_COLUMNS)
                return refuse(t, "there are more than 192 columns");
            if (gpu >= 0 && (uint32_t)gpu != t->gpu_count)
                return refuse(t, "the columns of GPUs are not GPU0, GPU1, .. in their order");
            t->gpu_count += gpu >= 0;
            t->gpu_of_column[t->column_count++] = gpu;
        } while (next_word(t, word));
        end_line(t);
        return SP_OK;
    }
    return refuse(t, "no line names the columns GPU0, GPU1, ..");
}

static enum sp_status read_cell(struct topology *t, uint32_t row, uint32_t column, const char *word)
{
    static const struct {
        const char *word;
        enum relation relation;
    } words[] = {{"X", SELF},        {"PIX", SAME_SWITCH}, {"PXB", SAME_SWITCH}, {"PSB", SAME_SWITCH},
                 {"PHB", SAME_NODE}, {"NODE", SAME_NODE},  {"SYS", SAME_SYSTEM}, {"SOC", SAME_SYSTEM}};
    char *end;
    if (strncmp(word, "NV", 2) == 0 && isdigit((unsigned char)word[2])) {
        const long links = strtol(word + 2, &end, 10);
        if (*end != '\0' || links < 1 || links > MOST_NVLINKS)
            return refuse(t, "a GPU has 1 to 18 NVLinks");
        t->nvlinks[row][column] = (uint8_t)links;
        t->relation[row][column] = SAME_SYSTEM; /* what is beside them is not said */
        return SP_OK;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, word) == 0 && (words[i].relation == SELF) == (row == column)) {
            t->relation[row][column] = (uint8_t)words[i].relation;
            return SP_OK;
        }
    }
    return refuse(t, "a cell of the matrix is none of X, NV#, PIX, PXB, PHB, NODE and SYS");
}

static enum sp_status read_rows(struct topology *t)
{
    char word[TOKEN_BYTES] = "";
    enum sp_status status = SP_OK;
    for (; status == SP_OK && t->at < t->end && t->row_count < t->gpu_count; end_line(t)) {
        const int32_t row = next_word(t, word) ? gpu_number(word) : -1;
        if (row < 0)
            continue;
        if ((uint32_t)row >= t->gpu_count || t->has_row[row])
            return refuse(t, "a GPU's row is there twice, or has no column");
        t->has_row[row] = true;
        t->row_count++;
        for (uint32_t c = 0; status == SP_OK && c < t->column_count; c++) {
            if (!next_word(t, word))
                return t->gpu_of_column[c] < 0 ? SP_OK : refuse(t, "a GPU's row ends before its columns do");
            if (t->gpu_of_column[c] >= 0)
                status = read_cell(t, (uint32_t)row, (uint32_t)t->gpu_of_column[c], word);
        }
        if (status != SP_OK)
            return status;
    }
    return t->row_count == t->gpu_count ? SP_OK : refuse(t, "the row of a GPU is missing");
}

static enum sp_status check_symmetry(const struct topology *t)
{
    for (uint32_t a = 0; a < t->gpu_count; a++) {
        for (uint32_t b = 0; b < a; b++) {
            if (t->relation[a][b] != t->relation[b][a] || t->nvlinks[a][b] != t->nvlinks[b][a])
                return sp_fail(t->err, SP_ERR_REQUEST, "TOPOLOGY_UNREADABLE",
                               "The topology says one thing of GPU%u and GPU%u, and another of GPU%u and GPU%u.", a, b,
                               b, a);
        }
    }
    return SP_OK;
}

/* ---- the description --------------------------------------------------------------------------------------------- */

/* The most NVLinks that a GPU has by the matrix, its ports on a switch being counted once; whether there is one. */
static uint32_t count_nvlinks(const struct topology *t, bool *ret_is_switched)
{
    uint32_t most = 0, widest = 0;
    for (uint32_t a = 0; a < t->gpu_count; a++) {
        uint32_t sum = 0;
        for (uint32_t b = 0; b < t->gpu_count; b++) {
            sum += t->nvlinks[a][b];
            widest = t->nvlinks[a][b] > widest ? t->nvlinks[a][b] : widest;
        }
        most = sum > most ? sum : most;
    }
    *ret_is_switched = most > MOST_NVLINKS;
    return *ret_is_switched ? widest : most;
}

/* Of one link: what generations have, the nearest to the type's share. */
static double nvlink_bandwidth(const struct sp_device *device, uint32_t links)
{
    const double share = device->link_bandwidth / links;
    if (device->link_bandwidth <= 0)
        return BRIDGE_LINK;
    return share >= (NVLINK_2 + NVLINK_5) / 2 && links > MOST_NVLINKS / 3 ? NVLINK_5
           : device->link_bandwidth <= 4 * NVLINK_1                       ? NVLINK_1
                                                                          : NVLINK_2;
}

static void begin_switch(struct sp_json *json, bool *has_switches, const char *name)
{
    if (!*has_switches) {
        sp_json_key(json, "switches");
        sp_json_begin_array(json);
        *has_switches = true;
    }
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", name);
    sp_json_key(json, "members");
    sp_json_begin_array(json);
}

static void end_switch(struct sp_json *json, uint32_t members, double port, double latency)
{
    sp_json_end_array(json);
    sp_json_member_double(json, "bandwidth", members * port);
    sp_json_member_double(json, "member_bandwidth", port);
    sp_json_member_double(json, "latency", latency);
    sp_json_end_object(json);
}

static void write_links(const struct topology *t, double bandwidth, struct sp_json *json)
{
    sp_json_key(json, "links");
    sp_json_begin_array(json);
    for (uint32_t a = 0; a < t->gpu_count; a++) {
        for (uint32_t b = a + 1; b < t->gpu_count; b++) {
            if (t->nvlinks[a][b] == 0)
                continue;
            sp_json_begin_object(json);
            sp_json_key(json, "between");
            sp_json_begin_array(json);
            sp_json_int(json, a);
            sp_json_int(json, b);
            sp_json_end_array(json);
            sp_json_member_double(json, "bandwidth", t->nvlinks[a][b] * bandwidth);
            sp_json_member_double(json, "latency", SP_LINK_LATENCY);
            sp_json_end_object(json);
        }
    }
    sp_json_end_array(json);
}

/* A switch for each part of at least two that the relation joins. `switch_of` says which switch stands for a GPU: its
   relation times MAX_GPUS and its first GPU; UINT32_MAX: none. */
static void write_parts(const struct topology *t, enum relation relation, const struct sp_device *device,
                        uint32_t *parent, uint32_t *switch_of, uint32_t *count, struct sp_json *json)
{
    static const char *const names[RELATIONS] = {
        [SAME_SWITCH] = "pcie", [SAME_NODE] = "node", [SAME_SYSTEM] = "system"};
    bool has_switches = *count > 0;
    uint32_t next[MAX_GPUS];
    memcpy(next, switch_of, sizeof next);
    for (uint32_t root = 0; root < t->gpu_count; root++) {
        uint32_t members = 0;
        char name[TOKEN_BYTES];
        for (uint32_t g = 0; g < t->gpu_count; g++) /* a switch inside counts once, by its first GPU */
            members += sp_union_root(parent, g) == root && (switch_of[g] == UINT32_MAX || switch_of[g] % MAX_GPUS == g);
        if (members < 2)
            continue;
        (void)snprintf(name, sizeof name, "%s%u", names[relation], root);
        begin_switch(json, &has_switches, name);
        for (uint32_t g = 0; g < t->gpu_count; g++) {
            if (sp_union_root(parent, g) != root)
                continue;
            if (switch_of[g] == UINT32_MAX)
                sp_json_int(json, g);
            else if (switch_of[g] % MAX_GPUS == g) {
                (void)snprintf(name, sizeof name, "%s%u", names[switch_of[g] / MAX_GPUS], switch_of[g] % MAX_GPUS);
                sp_json_string(json, name);
            }
            next[g] = relation * MAX_GPUS + root;
        }
        end_switch(json, members, device->host_bandwidth, SP_HOST_LATENCY);
        (*count)++;
    }
    memcpy(switch_of, next, sizeof next);
}

/* What is not joined by NVLinks alone goes over PCIe. */
static bool write_host(struct sp_arena *arena, const struct topology *t, const struct sp_device *device,
                       uint32_t *count, struct sp_json *json)
{
    uint32_t *parent = sp_union_find(arena, t->gpu_count), switch_of[MAX_GPUS];
    if (parent == NULL)
        return false;
    memset(switch_of, 0xff, sizeof switch_of);
    for (int relation = SAME_SWITCH; relation < RELATIONS; relation++) {
        for (uint32_t a = 0; a < t->gpu_count; a++) {
            for (uint32_t b = 0; b < a; b++) {
                if (t->relation[a][b] <= relation)
                    sp_union_join(parent, a, b);
            }
        }
        write_parts(t, (enum relation)relation, device, parent, switch_of, count, json);
    }
    return true;
}

enum sp_status sp_cluster_from_topology(struct sp_arena *arena, const char *text, size_t size,
                                        const struct sp_device *device, struct sp_json *json, struct sp_error *err)
{
    struct topology *t = SP_NEW(arena, struct topology);
    uint32_t switches = 0;
    bool is_switched = false, has_all = true;
    if (t == NULL)
        return sp_fail_memory(err);
    *t = (struct topology){.at = text, .end = text + size, .line = 1, .err = err};
    enum sp_status status = read_columns(t);
    if (status == SP_OK)
        status = read_rows(t);
    if (status == SP_OK)
        status = check_symmetry(t);
    if (status != SP_OK)
        return status;
    const uint32_t links = count_nvlinks(t, &is_switched);
    for (uint32_t a = 0; a < t->gpu_count; a++) {
        for (uint32_t b = 0; b < a; b++)
            has_all = has_all && t->nvlinks[a][b] > 0;
    }
    sp_json_begin_object(json);
    sp_json_member_string(json, "device", device->name);
    sp_json_member_int(json, "count", t->gpu_count);
    if (links > 0 && !is_switched)
        write_links(t, nvlink_bandwidth(device, links), json);
    if (is_switched) {
        bool has_switches = false;
        const double port = links * nvlink_bandwidth(device, links);
        begin_switch(json, &has_switches, "nvswitch");
        uint32_t members = 0;
        for (uint32_t g = 0; g < t->gpu_count; g++) {
            uint32_t sum = 0;
            for (uint32_t b = 0; b < t->gpu_count; b++)
                sum += t->nvlinks[g][b];
            if (sum > 0)
                sp_json_int(json, g);
            members += sum > 0;
        }
        end_switch(json, members, port, SP_LINK_LATENCY);
        switches = 1;
    }
    if (!has_all && device->host_bandwidth > 0 && !write_host(arena, t, device, &switches, json))
        status = sp_fail_memory(err);
    if (switches > 0)
        sp_json_end_array(json);
    sp_json_end_object(json);
    return status;
}
