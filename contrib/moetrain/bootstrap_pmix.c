#include "bootstrap_pmix.h"

#include "check.h"

#if __has_include(<pmix.h>)

#include <dlfcn.h>
#include <pmix.h>
#include <string.h>

/* Loaded with dlopen, so that moetrain runs where PMIx is not installed. Values are laid out by hand: the
 * helper macros of newer headers call into the library. */
static struct {
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
    pmix_status_t (*finalize)(const pmix_info_t *, size_t);
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t);
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **);
    const char *(*error_string)(pmix_status_t);
    pmix_proc_t self;
    int timeout;
} pmix;

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);
    if (!address)
        die("PMIx: libpmix.so.2 has no %s: %s", name, dlerror());
    return address;
}

static void load(void)
{
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        die("PMIX_RANK is set, RANK is not, and PMIx cannot be loaded: %s; install libpmix2", dlerror());
    *(void **)&pmix.init = symbol(library, "PMIx_Init");
    *(void **)&pmix.finalize = symbol(library, "PMIx_Finalize");
    *(void **)&pmix.put = symbol(library, "PMIx_Put");
    *(void **)&pmix.commit = symbol(library, "PMIx_Commit");
    *(void **)&pmix.fence = symbol(library, "PMIx_Fence");
    *(void **)&pmix.get = symbol(library, "PMIx_Get");
    *(void **)&pmix.error_string = symbol(library, "PMIx_Error_string");
}

static void check(pmix_status_t status, const char *what, const char *key)
{
    if (status != PMIX_SUCCESS)
        die("PMIx: %s %s: %s", what, key, pmix.error_string(status));
}

/* A number of the job (rank PMIX_RANK_WILDCARD) or of a rank; fallback if the server has none. */
static int number_of(pmix_rank_t rank, const char *key, int fallback)
{
    pmix_proc_t proc = pmix.self;
    pmix_value_t *value = NULL;
    int number = fallback;
    proc.rank = rank;
    if (pmix.get(&proc, key, NULL, 0, &value) != PMIX_SUCCESS || !value)
        return fallback;
    if (value->type == PMIX_UINT32)
        number = (int)value->data.uint32;
    else if (value->type == PMIX_UINT16)
        number = (int)value->data.uint16;
    else if (value->type == PMIX_INT)
        number = value->data.integer;
    return number; /* the value is a few bytes and stays; freeing it needs a macro of the header in use */
}

struct pmix_identity bootstrap_pmix_open(long timeout_seconds)
{
    struct pmix_identity identity;
    load();
    pmix.timeout = (int)timeout_seconds;
    check(pmix.init(&pmix.self, NULL, 0), "init", "");
    identity.rank = (int)pmix.self.rank;
    identity.world = number_of(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, -1);
    identity.local_rank = number_of(pmix.self.rank, PMIX_LOCAL_RANK, -1);
    if (identity.world < 1)
        die("PMIx: the server does not know the size of the job (%s)", PMIX_JOB_SIZE);
    return identity;
}

void bootstrap_pmix_publish(const char *key, const void *data, size_t size)
{
    pmix_value_t value;
    char copy[256];
    if (size > sizeof copy)
        die("PMIx: %s is too large to publish (%zu bytes)", key, size);
    memcpy(copy, data, size);
    memset(&value, 0, sizeof value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = copy;
    value.data.bo.size = size;
    check(pmix.put(PMIX_GLOBAL, key, &value), "put", key);
}

static pmix_info_t make_info(const char *key)
{
    pmix_info_t info;
    memset(&info, 0, sizeof info);
    strncpy(info.key, key, sizeof info.key - 1);
    return info;
}

void bootstrap_pmix_exchange(void)
{
    pmix_info_t info[2] = {make_info(PMIX_COLLECT_DATA), make_info(PMIX_TIMEOUT)};
    info[0].value.type = PMIX_BOOL;
    info[0].value.data.flag = true;
    info[1].value.type = PMIX_INT;
    info[1].value.data.integer = pmix.timeout;
    check(pmix.commit(), "commit", "");
    check(pmix.fence(NULL, 0, info, 2), "fence", "");
}

void bootstrap_pmix_fetch(const char *key, int owner, void *data, size_t size)
{
    pmix_proc_t proc = pmix.self;
    pmix_value_t *value = NULL;
    proc.rank = (pmix_rank_t)owner;
    check(pmix.get(&proc, key, NULL, 0, &value), "get", key);
    if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size != size)
        die("PMIx: %s of rank %d has another type or size than expected", key, owner);
    memcpy(data, value->data.bo.bytes, size);
}

void bootstrap_pmix_close(void)
{
    check(pmix.finalize(NULL, 0), "finalize", "");
}

#else

struct pmix_identity bootstrap_pmix_open(long timeout_seconds)
{
    die("PMIX_RANK is set and RANK is not, but this moetrain was built without pmix.h: install libpmix-dev "
        "and rebuild");
}

void bootstrap_pmix_publish(const char *key, const void *value, size_t size)
{
}

void bootstrap_pmix_exchange(void)
{
}

void bootstrap_pmix_fetch(const char *key, int owner, void *value, size_t size)
{
}

void bootstrap_pmix_close(void)
{
}

#endif
