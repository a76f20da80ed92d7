/*
 * Texts of machines, in tests/fuzz/corpus/topology: rebuilt in the form of those that people post, no copies of them. A
 * DGX A100 with its network cards (after a report on NCCL's tracker), eight cards behind PCIe switches on two sockets
 * (the device plugins' thread on Kubernetes' tracker), eight of which the text says SYS throughout (a question about
 * go-gpuallocator), two and five cards of home machines (benchmarks on a tracker of theirs), the hybrid cube mesh of a
 * DGX-1V and four cards with bridges across.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "cost/cluster/cluster.h"
#include "cost/cluster/nvidia_topology.h"
#include "data_files.h"

static struct sp_arena *arena;

static void setup(void)
{
    arena = sp_arena_create(NULL);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(nvidia_topology, .init = setup, .fini = teardown);

static struct sp_cluster *machine(const char *name, const char *device)
{
    char path[512];
    struct sp_buf made;
    struct sp_json json;
    struct sp_error err = {0};
    struct sp_cluster *cluster = NULL;
    size_t size;
    (void)snprintf(path, sizeof path, SOURCE_ROOT "/tests/fuzz/corpus/topology/%s", name);
    unsigned char *text = data_read(path, &size);
    cr_assert_not_null(text, "%s", path);
    sp_buf_init(&made, 1 << 20);
    sp_json_init_buf(&json, false, &made);
    cr_assert_eq(sp_cluster_from_topology(arena, (const char *)text, size, sp_device_find(device), &json, &err), SP_OK,
                 "%s: %s", name, err.message);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    json_t *described = json_loadb(made.data, made.size, 0, NULL);
    cr_assert_eq(sp_cluster_parse(arena, described, "", &cluster, &err), SP_OK, "%s: %s", made.data, err.message);
    json_decref(described);
    sp_buf_release(&made);
    free(text);
    return cluster;
}

static double bandwidth(const struct sp_cluster *cluster, uint32_t a, uint32_t b)
{
    return sp_level_bandwidth(
        sp_cluster_link(cluster, sp_cluster_numbered(cluster, a), sp_cluster_numbered(cluster, b)));
}

Test(nvidia_topology, dgx_a100)
{
    const struct sp_cluster *cluster = machine("dgx-a100", "a100-sxm4-80gb");
    cr_assert_eq(cluster->device_count, 8);
    cr_assert_eq(cluster->level_count, 1);
    cr_expect_eq(bandwidth(cluster, 0, 7), 300e9, "twelve links of 25 GB/s");
    cr_expect_not_null(cluster->levels[0].forms, "what was measured of such a box");
}

Test(nvidia_topology, pcie_switches_on_two_sockets)
{
    const struct sp_cluster *cluster = machine("pcie-8", "l40s-48gb");
    cr_assert_eq(cluster->level_count, 3);
    cr_expect_float_eq(bandwidth(cluster, 0, 1), 32e9, 1);
    cr_expect_float_eq(bandwidth(cluster, 0, 2), 16e9, 1, "two share the port of their switch");
    cr_expect_float_eq(bandwidth(cluster, 0, 4), 8e9, 1, "four share the way to the other socket");
}

Test(nvidia_topology, hybrid_cube_mesh)
{
    const struct sp_cluster *cluster = machine("v100-cube-mesh", "v100-sxm2-32gb");
    cr_expect_float_eq(bandwidth(cluster, 0, 3), 100e9, 1);
    for (uint32_t d = 0; d < 8; d++)
        cr_expect_eq(sp_cluster_number(cluster, d) / 4, d / 4, "quads are together");
}

Test(nvidia_topology, bridges_across)
{
    const struct sp_cluster *cluster = machine("pairs-4", "rtx-3090-24gb");
    static const uint32_t numbers[] = {0, 2, 1, 3};
    for (uint32_t d = 0; d < 4; d++)
        cr_expect_eq(sp_cluster_number(cluster, d), numbers[d]);
    cr_expect_float_eq(bandwidth(cluster, 1, 3), 56.25e9, 1);
    cr_expect_float_eq(bandwidth(cluster, 0, 1), 32e9, 1);
}

Test(nvidia_topology, others)
{
    cr_expect_float_eq(bandwidth(machine("all-sys-8", "l40s-48gb"), 0, 7), 32e9, 1);
    cr_expect_float_eq(bandwidth(machine("two-phb", "rtx-3090-24gb"), 0, 1), 32e9, 1);
    cr_expect_eq(machine("one", "l4-24gb")->device_count, 1);
    const struct sp_cluster *five = machine("five", "rtx-3090-24gb");
    cr_assert_eq(five->device_count, 5);
    cr_expect_eq(sp_cluster_number(five, 4), 0, "alone on its node");
    cr_expect_gt(bandwidth(five, 1, 4), bandwidth(five, 0, 4));
}

/* Machines whose owners posted the text: issues 669 of quda (GPUs behind two levels of PCIe switches), 106 of
   miss-alignment (cards of two sockets with network cards, in a mail), 1125 of club-3090 (indented, a second matrix
   behind), 425 of DeepEP (an H100 box, a card to each GPU) and 78 of nccl-tests (a DGX-2). Names were replaced; of the
   last two only the first rows are theirs, and the others go on as these begin. Beside them the ways in which such
   texts get through mail and terminals. */
