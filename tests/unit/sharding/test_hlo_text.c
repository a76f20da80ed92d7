#include "hlo_texts.h"

/* The forms of XLA's grammar; each prints as it is written. */
Test(hlo_text, prints_what_it_reads)
{
    static const char *const texts[] = {
        "{replicated}",
        "{manual}",
        "{unknown}",
        "{unreduced}",
        "{}",
        "{maximal device=9}",
        "{maximal device=9 metadata={op_name=\"n\" source_line=4}}",
        "{devices=[3,2]5,4,3,2,1,0}",
        "{devices=[4,2]<=[8]}",
        "{devices=[4,2]<=[2,2,2]T(2,1,0)}",
        "{devices=[2,2,4]<=[16] last_tile_dim_replicate}",
        "{devices=[2,2,4]<=[16] last_tile_dims={manual, unreduced}}",
        "{devices=[2]1,0 shard_as 3}",
        "{devices=[2]1,0 shard_like -3 metadata={{op_type=\"t\"}, {source_file=\"f\" source_end_line=2 source_column=3 "
        "source_end_column=5}}}",
        "{{replicated}}",
        "{{maximal device=1}, {devices=[1,2]1,0}, {manual}}",
        "{{manual}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{manual}, {unknown}}",
        "{maximal_mesh[device_id=3]}",
        "{mesh['a'=2,'b'=4], [{'b'}, {}, {'a', ?}]}",
        "{mesh['a'=2,'b'=4], [{?}], replicated={'a'}}",
        "{mesh['a'=6], [{'a':(2)3}, {'a':(1)2}]}",
        "{mesh['a'=2,'b'=2,'c'=2], [{}], replicated={'a'}, unreduced=max{'b'}, manual={'c'}}",
        "{mesh['a'=2,'b'=2,'c'=3], device_ids=([6,2]T(1,0)), [{'c'}]}",
        "{mesh['a'=2,'b'=2], device_ids=(3,2,1,0), manual}",
        "{mesh['a'=2], [{'a'}], metadata={{op_name=\"n\"}}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_prints(texts[i], texts[i]);
}

Test(hlo_text, ignores_blanks_comments_and_kinds_of_quotes)
{
    expect_prints(" { /* two */ devices=[ 2 , 2 ]\t<= [2,2]\n T ( 1 , 0 ) } ", "{devices=[2,2]<=[2,2]T(1,0)}");
    expect_prints("{mesh[\"a\"=2] [{\"a\"}]}", "{mesh['a'=2], [{'a'}]}");
    expect_prints("{mesh['a'=2], [{'0' ?}, {}]}", "{mesh['a'=2], [{'a', ?}, {}]}");
}

Test(hlo_text, takes_items_in_any_order)
{
    expect_prints("{shard_as 7 metadata={op_name='x'} last_tile_dim_replicate devices=[2,2]<=[4]}",
                  "{devices=[2,2]<=[4] last_tile_dim_replicate shard_as 7 metadata={op_name=\"x\"}}");
    expect_prints("{device=4 maximal}", "{maximal device=4}");
    /* Of several kinds XLA takes the first of its list. */
    expect_prints("{unknown manual}", "{manual}");
}

/* StableHLO's proposal writes tile counts and devices as one tensor: rows of devices. */
Test(hlo_text, reads_the_tile_tensor)
{
    expect_prints("[[0,1],[2,3]]", "{devices=[2,2]0,1,2,3}");
    expect_prints("[3,1,2]", "{devices=[3]3,1,2}");
    expect_prints("[[[0],[1],[2]]]", "{devices=[1,3,1]0,1,2}");
    expect_prints("{devices=[[3,2],[1,0]] last_tile_dim_replicate}", "{devices=[2,2]2,3,0,1 last_tile_dim_replicate}");
    expect_refused("[[0,1],[2]]", "offset 9", "no tensor");
    expect_refused("[[0,1],2]", "offset 7", "lists deep");
    expect_refused("[[0,1],[[2],[3]]]", "offset 9", "lists deep");
    expect_refused("[[],[]]", "offset 2", "unexpected token");
    expect_refused("[[0,1]", "offset 6", "unexpected token");
    expect_refused("[[0]]", "offset 0", "more than one device");
}

/* Mesh axes may be named by their index, and escapes are C's. */
Test(hlo_text, decodes_names)
{
    expect_prints("{mesh['x\\'y'=2,'\\303\\251'=3], [{'1', 'x\\x27y'}]}",
                  "{mesh['x\\'y'=2,'\\303\\251'=3], [{'\\303\\251', 'x\\'y'}]}");
    expect_refused("{mesh['\\377'=2], []}", "offset 6", "UTF-8");
    expect_refused("{mesh['a\\000'=2], []}", "offset 6", "NUL");
    expect_refused("{mesh['\\q'=2], []}", "offset 7", "escape");
    expect_refused("{mesh['a=2], []}", "offset 6", "never closed");
}

/* V3 is printed without its mesh where that does not matter; with metadata, such text is read too. */
Test(hlo_text, prints_without_a_mesh_where_it_does_not_matter)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    static const char *const texts[][2] = {
        {"{mesh['a'=2], replicated}", "{replicated}"},
        {"{mesh['a'=2], []}", "{replicated}"},
        {"{mesh['a'=2], unreduced}", "{unreduced}"},
        {"{mesh['a'=2,'b'=3], [], unreduced=min{'a', 'b'}}", "{unreduced=min}"},
        {"{mesh['a'=2,'b'=3], unreduced=min{'a'}}", "{mesh['a'=2,'b'=3], [], unreduced=min{'a'}}"},
        {"{mesh['a'=2,'b'=3], [], manual={'a', 'b'}}", "{mesh['a'=2,'b'=3], manual}"},
        {"{mesh['a'=2,'b'=3], [{}], manual={'a', 'b'}}", "{mesh['a'=2,'b'=3], [{}], manual={'a', 'b'}}"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_expect_str_eq(text_of(arena, hlo_of(arena, texts[i][0])), texts[i][1]);
    sp_arena_destroy(arena);
    expect_prints("{replicated, metadata={{op_name='n'}}}", "{replicated, metadata={{op_name=\"n\"}}}");
    expect_refused("{unreduced=max}", "offset 1", "unknown attribute in sharding");
}

/* The words are those by which users find XLA's own errors. */
Test(hlo_text, refuses_with_the_words_of_xla)
{
    expect_refused("{replicated device=1}", "offset 0", "replicated shardings should not have any devices assigned");
    expect_refused("{maximal}", "offset 0", "maximal shardings should have exactly one device assigned");
    expect_refused("{last_tile_dim_replicate}", "offset 0", "must have a tile assignment list including dimensions");
    expect_refused("{devices=[1]0}", "offset 0", "must have more than one device assigned");
    expect_refused("{devices=[2,2]0,1,2}", "offset 0", "does not match the tile assignment size");
    expect_refused("{devices=[2,2]<=[16]}", "offset 0", "does not match the tile assignment dimensions product");
    expect_refused("{devices=[2,2]<=[2,2]}", "offset 21", "expected 'T('");
    expect_refused("{devices=[2,2]<=[4]T(0)}", "offset 19", "unexpected token");
    expect_refused("{devices=[2,2]<=[2,2]T(2,0)}", "offset 21", "Out of range iota minor_to_major value");
    expect_refused("{devices=[2,2]<=[2,2]T(-1,0)}", "offset 21", "Out of range iota minor_to_major value");
    expect_refused("{devices=[2,2]<=[2,2]T(0)}", "offset 21", "same rank as iota_reshape_dims");
    expect_refused("{{{replicated}}}", "offset 2", "unexpected token");
    expect_refused("{{replicated},}", "offset 14", "expected '{' to start sharding attribute");
    expect_refused("{replicated", "offset 11", "unexpected token");
    expect_refused("{foo=1}", "offset 1", "unknown attribute in sharding");
    expect_refused("{devices =[2]0,1}", "offset 1", "unexpected token");
    expect_refused("{manual shard_as}", "offset 16", "expects integer");
    expect_refused("{replicated} x", "offset 13", "Extra content after sharding");
    expect_refused("{mesh['a'=2], [{'b'}]}", "offset 16", "is not a valid axis name or index in mesh");
    expect_refused("{mesh['a'=2,'b'=2], [{?, 'a'}]}", "offset 25", "Saw axis ref after '?'");
    expect_refused("{mesh['a'=2], [], foo={}}", "offset 18", "unknown attribute in named sharding");
    expect_refused("{mesh['a'=4], device_ids=(0,1), []}", "offset 1", "device_ids based on mesh axes, but got 2");
    expect_refused("{mesh['a'=4], device_ids=([8]), []}", "offset 1", "the product of the mesh axis sizes");
}

/* On these XLA's process dies. */
Test(hlo_text, refuses_what_kills_xla)
{
    expect_refused("{devices=[2,2]<=[4] last_tile_dim_replicate last_tile_dims={manual}}", "offset 0", "has both");
    expect_refused("{device=1 devices=[2]<=[2]}", "offset 10", "a second time");
    expect_refused("{mesh['a'=4], [{'a':(0)2}]}", "offset 16", "sub-axis pre-size must be >= 1");
    expect_refused("{mesh['a'=4], [{'a':(1)1}]}", "offset 16", "sub-axis size must be > 1");
    expect_refused("{mesh['a'=4], [{'a':(1)4}]}", "offset 16", "strictly less than the full axis size");
    expect_refused("{mesh['a'=12], [{'a':(2)4}]}", "offset 17", "next_pre_size must divide the full axis size");
    expect_refused("{mesh['a'=4,'b'=2], [{'a'}, {'a'}]}", "offset 1", "Axes cannot coexist or axes overlap");
    expect_refused("{mesh['a'=1], [{'a'}, {'a'}]}", "offset 1", "Axes cannot coexist or axes overlap");
    expect_refused("{mesh['a'=36], [{'a':(1)4}], manual={'a':(6)2}}", "offset 1", "cannot coexist");
    expect_refused("{mesh['a'=4], [{'a':(1)2, 'a':(2)2}]}", "offset 1", "Adjacent axes in dimension sharding");
    expect_refused("{mesh['a'=2,'b'=2], [], unreduced={'b', 'a'}}", "offset 1", "Unreduced axes must be sorted");
    expect_refused("{mesh['a'=2,'a'=2], []}", "offset 1", "Mesh has duplicate axis names");
    expect_refused("{mesh['a'=2], device_ids=(0,1), []}", "offset 1", "has iota device id list");
    expect_refused("{mesh['a'=2], device_ids=(1,2), []}", "offset 1", "Device ids must be a permutation of");
    expect_refused("{mesh['a'=2], device_ids=(-1,0), []}", "offset 1", "Mesh device ids must be non-negative");
}

/* And these it takes, although they mean nothing. */
Test(hlo_text, refuses_what_means_nothing)
{
    expect_refused("{devices=[2,2]<=[2,2]T(0,0)}", "offset 21", "not a permutation");
    expect_refused("{devices=[-2,-2]<=[4]}", "offset 0", "Tile dim 0 is -2");
    expect_refused("{devices=[0]<=[0]}", "offset 14", "");
    expect_refused("{devices=[4294967296,4294967296]<=[4]}", "offset 0", "64 bits");
    expect_refused("{devices=[2]<=[2] last_tile_dims={manual, replicated}}", "offset 0", "2 kinds of last tile dims");
    expect_refused("{devices=[2]3,3}", "offset 0", "is not unique in tile assignment");
    expect_refused("{maximal device=-1}", "offset 0", "is negative in tile assignment");
    expect_refused("{maximal device=99999999999999999999}", "offset 16", "64 bits");
    expect_refused("{manual last_tile_dim_replicate}", "offset 0", "no last tile dims");
    expect_refused("{manual metadata={op_name='a' op_name='b'}}", "offset 30", "already given");
    expect_refused("{manual shard_as 1 shard_like 2}", "offset 19", "second time");
}

/* 2^40 devices: nothing is written out. */
Test(hlo_text, keeps_huge_iotas_lazy)
{
    struct sp_budget budget = {.limit = (size_t)1 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    const char *text = "{devices=[1048576,1048576]<=[1099511627776]}";
    struct sp_hlo *hlo = hlo_of(arena, text);
    cr_expect_str_eq(text_of(arena, hlo), text);
    cr_expect_eq(hlo->order.count, INT64_C(1) << 40);
    cr_expect_null(hlo->order.ids);
    sp_arena_destroy(arena);
}

Test(hlo_text, stops_at_limits)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_hlo *hlo;
    struct sp_error err = {0};
    struct sp_buf buf;
    sp_buf_init(&buf, (size_t)4 << 20);
    for (int i = 0; i <= SP_MAX_SHARDING_AXES; i++)
        sp_buf_text(&buf, i == 0 ? "{devices=[1" : ",1");
    sp_buf_text(&buf, "]<=[1]}");
    cr_expect_eq(sp_hlo_read_text(arena, buf.data, buf.size, &hlo, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_SHARDING_AXES");
    sp_error_clear(&err);
    sp_buf_clear(&buf);
    for (int i = 0; i <= SP_MAX_SHARDING_AXES; i++)
        sp_buf_text(&buf, "[");
    cr_expect_eq(sp_hlo_read_text(arena, buf.data, buf.size, &hlo, &err), SP_ERR_LIMIT);
    sp_error_clear(&err);
    sp_buf_clear(&buf);
    while (buf.size <= SP_MAX_SHARDING_BYTES)
        sp_buf_text(&buf, "                ");
    cr_expect_eq(sp_hlo_read_text(arena, buf.data, buf.size, &hlo, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_SHARDING_BYTES");
    sp_buf_release(&buf);
    sp_arena_destroy(arena);
}
