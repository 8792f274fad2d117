#include "data.h"

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t data_hash(uint64_t a, uint64_t b)
{
    return mix(mix(a) ^ b);
}

double data_uniform(uint64_t hash)
{
    return (double)(hash >> 11) * (1.0 / 4503599627370496.0) - 1.0;
}

static uint64_t place_hash(const struct options *options, long iteration, long place)
{
    return data_hash(data_hash((uint64_t)options->seed ^ 0x64617461u, (uint64_t)iteration), (uint64_t)place);
}

long data_place(const struct options *options, int micro_batch, int replica, int dp)
{
    return (long)micro_batch * dp + (options->equal_data ? 0 : replica);
}

int data_length(const struct options *options, long iteration, long place)
{
    if (!options->variable_seq)
        return (int)options->seq;
    long least = options->seq > 1 ? options->seq / 2 : 1;
    return (int)(least +
                 (long)(place_hash(options, iteration, place) % (uint64_t)(options->seq - least + 1)));
}

double data_tokens_in_batch(const struct options *options, long iteration, int dp)
{
    double tokens = 0;
    for (int i = 0; i < options->micro_batches; i++)
        for (int replica = 0; replica < dp; replica++)
            tokens += (double)(options->micro_batch *
                               data_length(options, iteration, data_place(options, i, replica, dp)));
    return tokens;
}

void data_fill(const struct options *options, long iteration, long place, int *tokens, int *targets)
{
    uint64_t state = place_hash(options, iteration, place);
    uint64_t vocab = (uint64_t)options->vocab;
    int length = data_length(options, iteration, place);
    for (long sequence = 0; sequence < options->micro_batch; sequence++) {
        uint64_t token = (state = mix(state)) % vocab;
        for (int i = 0; i < length; i++) {
            state = mix(state);
            *tokens++ = (int)token;
            token = state % 10 ? (5 * token + 3) % vocab : (state >> 8) % vocab;
            *targets++ = (int)token;
        }
    }
}
