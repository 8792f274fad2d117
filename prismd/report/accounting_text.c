#include "prismd/report/accounting_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK        "prism:"
#define LARGEST     1e15 /* of a value that is believed */
#define SANDBOX_MAX 256 /* as spank/policy.h's */

double accounting_gpu_hours(const struct accounting_record *r)
{
    return r->world * (r->capture_seconds + r->calibrate_seconds + r->emulate_seconds) / 3600;
}

static void add(char *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(char *out, const char *fmt, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, fmt);
    if (vsnprintf(out + n, ACCOUNTING_MAX - n, fmt, args) >= (int)(ACCOUNTING_MAX - n))
        out[n] = 0; /* whole pairs only */
    va_end(args);
}

static void add_sandbox(char *out, const struct accounting_record *r)
{
    char text[SANDBOX_MAX];
    add(out, ",sandbox_ranks=%u", r->sandbox_ranks);
    if (!r->sandbox || !*r->sandbox || strlen(r->sandbox) >= sizeof text)
        return;
    strcpy(text, r->sandbox);
    for (char *p = text; *p; p++)
        if (*p == ',')
            *p = '+';
    add(out, ",sandbox=%s", text);
}

static bool is_emulation(const char *state)
{
    return strcmp(state, "begun") && strcmp(state, "none");
}

void accounting_print(const struct accounting_record *r, char out[ACCOUNTING_MAX])
{
    out[0] = 0;
    add(out, MARK "world=%u,nodes=%u,gpus_per_node=%u,devices=%u", r->world,
        (r->world + r->gpus_per_node - 1) / r->gpus_per_node, r->gpus_per_node, r->devices);
    add_sandbox(out, r);
    if (r->assistants >= 0)
        add(out, ",assistants=%d", r->assistants);
    add(out, ",phase=%s,step=%s", r->phase, r->step);
    if (r->restart)
        add(out, ",restart=%s", r->restart);
    add(out, ",state=%s", r->state);
    if (r->iterations)
        add(out, ",iterations=%u,iteration_seconds=%.6g", r->iterations, r->iteration_seconds);
    if (r->peak_memory_bytes)
        add(out, ",peak_memory_bytes=%llu", (unsigned long long)r->peak_memory_bytes);
    if (r->prediction_error >= 0)
        add(out, ",prediction_error=%.4g", r->prediction_error);
    if (is_emulation(r->state))
        add(out, ",emulated_gpu_hours=%.6g,steps=1,failed=%d", accounting_gpu_hours(r), r->exit_code > 0);
    if (r->trace_id && *r->trace_id)
        add(out, ",trace_id=%s", r->trace_id);
    if (r->exit_code >= 0)
        add(out, ",exit_code=%d,exit_origin=%s", r->exit_code, r->exit_origin);
    add(out, ",capture_seconds=%.3f,calibrate_seconds=%.3f,emulate_seconds=%.3f", r->capture_seconds, r->calibrate_seconds,
        r->emulate_seconds);
}

/* --- reading --- */

const char *accounting_find(const char *comment)
{
    const char *found = NULL;
    for (const char *p = comment; p && (p = strstr(p, MARK)); p += strlen(MARK))
        if (p == comment || p[-1] == ' ')
            found = p;
    return found;
}

/* Where key's pair begins in the part, and its length without the comma behind; NULL and 0 when it is not there. */
static const char *pair_of(const char *part, const char *key, size_t *len)
{
    size_t name = strlen(key);
    for (const char *p = part ? part + strlen(MARK) : NULL; p && *p;) {
        *len = strcspn(p, ",");
        if (*len > name && !memcmp(p, key, name) && p[name] == '=')
            return p;
        p += *len + (p[*len] == ',');
    }
    *len = 0;
    return NULL;
}

bool accounting_value(const char *part, const char *key, char *out, size_t size)
{
    size_t len;
    const char *p = pair_of(part, key, &len);
    if (!p)
        return false;
    snprintf(out, size, "%.*s", (int)(len - strlen(key) - 1), p + strlen(key) + 1);
    return true;
}

