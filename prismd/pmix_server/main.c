/* main.c - prism-pmix FD: the PMIx server of one logical node, a child of prismd (prismd/pmix/pmix_node.h).
 *
 * libpmix is in a process of its own, as it has one server a process and a logical node wants one (which ranks are local
 * is a property of the server), and so that prismd neither links it nor shares signals and threads with it. Callbacks run
 * in libpmix's thread and turn into messages; the main thread turns prismd's answers into libpmix's calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "prismd/pmix_server/job.h"
#include "prismd/pmix_server/wire.h"

static struct job job;
static uint8_t *connected; /* by live rank's index; used in libpmix's thread only */

/* A request of libpmix that prismd answers; its address is the token. */
struct request {
    pmix_modex_cbfunc_t modex;
    pmix_op_cbfunc_t op;
    void *arg;
    /* A fence whose local ranks are being asked what they have put. */
    struct bytes head, puts, data;
    uint32_t asked, nputs;
};

/* A question to libpmix what a rank has put. */
struct question {
    struct request *request; /* of a fence or finalize; NULL = prismd's, with `token` */
    uint64_t token;
    uint32_t rank;
};

static struct request *new_request(pmix_modex_cbfunc_t modex, pmix_op_cbfunc_t op, void *arg)
{
    struct request *q = calloc(1, sizeof *q);
    if (!q)
        abort();
    *q = (struct request){.modex = modex, .op = op, .arg = arg};
    bytes_put_u64(&q->head, (uint64_t)(uintptr_t)q);
    return q;
}

static void free_request(struct request *q)
{
    bytes_free(&q->head);
    bytes_free(&q->puts);
    bytes_free(&q->data);
    free(q);
}

static uint32_t rank_of(const pmix_proc_t *p)
{
    return p->rank == PMIX_RANK_WILDCARD ? PMIX_WIRE_EVERYONE : p->rank;
}

static uint8_t *connection_of(uint32_t rank)
{
    for (uint32_t i = 0; i < job.nlive; i++)
        if (job.live[i] == rank)
            return &connected[i];
    return NULL;
}

/* --- what a rank has put --- */

static void send_fence(struct request *q)
{
    struct bytes b = {0};
    bytes_put(&b, q->head.data, q->head.len);
    bytes_put_u32(&b, q->nputs);
    bytes_put(&b, q->puts.data, q->puts.len);
    bytes_put(&b, q->data.data, q->data.len);
    wire_send(PMIX_WIRE_FENCE, &b);
    bytes_free(&b);
}

static void send_finalized(struct request *q)
{
    struct bytes b = {0};
    bytes_put(&b, q->head.data, q->head.len);
    bytes_put(&b, q->data.data, q->data.len);
    wire_send(PMIX_WIRE_FINALIZED, &b);
    bytes_free(&b);
}

static void on_put_known(pmix_status_t status, char *data, size_t len, void *arg)
{
    struct question *a = arg;
    struct request *q = a->request;
    bool found = status == PMIX_SUCCESS && len;
    if (!q) {
        struct bytes b = {0};
        bytes_put_u64(&b, a->token);
        bytes_put_u32(&b, found ? PMIX_WIRE_FOUND : PMIX_WIRE_NOT_FOUND);
        bytes_put(&b, data, found ? len : 0);
        wire_send(PMIX_WIRE_TOLD, &b);
        bytes_free(&b);
    } else if (q->op) {
        bytes_put(&q->data, data, found ? len : 0);
        send_finalized(q);
    } else {
        if (found) {
            bytes_put_u32(&q->puts, a->rank);
            bytes_put_u64(&q->puts, len);
            bytes_put(&q->puts, data, len);
            q->nputs++;
        }
        if (!--q->asked)
            send_fence(q);
    }
    free(a);
}

