/* pmix_client.c - a plain PMIx client: says who it is, puts a value before each of two fences, gets other ranks' values.
 *
 *   pmix_client [--no-collect] [--nccl] [--fault KIND RANK] [--get RANK]...
 *
 * Every rank prints one line of what it was told and one a value it got. KIND: abort (PMIx_Abort), exit (ends in order
 * without PMIx_Finalize), kill (SIGKILL); the others wait for the event of it. --nccl: each rank also makes an NCCL
 * communicator of its own. Exit code 3: PMIx refused something.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pmix.h>

static pmix_proc_t self;
static bool collect = true;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(pmix_status_t status, const char *what)
{
    if (status == PMIX_SUCCESS)
        return;
    fprintf(stderr, "rank %u: %s: %s\n", self.rank, what, PMIx_Error_string(status));
    exit(3);
}

static long number(pmix_rank_t rank, const char *key)
{
    pmix_proc_t p;
    pmix_value_t *v;
    long n = -1;
    PMIX_LOAD_PROCID(&p, self.nspace, rank);
    check(PMIx_Get(&p, key, NULL, 0, &v), key);
    if (v->type == PMIX_UINT32)
        n = v->data.uint32;
    else if (v->type == PMIX_UINT16)
        n = v->data.uint16;
    else if (v->type == PMIX_PROC_RANK)
        n = v->data.rank;
    PMIX_VALUE_RELEASE(v);
    return n;
}

static char *text(pmix_rank_t rank, const char *key)
{
    pmix_proc_t p;
    pmix_value_t *v;
    PMIX_LOAD_PROCID(&p, self.nspace, rank);
    check(PMIx_Get(&p, key, NULL, 0, &v), key);
    char *copy = strdup(v->type == PMIX_STRING ? v->data.string : "?");
    PMIX_VALUE_RELEASE(v);
    return copy;
}

static void put(const char *key, const char *what)
{
    pmix_value_t v;
    char value[64];
    snprintf(value, sizeof value, "%s-of-%05u", what, self.rank);
    PMIX_VALUE_LOAD(&v, value, PMIX_STRING);
    check(PMIx_Put(PMIX_GLOBAL, key, &v), "PMIx_Put");
    check(PMIx_Commit(), "PMIx_Commit");
    PMIX_VALUE_DESTRUCT(&v);
}

static void fence(const pmix_proc_t *procs, size_t n)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    check(PMIx_Fence(procs, n, &info, 1), "PMIx_Fence");
}

/* --- events --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool registered, told;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t infos[], size_t n,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *arg)
{
    for (size_t i = 0; i < n; i++)
        if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_AFFECTED_PROC))
            printf("rank %u event %s of rank %u\n", self.rank, PMIx_Error_string(status), infos[i].value.data.proc->rank);
    fflush(stdout);
    pthread_mutex_lock(&lock);
    told = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

static void on_registered(pmix_status_t status, size_t id, void *arg)
{
    check(status, "PMIx_Register_event_handler");
    pthread_mutex_lock(&lock);
    registered = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void await(const bool *flag)
{
    pthread_mutex_lock(&lock);
    while (!*flag)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* The ranks that are left see the event though Prism ends them. */
static void fault(const char *kind, uint32_t rank)
{
    pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED, PMIX_ERR_PROC_TERM_WO_SYNC};
    signal(SIGTERM, SIG_IGN);
    PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, on_registered, NULL);
    await(&registered);
    fence(NULL, 0);
    if (self.rank != rank)
        await(&told);
    else if (!strcmp(kind, "abort"))
        PMIx_Abort(9, "a fault was asked for", NULL, 0);
    else if (!strcmp(kind, "exit"))
        _exit(0);
    else
        raise(SIGKILL);
    exit(0);
}

/* --- */

/* As pmix_client is built where there is no NCCL: a communicator of one rank is enough to be an NCCL program. */
static void call_nccl(void)
{
    typedef struct {
        char internal[128];
    } nccl_id;
    void *cuda = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL), *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
    int (*set_device)(int) = (int (*)(int))dlsym(cuda ? cuda : RTLD_DEFAULT, "cudaSetDevice");
    int (*get_id)(nccl_id *) = (int (*)(nccl_id *))dlsym(nccl ? nccl : RTLD_DEFAULT, "ncclGetUniqueId");
    int (*init)(void **, int, nccl_id, int) =
        (int (*)(void **, int, nccl_id, int))dlsym(nccl ? nccl : RTLD_DEFAULT, "ncclCommInitRank");
    nccl_id id;
    void *communicator;
    if (!set_device || !get_id || !init || set_device(0) || get_id(&id) || init(&communicator, 1, id, 0)) {
        fprintf(stderr, "rank %u: NCCL fails\n", self.rank);
        exit(3);
    }
}

static void say_who(void)
{
    pmix_rank_t all = PMIX_RANK_WILDCARD;
    char *host = text(self.rank, PMIX_HOSTNAME), *peers = text(all, PMIX_LOCAL_PEERS);
    printf("rank %u of %ld universe %ld nodes %ld node %ld local rank %ld of %ld on %s peers %s\n", self.rank, number(all, PMIX_JOB_SIZE),
           number(all, PMIX_UNIV_SIZE), number(all, PMIX_NUM_NODES), number(self.rank, PMIX_NODEID),
           number(self.rank, PMIX_LOCAL_RANK), number(all, PMIX_LOCAL_SIZE), host, peers);
    free(host);
    free(peers);
}

static void get(pmix_rank_t rank)
{
    char *first = text(rank, "test.first"), *second = text(rank, "test.second"), *host = text(rank, PMIX_HOSTNAME);
    /* Not PMIX_NODEID: libpmix 4.2 has it of local ranks only. */
    printf("rank %u got of rank %u: %s %s on %s local rank %ld\n", self.rank, rank, first, second, host, number(rank, PMIX_LOCAL_RANK));
    free(first);
    free(second);
    free(host);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    double began = now_ms();
    pmix_status_t rc = PMIx_Init(&self, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_Init: %s\n", PMIx_Error_string(rc));
        return 3;
    }
    double ready = now_ms();
    say_who();
    put("test.first", "one");
    fence(NULL, 0);
    put("test.second", "two");
    fence(NULL, 0);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--no-collect"))
            collect = false;
        else if (!strcmp(argv[i], "--nccl"))
            call_nccl();
        else if (!strcmp(argv[i], "--get") && i + 1 < argc)
            get((pmix_rank_t)atoi(argv[++i]));
        else if (!strcmp(argv[i], "--fault") && i + 2 < argc)
            fault(argv[i + 1], (uint32_t)atoi(argv[i + 2]));
    }
    double got = now_ms();
    /* A fence of some: ranks 0 and 1. */
    pmix_proc_t pair[2];
    PMIX_LOAD_PROCID(&pair[0], self.nspace, 0);
    PMIX_LOAD_PROCID(&pair[1], self.nspace, 1);
    if (self.rank < 2)
        fence(pair, 2);
    put("test.last", "three");
    printf("rank %u done, PMIx_Init %.1f ms, gets %.1f ms\n", self.rank, ready - began, got - ready);
    check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
}
