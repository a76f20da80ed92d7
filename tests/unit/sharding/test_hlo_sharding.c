#include "hlo_texts.h"

static const struct sp_hlo *converted(struct sp_arena *arena, const char *text, enum sp_hlo_version version,
                                      struct sp_losses *losses)
{
    struct sp_sharding *sharding = NULL;
    struct sp_hlo *hlo = NULL;
    struct sp_error err = {0};
    cr_assert_eq(sp_hlo_to_sharding(arena, hlo_of(arena, text), &sharding, losses, &err), SP_OK, "%s: %s", text,
                 err.message);
    uint32_t rank = sharding->kind == SP_SHARDING_AXES ? sharding->rank : 0;
    if (sharding->kind == SP_SHARDING_AXES)
        cr_expect_eq(sp_sharding_check(sharding, rank, NULL, 0, &err), SP_OK, "%s: %s", text, err.message);
    cr_assert_eq(sp_hlo_from_sharding(arena, sharding,
                                      &(struct sp_dialect_context){.rank = rank, .hlo_version = version}, &hlo, losses,
                                      &err),
                 SP_OK, "%s: %s", text, err.message);
    return hlo;
}

static void expect_converts(const char *text, enum sp_hlo_version version, const char *expected)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    const char *got = text_of(arena, converted(arena, text, version, NULL));
    cr_expect_str_eq(got, expected, "%s becomes %s, not %s", text, got, expected);
    sp_arena_destroy(arena);
}

/* [7,10,3] turned by (2,1,0) has the dims 3, 10, 7; the tiles 6 and 35 cut them in 3*2 and 5*7. */
Test(hlo_sharding, tiles_become_axes)
{
    expect_converts(
        "{devices=[6,35]<=[7,10,3]T(2,1,0)}", SP_HLO_V3,
        "{mesh['axis_0'=7,'axis_1'=2,'axis_2'=5,'axis_3'=3], [{'axis_3', 'axis_1'}, {'axis_2', 'axis_0'}]}");
    expect_converts("{devices=[2,3]<=[6] last_tile_dim_replicate}", SP_HLO_V3,
                    "{mesh['axis_0'=2,'axis_1'=3], [{'axis_0'}]}");
    expect_converts("{devices=[2,1]0,1}", SP_HLO_V3, "{mesh['axis_0'=2], [{'axis_0'}, {}]}");
    expect_converts("{devices=[2,4,3]<=[24] last_tile_dims={manual, unreduced}}", SP_HLO_V3,
                    "{mesh['axis_0'=2,'axis_1'=4,'axis_2'=3], [{'axis_0'}], unreduced={'axis_2'}, manual={'axis_1'}}");
    expect_converts("{devices=[1048576,1048576]<=[1048576,1048576]T(1,0)}", SP_HLO_V3,
                    "{mesh['axis_0'=1048576,'axis_1'=1048576], [{'axis_1'}, {'axis_0'}]}");
}

/* Listed devices, and tiles that cross the dims of the iota, keep their order in the mesh. */
Test(hlo_sharding, other_orders_are_the_mesh_s)
{
    expect_converts("{devices=[2,1,2]0,2,1,3}", SP_HLO_V3,
                    "{mesh['axis_0'=2,'axis_1'=2], device_ids=(0,2,1,3), [{'axis_0'}, {}, {'axis_1'}]}");
    expect_converts("{devices=[2,3]<=[2,3]T(1,0)}", SP_HLO_V3,
                    "{mesh['axis_0'=2,'axis_1'=3], device_ids=(0,3,1,4,2,5), [{'axis_0'}, {'axis_1'}]}");
    expect_converts("{devices=[2,1099511627776,3]<=[2,3,1099511627776]T(2,0,1)}", SP_HLO_V3,
                    "{mesh['axis_0'=2,'axis_1'=3,'axis_2'=2,'axis_3'=549755813888], "
                    "[{'axis_2'}, {'axis_3', 'axis_0'}, {'axis_1'}]}");
    expect_converts("{devices=[3,1099511627776]<=[3,1099511627776]T(1,0)}", SP_HLO_V3,
                    "{mesh['axis_0'=3,'axis_1'=1099511627776], device_ids=([3,1099511627776]T(1,0)), "
                    "[{'axis_0'}, {'axis_1'}]}");
}

