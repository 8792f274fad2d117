/* files.c - the small files and texts of a trace and of its surroundings. The first byte says which; the rest is the file. */
#include <stdlib.h>
#include <string.h>

#include "coll/ballast.h"
#include "coll/duration.h"
#include "prismd/report/accounting_text.h"
#include "prismd/predict/durations.h"
#include "synth/synth.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/path.h"

const uint32_t fuzz_unit_runs = 60000;

enum kind { DURATIONS, DURATIONS_MESSAGE, NETWORK, BALLAST, SYNTH, COMMENT, KINDS };

static void ask(const struct durations *d)
{
    struct graph_part part = {.op = 1, .datatype = 7, .peer = -1, .count = 1024};
    double ns = durations_find(d, 0, &part, 1);
    if (ns != ns)
        abort();
}

static void durations(const uint8_t *data, size_t len)
{
    struct durations *d = durations_load(fuzz_path(data, len), NULL);
    if (d)
        ask(d);
    durations_destroy(d);
}

static void durations_message(const uint8_t *data, size_t len)
{
    struct bytes_reader r = bytes_reader_init(data, len);
    struct bytes out = {0};
    struct durations *d = durations_create(), *back = durations_create();
    if (!durations_take(d, &r)) {
        ask(d);
        durations_put(d, &out);
        r = bytes_reader_init(out.data, out.len);
        if (durations_take(back, &r) || durations_count(back) != durations_count(d))
            abort();
    }
    bytes_free(&out);
    durations_destroy(back);
    durations_destroy(d);
}

static void network(const char *text, size_t len)
{
    struct coll_network net;
    struct coll_shape shape = {.size = 8, .nodes = 2};
    if (coll_network_parse(&net, text, len, "fuzz", NULL))
        return;
    for (int op = 1; op < 10; op++) {
        double seconds = coll_duration(&net, op, 1 << 20, &shape, 0, 3);
        if (!(seconds >= 0))
            abort();
    }
    coll_network_clear(&net);
}

static void ballast(const uint8_t *data, size_t len)
{
    struct coll_ballast b;
    if (coll_ballast_load(&b, fuzz_path(data, len), NULL))
        return;
    for (int size = 0; size < 40; size += 3)
        coll_ballast_missing(&b, size, size / 2, size & 3, size & 3);
    coll_ballast_clear(&b);
}

static void synth(const uint8_t *data, size_t len)
{
    struct synth_job job;
    if (synth_read(fuzz_path(data, len), &job, NULL))
        return;
    uint64_t work = (uint64_t)synth_world(&job) * job.layers * job.micro_batches * job.iterations;
    if (work < 20000 && (uint64_t)job.forward.n + job.backward.n + job.end.n < 100)
        graph_destroy(synth_build(&job, NULL));
    synth_clear(&job);
}

static void comment(const char *text)
{
    struct accounting_record r = {.world = 64, .gpus_per_node = 8, .devices = 2, .phase = "auto", .step = "1.0",
                                  .state = "capture", .assistants = -1, .prediction_error = -1, .exit_code = -1};
    char ours[ACCOUNTING_MAX], out[ACCOUNTING_MAX], twice[ACCOUNTING_MAX], value[16];
    const char *part = accounting_find(text);
    if (part) {
        accounting_value(part, "world", value, sizeof value);
        accounting_number(part, "emulated_gpu_hours");
    }
    accounting_print(&r, ours);
    struct accounting_share none = {0}, share, again;
    if (!accounting_merge(text, ours, &none, &share, out))
        accounting_merge(out, ours, &share, &again, twice);
    if (strlen(out) >= sizeof out)
        abort();
}

/* libconfig's scanner forgets the string that it stands in when a file ends in a syntax error; config_destroy does not know it.
 * The programs that read such files end then. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    enum kind kind = (enum kind)(*data % KINDS);
    char *text = malloc(len); /* exactly, so that a byte too far is noticed */
    if (!text)
        abort();
    memcpy(text, data + 1, len - 1);
    text[len - 1] = '\0';
    switch (kind) {
    case DURATIONS: durations(data + 1, len - 1); break;
    case DURATIONS_MESSAGE: durations_message(data + 1, len - 1); break;
    case NETWORK: network(text, len - 1); break;
    case BALLAST: ballast(data + 1, len - 1); break;
    case SYNTH: synth(data + 1, len - 1); break;
    case COMMENT: comment(text); break;
    case KINDS: break;
    }
    free(text);
    return 0;
}
