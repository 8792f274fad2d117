/* reports.c - what people's commands read: hang.json, report.json, a program's output, sacct's answer. The first byte says
 * which; the rest is the text. What is printed is text, what is JSON can be written, and no value in it is infinite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prismd/capture/hang_file.h"
#include "prismd/cli/acct.h"
#include "prismd/cli/report_text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/path.h"

const uint32_t fuzz_unit_runs = 40000;

#define WORLD 64u

enum kind { HANG, REPORT, LOSSES, ACCT, KINDS };

static void hang(const uint8_t *data, size_t len)
{
    struct hang_hosts h;
    struct prism_error err = {0};
    int rc = hang_hosts_parse("fuzz", data, len, WORLD, &h, &err);
    if (!rc != !err.code || h.world != WORLD)
        abort();
    for (uint32_t i = 0; i < h.world; i++)
        if (h.ranks[i] && strlen(h.ranks[i]) > len)
            abort();
    hang_hosts_clear(&h);
}

/* Writes to nowhere; what jansson cannot write is wrong. */
static void print(json_t *report)
{
    char *text = NULL, *json = json_dumps(report, 0);
    size_t len;
    FILE *out = open_memstream(&text, &len);
    if (!json || !out)
        abort();
    report_print(out, report);
    if (fclose(out) || !len || text[len - 1] != '\n')
        abort();
    free(text);
    free(json);
}

static void report(const uint8_t *data, size_t len)
{
    json_t *root = json_loadb((const char *)data, len, 0, NULL);
    if (json_is_object(root))
        print(root);
    json_decref(root);
}

static void losses(const uint8_t *data, size_t len)
{
    json_t *root = json_object();
    struct prism_error err = {0};
    if (report_add_losses(root, fuzz_path(data, len), &err) < 0)
        abort();
    print(root);
    json_decref(root);
}

static void accounting(const char *text, size_t len)
{
    char *copies[2] = {strndup(text, len), strndup(text, len)}, *table = NULL;
    size_t size;
    FILE *out = open_memstream(&table, &size);
    if (!copies[0] || !copies[1] || !out)
        abort();
    json_t *json = acct_json(copies[0]);
    char *dumped = json_dumps(json, 0);
    acct_print(out, copies[1]);
    if (fclose(out) || !size || !dumped || !isfinite(json_number_value(json_object_get(json, "emulated_gpu_hours"))))
        abort();
    free(dumped);
    json_decref(json);
    free(table);
    free(copies[0]);
    free(copies[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    switch ((enum kind)(*data % KINDS)) {
    case HANG: hang(data + 1, len - 1); break;
    case REPORT: report(data + 1, len - 1); break;
    case LOSSES: losses(data + 1, len - 1); break;
    case ACCT: accounting((const char *)data + 1, len - 1); break;
    case KINDS: break;
    }
    return 0;
}