/* Tiles of the axes that split a dim; then manual, unreduced and what is left, which is replicated. */
Test(hlo_sharding, axes_become_tiles)
{
    expect_converts("{mesh['a'=2,'b'=4,'c'=4], [{'c'}, {'a', 'b'}]}", SP_HLO_V2, "{devices=[4,8]<=[8,4]T(1,0)}");
    expect_converts("{mesh['a'=16,'b'=4], [{'a':(1)2, 'a':(8)2}, {'a':(2)4, 'b'}]}", SP_HLO_V2,
                    "{devices=[4,16]<=[2,4,2,4]T(0,2,1,3)}");
    expect_converts("{mesh['a'=2,'b'=4,'c'=4], [{}, {'a'}], replicated={'c'}}", SP_HLO_V2,
                    "{devices=[1,2,16]<=[32] last_tile_dim_replicate}");
    expect_converts("{mesh['a'=2,'b'=3,'c'=5,'d'=7], [{'d'}], unreduced={'a'}, manual={'c'}}", SP_HLO_V2,
                    "{devices=[7,5,2,3]<=[6,5,7]T(2,1,0) last_tile_dims={manual, unreduced, replicated}}");
    expect_converts("{mesh['x'=2,'y'=2], device_ids=(0,2,1,3), [{'x'}]}", SP_HLO_V2,
                    "{devices=[2,2]0,2,1,3 last_tile_dim_replicate}");
    expect_converts("{mesh['a'=2], [{}, {?}]}", SP_HLO_V2, "{replicated}");
    expect_converts("{mesh['a'=1,'b'=2], [{}, {}], unreduced={'a', 'b'}}", SP_HLO_V2, "{unreduced}");
    expect_converts("{mesh['a'=1], [{}], manual={'a'}}", SP_HLO_V2, "{manual}");
    expect_converts("{mesh['a'=1], [{'a'}]}", SP_HLO_V2, "{replicated}");
    expect_converts("{maximal_mesh[device_id=4]}", SP_HLO_V2, "{maximal device=4}");
    expect_converts("{mesh['a'=2,'b'=2], [{'a'}], unreduced=max{'b'}}", SP_HLO_V2,
                    "{devices=[2,2]<=[4] last_tile_dims={unreduced} metadata={op_type=\"sdy::reduction_op\" "
                    "op_name=\"MAX\"}}");
}

/* Up to 64 devices all versions of XLA can read the list. */
Test(hlo_sharding, versions)
{
    expect_converts("{devices=[2,2]<=[2,2]T(1,0)}", SP_HLO_V1, "{devices=[2,2]0,2,1,3}");
    expect_converts("{devices=[2,1]<=[2]}", SP_HLO_AUTO, "{devices=[2,1]0,1}");
    expect_converts("{devices=[65]<=[65]}", SP_HLO_AUTO, "{devices=[65]<=[65]}");
    expect_converts("{devices=[3]2,1,0}", SP_HLO_V2, "{devices=[3]2,1,0}");
    expect_converts("{devices=[3]0,1,2}", SP_HLO_V2, "{devices=[3]<=[3]}");
    expect_converts("{devices=[2]3,7}", SP_HLO_V2, "{devices=[2]3,7}");
}

