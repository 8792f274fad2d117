#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/file.h"

#define FILE_MAX   65536
#define LINE_ROOM  4096
#define PREFIX_LEN 6 /* "prism-" */

const char *config_default_path(void) { return PRISM_CONF_FILE; }

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t len = strlen(text); len && isspace((unsigned char)text[len - 1]);)
        text[--len] = 0;
    return text;
}

static int find_option(const char *name)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (!strcmp(option_table[i].name + PREFIX_LEN, name))
            return i;
    return -1;
}

static int read_setting(struct options *o, char *line, unsigned *seen, struct prism_error *why)
{
    char *equals = strchr(line, '=');
    if (!equals)
        return prism_error_set(why, PRISM_EXIT_USAGE, "'name = value' is expected");
    *equals = 0;
    char *name = trim(line), *value = trim(equals + 1);
    size_t len = strlen(value);
    if (len >= 2 && *value == '"' && value[len - 1] == '"') {
        value[len - 1] = 0;
        value++;
    }
    int id = find_option(name);
    if (id == OPTION_EMULATE)
        return prism_error_set(why, PRISM_EXIT_USAGE, "emulate is asked for by a job, not by a file");
    if (id < 0)
        return prism_error_set(why, PRISM_EXIT_USAGE, "'%.40s' is no option: names are those of srun --help without --prism-", name);
    if (*seen & 1u << id)
        return prism_error_set(why, PRISM_EXIT_USAGE, "%s stands twice", name);
    *seen |= 1u << id;
    return options_set(o, (enum option_id)id, value, OPTION_FROM_FILE, why);
}

/* One line without its end; *ours says whether we are in [options]. */
static int read_line(struct options *o, char *line, bool *ours, unsigned *seen, struct prism_error *why)
{
    line[strcspn(line, "#")] = 0;
    line = trim(line);
    if (*line == '[')
        *ours = !strcmp(line, "[options]");
    else if (*line && *ours)
        return read_setting(o, line, seen, why);
    return 0;
}

int config_parse(struct options *o, const char *path, const char *text, size_t len, struct prism_error *err)
{
    const char *end = text + len;
    unsigned seen = 0;
    bool ours = false;
    for (int number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        char line[LINE_ROOM];
        struct prism_error why = {0};
        if (n >= sizeof line || memchr(text, 0, n))
            return prism_error_set(err, PRISM_EXIT_USAGE, "%s, line %d: longer than %d characters, or not text", path, number, LINE_ROOM - 1);
        memcpy(line, text, n);
        line[n] = 0;
        if (read_line(o, line, &ours, &seen, &why))
            return prism_error_set(err, PRISM_EXIT_USAGE, "%s, line %d: %s", path, number, why.text);
        text += n + (stop != NULL);
    }
    return 0;
}

int config_read(struct options *o, const char *site, struct prism_error *err)
{
    const char *own = getenv("PRISM_CONFIG"), *path = own && *own ? own : site && *site ? site : PRISM_CONF_FILE;
    struct bytes text = {0};
    if (path != own && path != site && access(path, F_OK))
        return 0;
    if (file_read(path, FILE_MAX, &text, err))
        return -1;
    int rc = config_parse(o, path, (const char *)text.data, text.len, err);
    bytes_free(&text);
    return rc;
}