static void ask(struct request *q, uint64_t token, uint32_t rank)
{
    struct question *a = calloc(1, sizeof *a);
    pmix_proc_t p;
    if (!a)
        abort();
    *a = (struct question){q, token, rank};
    PMIX_LOAD_PROCID(&p, job.name, rank);
    pmix_status_t rc = PMIx_server_dmodex_request(&p, on_put_known, a);
    if (rc != PMIX_SUCCESS)
        on_put_known(rc, NULL, 0, a);
}

/* --- libpmix's callbacks --- */

static pmix_status_t on_connected(const pmix_proc_t *p, void *object, pmix_info_t infos[], size_t n, pmix_op_cbfunc_t op,
                                  void *arg)
{
    uint8_t *c = connection_of(p->rank);
    if (c)
        *c = 1;
    struct bytes b = {0};
    bytes_put_u32(&b, p->rank);
    wire_send(PMIX_WIRE_CONNECTED, &b);
    bytes_free(&b);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *p, void *object, pmix_op_cbfunc_t op, void *arg)
{
    struct request *q = new_request(NULL, op, arg);
    bytes_put_u32(&q->head, p->rank);
    if (job.record)
        ask(q, 0, p->rank);
    else
        send_finalized(q);
    return PMIX_SUCCESS;
}

static pmix_status_t on_abort(const pmix_proc_t *p, void *object, int status, const char message[], pmix_proc_t procs[],
                              size_t n, pmix_op_cbfunc_t op, void *arg)
{
    struct bytes b = {0};
    bytes_put_u32(&b, p->rank);
    bytes_put_u32(&b, (uint32_t)status);
    bytes_put_string(&b, message ? message : "");
    wire_send(PMIX_WIRE_ABORT, &b);
    bytes_free(&b);
    return PMIX_OPERATION_SUCCEEDED;
}

/* Every local participant is there. In capture what each has put so far goes along. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t infos[], size_t ninfos, char *data,
                              size_t len, pmix_modex_cbfunc_t modex, void *arg)
{
    struct request *q = new_request(modex, NULL, arg);
    bool everyone = false;
    bytes_put_u32(&q->head, (uint32_t)nprocs);
    for (size_t i = 0; i < nprocs; i++) {
        bytes_put_u32(&q->head, rank_of(&procs[i]));
        everyone |= procs[i].rank == PMIX_RANK_WILDCARD;
    }
    bytes_put(&q->data, data, len);
    free(data);
    q->asked = 1; /* until all are asked */
    for (uint32_t i = 0; job.record && i < job.nlive; i++) {
        bool member = everyone;
        for (size_t k = 0; k < nprocs && !member; k++)
            member = procs[k].rank == job.live[i];
        if (member && connected[i]) {
            q->asked++;
            ask(q, 0, job.live[i]);
        }
    }
    if (!--q->asked) /* answers come in this thread, later */
        send_fence(q);
    return PMIX_SUCCESS;
}

