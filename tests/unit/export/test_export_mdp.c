/* Partitions for Qualcomm's compiler against what its own writer makes. The notation of files is that of onnx_files.h. */
#include <criterion/criterion.h>

#include "build_export.h"
#include "export/files.h"
#include "onnx_files.h"

#define VALUES(name)              "2{1'" name "' 2{1{1:1 2{1{1:2} 1{1:2}}}}}"
#define ON(tensor, device, stage) " 10{1'a' 2{1'" tensor "' 2:" device "} 3:" stage "}"
/* "id" comes first and is of the second stage; "foldme" depends on a weight alone, and "one" is a Constant. */
static const char staged[] =
    "1:11 8{2:18} 8{1'local' 2:1} 26{1'a' 2:2}"
    " 25{1'F' 4'i' 5'o' 10'local' 9{2:18} 7{1'i' 2'm' 3'inner_relu' 4'Relu'} 7{1'm' 2'k' 4'Exp'}"
    " 7{1'k' 2'o' 3'inner_exp' 4'Exp'}}"
    " 25{1'CustomRMSNorm' 4'i' 5'o' 10'local' 9{2:18} 7{1'i' 2'o' 3'inner' 4'Relu'}}"
    " 7{2'g' 5{1:2 1:2 2:1 8'w' 9h0000803f000000400000404000008040}"
    " 1{1'w' 2'v' 3'id' 4'Identity'" ON(
        "v", "1", "1") "}"
                       " 1{1'w' 2't' 3'foldme' 4'Transpose'" ON(
                           "t", "0",
                           "0") "}"
                                " 1{2'c' 3'one' 4'Constant' 5{1'value_int' 3:1 20:2}" ON(
                                    "c", "0",
                                    "0") "}"
                                         " 1{1'x' 1't' 2'h' 3'product' 4'MatMul'" ON(
                                             "h", "0",
                                             "0") "}"
                                                  " 1{1'h' 2'f' 3'L0' 4'F' 7'local'" ON(
                                                      "f", "0",
                                                      "0") "}"
                                                           " 1{1'f' 2'n' 3'norm' 4'CustomRMSNorm' 7'local'" ON(
                                                               "n", "0",
                                                               "0") "}"
                                                                    " 1{1'n' 1'v' 2'y' 4'Add'" ON(
                                                                        "y", "1",
                                                                        "1") "}"
                                                                             " 11{1'x' 2{1{1:1 2{1{1:2} 1{1:2}}}}} "
                                                                             "12{1'y' 2{1{1:1 2{1{1:2} 1{1:2}}}}}}";

static char *partitions_of(const char *notation, const char *forms, char **ret_notes)
{
    struct sp_buf file = onnx_encode(notation);
    struct sp_subject *subject = subject_of(&file);
    struct sp_file_forms parsed;
    struct sp_error err = {0};
    cr_assert_eq(sp_file_forms_parse(forms, &parsed, &err), SP_OK, "%s", err.message);
    struct exported text = export_in(subject, "qualcomm-mdp", parsed.cores);
    json_t *json = json_loadb(text.bytes.data, text.bytes.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(json);
    char *partitions = json_dumps(json_object_get(json, "partitions"), JSON_COMPACT);
    if (ret_notes != NULL)
        *ret_notes = strdup(text.notes.size > 0 ? text.notes.data : "");
    json_decref(json);
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
    return partitions;
}

/* Stages in their order; folded nodes out, Identity and Constant in; inlined functions by what is in them. */
Test(export_mdp, partitions_have_the_names_of_the_compiler)
{
    char *notes = NULL, *text = partitions_of(staged, "cores=14", &notes);
    cr_expect_str_eq(text, "[{\"name\":\"Partition0\",\"nodeList\":[\"one\",\"product\",\"L0/inner_relu\","
                           "\"L0/inner_exp\",\"norm\"],\"devices\":[{\"deviceId\":0,\"numCores\":14}]},"
                           "{\"name\":\"Partition1\",\"nodeList\":[\"id\"],"
                           "\"devices\":[{\"deviceId\":1,\"numCores\":14}]}]");
    cr_expect_str_eq(notes, "NODES_UNNAMED ");
    free(notes);
    free(text);
}

/* One partition of all devices: the compiler splits every operator over them, and wants no list. */
Test(export_mdp, one_partition_of_all_devices_lists_no_nodes)
{
    char *text = partitions_of("1:11 8{2:18} 26{1'a' 2:2} 7{2'g' 1{1'x' 2'y' 3'n' 4'Relu'"
                               " 10{1'a' 2{1'x' 2:0 2:1 4{1:0 2{1:2 3:2}}}}}"
                               " 11{1'x' 2{1{1:1 2{1{1:2} 1{1:2}}}}} 12{1'y' 2{1{1:1 2{1{1:2} 1{1:2}}}}}}",
                               "", NULL);
    cr_expect_str_eq(text, "[{\"name\":\"Partition0\",\"devices\":[{\"deviceId\":0,\"numCores\":16},"
                           "{\"deviceId\":1,\"numCores\":16}]}]");
    free(text);
}

Test(export_mdp, forms_are_words)
{
    struct sp_file_forms forms;
    struct sp_error err = {0};
    cr_assert_eq(sp_file_forms_parse("upper,listed,casts,no-all-to-all,no-bfloat16,cores=8", &forms, &err), SP_OK);
    cr_expect(forms.realize.is_upper && forms.realize.lists_world && forms.realize.has_casts &&
              forms.realize.has_no_alltoall && forms.realize.has_no_bfloat16);
    cr_expect_eq(forms.cores, 8);
    static const char *const wrong[] = {"lower", "cores", "cores=", "cores=0", "cores=1025", "cores=8x", ",", "upper "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_eq(sp_file_forms_parse(wrong[i], &forms, &err), SP_ERR_REQUEST, "%s", wrong[i]);
        cr_expect_str_eq(err.code, "UNKNOWN_FORM");
    }
}
