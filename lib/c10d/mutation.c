#include "c10d/mutation.h"

const char *c10d_kind_name(enum c10d_kind kind)
{
    static const char *const names[] = {[C10D_SET] = "set",
                                        [C10D_ADD] = "add",
                                        [C10D_DELETE] = "delete",
                                        [C10D_APPEND] = "append",
                                        [C10D_COMPARE_SET] = "compare_set",
                                        [C10D_QUEUE_PUSH] = "queue_push",
                                        [C10D_QUEUE_POP] = "queue_pop",
                                        [C10D_BARRIER] = "barrier"};
    return kind >= C10D_SET && kind <= C10D_BARRIER ? names[kind] : "?";
}
