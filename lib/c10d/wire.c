#include "c10d/wire.h"

#include <string.h>

#include "c10d/mutation.h"

#define OP_BAD 0xff

/* What follows an operation's byte. */
enum shape { NOTHING, U32, KEY, KEY_I64, KEY_VALUE, KEY_VALUE_VALUE, STRINGS, PAIRS };

static const uint8_t shapes[] = {[C10D_OP_VALIDATE] = U32,
                                 [C10D_OP_SET] = KEY_VALUE,
                                 [C10D_OP_COMPARE_SET] = KEY_VALUE_VALUE,
                                 [C10D_OP_GET] = KEY,
                                 [C10D_OP_ADD] = KEY_I64,
                                 [C10D_OP_CHECK] = STRINGS,
                                 [C10D_OP_WAIT] = STRINGS,
                                 [C10D_OP_GETNUMKEYS] = NOTHING,
                                 [C10D_OP_DELETE_KEY] = KEY,
                                 [C10D_OP_APPEND] = KEY_VALUE,
                                 [C10D_OP_MULTI_GET] = STRINGS,
                                 [C10D_OP_MULTI_SET] = PAIRS,
                                 [C10D_OP_CANCEL_WAIT] = NOTHING,
                                 [C10D_OP_PING] = U32,
                                 [C10D_OP_QUEUE_PUSH] = KEY_VALUE,
                                 [C10D_OP_QUEUE_POP] = KEY,
                                 [C10D_OP_QUEUE_LEN] = KEY,
                                 [C10D_OP_LIST_KEYS] = NOTHING,
                                 [C10D_OP_BARRIER] = KEY_I64,
                                 [C10D_OP_WATCH_KEY] = KEY};

static const uint8_t legacy_ops[] = {
    C10D_OP_SET,       C10D_OP_COMPARE_SET, C10D_OP_GET,        C10D_OP_ADD,        C10D_OP_CHECK,
    C10D_OP_WAIT,      C10D_OP_GETNUMKEYS,  C10D_OP_WATCH_KEY,  C10D_OP_DELETE_KEY, C10D_OP_APPEND,
    C10D_OP_MULTI_GET, C10D_OP_MULTI_SET,   C10D_OP_CANCEL_WAIT};

struct cursor {
    const uint8_t *data;
    size_t len, pos;
    size_t need;     /* set when the data ran out */
    const char *why; /* set when malformed */
};

static uint64_t load(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static const uint8_t *take(struct cursor *c, size_t n)
{
    if (c->need || c->why)
        return NULL;
    if (c->pos + n > C10D_REQUEST_MAX) {
        c->why = "request too long";
        return NULL;
    }
    if (c->len - c->pos < n) {
        c->need = c->pos + n;
        return NULL;
    }
    const uint8_t *p = c->data + c->pos;
    c->pos += n;
    return p;
}

static uint64_t take_number(struct cursor *c, int n)
{
    const uint8_t *p = take(c, (size_t)n);
    return p ? load(p, n) : 0;
}

static struct c10d_slice take_slice(struct cursor *c, size_t max, const char *too_long)
{
    uint64_t len = take_number(c, 8);
    struct c10d_slice s = {NULL, 0};
    if (len > max) {
        if (!c->need && !c->why)
            c->why = too_long;
        return s;
    }
    s.data = take(c, (size_t)len);
    s.len = s.data ? (size_t)len : 0;
    return s;
}

static struct c10d_slice take_key(struct cursor *c)
{
    return take_slice(c, C10D_KEY_MAX, "key too long");
}

static struct c10d_slice take_value(struct cursor *c)
{
    return take_slice(c, C10D_VALUE_MAX, "value too long");
}

static void take_items(struct cursor *c, struct c10d_request *r, bool pairs)
{
    r->count = take_number(c, 8);
    if (r->count > C10D_KEYS_MAX) {
        c->why = "too many keys";
        return;
    }
    size_t start = c->pos;
    for (uint64_t i = 0; i < r->count && !c->need && !c->why; i++) {
        take_key(c);
        if (pairs)
            take_value(c);
    }
    r->items = (struct c10d_slice){c->data + start, c->pos - start};
}

static void take_arguments(struct cursor *c, struct c10d_request *r)
{
    enum shape shape = shapes[r->op];
    if (shape == STRINGS || shape == PAIRS) {
        take_items(c, r, shape == PAIRS);
        return;
    }
    if (shape >= KEY)
        r->key = take_key(c);
    if (shape == U32)
        r->number = (int64_t)take_number(c, 4);
    if (shape == KEY_I64)
        r->number = (int64_t)take_number(c, 8);
    if (shape == KEY_VALUE || shape == KEY_VALUE_VALUE)
        r->value = take_value(c);
    if (shape == KEY_VALUE_VALUE)
        r->second = take_value(c);
}

static uint8_t op_of(enum c10d_dialect dialect, uint8_t code)
{
    if (dialect == C10D_DIALECT_MODERN)
        return code <= C10D_OP_BARRIER ? code : OP_BAD;
    return code < sizeof legacy_ops ? legacy_ops[code] : OP_BAD;
}

enum c10d_dialect c10d_wire_detect(const uint8_t *data, size_t len)
{
    /* A legacy SET also starts with 0, but then the number would be the low half of a key length far over any bound. */
    if (len == 0)
        return C10D_DIALECT_UNKNOWN;
    if (data[0] != C10D_OP_VALIDATE)
        return C10D_DIALECT_LEGACY;
    if (len < 5)
        return C10D_DIALECT_UNKNOWN;
    return load(data + 1, 4) == C10D_MAGIC ? C10D_DIALECT_MODERN : C10D_DIALECT_LEGACY;
}

int64_t c10d_wire_decode(enum c10d_dialect dialect, const uint8_t *data, size_t len,
                         struct c10d_request *request, size_t *need, const char **why)
{
    struct cursor c = {.data = data, .len = len};
    memset(request, 0, sizeof *request);
    const uint8_t *code = take(&c, 1);
    if (code) {
        uint8_t op = op_of(dialect, *code);
        request->op = op;
        if (op == OP_BAD)
            c.why = "unknown operation";
        else
            take_arguments(&c, request);
        if (!c.need && !c.why && op == C10D_OP_VALIDATE && request->number != C10D_MAGIC)
            c.why = "wrong validation number";
    }
    if (c.why) {
        *why = c.why;
        return -1;
    }
    if (c.need) {
        *need = c.need;
        return 0;
    }
    return (int64_t)c.pos;
}

struct c10d_slice c10d_wire_next(struct c10d_slice *items)
{
    struct c10d_slice s = {items->data + 8, (size_t)load(items->data, 8)};
    items->data += 8 + s.len;
    items->len -= 8 + s.len;
    return s;
}
