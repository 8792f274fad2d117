/* device.h - the devices that the program sees: those of a node of the emulated cluster, all of them the rank's one device.
 *
 * 1. Which. prismd sets PRISM_DEVICE, the id of the rank's physical device, and PRISM_LOGICAL_DEVICES, the number G of a
 *    node's devices. NVML shows G. CUDA shows the entries of the program's own CUDA_VISIBLE_DEVICES (0 .. G-1 or the UUIDs
 *    of section 3, up to the first that is neither, as CUDA reads it), G without one; it is read at CUDA's start, so that a
 *    wrapper script or the program itself may narrow it to CUDA_VISIBLE_DEVICES=$SLURM_LOCALID, say. Without the two
 *    variables nothing is mapped. Processes of the rank that never become it (helpers, compilers) see the same.
 * 2. Mapping. An ordinal (and CUdevice) 0 .. count-1 that goes into CUDA becomes the real device 0, any other one that
 *    CUDA does not have. What comes out of CUDA as device 0 is the ordinal that the program named last: cudaSetDevice,
 *    cuDevicePrimaryCtxRetain, cuCtxCreate, by this thread, or else by any. So programs that use one ordinal a process
 *    see what they would on the cluster. A program that uses several has one context for all; it is told the last.
 * 3. Identity. Every logical device has a PCI address and a UUID of its own, made from the logical node and the index in
 *    it alone, so they are the same in all phases and distinct in the world's ranks.
 * 4. Who. NVIDIA's libraries (libcu*, libnv*, libnccl*, libnpp*: the CUDA runtime itself, those with a static runtime
 *    inside) get real answers, or their tables of contexts would hold one context under many devices; told by the caller's
 *    return address. So does whatever asks for the driver's export tables, as only a CUDA runtime does: NVIDIA's static runtime in a
 *    program of its own fails with logical devices (seen on an H200), and with one device works as number 0. Ordinals that they pass in are mapped all the same, as the program's may reach them.
 */
#ifndef PRISM_PRELOAD_DEVICE_H
#define PRISM_PRELOAD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

#include "preload/preload.h"

#define DEVICES_MAX 256

enum device_mapping { DEVICE_UNDECIDED, DEVICE_REAL, DEVICE_LOGICAL };
extern int device_mapping_; /* enum device_mapping, atomic */
int device_decide(void);

/* False: no logical devices here, everything below is the identity. */
static inline bool device_is_mapped(void)
{
    int m = __atomic_load_n(&device_mapping_, __ATOMIC_ACQUIRE);
    return (m == DEVICE_UNDECIDED ? device_decide() : m) == DEVICE_LOGICAL;
}

/* What CUDA_VISIBLE_DEVICES must be for CUDA; NULL if it is to be left alone. Lives for ever. */
const char *device_physical(void);
/* Devices that CUDA shows (fixed by the first call), and those of the node. 0 if not mapped. */
int device_count(void);
int device_node_count(void);
/* The real ordinal for the program's. */
int device_real(int ordinal);
/* True if that is code of NVIDIA's (4). */
bool device_is_native(const void *caller);
/* True if the caller is to be answered in logical devices. To be used in the exported function itself. */
#define device_is_logical() device_is_logical_to(__builtin_return_address(0))
bool device_is_logical_to(const void *caller);
/* The caller's library or program has a CUDA runtime inside: from now on it is one of section 4. */
void device_note_runtime(const void *caller);

/* --- the program's choice --- */

/* The calling thread's current device as cudaGetDevice has it; 0 until it chooses. */
int device_current(void);
void device_set_current(int ordinal); /* names it, too */
/* The ordinal named last, and naming it (out of range: ignored). */
int device_named(void);
void device_name(int ordinal);
/* Its primary context is brought up, in the program's eyes; or reset. */
void device_activate(int ordinal, bool active);
bool device_is_active(int ordinal);

/* Whether the context that the runtime's cudaSetDevice made current in this thread is so still; nothing but the driver's
 * own calls changes that: in a thread (device_unbind), or by ending contexts in all (device_unbind_all). */
bool device_is_bound(void);
void device_bind(void);
void device_unbind(void);
void device_unbind_all(void);

/* --- identity; index: in the node --- */

int device_index(int ordinal);
struct device_pci {
    unsigned domain, bus, device;
};
struct device_pci device_pci(int index);
/* "7072:01:00.0"; cuts it at length as snprintf does. */
void device_pci_text(int index, char *text, size_t length);
void device_uuid(int index, CUuuid *uuid);
#define DEVICE_UUID_TEXT 41 /* "GPU-", 36 characters, 0 */
void device_uuid_text(int index, char text[DEVICE_UUID_TEXT]);
/* -1 if it is none of ours. */
int device_by_pci_text(const char *text);
int device_by_uuid_text(const char *text);
/* The CUDA ordinal of a node's device, -1 if it is not visible. */
int device_ordinal(int index);

/* --- places of memory --- */

CUmemLocation device_map_location(CUmemLocation location);
/* The same for an allocation's: returns p or, filled, copy. p may be NULL. */
const CUmemAllocationProp *device_map_allocation(const CUmemAllocationProp *p, CUmemAllocationProp *copy);
/* The program's access list as one for the real device: `to` (room for n) gets the most that any of the ordinals has;
 * taking access from a device that was not named leaves the real one alone. Returns the number of entries. */
size_t device_map_access(const CUmemAccessDesc *from, size_t n, CUmemAccessDesc *to);

#endif
