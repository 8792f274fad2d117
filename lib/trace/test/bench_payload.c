/* bench_payload DIR [MiB] [threads] - put and get that much of half noise, half repetition, in payloads of 1
 * MiB. Prints one line of JSON. DIR must exist; what is written there is removed again. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "scratch.h"
#include "trace/payload.h"

#define PIECE (1u << 20)

struct worker {
    struct payload_writer *w;
    struct payload_reader *r;
    uint32_t number, pieces;
    int bad;
};

static void *put(void *arg)
{
    struct worker *me = arg;
    uint64_t *data = malloc(PIECE), state = me->number;
    for (uint32_t i = 0; i < me->pieces; i++) {
        for (uint32_t k = 0; k < PIECE / 8; k++)
            data[k] = i % 2 ? scratch_random(&state) : i * 1000 + me->number + k / 256;
        me->bad |= payload_writer_put(me->w, (struct payload_key){me->number, 0, i, PAYLOAD_OUTPUT}, data,
                                      PIECE, NULL);
    }
    free(data);
    return NULL;
}

static void *get(void *arg)
{
    struct worker *me = arg;
    char *data = malloc(PIECE);
    for (uint32_t i = 0; i < me->pieces; i++)
        me->bad |= payload_reader_get(me->r, (struct payload_key){me->number, 0, i, PAYLOAD_OUTPUT}, data,
                                      PIECE, NULL) < 0;
    free(data);
    return NULL;
}

static double run(void *(*function)(void *), struct payload_writer *w, struct payload_reader *r,
                  uint32_t threads, uint32_t pieces)
{
    pthread_t id[64];
    struct worker workers[64];
    int64_t begin = clock_now_ns();
    for (uint32_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){w, r, i, pieces / threads, 0};
        pthread_create(&id[i], NULL, function, &workers[i]);
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(id[i], NULL);
        if (workers[i].bad)
            exit(1);
    }
    return (double)(clock_now_ns() - begin) / 1e9;
}

int main(int argc, char **argv)
{
    uint32_t pieces = argc > 2 ? (uint32_t)atoi(argv[2]) : 256,
             threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 2;
    struct prism_error err = {0};
    if (argc < 2 || !threads || threads > 64 || !pieces) {
        fprintf(stderr, "usage: bench_payload DIR [MiB] [threads up to 64]\n");
        return 64;
    }
    struct payload_writer *w = payload_writer_create(argv[1], 0, &err);
    if (!w) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    double put_seconds = run(put, w, NULL, threads, pieces);
    int64_t begin = clock_now_ns();
    struct payload_reader *r = payload_writer_finish(w, &err) ? NULL : payload_reader_open(argv[1], 1, &err);
    double finish_seconds = (double)(clock_now_ns() - begin) / 1e9;
    if (!r) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    double get_seconds = run(get, NULL, r, threads, pieces);
    uint64_t payloads, raw, disk;
    payload_reader_totals(r, &payloads, &raw, &disk);
    payload_reader_close(r);
    printf("{\"case\":\"payload\",\"threads\":%u,\"raw_bytes\":%llu,\"disk_bytes\":%llu,\"put_seconds\":%.3f,"
           "\"finish_seconds\":%.3f,\"get_seconds\":%.3f}\n",
           threads, (unsigned long long)raw, (unsigned long long)disk, put_seconds, finish_seconds,
           get_seconds);
    char path[1024];
    scratch_path(path, sizeof path, argv[1], "payload-0.dat");
    unlink(path);
    scratch_path(path, sizeof path, argv[1], "payload-0.idx");
    unlink(path);
    return 0;
}
