/* credential.c - munge credentials where libmunge was there at build time and munged runs; else only the run's key counts. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prismd/link/link_setup.h"

#ifdef HAVE_MUNGE
#include <munge.h>

/* A munge daemon of its own (a test cluster) has its socket elsewhere. */
static munge_ctx_t make_context(void)
{
    munge_ctx_t ctx = munge_ctx_create();
    const char *socket = getenv("PRISM_MUNGE_SOCKET");
    if (ctx && socket && *socket)
        munge_ctx_set(ctx, MUNGE_OPT_SOCKET, socket);
    return ctx;
}

char *link_credential_make(const char *text)
{
    char *credential = NULL;
    munge_ctx_t ctx = make_context();
    munge_err_t e = munge_encode(&credential, ctx, text, (int)strlen(text));
    munge_ctx_destroy(ctx);
    if (e == EMUNGE_SUCCESS)
        return credential;
    free(credential);
    return NULL;
}

int link_credential_check(const char *credential, const char *text)
{
    void *payload = NULL;
    int len = 0;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    munge_ctx_t ctx = make_context();
    munge_err_t e = munge_decode(credential, ctx, &payload, &len, &uid, &gid);
    munge_ctx_destroy(ctx);
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
