/* policy.h - what a site allows emulated jobs, and what their accounting strings look like. Pure: knows nothing of Slurm.
 *
 * It runs inside slurmctld on text that users wrote: everything has a fixed size, nothing is allocated but what
 * parse_ranks needs for a list of at most POLICY_VALUE_MAX characters, and what does not fit is refused, never cut.
 *
 *   [policy]                              # in prism.conf; other sections are other programs' and are skipped
 *   max-ranks = 16384                     # largest world
 *   max-gpus = 16                         # most physical GPUs of one job
 *   partitions = gpu,debug                # where emulated jobs may run
 *   users = alice,bob                     # who may emulate: a user listed here or an account listed below
 *   accounts = research,prism
 *   default-partition = gpu               # for jobs that name none; likewise
 *   default-qos = emulation
 *   default-reservation = prism
 *   plain-jobs = refuse                   # steps may not be emulated in jobs that were not asked for emulated; default allow
 *   licenses = auto                       # auto: those of prism_rank and prism_gpu that slurm.conf declares; all; none
 *
 * Blank lines and # comments are skipped; an unknown key, a key twice or a value that is not allowed is an error.
 */
#ifndef PRISM_SPANK_POLICY_H
#define PRISM_SPANK_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define POLICY_VALUE_MAX 1024 /* bytes of a value, with the final NUL */
#define POLICY_FILE_MAX  65536

enum policy_licences { POLICY_LICENCES_AUTO, POLICY_LICENCES_ALL, POLICY_LICENCES_NONE };

struct policy {
    uint64_t max_ranks, max_gpus; /* 0 = no limit */
    char partitions[POLICY_VALUE_MAX], users[POLICY_VALUE_MAX], accounts[POLICY_VALUE_MAX]; /* "a,b"; "" = everyone */
    char default_partition[POLICY_VALUE_MAX], default_qos[POLICY_VALUE_MAX], default_reservation[POLICY_VALUE_MAX];
    enum policy_licences licences;
    bool refuse_plain_jobs;
};

/* text need not end with a NUL. -1: err names the line; *policy is then unchanged. */
int policy_parse(const char *text, size_t len, struct policy *policy, struct prism_error *err);

/* --- the request, as the variables that SPANK plugins hand to slurmctld tell it --- */

/* Names in job_desc_msg_t.spank_job_env. The first is the option as the user wrote it, with or without value; the second
 * what spank_client.c says of a job that cli_filter has shaped (prologs see it as SPANK_PRISM_SHAPE). */
#define POLICY_OPTION_VARIABLE "_SLURM_SPANK_OPTION_prism_prism_emulate"
#define POLICY_SHAPE_VARIABLE  "PRISM_SHAPE"

enum policy_asked { POLICY_PLAIN, POLICY_UNSHAPED, POLICY_SHAPED };

#define POLICY_SANDBOX_MAX 256

struct policy_shape {
    uint32_t world, nodes, gpus_per_node;  /* of the emulated job */
    uint32_t devices;                      /* physical; 0 = not known */
    uint32_t sandbox_ranks;                /* how many */
    char sandbox[POLICY_SANDBOX_MAX];      /* which, "0,17"; "" when the list is longer */
    int assistants;                        /* -1 = not given */
    char phase[16];                        /* asked for */
};

/* "world=64,nodes=8,gpus_per_node=8,devices=2,sandbox_ranks=6,sandbox=0+17+40-43,assistants=1,phase=auto": in any order, each
 * at most once, world, nodes and gpus_per_node always; a list's commas are written as +. */
#define POLICY_SHAPE_MAX 512
int policy_shape_parse(const char *text, struct policy_shape *shape, struct prism_error *err);
/* The same text. -1 when it does not fit; POLICY_SHAPE_MAX always does. */
int policy_shape_print(const struct policy_shape *shape, char *out, size_t size);

/* What a job asks for. env: n strings NAME=VALUE, entries may be NULL. UNSHAPED: the option is there, but the client had
 * no cli_filter; world is then that of the option, 0 when it named none. -1: err names what is malformed. */
int policy_read_request(char *const *env, uint32_t n, enum policy_asked *asked, struct policy_shape *shape,
                        struct prism_error *err);

/* --- decisions --- */

struct policy_job {
    const char *user, *account, *partition; /* NULL = not known, not named */
    uint64_t ranks, gpus;                   /* 0 = not known */
    uint64_t rank_licences, gpu_licences;   /* as declared; 0 = not declared */
    bool is_step, is_plain; /* a step of a job that runs; of one that was not asked for emulated */
};
/* -1: err holds the line for the user: what is asked for, what is allowed. The licences are checked only where they count. */
int policy_check(const struct policy *policy, const struct policy_job *job, struct prism_error *err);
/* Is there anything in it that a step could break? */
bool policy_limits_steps(const struct policy *policy);
/* The line for users of a broken file, with what is wrong in it. */
#define POLICY_OFF "emulation is off on this cluster until its administrators mend %.900s"

/* The user's own licences ("a:2,b"; NULL = none) with prism_rank:N and prism_gpu:N behind; those that the user wrote
 * for these two are dropped. Returns 0; -1 when the user's list cannot be added to (alternatives "a|b") or out is too
 * small, out is then "". */
int policy_licences(const char *own, uint32_t world, bool rank, bool gpu, char *out, size_t size);

/* AdminComment: "prism:" and the shape. An administrator's text stays in front, with "; ". -1 when out is too small. */
int policy_admin_comment(const char *own, const struct policy_shape *shape, char *out, size_t size);

/* How many a Licenses= line ("prism_rank:1000,matlab:5") of slurm.conf declares of name; 0 = none. A name without a
 * number counts one. */
uint64_t policy_declared(const char *licenses, const char *name);

#endif
