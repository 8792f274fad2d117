/* facts_real.c - facts.c against the headers of an installed CUDA toolkit. */
#include "abi/test/facts.c"
