/* Bounds: rates in covers, weighed in several ways, and what goes in and out. */
#include <math.h>

#include "solvers/routes/internal.h"

#define HALVINGS 60

double sp_routes_weight(double rate, double wanted, uint32_t way)
{
    if (rate >= wanted)
        return 1;
    if (rate <= 0)
        return 0;
    if (way == 0)
        return rate / wanted;
    const double needed = ceil(wanted / rate * (1 - 1e-12)), ways = way + 1;
    return needed >= ways ? 1 / ways : (ways + 1 - needed) / ways;
}

static double power_of(const struct sp_routes_table *table, uint32_t node, double wanted, uint32_t way)
{
    const struct sp_routes_node *n = &table->problem->nodes[node];
    double most = 0;
    for (uint32_t first = 0; first < (n->stride == 0 ? 1 : table->layers); first++)
        for (uint32_t k = 1; k <= n->most && first + k <= table->layers; k++) {
            const double power = k * sp_routes_weight(sp_routes_rate(table, node, first, k), wanted, way);
            most = power > most ? power : most;
        }
    return most;
}

double sp_routes_power(const struct sp_routes_table *table, double wanted, uint32_t way, double *ret_powers)
{
    const struct sp_routes_node *nodes = table->problem->nodes;
    double sum = 0, power = 0;
    for (uint32_t i = 0; i < table->nodes; i++) {
        if (i == 0 || nodes[i].rates != nodes[i - 1].rates || nodes[i].most != nodes[i - 1].most)
            power = power_of(table, i, wanted, way);
        if (ret_powers != NULL)
            ret_powers[i] = power;
        sum += power;
    }
    return sum;
}

/* What can come from the source, or to the sink. */
static double across(const struct sp_routes_table *table, bool is_source)
{
    double sum = 0;
    for (uint32_t i = 0; i < table->nodes; i++) {
        const double capacity = is_source ? sp_routes_capacity(table, table->nodes, i, 0)
                                          : sp_routes_capacity(table, i, table->nodes, table->layers);
        double most = 0;
        for (uint32_t k = 1; k <= table->problem->nodes[i].most && capacity > 0; k++) {
            const double rate = sp_routes_rate(table, i, is_source ? 0 : table->layers - k, k);
            most = rate > most ? rate : most;
        }
        sum += most < capacity ? most : capacity;
    }
    return sum;
}

static bool is_possible(const struct sp_routes_table *table, double wanted)
{
    for (uint32_t way = 0; way < SP_ROUTES_WAYS; way++)
        if (sp_routes_power(table, wanted, way, NULL) < table->layers * (1 - 1e-12))
            return false;
    return true;
}

double sp_routes_bound(const struct sp_routes_table *table)
{
    const double in = across(table, true), out = across(table, false);
    double low = 0, high = in < out ? in : out;
    if (high <= 0 || is_possible(table, high))
        return high;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        if (is_possible(table, middle))
            low = middle;
        else
            high = middle;
    }
    return high;
}
