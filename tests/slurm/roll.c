/* roll - sums up the last three hours in slurmdbd now; sreport would see them when the hour is over. */
#include <stdio.h>
#include <time.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

int main(void)
{
    uint16_t flags = 0;
    void *statistics = NULL; /* a list; its type has changed its name */
    time_t now = time(NULL);
    slurm_init(NULL);
    void *database = slurmdb_connection_get(&flags);
    int rc = slurmdb_usage_roll(database, now - 3 * 3600, now, 0, (void *)&statistics);
    if (rc)
        fprintf(stderr, "roll: %s\n", slurm_strerror(rc));
    slurmdb_connection_commit(database, true);
    slurmdb_connection_close(&database);
    return rc != 0;
}
