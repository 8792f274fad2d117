/* credential.c - munge credentials where libmunge was there at build time and munged runs; else only the run's key counts. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prismd/link_setup.h"

#ifdef HAVE_MUNGE
#include <munge.h>

char *link_credential_make(const char *text)
{
    char *credential = NULL;
    if (munge_encode(&credential, NULL, text, (int)strlen(text)) != EMUNGE_SUCCESS) {
        free(credential);
        return NULL;
    }
    return credential;
}

int link_credential_check(const char *credential, const char *text)
{
    void *payload = NULL;
    int len = 0;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    munge_err_t e = munge_decode(credential, NULL, &payload, &len, &uid, &gid);
    int rc = e == EMUNGE_SUCCESS && uid == geteuid() && len == (int)strlen(text) && !memcmp(payload, text, (size_t)len)
                 ? 0
                 : -1;
    free(payload);
    return rc;
}
#else
char *link_credential_make(const char *text)
{
    (void)text;
    return NULL;
}

int link_credential_check(const char *credential, const char *text)
{
    (void)credential;
    (void)text;
    return 0;
}
#endif