double accounting_number(const char *part, const char *key)
{
    char text[64], *end;
    if (!accounting_value(part, key, text, sizeof text) || !*text)
        return NAN;
    double value = strtod(text, &end);
    return *end || !(fabs(value) < LARGEST) ? NAN : value; /* a comment is the user's to spoil, sums are everyone's */
}

/* --- merging --- */

static bool same(const char *a, const char *b, const char *key)
{
    char x[64] = "", y[64] = "";
    accounting_value(a, key, x, sizeof x);
    accounting_value(b, key, y, sizeof y);
    return !strcmp(x, y);
}

static void drop(char *part, const char *key)
{
    size_t len;
    char *p = (char *)pair_of(part, key, &len);
    if (p)
        memmove(p[len] ? p : p - 1, p[len] ? p + len + 1 : p + len, strlen(p[len] ? p + len + 1 : p + len) + 1);
}

/* Sets a pair's value, behind all others where there was none. Nothing where it does not fit. */
static void put(char *part, const char *key, double value)
{
    char pair[96], tail[ACCOUNTING_MAX];
    size_t len;
    char *p = (char *)pair_of(part, key, &len);
    snprintf(pair, sizeof pair, "%s%s=%.9g", p ? "" : ",", key, value);
    if (!p)
        p = part + strlen(part);
    strcpy(tail, p + len);
    if ((size_t)(p - part) + strlen(pair) + strlen(tail) < ACCOUNTING_MAX)
        sprintf(p, "%s%s", pair, tail);
}

static double sum_of(const char *part, const char *key)
{
    double n = accounting_number(part, key);
    return n > 0 ? n : 0; /* a comment is the user's to spoil */
}

static struct accounting_share share_of(const char *part)
{
    return (struct accounting_share){sum_of(part, "emulated_gpu_hours"), sum_of(part, "steps"), sum_of(part, "failed")};
}

/* "12.3": 3; -1 without one. */
static double step_of(const char *part)
{
    char text[64];
    const char *dot = accounting_value(part, "step", text, sizeof text) ? strrchr(text, '.') : NULL;
    return dot ? strtod(dot + 1, NULL) : -1;
}

/* part, which holds the results to show, gets the sums: of `before`, with ours in place of the share. */
static void add_up(char *part, const char *before, const struct accounting_share *ours, const struct accounting_share *share)
{
    struct accounting_share sum = share_of(before);
    const struct {
        const char *key;
        double had, has, all;
    } sums[] = {{"emulated_gpu_hours", share->hours, ours->hours, sum.hours},
                {"steps", share->steps, ours->steps, sum.steps},
                {"failed", share->failed, ours->failed, sum.failed}};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        double others = sums[i].all - sums[i].had;
        put(part, sums[i].key, (others > 1e-9 ? others : 0) + sums[i].has);
    }
}

int accounting_merge(const char *comment, const char *ours, const struct accounting_share *share, struct accounting_share *next,
                     char out[ACCOUNTING_MAX])
{
    static const char *const spare[] = {"capture_seconds", "calibrate_seconds", "emulate_seconds", "sandbox", "nodes",
                                        "gpus_per_node", "devices", "iterations", "phase", "assistants"};
    const char *before = accounting_find(comment);
    size_t own = comment ? (before ? (size_t)(before - comment) : strlen(comment)) : 0;
    char part[ACCOUNTING_MAX];
    bool results = share_of(before).steps > 0 && same(before, ours, "restart");
    *next = share_of(ours);
    if (before && own >= 2 && !memcmp(before - 2, "; ", 2))
        own -= 2;
    snprintf(part, sizeof part, "%s", results && (!next->steps || step_of(before) > step_of(ours)) ? before : ours);
    if (next->steps)
        add_up(part, results ? before : NULL, next, share);
    out[0] = 0;
    for (size_t i = 0; own + (own ? 2 : 0) + strlen(part) >= ACCOUNTING_MAX; i++) {
        if (i == sizeof spare / sizeof *spare)
            return -1;
        drop(part, spare[i]);
    }
    snprintf(out, ACCOUNTING_MAX, "%.*s%s%s", (int)own, comment ? comment : "", own ? "; " : "", part);
    return 0;
}