Test(nvidia_topology, as_people_post_them)
{
    static const struct {
        const char *name, *device;
        uint32_t devices, a, b; /* a and b are closer than 0 and the last */
        double near, far;       /* between a and b, and between 0 and the last */
    } machines[] = {
        {"pxb-8", "l4-24gb", 8, 4, 7, 32e9, 8e9},
        {"l40s-nics-4", "l40s-48gb", 4, 2, 3, 32e9, 16e9},
        {"indented-p2p", "rtx-4090-24gb", 2, 0, 1, 32e9, 32e9},
        {"h100-nics-8", "h100-sxm-80gb", 8, 0, 7, 450e9, 450e9},
        {"dgx2-16", "v100-sxm2-32gb", 16, 0, 15, 150e9, 150e9},
        {"escapes", "rtx-3090-24gb", 2, 0, 1, 56.25e9, 56.25e9},
        {"quoted", "rtx-3090-24gb", 2, 0, 1, 56.25e9, 56.25e9},
        {"table", "rtx-3090-24gb", 3, 0, 1, 56.25e9, 64e9 / 3},
    };
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        const struct sp_cluster *cluster = machine(machines[i].name, machines[i].device);
        cr_assert_eq(cluster->device_count, machines[i].devices, "%s", machines[i].name);
        const double near = bandwidth(cluster, machines[i].a, machines[i].b);
        const double far = bandwidth(cluster, 0, machines[i].devices - 1);
        cr_expect_float_eq(near, machines[i].near, 1, "%s: %g", machines[i].name, near);
        cr_expect_float_eq(far, machines[i].far, 1, "%s: %g", machines[i].name, far);
    }
}

Test(nvidia_topology, refusals)
{
    static const struct {
        const char *text, *mentions;
    } cases[] = {
        {"", "GPU0, GPU1"},
        {"No devices were found\n", "GPU0, GPU1"},
        {"\tGPU0\tGPU1\nGPU0\t X \tPHB\n", "is missing"},
        {"\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tSYS\t X \n", "GPU1 and GPU0"},
        {"\tGPU0\tGPU1\nGPU0\t X \tFAR\nGPU1\tFAR\t X \n", "(line 2)"},
        {"\tGPU0\tGPU1\nGPU0\t X \tNV19\n", "18 NVLinks"},
        {"\tGPU0\tGPU1\nGPU0\t X\n", "ends before"},
        {"\tGPU0\tGPU2\n", "their order"},
        {"\tGPU0\tGPU1\nGPU0\tX\tX\n", "none of X"},
        {"\tGPU0\nGPU0\tX\nGPU0\tX\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_buf made;
        struct sp_json json;
        struct sp_error err = {0};
        sp_buf_init(&made, 1 << 20);
        sp_json_init_buf(&json, false, &made);
        const enum sp_status status = sp_cluster_from_topology(arena, cases[i].text, strlen(cases[i].text),
                                                               sp_device_find("l4-24gb"), &json, &err);
        if (cases[i].mentions[0] == '\0') {
            cr_expect_eq(status, SP_OK, "one GPU is enough");
        } else {
            cr_expect_eq(status, SP_ERR_REQUEST, "%s", cases[i].text);
            cr_expect_str_eq(err.code, "TOPOLOGY_UNREADABLE");
            cr_expect_not_null(strstr(err.message, cases[i].mentions), "%s: %s", cases[i].text, err.message);
        }
        sp_buf_release(&made);
    }
}
