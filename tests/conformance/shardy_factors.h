#pragma once
/* shardy_factors - the mesh of a published case of one step on factors, which has no mesh of its own. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sharding/mesh.h"

/* All axes that the case names, each as large as its sub-axes need. */
static inline void note_axes(struct sp_mesh_axis *axes, uint32_t *count, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i)), *part = strchr(text, ':');
        int64_t pre = 1, size = 1;
        uint32_t at = 0;
        if (part != NULL)
            sscanf(part, ":(%" SCNd64 ")%" SCNd64, &pre, &size);
        size_t length = part != NULL ? (size_t)(part - text) : strlen(text);
        while (at < *count && (strlen(axes[at].name) != length || strncmp(axes[at].name, text, length) != 0))
            at++;
        if (at == *count)
            axes[(*count)++] = (struct sp_mesh_axis){strndup(text, length), 2};
        if (axes[at].size < 2 * pre * size)
            axes[at].size = 2 * pre * size;
    }
}

/* Lists of a tensor whose axes it does not take. */
static const char *const barred_lists[] = {"replicated", "unreduced", "manual"};
#define BARRED (sizeof(barred_lists) / sizeof(barred_lists[0]))

/* NULL with an error. */
static inline struct sp_mesh *factor_mesh(struct sp_arena *arena, const json_t *json, struct sp_error *err)
{
    struct sp_mesh_axis axes[32];
    struct sp_mesh *mesh = NULL;
    uint32_t count = 0;
    const json_t *sizes = json_object_get(json, "mesh"), *size;
    const char *name, *const groups[] = {"operands", "results"}, *const members[] = {"factors", "overflow"};
    for (uint32_t g = 0; g < 2; g++) {
        size_t i;
        const json_t *tensor, *list;
        json_array_foreach(json_object_get(json, groups[g]), i, tensor)
        {
            for (uint32_t m = 0; m < 2; m++)
                json_object_foreach(json_object_get(tensor, members[m]), name, list) note_axes(axes, &count, list);
            for (size_t b = 0; b < BARRED; b++)
                note_axes(axes, &count, json_object_get(tensor, barred_lists[b]));
        }
    }
    json_object_foreach((json_t *)sizes, name, size)
    {
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(axes[i].name, name) == 0)
                axes[i].size = json_integer_value(size);
        }
    }
    if (sp_mesh_create(arena, count, axes, NULL, &mesh, err) != SP_OK)
        mesh = NULL;
    for (uint32_t i = 0; i < count; i++)
        free((char *)axes[i].name);
    return mesh;
}
