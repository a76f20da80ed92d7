/* A scanner for one form of JSON: objects of objects whose leaves are integers and arrays of arrays of integers. */
#include "iopddl_file.h"

#include <unistd.h>

#define BUFFER ((size_t)1 << 20)

struct scanner {
    int stream;
    unsigned char *buffer;
    size_t at, end;
    bool is_bad;
};

static int fill(struct scanner *scanner)
{
    ssize_t got = read(scanner->stream, scanner->buffer, BUFFER);
    scanner->at = 0;
    scanner->end = got > 0 ? (size_t)got : 0;
    return got > 0 ? scanner->buffer[0] : -1;
}

static inline int peek(struct scanner *scanner)
{
    return scanner->at < scanner->end ? scanner->buffer[scanner->at] : fill(scanner);
}

static inline int next_token(struct scanner *scanner)
{
    int c = peek(scanner);
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        scanner->at++;
        c = peek(scanner);
    }
    return c;
}

static bool take(struct scanner *scanner, int wanted)
{
    if (next_token(scanner) != wanted)
        return false;
    scanner->at++;
    return true;
}

static void expect(struct scanner *scanner, int wanted)
{
    scanner->is_bad |= !take(scanner, wanted);
}

/* What is larger than the largest integer is as good as the largest: it is an infinite cost. */
static int64_t read_integer(struct scanner *scanner)
{
    int c = next_token(scanner);
    bool is_negative = c == '-';
    uint64_t value = 0;
    if (is_negative) {
        scanner->at++;
        c = peek(scanner);
    }
    scanner->is_bad |= c < '0' || c > '9';
    for (; c >= '0' && c <= '9'; c = peek(scanner)) {
        value = value > INT64_MAX / 10 - 1 ? INT64_MAX : value * 10 + (uint64_t)(c - '0');
        scanner->at++;
    }
    scanner->is_bad |= c == '.' || c == 'e' || c == 'E';
    return is_negative ? -(int64_t)value : (int64_t)value;
}

static void *grow(struct scanner *scanner, void *memory, size_t *room, size_t size)
{
    size_t wanted = *room == 0 ? 4096 : *room * 2;
    void *larger = realloc(memory, wanted * size);
    if (larger == NULL) {
        scanner->is_bad = true;
        return memory;
    }
    *room = wanted;
    return larger;
}

static void add_row(struct scanner *scanner, struct iopddl_numbers *numbers)
{
    if (numbers->row_count + 1 >= numbers->row_room)
        numbers->firsts = grow(scanner, numbers->firsts, &numbers->row_room, sizeof(size_t));
    if (scanner->is_bad)
        return;
    numbers->firsts[numbers->row_count++] = numbers->value_count;
    expect(scanner, '[');
    if (take(scanner, ']'))
        return;
    do {
        if (numbers->value_count == numbers->value_room)
            numbers->values = grow(scanner, numbers->values, &numbers->value_room, sizeof(int64_t));
        if (!scanner->is_bad)
            numbers->values[numbers->value_count++] = read_integer(scanner);
    } while (!scanner->is_bad && take(scanner, ','));
    expect(scanner, ']');
}

static void read_rows(struct scanner *scanner, struct iopddl_numbers *numbers)
{
    expect(scanner, '[');
    if (!take(scanner, ']')) {
        do
            add_row(scanner, numbers);
        while (!scanner->is_bad && take(scanner, ','));
        expect(scanner, ']');
    }
    if (numbers->firsts == NULL) /* no rows */
        numbers->firsts = grow(scanner, NULL, &numbers->row_room, sizeof(size_t));
    if (!scanner->is_bad)
        numbers->firsts[numbers->row_count] = numbers->value_count;
}

static void read_name(struct scanner *scanner, char *name, size_t size)
{
    size_t length = 0;
    expect(scanner, '"');
    for (int c = peek(scanner); c != '"' && !scanner->is_bad; c = peek(scanner)) {
        scanner->is_bad |= c < 0;
        if (length + 1 < size)
            name[length++] = (char)c;
        scanner->at++;
    }
    scanner->at++;
    name[length] = '\0';
}

static void read_leaf(struct scanner *scanner, struct iopddl_file *file, bool is_edge, const char *name)
{
    char text[64];
    if (strcmp(name, "intervals") == 0)
        read_rows(scanner, &file->intervals);
    else if (strcmp(name, "costs") == 0)
        read_rows(scanner, is_edge ? &file->edge_costs : &file->costs);
    else if (strcmp(name, "usages") == 0)
        read_rows(scanner, &file->usages);
    else if (strcmp(name, "nodes") == 0)
        read_rows(scanner, &file->edge_nodes);
    else if (strcmp(name, "usage_limit") == 0)
        file->problem.limit = read_integer(scanner);
    else if (next_token(scanner) == '"')
        read_name(scanner, text, sizeof(text));
    else
        (void)read_integer(scanner);
}

