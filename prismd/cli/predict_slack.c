/* predict_slack.c - see predict_slack.h. */
#include "predict_slack.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

struct stage_slack {
    uint32_t ranks, critical; /* of the stage; without slack */
    double least, median, most; /* seconds */
};

static struct stage_slack of_stage(const struct predicted *p, const int64_t *slack_ns, uint32_t stage)
{
    struct stage_slack s = { 0 };
    double *list = calloc(p->graph->world + 1u, sizeof(*list));
    if (!list)
        abort();
    for (uint32_t r = 0; r < p->graph->world; r++) {
        if (p->stages[r] != stage)
            continue;
        double seconds = (double)slack_ns[r] * 1e-9;
        s.critical += slack_ns[r] == 0;
        s.least = !s.ranks || seconds < s.least ? seconds : s.least;
        s.most = seconds > s.most ? seconds : s.most;
        list[s.ranks++] = seconds;
    }
    if (s.ranks)
        s.median = median(list, s.ranks);
    free(list);
    return s;
}

void slack_print(const struct predicted *p, const int64_t *slack_ns)
{
    printf("  slack: how much later ranks may come to any operation without the end being later\n");
    printf("  %-10s %7s %14s %12s %12s %12s\n", "stage", "ranks", "without slack", "least", "median", "most");
    for (uint32_t i = 0; i < p->nstages; i++) {
        struct stage_slack s = of_stage(p, slack_ns, i);
        char least[40], middle[40], most[40];
        printf("  %-10u %7u %14u %12s %12s %12s\n", i, s.ranks, s.critical, format_seconds(least, sizeof(least), s.least),
               format_seconds(middle, sizeof(middle), s.median), format_seconds(most, sizeof(most), s.most));
    }
}

json_t *slack_json(const struct predicted *p, const int64_t *slack_ns)
{
    json_t *ranks = json_array(), *stages = json_array();
    for (uint32_t r = 0; r < p->graph->world; r++)
        json_array_append_new(ranks, json_real((double)slack_ns[r] * 1e-9));
    for (uint32_t i = 0; i < p->nstages; i++) {
        struct stage_slack s = of_stage(p, slack_ns, i);
        json_array_append_new(stages, json_pack("{s:i, s:i, s:i, s:f, s:f, s:f}", "stage", (int)i, "ranks", (int)s.ranks,
                                                "critical_ranks", (int)s.critical, "least", s.least, "median", s.median, "most",
                                                s.most));
    }
    return json_pack("{s:o, s:o}", "ranks", ranks, "stages", stages);
}