static const char *required_key(const pmix_info_t infos[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (PMIX_CHECK_KEY(&infos[i], PMIX_REQUIRED_KEY) && infos[i].value.type == PMIX_STRING && infos[i].value.data.string)
            return infos[i].value.data.string;
    return "";
}

static pmix_status_t on_get(const pmix_proc_t *p, const pmix_info_t infos[], size_t n, pmix_modex_cbfunc_t modex, void *arg)
{
    struct request *q = new_request(modex, NULL, arg);
    bytes_put_u32(&q->head, p->rank);
    bytes_put_string(&q->head, required_key(infos, n));
    wire_send(PMIX_WIRE_GET, &q->head);
    return PMIX_SUCCESS;
}

/* Handlers live in the clients; the server has nothing to prepare for them. */
static pmix_status_t on_register_events(pmix_status_t *codes, size_t n, const pmix_info_t infos[], size_t ninfos,
                                        pmix_op_cbfunc_t op, void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_deregister_events(pmix_status_t *codes, size_t n, pmix_op_cbfunc_t op, void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_server_module_t module = {
    .client_connected2 = on_connected,
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence_nb = on_fence,
    .direct_modex = on_get,
    .register_events = on_register_events,
    .deregister_events = on_deregister_events,
};

/* --- prismd's messages --- */

static pmix_status_t status_of(uint32_t result)
{
    static const pmix_status_t all[] = {
        [PMIX_WIRE_FOUND] = PMIX_SUCCESS, [PMIX_WIRE_NOT_FOUND] = PMIX_ERR_NOT_FOUND, [PMIX_WIRE_GONE] = PMIX_ERR_LOST_CONNECTION};
    return result < sizeof all / sizeof *all ? all[result] : PMIX_ERROR;
}

static void release(void *data)
{
    free(data);
}

/* FENCED, ANSWER, FINISH. */
static void answered(struct bytes_reader *r, bool finish)
{
    struct request *q = (struct request *)(uintptr_t)bytes_get_u64(r);
    uint32_t result = finish ? 0 : bytes_get_u32(r);
    size_t len = r->len - r->pos;
    if (finish) {
        q->op(PMIX_SUCCESS, q->arg);
    } else {
        char *copy = malloc(len + 1);
        if (!copy)
            abort();
        memcpy(copy, r->data + r->pos, len);
        q->modex(status_of(result), copy, len, q->arg, release, copy);
    }
    free_request(q);
}

static void on_notified(pmix_status_t status, void *arg)
{
    free(arg);
}

static void tell_lost(struct bytes_reader *r)
{
    pmix_proc_t *p = calloc(1, sizeof *p);
    pmix_info_t info;
    if (!p)
        abort();
    PMIX_LOAD_PROCID(p, job.name, bytes_get_u32(r));
    pmix_status_t status = bytes_get_u32(r) ? PMIX_ERR_PROC_TERM_WO_SYNC : PMIX_ERR_PROC_ABORTED;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, p, PMIX_PROC);
    PMIx_Notify_event(status, p, PMIX_RANGE_LOCAL, &info, 1, on_notified, p);
}

static void serve(void)
{
    struct bytes body = {0};
    for (;;) {
        enum pmix_wire_type type = wire_receive(&body);
        struct bytes_reader r = bytes_reader_init(body.data, body.len);
        if (type == PMIX_WIRE_ASK) {
            uint64_t token = bytes_get_u64(&r);
            ask(NULL, token, bytes_get_u32(&r));
        } else if (type == PMIX_WIRE_LOST) {
            tell_lost(&r);
        } else if (type == PMIX_WIRE_FENCED || type == PMIX_WIRE_ANSWER || type == PMIX_WIRE_FINISH) {
            answered(&r, type == PMIX_WIRE_FINISH);
        } else {
            wire_fail("unknown message %d from prismd", (int)type);
        }
    }
}

/* "OpenPMIx 4.2.2rc2, repo rev: ..." is 4.2. */
static void read_version(char version[32])
{
    const char *text = PMIx_Get_version();
    unsigned major = 0, minor = 0;
    text += strcspn(text, "0123456789");
    sscanf(text, "%u.%u", &major, &minor);
    snprintf(version, 32, "%u.%u", major, minor);
}

int main(int argc, char **argv)
{
    struct bytes b = {0};
    char version[32];
    read_version(version);
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        printf("prism-pmix with libpmix %s\n", version);
        return 0;
    }
    if (argc != 2) {
        fprintf(stderr, "prism-pmix: started by prismd only\n");
        return PRISM_EXIT_USAGE;
    }
    wire_open(atoi(argv[1]));
    if (wire_receive(&b) != PMIX_WIRE_JOB)
        wire_fail("prismd does not say which job");
    job_read(&job, b.data, b.len);
    connected = calloc(job.nlive + 1u, 1);
    if (!connected)
        abort();
    uint32_t port = job_start(&job, &module);
    bytes_clear(&b);
    bytes_put_u32(&b, port);
    bytes_put_string(&b, version);
    wire_send(PMIX_WIRE_READY, &b);
    bytes_free(&b);
    serve();
}
