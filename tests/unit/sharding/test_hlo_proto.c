#include "hlo_texts.h"
#include "op_sharding.pb-c.h"

#define MAX_BYTES 512

struct bytes {
    unsigned char at[MAX_BYTES];
    size_t size;
};

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static struct bytes bytes_of(const char *hex)
{
    struct bytes bytes = {.size = strlen(hex) / 2};
    cr_assert_leq(bytes.size, MAX_BYTES);
    for (size_t i = 0; i < bytes.size; i++)
        bytes.at[i] = (unsigned char)(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
    return bytes;
}

static const char *hex_of(struct sp_arena *arena, const void *bytes, size_t size)
{
    char *hex = sp_arena_alloc(arena, 2 * size + 1);
    for (size_t i = 0; i < size; i++) {
        hex[2 * i] = "0123456789abcdef"[((const unsigned char *)bytes)[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[((const unsigned char *)bytes)[i] & 15];
    }
    return hex;
}

static const char *written(struct sp_arena *arena, const struct sp_hlo *hlo)
{
    struct sp_buf buf;
    struct sp_error err = {0};
    sp_buf_init(&buf, HLO_TEXT_BYTES);
    cr_assert_eq(sp_hlo_write_proto(arena, hlo, &buf, &err), SP_OK, "%s", err.message);
    const char *hex = hex_of(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return hex;
}

/* The bytes read as `text`, and are written again as `again`. */
static void expect_reads(const char *hex, const char *text, const char *again)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct bytes bytes = bytes_of(hex);
    struct sp_hlo *hlo = NULL;
    struct sp_error err = {0};
    cr_assert_eq(sp_hlo_read_proto(arena, bytes.at, bytes.size, &hlo, &err), SP_OK, "%s: %s", hex, err.message);
    const char *got = text_of(arena, hlo);
    cr_expect_str_eq(got, text, "%s reads as %s, not %s", hex, got, text);
    got = written(arena, hlo);
    cr_expect_str_eq(got, again, "%s is written as %s, not %s", text, got, again);
    sp_arena_destroy(arena);
}

static void expect_refused_bytes(const char *hex, const char *where, const char *code)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct bytes bytes = bytes_of(hex);
    struct sp_hlo *hlo = NULL;
    struct sp_error err = {0};
    cr_expect_neq(sp_hlo_read_proto(arena, bytes.at, bytes.size, &hlo, &err), SP_OK, "%s is read", hex);
    cr_expect_str_eq(err.where, where, "%s is refused at '%s', not '%s'", hex, err.where, where);
    cr_expect_str_eq(err.code, code, "%s is refused as %s, not %s: %s", hex, err.code, code, err.message);
    sp_arena_destroy(arena);
}

/* Encoded by protoc from XLA's message numbers. */
Test(hlo_proto, reads_and_writes_known_bytes)
{
    static const char *const vectors[][2] = {
        {"", "{replicated}"},
        {"0804", "{manual}"},
        {"08012202ac02", "{maximal device=300}"},
        {"08031a02020122020001", "{devices=[2,1]0,1}"},
        {"08031a0204024a0108520100", "{devices=[4,2]<=[8]}"},
        {"08031a0202044a02040252020100", "{devices=[2,4]<=[4,2]T(1,0)}"},
        {"08031a02020230014a0104520100", "{devices=[2,2]<=[4] last_tile_dim_replicate}"},
        {"08031a03020202420204004a0108520100", "{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}"},
        {"080458016001", "{manual shard_as 1}"},
        {"08063a180a117364793a3a726564756374696f6e5f6f70120353554d", "{unreduced}"},
        {"08022a002a0a08031a020102220203052a050801220103", "{{replicated}, {devices=[1,2]3,5}, {maximal device=3}}"},
        {"72051203120105", "{maximal_mesh[device_id=5]}"},
        {"722012180a050a017810040a050a01791002120806030001050207041a040a001001",
         "{mesh['x'=4,'y'=2], device_ids=(6,3,0,1,5,2,7,4), [{'x'}]}"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        expect_reads(vectors[i][0], vectors[i][1], vectors[i][0]);
}

Test(hlo_proto, reads_what_is_written_otherwise)
{
    expect_reads("0803180218012000"
                 "2001",
                 "{devices=[2,1]0,1}", "08031a02020122020001"); /* not packed */
    expect_reads("220101"
                 "2200"
                 "1a020201"
                 "220100"
                 "0803",
                 "{devices=[2,1]1,0}", "08031a02020122020100");
    expect_reads("08031a0101220109", "{replicated}", ""); /* one device */
    expect_reads("08034a02010152020100", "{replicated}", "");
    expect_reads("08011a010122010c", "{maximal device=12}", "080122010c"); /* one tile */
    expect_reads("0805120408031801", "{unknown}", "0805");                 /* a tile shape */
    expect_reads("0804"
                 "6007"
                 "6801",
                 "{manual}", "0804"); /* no group after all */
    expect_reads("0803"
                 "7200",
                 "{replicated}", "72021200"); /* V3 wins */
}

/* The combiner of summands is metadata in V1 and V2, a field in V3. */
Test(hlo_proto, combiners)
{
    expect_reads("08063a180a117364793a3a726564756374696f6e5f6f7012034d4158", "{unreduced=max}",
                 "08063a180a117364793a3a726564756374696f6e5f6f7012034d4158");
    expect_reads("0806", "{unreduced}", "08063a180a117364793a3a726564756374696f6e5f6f70120353554d");
    expect_reads("08043a180a117364793a3a726564756374696f6e5f6f7012034d494e", "{manual}", "0804");
    expect_refused_bytes("08063a180a117364793a3a726564756374696f6e5f6f70120350524f", "metadata", "BAD_REDUCTION_OP");
}

/* Every text's bytes are what protobuf-c makes of them after it has unpacked them. */
Test(hlo_proto, agrees_with_the_generated_code)
{
    static const char *const texts[] = {
        "{replicated}",
        "{maximal device=300}",
        "{devices=[3,2]5,4,3,2,1,0 shard_like -7}",
        "{devices=[2,2,2,2]<=[4,4]T(1,0) last_tile_dims={manual, unreduced, replicated} metadata={op_name=\"n\"}}",
        "{devices=[1048576,1048576]<=[1099511627776]}",
        "{{manual metadata={{op_type=\"a\" op_name=\"b\" source_file=\"c\" source_line=-4 source_end_line=5 "
        "source_column=6 source_end_column=7}, {}}}, {maximal_mesh[device_id=0]}}",
        "{mesh['a'=6,'b'=4,'c'=2], device_ids=([4,12]T(1,0)), [{'a':(2)3, 'b':(1)2, ?}, {}], replicated={'c'}, "
        "unreduced=min{'b':(2)2}, manual={'a':(1)2}, metadata={{op_name=\"n\"}}}",
        "{mesh['a'=2,'b'=2], device_ids=(3,1,2,0), manual}",
    };
    struct sp_arena *arena = sp_arena_create(NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *hex = written(arena, hlo_of(arena, texts[i]));
        struct bytes bytes = bytes_of(hex), packed;
        Xla__OpSharding *message = xla__op_sharding__unpack(NULL, bytes.size, bytes.at);
        cr_assert_not_null(message, "%s", texts[i]);
        cr_expect_eq(message->base.n_unknown_fields, 0);
        packed.size = xla__op_sharding__get_packed_size(message);
        cr_assert_leq(packed.size, MAX_BYTES);
        xla__op_sharding__pack(message, packed.at);
        cr_expect_str_eq(hex_of(arena, packed.at, packed.size), hex, "%s", texts[i]);
        xla__op_sharding__free_unpacked(message, NULL);
        expect_reads(hex, texts[i], hex);
    }
    sp_arena_destroy(arena);
}

/* Metadata's other fields stay between those that are known: 4, 12 (a name), 17, 20 (a message); 20 came first. */
Test(hlo_proto, keeps_unknown_metadata)
{
    expect_reads("08043a0f"
                 "a20101ff"
                 "880103"
                 "620164"
                 "2002"
                 "0a0161",
                 "{manual metadata={op_type=\"a\" source_line=2 source_end_line=3}}",
                 "08043a0f"
                 "0a0161"
                 "2002"
                 "620164"
                 "880103"
                 "a20101ff");
}

Test(hlo_proto, refuses_broken_bytes)
{
    expect_refused_bytes("08", "byte 1", "MALFORMED_PROTOBUF");
    expect_refused_bytes("0803"
                         "1a05",
                         "byte 3", "MALFORMED_PROTOBUF");
    expect_refused_bytes("0803"
                         "1a0180",
                         "byte 4", "MALFORMED_PROTOBUF");
    expect_refused_bytes("7b", "byte 0", "MALFORMED_PROTOBUF"); /* '{' begins a group */
    expect_refused_bytes("0a00", "byte 0", "MALFORMED_PROTOBUF");
    expect_refused_bytes("0803"
                         "7801",
                         "byte 2", "UNKNOWN_FIELD");
    expect_refused_bytes("7204"
                         "1a021801",
                         "byte 4", "UNKNOWN_FIELD");
    expect_refused_bytes("0804"
                         "3a0412026100",
                         "byte 6", "MALFORMED_PROTOBUF"); /* NUL in a name */
    expect_refused_bytes("0804"
                         "3a03"
                         "1201ff",
                         "byte 6", "MALFORMED_PROTOBUF");
    expect_refused_bytes("7200"
                         "7200",
                         "named_sharding", "GIVEN_TWICE");
    expect_refused_bytes("0807", "type", "UNKNOWN_TYPE");
}

/* In the order of XLA's decisions, and what it does not check. */
Test(hlo_proto, refuses_wrong_shardings)
{
    expect_refused_bytes("0801", "tile_assignment_devices", "DEVICES_OF_KIND");
    expect_refused_bytes("080122020001", "tile_assignment_devices", "DEVICES_OF_KIND");
    expect_refused_bytes("08011a0102220100", "tile_assignment_dimensions", "DEVICES_OF_KIND");
    expect_refused_bytes("0800220100", "tile_assignment_dimensions", "DEVICES_OF_KIND");
    expect_refused_bytes("0804"
                         "3001",
                         "last_tile_dims", "SUBGROUPS_OF_KIND");
    expect_refused_bytes("08042a00", "tuple_shardings", "ELEMENTS_OF_KIND");
    expect_refused_bytes("08023a00", "metadata", "METADATA_OF_TUPLE");
    expect_refused_bytes("08022a020802", "tuple_shardings[0]", "NESTED_TUPLE");
    expect_refused_bytes("0802"
                         "2a00"
                         "2a0408031801",
                         "tuple_shardings[1].tile_assignment_devices", "NO_DEVICES");
    expect_refused_bytes("08031a0102", "tile_assignment_devices", "NO_DEVICES");
    expect_refused_bytes("0803"
                         "220200"
                         "01",
                         "tile_assignment_dimensions", "NO_TILES");
    expect_refused_bytes("08031a0102220200014a0102520100", "tile_assignment_devices", "TWO_DEVICE_LISTS");
    expect_refused_bytes("08031a01024a0102", "iota_transpose_perm", "BAD_PERMUTATION");
    expect_refused_bytes("08031a0102"
                         "22020001"
                         "520100",
                         "iota_transpose_perm", "BAD_PERMUTATION");
    expect_refused_bytes("08031a02000222020001", "tile_assignment_dimensions", "BAD_TILE_DIM");
    expect_refused_bytes("08031a010322020001", "tile_assignment_dimensions", "TILES_MISMATCH");
    expect_refused_bytes("08031a010222020101", "tile_assignment_devices", "DUPLICATE_DEVICE");
    expect_refused_bytes("08031a01044a02020252020000", "iota_reshape_dims", "BAD_PERMUTATION");
    expect_refused_bytes("08031a01044a02020252020500", "iota_reshape_dims", "BAD_PERMUTATION");
    expect_refused_bytes("08031a0102420204004a0102520100", "last_tile_dims", "TOO_MANY_SUBGROUPS");
    expect_refused_bytes("08031a0102420105"
                         "4a0102520100",
                         "last_tile_dims", "BAD_SUBGROUP");
    expect_refused_bytes("08031a0202023001"
                         "420104"
                         "4a0104520100",
                         "replicate_on_last_tile_dim", "BOTH_LAST_DIMS");
    expect_refused_bytes("0804"
                         "5801"
                         "6802",
                         "shard_group_type", "BAD_SHARD_GROUP");
}

Test(hlo_proto, refuses_wrong_meshes)
{
    expect_refused_bytes("720d120b0a050a0178100112020001", "named_sharding.mesh", "BAD_MESH_DEVICES");
    expect_refused_bytes("720a12080a030a0178120100", "named_sharding.mesh", "BAD_AXIS_SIZE");
    expect_refused_bytes("7206"
                         "1204"
                         "12020001",
                         "named_sharding.mesh", "BAD_MESH");
    expect_refused_bytes("720f"
                         "12070a050a01781002"
                         "1a040a020801",
                         "named_sharding", "UNKNOWN_AXIS");
    expect_refused_bytes("720b"
                         "12070a050a01781002"
                         "4003",
                         "named_sharding.reduction_op", "BAD_REDUCTION_OP");
}

/* A tile shape of tuples in tuples costs two bytes a level. */
Test(hlo_proto, bounds_depth)
{
    unsigned char bytes[4 * 80];
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_hlo *hlo;
    struct sp_error err = {0};
    for (size_t levels = SP_MAX_NESTING - 1; levels <= SP_MAX_NESTING; levels++) {
        bytes[0] = 0x12;
        bytes[1] = (unsigned char)(0x80 | 2 * levels);
        bytes[2] = (unsigned char)(2 * levels >> 7);
        cr_assert_lt(2 * levels, 160);
        for (size_t i = 0; i < levels; i++) {
            size_t inner = 2 * (levels - 1 - i);
            cr_assert_lt(inner, 128);
            bytes[3 + 2 * i] = 0x22;
            bytes[4 + 2 * i] = (unsigned char)inner;
        }
        enum sp_status status = sp_hlo_read_proto(arena, bytes, 3 + 2 * levels, &hlo, &err);
        cr_expect_eq(status, levels < SP_MAX_NESTING ? SP_OK : SP_ERR_LIMIT, "%zu levels: %s", levels, err.message);
    }
    cr_expect_str_eq(err.limit, "SP_MAX_NESTING");
    sp_arena_destroy(arena);
}

/* Many empty elements and a list that says it is long. */
Test(hlo_proto, bounds_counts)
{
    size_t size = 2 + 2 * (SP_MAX_TUPLE_SHARDINGS + 1);
    unsigned char *bytes = calloc(1, size);
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_hlo *hlo;
    struct sp_error err = {0};
    cr_assert_not_null(bytes);
    bytes[0] = 8;
    bytes[1] = 2;
    for (size_t i = 2; i < size; i += 2)
        bytes[i] = 0x2a;
    cr_expect_eq(sp_hlo_read_proto(arena, bytes, size, &hlo, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_TUPLE_SHARDINGS");
    cr_expect_eq(sp_hlo_read_proto(arena, bytes, size - 2, &hlo, &err), SP_OK);
    cr_expect_eq(hlo->element_count, SP_MAX_TUPLE_SHARDINGS);
    free(bytes);
    sp_arena_destroy(arena);
}
