#include "common/log.h"
#include "preload/cuda/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload/real.h"

#define PCI_DOMAIN 0x7072u /* no real machine's: those number their domains from 0 */
#define INVALID    (DEVICES_MAX + 1)

int device_mapping_;

static pthread_once_t decided = PTHREAD_ONCE_INIT, counted = PTHREAD_ONCE_INIT;
static char *physical;
static int node_count, node;
static int visible[DEVICES_MAX], count; /* node indices, by ordinal */

/* --- which devices there are --- */

static int number(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

static void decide(void)
{
    const char *id = getenv("PRISM_DEVICE");
    int n = number("PRISM_LOGICAL_DEVICES"), mapping = DEVICE_REAL;
    if (!getauxval(AT_SECURE) && id && *id && n > 0) {
        physical = strdup(id);
        node_count = n < DEVICES_MAX ? n : DEVICES_MAX;
        node = number("PRISM_RANK") / node_count;
        mapping = physical ? DEVICE_LOGICAL : DEVICE_REAL;
    }
    __atomic_store_n(&device_mapping_, mapping, __ATOMIC_RELEASE);
}

int device_decide(void)
{
    pthread_once(&decided, decide);
    return __atomic_load_n(&device_mapping_, __ATOMIC_ACQUIRE);
}

const char *device_physical(void)
{
    return device_is_mapped() ? physical : NULL;
}

int device_node_count(void)
{
    return device_is_mapped() ? node_count : 0;
}

/* One entry of CUDA_VISIBLE_DEVICES as an index in the node, -1 for what is none. */
static int parse_entry(const char *entry)
{
    char *end;
    if (!strncmp(entry, "GPU-", 4))
        return device_by_uuid_text(entry);
    long k = strtol(entry, &end, 10);
    return end == entry || (*end && *end != ',') || k < 0 || k >= node_count ? -1 : (int)k;
}

static void count_visible(void)
{
    const char *own = getenv("CUDA_VISIBLE_DEVICES");
    if (!device_is_mapped())
        return;
    if (!own) {
        while (count < node_count) {
            visible[count] = count;
            count++;
        }
        return;
    }
    for (const char *entry = own; entry && *entry && count < DEVICES_MAX; count++) {
        if ((visible[count] = parse_entry(entry)) < 0)
            break;
        entry = strchr(entry, ',');
        entry += entry != NULL;
    }
}

int device_count(void)
{
    if (!device_is_mapped())
        return 0;
    pthread_once(&counted, count_visible);
    return count;
}

int device_real(int ordinal)
{
    if (!device_is_mapped() || ordinal < 0)
        return ordinal;
    return ordinal < device_count() ? 0 : INVALID;
}

/* --- who asks --- */

/* Answers by return address, so that the search is made once a place: address << 1 | native. A library that is unloaded
 * leaves its answers; one of the other kind at the very same addresses would be needed to make them wrong. */
#define PLACES 4096
static uint64_t places[PLACES];

static bool find_native(const void *caller);

/* Objects with a CUDA runtime inside, by their base. */
#define RUNTIMES 64
static const void *runtimes[RUNTIMES];
static int nruntimes;

static bool has_runtime(const void *base)
{
    for (int i = 0; i < __atomic_load_n(&nruntimes, __ATOMIC_ACQUIRE); i++)
        if (runtimes[i] == base)
            return true;
    return false;
}

static bool is_program(const void *base)
{
    Dl_info info;
    return dladdr((const void *)getauxval(AT_ENTRY), &info) && info.dli_fbase == base;
}

void device_note_runtime(const void *caller)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *local = getenv("LOCAL_RANK");
    Dl_info info;
    if (!device_is_mapped() || !dladdr(caller, &info) || find_native(caller))
        return;
    pthread_mutex_lock(&lock);
    if (nruntimes < RUNTIMES) {
        runtimes[nruntimes] = info.dli_fbase;
        __atomic_add_fetch(&nruntimes, 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < PLACES; i++)
        __atomic_store_n(&places[i], 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    if (is_program(info.dli_fbase) && local && strcmp(local, "0"))
        log_warn("%s has the CUDA runtime linked in statically, so it sees its one real device as number 0: cudaSetDevice(%s) will "
                 "fail; link it with -cudart shared", info.dli_fname, local);
}

static bool find_native(const void *caller)
{
    static const char *const prefixes[] = {"libcu", "libnv", "libnccl", "libnpp"};
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname)
        return false;
    if (has_runtime(info.dli_fbase))
        return true;
    const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

static bool is_native(const void *caller)
{
    uint64_t address = (uint64_t)(uintptr_t)caller;
    uint64_t *place = &places[(address ^ address >> 12) % PLACES];
    uint64_t known = __atomic_load_n(place, __ATOMIC_RELAXED);
    if (known >> 1 == address)
        return known & 1;
    bool native = find_native(caller);
    __atomic_store_n(place, address << 1 | native, __ATOMIC_RELAXED);
    return native;
}

bool device_is_native(const void *caller)
{
    return is_native(caller);
}

bool device_is_logical_to(const void *caller)
{
    return device_is_mapped() && !frame.depth && !is_native(caller);
}

/* --- the program's choice --- */

static PRISM_THREAD int current, named_here; /* named_here: ordinal + 1, 0 = none by this thread */
static int named;                            /* atomic */
static unsigned char active[DEVICES_MAX];    /* atomic */
static int nactive;                          /* atomic */

int device_current(void)
{
    return current;
}

int device_named(void)
{
    return named_here ? named_here - 1 : __atomic_load_n(&named, __ATOMIC_RELAXED);
}

void device_name(int ordinal)
{
    if (ordinal < 0 || ordinal >= device_count())
        return;
    named_here = ordinal + 1;
    __atomic_store_n(&named, ordinal, __ATOMIC_RELAXED);
}

void device_set_current(int ordinal)
{
    current = ordinal;
    if (named_here != ordinal + 1 || __atomic_load_n(&named, __ATOMIC_RELAXED) != ordinal)
        device_name(ordinal);
    if (!__atomic_load_n(&active[ordinal], __ATOMIC_RELAXED))
        device_activate(ordinal, true);
}

void device_activate(int ordinal, bool on)
{
    if (ordinal >= 0 && ordinal < device_count() && __atomic_exchange_n(&active[ordinal], on, __ATOMIC_RELAXED) != on)
        __atomic_add_fetch(&nactive, on ? 1 : -1, __ATOMIC_RELAXED);
}

/* What brings a context up without a choice does so on device 0. */
bool device_is_active(int ordinal)
{
    if (ordinal < 0 || ordinal >= device_count())
        return false;
    return __atomic_load_n(&nactive, __ATOMIC_RELAXED) ? __atomic_load_n(&active[ordinal], __ATOMIC_RELAXED) : !ordinal;
}

static int contexts = 1;               /* atomic: which of the sets of contexts that there were */
static PRISM_THREAD int bound_to; /* the set then */

bool device_is_bound(void)
{
    return bound_to == __atomic_load_n(&contexts, __ATOMIC_RELAXED);
}

void device_bind(void)
{
    bound_to = __atomic_load_n(&contexts, __ATOMIC_RELAXED);
}

void device_unbind(void)
{
    bound_to = 0;
}

void device_unbind_all(void)
{
    __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
}

/* --- identity --- */

int device_index(int ordinal)
{
    return ordinal >= 0 && ordinal < device_count() ? visible[ordinal] : 0;
}

int device_ordinal(int index)
{
    for (int i = 0; i < device_count(); i++)
        if (visible[i] == index)
            return i;
    return -1;
}

struct device_pci device_pci(int index)
{
    return (struct device_pci){.domain = PCI_DOMAIN, .bus = (unsigned)index / 32 + 1, .device = (unsigned)index % 32};
}

void device_pci_text(int index, char *text, size_t length)
{
    struct device_pci p = device_pci(index);
    snprintf(text, length, "%04X:%02X:%02X.0", p.domain, p.bus, p.device);
}

int device_by_pci_text(const char *text)
{
    struct device_pci p = {0};
    if (!text || sscanf(text, "%x:%x:%x", &p.domain, &p.bus, &p.device) != 3 || p.domain != PCI_DOMAIN)
        return -1;
    int index = ((int)p.bus - 1) * 32 + (int)p.device;
    return p.bus && p.device < 32 && index < device_node_count() ? index : -1;
}

/* A version 8 UUID (RFC 9562: of a vendor's own making): "Prism", node, index. */
void device_uuid(int index, CUuuid *uuid)
{
    unsigned char bytes[16] = {'P', 'r', 'i', 's', 'm', 0, 0x80, 0, 0x80};
    for (int i = 0; i < 4; i++)
        bytes[10 + i] = (unsigned char)((unsigned)node >> (24 - 8 * i));
    bytes[14] = (unsigned char)(index >> 8);
    bytes[15] = (unsigned char)index;
    memcpy(uuid->bytes, bytes, sizeof bytes);
}

void device_uuid_text(int index, char text[DEVICE_UUID_TEXT])
{
    CUuuid uuid;
    device_uuid(index, &uuid);
    char *at = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
}

/* In CUDA_VISIBLE_DEVICES a beginning is enough if it is one device's. */
int device_by_uuid_text(const char *text)
{
    size_t length = strcspn(text, ",");
    int found = -1;
    for (int i = 0; i < device_node_count(); i++) {
        char whole[DEVICE_UUID_TEXT];
        device_uuid_text(i, whole);
        if (length > 4 && !strncmp(whole, text, length)) {
            if (found >= 0)
                return -1;
            found = i;
        }
    }
    return found;
}

/* --- places of memory --- */

CUmemLocation device_map_location(CUmemLocation location)
{
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        location.id = device_real(location.id);
    return location;
}

const CUmemAllocationProp *device_map_allocation(const CUmemAllocationProp *p, CUmemAllocationProp *copy)
{
    if (!p || !device_is_mapped())
        return p;
    *copy = *p;
    copy->location = device_map_location(p->location);
    return copy;
}

size_t device_map_access(const CUmemAccessDesc *from, size_t n, CUmemAccessDesc *to)
{
    CUmemAccessDesc *ours = NULL;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        bool device = from[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && !device_real(from[i].location.id);
        if (device && !from[i].flags && from[i].location.id != device_named())
            continue;
        if (device && ours) {
            ours->flags |= from[i].flags;
            continue;
        }
        to[k] = from[i];
        to[k].location = device_map_location(from[i].location);
        ours = device ? &to[k] : ours;
        k++;
    }
    return k;
}
