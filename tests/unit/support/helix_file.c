#include "helix_file.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* A number of `from` or `to`: a node's, or one of the two ends of all links. */
static uint32_t end_of_link(const json_t *end)
{
    if (json_is_string(end))
        return strcmp(json_string_value(end), "source") == 0 ? SP_ROUTES_SOURCE : SP_ROUTES_SINK;
    return (uint32_t)json_integer_value(end);
}

static bool read_nodes(struct sp_arena *arena, const json_t *json, struct sp_routes_problem *problem)
{
    const size_t count = json_object_size(json);
    struct sp_routes_node *nodes = SP_NEW_ARRAY(arena, count, struct sp_routes_node);
    for (size_t i = 0; i < count && nodes != NULL; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "%zu", i);
        const json_t *rates = json_object_get(json, name);
        const size_t most = json_array_size(rates);
        double *numbers = SP_NEW_ARRAY(arena, most, double);
        if (numbers == NULL)
            return false;
        for (size_t k = 0; k < most; k++)
            numbers[k] = json_number_value(json_array_get(rates, k));
        nodes[i].rates = numbers;
        nodes[i].most = most < problem->layer_count ? (uint32_t)most : problem->layer_count;
    }
    problem->nodes = nodes;
    problem->node_count = (uint32_t)count;
    return nodes != NULL;
}

static bool read_links(struct sp_arena *arena, const json_t *json, struct sp_routes_problem *problem)
{
    const size_t count = json_array_size(json);
    struct sp_routes_link *links = SP_NEW_ARRAY(arena, count, struct sp_routes_link);
    for (size_t i = 0; i < count && links != NULL; i++) {
        const json_t *link = json_array_get(json, i);
        links[i] = (struct sp_routes_link){.from = end_of_link(json_array_get(link, 0)),
                                           .to = end_of_link(json_array_get(link, 1)),
                                           .capacity = json_number_value(json_array_get(link, 2))};
    }
    problem->links = links;
    problem->link_count = (uint32_t)count;
    return links != NULL;
}

bool helix_read(struct sp_arena *arena, const char *path, struct sp_routes_problem *ret_problem, char *message,
                size_t message_size)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        (void)snprintf(message, message_size, "The file cannot be read: %s", error.text);
        return false;
    }
    struct sp_routes_problem problem = {.layer_count = (uint32_t)json_integer_value(json_object_get(root, "layers")),
                                        .is_partial = json_is_true(json_object_get(root, "partial"))};
    const bool is_read = read_nodes(arena, json_object_get(root, "nodes"), &problem) &&
                         read_links(arena, json_object_get(root, "links"), &problem);
    json_decref(root);
    if (is_read)
        *ret_problem = problem;
    else
        (void)snprintf(message, message_size, "There is not enough memory.");
    return is_read;
}
