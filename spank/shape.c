#include "shape.h"

#include <stdio.h>

#define DEFAULT_GPUS_PER_NODE 8

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* The world that the request itself describes, 0 = it describes none. */
static uint64_t requested_world(const struct shape_request *r, uint32_t gpus_per_node)
{
    uint64_t nodes = r->nodes ? r->nodes : r->allocation_nodes ? r->allocation_nodes : 1;
    uint64_t tasks = r->tasks ? r->tasks : nodes * r->tasks_per_node;
    bool says_nodes = r->nodes || r->allocation_nodes;
    if (tasks > nodes)
        return tasks;
    if (r->gpus)
        return r->gpus;
    if (says_nodes || r->gpus_per_node)
        return nodes * gpus_per_node;
    return 0;
}

/* A step of a job of ours: as Slurm counts tasks on the job's (logical) nodes. */
static void find_step(const struct shape_request *r, uint32_t gpus_per_node, struct shape *s)
{
    uint32_t nodes = r->nodes ? r->nodes : r->earlier_nodes;
    uint32_t each = r->tasks_per_node ? r->tasks_per_node : (uint32_t)divide_up(r->earlier_tasks, r->earlier_nodes);
    uint64_t tasks = r->tasks ? r->tasks : (uint64_t)nodes * each;
    if (tasks < nodes)
        nodes = (uint32_t)tasks;
    bool launcher = tasks == nodes && !(r->tasks && !r->nodes && each > 1) && r->tasks != 1;
    s->nodes = nodes;
    s->tasks = (uint32_t)(tasks < PARSE_WORLD_MAX ? tasks : PARSE_WORLD_MAX);
    s->gpus_per_node = launcher ? gpus_per_node : (uint32_t)divide_up(tasks, nodes);
    s->world = launcher ? nodes * gpus_per_node : s->tasks;
}

static int find_world(const struct shape_request *r, const struct options *o, uint32_t gpus_per_node, struct shape *s,
                      struct prism_error *err)
{
    uint64_t world = options_number(o, OPTION_EMULATE, 0);
    if (r->earlier_world && r->earlier_nodes && (!world || world == r->earlier_world)) {
        find_step(r, gpus_per_node, s);
        return 0;
    }
    if (!world)
        world = r->earlier_world;
    if (!world)
        world = requested_world(r, gpus_per_node);
    if (!world)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--prism-emulate without a number takes the size of the job from the request: "
                               "give -N, -n or --gpus-per-node as in the full job, or --prism-emulate=N");
    if (world > PARSE_WORLD_MAX)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--prism-emulate: the request asks for %llu ranks: 1 to %u are allowed",
                               (unsigned long long)world, PARSE_WORLD_MAX);
    s->world = (uint32_t)world;
    return 0;
}

int shape_world(const struct shape_request *r, const struct options *o, uint32_t *world, struct prism_error *err)
{
    struct shape s = {0};
    if (find_world(r, o, options_number(o, OPTION_GPUS_PER_NODE, r->gpus_per_node ? r->gpus_per_node : DEFAULT_GPUS_PER_NODE), &s,
                   err))
        return -1;
    *world = s.world;
    return 0;
}

/* Logical nodes when the user named their number. */
static int fit_given_nodes(const struct shape_request *r, bool explicit_gpus, struct shape *s, struct prism_error *err)
{
    uint32_t even = s->world / r->nodes;
    if (!explicit_gpus && s->world % r->nodes == 0 && even && even <= DEFAULT_GPUS_PER_NODE)
        s->gpus_per_node = even;
    if ((uint64_t)r->nodes * s->gpus_per_node != s->world)
        return prism_error_set(err, PRISM_EXIT_USAGE,
                               "--prism-emulate: %u ranks are not %u nodes (-N) x %u GPUs: -N is the emulated job's; change -N, or say "
                               "--prism-gpus-per-node (PRISM_NODES sets the real nodes)",
                               s->world, r->nodes, s->gpus_per_node);
    s->nodes = r->nodes;
    return 0;
}

static int find_nodes(const struct shape_request *r, bool explicit_gpus, struct shape *s, struct prism_error *err)
{
    if (s->nodes && s->world == (uint64_t)s->nodes * s->gpus_per_node)
        return 0; /* a step's */
    if (s->nodes)
        return prism_error_set(err, PRISM_EXIT_USAGE, "%u tasks do not spread evenly over %u emulated nodes: give -N and -n that do",
                               s->tasks, s->nodes);
    if (r->nodes && !r->earlier_world)
        return fit_given_nodes(r, explicit_gpus, s, err);
    if (!explicit_gpus && s->world < s->gpus_per_node)
        s->gpus_per_node = s->world;
    if (s->world % s->gpus_per_node)
        return prism_error_set(err, PRISM_EXIT_USAGE,
                               "--prism-emulate: %u ranks are not a multiple of %u GPUs a node: change the number, or say "
                               "--prism-gpus-per-node", s->world, s->gpus_per_node);
    s->nodes = s->world / s->gpus_per_node;
    return 0;
}

