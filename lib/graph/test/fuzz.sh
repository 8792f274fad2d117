#!/usr/bin/env bash
# fuzz.sh SECONDS [WORK]: the reader of graph.bin under libFuzzer (clang) with address and undefined sanitizers. New inputs and
# crashes lie in WORK (default: a fresh folder under /tmp); the corpus starts from lib/graph/test/golden.
set -eu
cd "$(dirname "$0")/../../.."
seconds=$1 work=${2:-$(mktemp -d)}
mkdir -p "$work/corpus"
clang -g -O1 -std=c11 -D_GNU_SOURCE -Ilib -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -DLIBFUZZER lib/graph/test/fuzz_graph.c lib/graph/*.c \
    lib/common/bytes.c lib/common/error.c lib/common/file.c lib/common/log.c -lzstd -lxxhash -lm -pthread -o "$work/fuzz_graph"
cd "$work"
./fuzz_graph -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=8192 corpus "$OLDPWD/lib/graph/test/golden" 2>&1 |
    tail -n 20
echo "inputs and crashes: $work"