/* {"problem": {"nodes": {...}, "edges": {...}, "usage_limit": n}}: depth says in which object we are. */
static void read_objects(struct scanner *scanner, struct iopddl_file *file)
{
    char name[64];
    int depth = 0;
    bool is_edge = false;
    expect(scanner, '{');
    do {
        if (take(scanner, '}')) {
            depth--;
        } else {
            read_name(scanner, name, sizeof(name));
            expect(scanner, ':');
            if (depth == 1)
                is_edge = strcmp(name, "edges") == 0;
            if (take(scanner, '{')) {
                depth++;
                continue;
            }
            read_leaf(scanner, file, is_edge, name);
        }
        (void)take(scanner, ',');
    } while (!scanner->is_bad && depth >= 0);
}

static bool bind_nodes(struct iopddl_file *file)
{
    struct sp_choice_problem *problem = &file->problem;
    size_t count = file->costs.row_count;
    if (count > UINT32_MAX / 2 || file->intervals.row_count != count || file->usages.row_count != count ||
        file->costs.value_count > UINT32_MAX / 2 || file->intervals.value_count != 2 * count)
        return false;
    uint32_t *first = malloc((count + 1) * sizeof(*first));
    int64_t *times = malloc((2 * count + 1) * sizeof(*times));
    problem->first = first;
    problem->begin = times;
    if (first == NULL || times == NULL)
        return false;
    for (size_t v = 0; v < count; v++) {
        if (file->usages.firsts[v] != file->costs.firsts[v] || file->intervals.firsts[v] != 2 * v)
            return false;
        first[v] = (uint32_t)file->costs.firsts[v];
        times[v] = file->intervals.values[2 * v];
        times[count + v] = file->intervals.values[2 * v + 1];
    }
    first[count] = (uint32_t)file->costs.value_count;
    problem->node_count = (uint32_t)count;
    problem->cost = file->costs.values;
    problem->usage = file->usages.values;
    problem->end = &times[count];
    return file->usages.value_count == file->costs.value_count;
}

static bool bind_edges(struct iopddl_file *file)
{
    struct sp_choice_problem *problem = &file->problem;
    size_t count = file->edge_costs.row_count;
    if (count > UINT32_MAX / 2 || file->edge_nodes.row_count != count || file->edge_nodes.value_count != 2 * count)
        return false;
    struct sp_choice_edge *edges = calloc(count + 1, sizeof(*edges));
    problem->edges = edges;
    if (edges == NULL)
        return false;
    for (size_t e = 0; e < count; e++) {
        const int64_t *ends = &file->edge_nodes.values[2 * e];
        if (ends[0] < 0 || ends[1] < 0 || ends[0] >= problem->node_count || ends[1] >= problem->node_count)
            return false;
        size_t u = (size_t)ends[0], v = (size_t)ends[1];
        size_t entries =
            (size_t)(problem->first[u + 1] - problem->first[u]) * (problem->first[v + 1] - problem->first[v]);
        if (file->edge_costs.firsts[e + 1] - file->edge_costs.firsts[e] != entries)
            return false;
        edges[e] =
            (struct sp_choice_edge){(uint32_t)u, (uint32_t)v, &file->edge_costs.values[file->edge_costs.firsts[e]]};
    }
    problem->edge_count = (uint32_t)count;
    return true;
}

bool iopddl_read(int stream, struct iopddl_file *file, char *message, size_t size)
{
    struct scanner scanner = {.stream = stream, .buffer = malloc(BUFFER)};
    *file = (struct iopddl_file){.problem.limit = INT64_MAX};
    if (scanner.buffer != NULL)
        read_objects(&scanner, file);
    bool is_good = scanner.buffer != NULL && !scanner.is_bad;
    free(scanner.buffer);
    if (!is_good)
        (void)snprintf(message, size, "This is not the JSON of a contest problem, or there is not enough memory.");
    else if (!bind_nodes(file) || !bind_edges(file)) {
        (void)snprintf(message, size, "The numbers of nodes, strategies and edges contradict each other.");
        is_good = false;
    }
    return is_good;
}

static void free_numbers(struct iopddl_numbers *numbers)
{
    free(numbers->values);
    free(numbers->firsts);
}

void iopddl_free(struct iopddl_file *file)
{
    free_numbers(&file->intervals);
    free_numbers(&file->costs);
    free_numbers(&file->usages);
    free_numbers(&file->edge_nodes);
    free_numbers(&file->edge_costs);
    free((void *)file->problem.first);
    free((void *)file->problem.begin);
    free((void *)file->problem.edges);
}