Test(hlo_sharding, kinds_without_a_mesh)
{
    static const char *const texts[] = {"{replicated}", "{maximal device=3}",           "{manual}", "{unreduced}",
                                        "{unknown}",    "{{manual}, {devices=[2]1,0}}", "{}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_converts(texts[i], SP_HLO_AUTO, texts[i]);
    expect_converts("{maximal device=3}", SP_HLO_V3, "{maximal_mesh[device_id=3]}");
    expect_converts("{mesh['a'=2], manual}", SP_HLO_V3, "{mesh['a'=2], manual}");
    expect_converts("{mesh['a'=2], manual}", SP_HLO_V1, "{manual}");
    expect_converts("{mesh['a'=2,'b'=2], unreduced=min}", SP_HLO_V1, "{unreduced=min}");
}

static bool has_loss(const struct sp_losses *losses, const char *code)
{
    for (uint32_t i = 0; i < losses->count; i++) {
        if (strcmp(losses->items[i].code, code) == 0)
            return true;
    }
    return false;
}

Test(hlo_sharding, reports_losses)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_losses losses = {0};
    (void)converted(arena, "{devices=[2]0,1 shard_as 1 metadata={op_name='n'}}", SP_HLO_V3, &losses);
    cr_expect(losses.count == 2 && has_loss(&losses, "METADATA_LOST") && has_loss(&losses, "SHARD_GROUP_LOST"));
    losses = (struct sp_losses){0};
    (void)converted(arena, "{mesh['x'=2,'y'=2], [{'x', ?}], replicated={'y'}}", SP_HLO_V2, &losses);
    cr_expect(losses.count == 3 && has_loss(&losses, "OPEN_DIMS_LOST") && has_loss(&losses, "AXIS_NAMES_LOST") &&
              has_loss(&losses, "EXPLICIT_REPLICATION_LOST"));
    losses = (struct sp_losses){0};
    (void)converted(arena, "{mesh['x'=2,'y'=2], [{'x', ?}], replicated={'y'}}", SP_HLO_V3, &losses);
    cr_expect_eq(losses.count, 0);
    sp_arena_destroy(arena);
}

Test(hlo_sharding, refuses_what_cannot_be_said)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_sharding *sharding;
    struct sp_hlo *hlo;
    struct sp_error err = {0};
    cr_assert_eq(sp_hlo_to_sharding(arena, hlo_of(arena, "{devices=[2]3,7}"), &sharding, NULL, &err), SP_OK);
    cr_expect_eq(sp_hlo_from_sharding(arena, sharding,
                                      &(struct sp_dialect_context){.rank = 1, .hlo_version = SP_HLO_V3}, &hlo, NULL,
                                      &err),
                 SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "MESH_NEEDS_ALL_DEVICES");
    sp_error_clear(&err);
    cr_expect_eq(sp_hlo_from_sharding(arena, sharding,
                                      &(struct sp_dialect_context){.rank = 2, .hlo_version = SP_HLO_V2}, &hlo, NULL,
                                      &err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RANK_MISMATCH");
    sp_error_clear(&err);
    struct sp_hlo *huge = hlo_of(arena, "{devices=[2,1048576]<=[2097152]}");
    cr_assert_eq(sp_hlo_to_sharding(arena, huge, &sharding, NULL, &err), SP_OK);
    cr_expect_eq(sp_hlo_from_sharding(arena, sharding,
                                      &(struct sp_dialect_context){.rank = 2, .hlo_version = SP_HLO_V1}, &hlo, NULL,
                                      &err),
                 SP_ERR_LIMIT);
    sp_error_clear(&err);
    struct sp_hlo *odd = hlo_of(arena, "{devices=[2,2]<=[4] last_tile_dims={maximal}}");
    cr_expect_eq(sp_hlo_to_sharding(arena, odd, &sharding, NULL, &err), SP_ERR_UNSUPPORTED);
    sp_error_clear(&err);
    struct sp_sharding product = {.kind = SP_SHARDING_UNREDUCED, .combiner = SP_COMBINE_PROD};
    cr_expect_eq(sp_hlo_from_sharding(arena, &product,
                                      &(struct sp_dialect_context){.rank = 1, .hlo_version = SP_HLO_V2}, &hlo, NULL,
                                      &err),
                 SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "COMBINER_LOST");
    sp_arena_destroy(arena);
}

/* 2^40 devices there and back, in less than a megabyte. */
Test(hlo_sharding, huge_shardings_stay_lazy)
{
    struct sp_budget budget = {.limit = (size_t)1 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    const char *text = "{devices=[1048576,1024,1024]<=[1024,1048576,1024]T(1,0,2) last_tile_dims={manual, replicated}}";
    const char *named = text_of(arena, converted(arena, text, SP_HLO_V3, NULL));
    cr_expect_str_eq(named, "{mesh['axis_0'=1024,'axis_1'=1048576,'axis_2'=1024], [{'axis_1'}], manual={'axis_0'}}");
    cr_expect_str_eq(text_of(arena, converted(arena, named, SP_HLO_V2, NULL)), text);
    sp_arena_destroy(arena);
}
