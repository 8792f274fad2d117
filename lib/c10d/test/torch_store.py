"""Real PyTorch clients against Prism's store: torch_store.py SERVER_BINARY. Works with PyTorch 1.13 and 2.x; what a
version does not have is left out and said. Exits 0 when everything held."""
import datetime
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

SECONDS = lambda s: datetime.timedelta(seconds=s)


class Server:
    def __init__(self, binary):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(10) == 0

    def store(self, timeout=20):
        return dist.TCPStore("127.0.0.1", self.port, None, False, timeout=SECONDS(timeout))


def raises(call):
    try:
        call()
    except Exception:
        return True
    return False


def check_basics(server):
    a, b = server.store(), server.store()
    a.set("k", "value")
    assert b.get("k") == b"value"
    a.set("k", "")
    assert a.get("k") == b"" and b.get("k") == b""  # a set has no answer: only a's own next request proves it arrived
    a.set("big", "x" * 3000000)
    assert b.get("big") == b"x" * 3000000
    assert a.add("n", 5) == 5 and b.add("n", -2) == 3 and a.get("n") == b"3"
    keys = a.num_keys()
    a.set("extra", "1")
    assert a.num_keys() == keys + 1 and b.num_keys() == keys + 1
    assert a.delete_key("extra") is True and b.delete_key("extra") is False and a.num_keys() == keys


def check_compare_set(server):
    a, b = server.store(), server.store()
    assert a.compare_set("cs", "", "first") == b"first"
    assert b.compare_set("cs", "other", "second") == b"first"
    assert b.compare_set("cs", "first", "second") == b"second"
    assert a.get("cs") == b"second"
    assert a.compare_set("cs-missing", "expected", "x") == b"expected"


def check_waiting(server):
    a, b = server.store(), server.store()
    timer = threading.Timer(0.2, lambda: (b.set("w1", "1"), b.add("w2", 1)))
    timer.start()
    a.wait(["w1", "w2"], SECONDS(20))
    timer.join()
    a.wait(["w1"])
    timer = threading.Timer(0.2, lambda: b.set("late", "here"))
    timer.start()
    assert a.get("late") == b"here"
    timer.join()


def check_timeouts(server):
    a, b = server.store(), server.store()
    start = time.monotonic()
    assert raises(lambda: a.wait(["never"], SECONDS(1)))
    assert time.monotonic() - start < 15
    b.set("alive", "1")  # the other client and the server are none the worse
    assert b.get("alive") == b"1" and server.store().get("alive") == b"1"
    if not torch.__version__.startswith("1."):
        assert a.get("alive") == b"1"  # and from 2.0 on the timed-out client is usable too
        b.set("never", "1")
        assert a.get("never") == b"1"


def check_prefix(server):
    a = dist.PrefixStore("prefix", server.store())
    a.set("k", "p")
    assert a.get("k") == b"p" and server.store().get("prefix/k") == b"p"


def check_extended(server):
    a, b = server.store(), server.store()
    if hasattr(a, "check"):
        assert a.check(["no-such"]) is False
        a.set("such", "1")
        assert a.check(["such"]) is True and b.check(["such"]) is True
    if hasattr(a, "append"):
        a.append("ap", "one ")
        a.append("ap", "two")
        assert a.get("ap") == b"one two" and b.get("ap") == b"one two"
        a.multi_set(["m1", "m2"], ["1", "22"])
        assert b.multi_get(["m1", "m2"]) == [b"1", b"22"]
    if hasattr(a, "queue_push"):
        a.queue_push("q", "x")
        a.queue_push("q", "y")
        assert a.queue_len("q") == 2 and b.queue_len("q") == 2 and b.queue_pop("q") == b"x" and b.queue_pop("q", False) == b"y"
        assert raises(lambda: b.queue_pop("q", False))
        timer = threading.Timer(0.2, lambda: a.queue_push("q", "z"))
        timer.start()
        assert b.queue_pop("q") == b"z"
        timer.join()
    if hasattr(a, "list_keys"):
        a.set("listed", "1")
        assert a.get("listed") == b"1"
        assert "listed" in b.list_keys()
    if hasattr(a, "barrier"):
        check_store_barrier(server)
    if hasattr(a, "clone"):
        assert a.clone().add("cloned", 1) == 1


def check_store_barrier(server):
    stores = [server.store() for _ in range(3)]
    threads = [threading.Thread(target=s.barrier, args=("bar", 3)) for s in stores]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
        assert not t.is_alive()


def rank_main(rank, size, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size),
                      LOCAL_RANK=str(rank), TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0",
                      GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=SECONDS(60))
    t = torch.tensor([float(rank)])
    dist.all_reduce(t)
    group = dist.new_group([0, size - 1], timeout=SECONDS(60))
    if rank in (0, size - 1):
        u = torch.tensor([1.0])
        dist.all_reduce(u, group=group)
        assert u.item() == 2.0
    c10d = dist.distributed_c10d
    barrier_args = {"timeout": SECONDS(60)}
    store = dist.TCPStore("127.0.0.1", port, None, False, timeout=SECONDS(60))
    prefixed = dist.PrefixStore("own-barrier", store)
    try:
        c10d._store_based_barrier(rank, prefixed, SECONDS(60))
    except TypeError:
        c10d._store_based_barrier(rank, prefixed, "own", size, SECONDS(60))
    dist.barrier()
    results.put((rank, t.item()))
    dist.destroy_process_group()


def check_process_group(server, size=4):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    ranks = [context.Process(target=rank_main, args=(r, size, server.port, results)) for r in range(size)]
    for p in ranks:
        p.start()
    seen = dict(results.get(timeout=120) for _ in ranks)
    for p in ranks:
        p.join(30)
        assert p.exitcode == 0
    assert seen == {r: float(sum(range(size))) for r in range(size)}


def main():
    checks = [check_process_group, check_basics, check_compare_set, check_waiting, check_timeouts, check_prefix,
              check_extended]
    for check in checks:
        server = Server(sys.argv[1])
        start = time.monotonic()
        check(server)
        server.stop()
        print(f"{torch.__version__} {check.__name__} {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