static int count_devices(const struct options *o, struct shape *s, uint32_t *assistants, struct prism_error *err)
{
    uint64_t sandbox = 1;
    struct parse_ranks ranks;
    if (o->text[OPTION_SANDBOX]) {
        if (parse_ranks(o->text[OPTION_SANDBOX], &ranks, err))
            return -1;
        sandbox = ranks.count;
        parse_ranks_clear(&ranks);
    }
    s->sandbox_ranks = (uint32_t)sandbox;
    *assistants = options_number(o, OPTION_ASSISTANTS, s->sandbox_ranks);
    uint64_t devices = sandbox + *assistants;
    s->devices = (uint32_t)(devices < s->world ? devices : s->world);
    return 0;
}

static int fit_devices(const struct shape_request *r, const struct options *o, uint32_t assistants, struct shape *s,
                       struct prism_error *err)
{
    uint32_t most = r->forced_devices_per_node ? r->forced_devices_per_node
                    : r->most_devices_per_node   ? r->most_devices_per_node
                    : r->gpus_per_node           ? r->gpus_per_node
                                               : DEFAULT_GPUS_PER_NODE;
    s->physical_nodes = r->allocation_nodes ? r->allocation_nodes : (uint32_t)divide_up(s->devices, most);
    if (s->physical_nodes > s->world)
        s->physical_nodes = s->world;
    if (r->forced_nodes)
        s->physical_nodes = r->forced_nodes;
    if (r->allocation_nodes && s->physical_nodes > r->allocation_nodes)
        return prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_NODES=%u: the allocation has only %u nodes", r->forced_nodes,
                               r->allocation_nodes);
    s->devices_per_node = r->forced_devices_per_node ? r->forced_devices_per_node
                                                     : (uint32_t)divide_up(s->devices, s->physical_nodes);
    uint64_t least = s->sandbox_ranks + (uint64_t)(o->text[OPTION_ASSISTANTS] ? assistants : 0);
    if (r->forced_devices_per_node && !r->allocation_nodes && least <= s->world &&
        (uint64_t)s->physical_nodes * s->devices_per_node < least)
        return prism_error_set(err, PRISM_EXIT_USAGE,
                               "PRISM_NODES and PRISM_DEVICES_PER_NODE give %u devices, sandbox ranks and assistants need %llu",
                               s->physical_nodes * s->devices_per_node, (unsigned long long)least);
    return 0;
}

/* Processes asked for: a task on each node, where the request says so and each has several GPUs, is a launcher's. */
static uint32_t find_tasks(const struct shape_request *r, const struct options *o, const struct shape *s)
{
    uint64_t asked = r->tasks ? r->tasks : (uint64_t)s->nodes * r->tasks_per_node;
    if (!asked && r->nodes && !options_number(o, OPTION_EMULATE, 0))
        asked = s->nodes;
    return asked == s->nodes ? s->nodes : s->world;
}

int shape_plan(const struct shape_request *r, const struct options *o, struct shape *shape, struct prism_error *err)
{
    struct shape s = {0};
    uint32_t assistants;
    bool explicit_gpus = o->text[OPTION_GPUS_PER_NODE] || r->gpus_per_node;
    s.gpus_per_node = options_number(o, OPTION_GPUS_PER_NODE, r->gpus_per_node ? r->gpus_per_node : DEFAULT_GPUS_PER_NODE);
    if (find_world(r, o, s.gpus_per_node, &s, err) || find_nodes(r, explicit_gpus, &s, err) ||
        options_check(o, s.world, err) || count_devices(o, &s, &assistants, err) || fit_devices(r, o, assistants, &s, err))
        return -1;
    if (!s.tasks)
        s.tasks = find_tasks(r, o, &s);
    /* A task a GPU with c CPUs each, or a launcher a node: the CPUs that went with as many GPUs. */
    uint64_t tasks_per_node = divide_up(r->tasks ? r->tasks : s.nodes * (r->tasks_per_node ? (uint64_t)r->tasks_per_node : 1), s.nodes);
    uint64_t cpus = (uint64_t)(r->cpus_per_task ? r->cpus_per_task : 1) * tasks_per_node * s.devices_per_node;
    s.cpus_per_task = (uint32_t)divide_up(cpus, s.gpus_per_node);
    if (!s.cpus_per_task)
        s.cpus_per_task = 1;
    s.asked_cpus_per_task = r->cpus_per_task;
    *shape = s;
    return 0;
}
