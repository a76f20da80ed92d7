#pragma once
/*
 * plan_json_internal - what the sources that write a plan's JSON share.
 */
#include "plan/internal.h"

/* Things that several parts of the document need, made once. */
struct sp_plan_json {
    const struct sp_plan *plan;
    struct sp_json *json;
    struct sp_buf *text; /* one reason at a time */
    /* The array of the names of a device's nodes, and of which stage: copies of it, and devices of one stage, have the
       same one, and may be hundreds. */
    struct sp_buf *names;
    uint32_t names_of;
    struct sp_places places;
    struct sp_borders borders;
    uint32_t *stage_of_device;
    struct sp_error *err; /* of what fails as a whole: the writer's own failure is what counts */
};

/* The text that was just written into the buffer, as a member; the buffer is empty again. */
static inline void sp_plan_json_text(struct sp_plan_json *c, const char *name)
{
    if (sp_buf_failed(c->text))
        c->json->failed = true;
    else
        sp_json_member_string(c->json, name, c->text->size > 0 ? c->text->data : "");
    sp_buf_clear(c->text);
}

/* "devices": all devices of a stage. */
static inline void sp_plan_json_devices(struct sp_plan_json *c, const char *name, uint32_t first, uint32_t count)
{
    sp_json_key(c->json, name);
    sp_json_begin_array(c->json);
    for (uint32_t i = 0; i < count; i++)
        sp_json_int(c->json, sp_cluster_number(c->plan->cluster, first + i));
    sp_json_end_array(c->json);
}

/* ---- plan_json_tensors.c ---- */

/* "tensors": every value that occupies a device, how it is cut, and why. */
void sp_plan_json_tensors(struct sp_plan_json *c);

/* "collectives": what goes from stage to stage, then what the devices of each stage exchange. */
void sp_plan_json_collectives(struct sp_plan_json *c);
