"""Object collectives, barriers, sub-groups, and every collective and point-to-point call of torch.distributed once.

All numbers are small integers, so that sums are exact in whatever order they are made; the loss is their checksum.
"""

import torch
import torch.distributed as dist

from common import Job, parser

KINDS = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.int8, torch.uint8)


class Checks:
    """The job, its sub-groups, and a checksum of all that arrived."""

    def __init__(self, job):
        self.job, self.world, self.rank = job, job.world, job.rank
        half = max(1, job.world // 2)
        halves = [list(range(half)), list(range(half, job.world))]
        groups = [dist.new_group(ranks) if ranks else None for ranks in halves]
        self.mine = groups[0 if job.rank < half else 1]
        self.members = halves[0 if job.rank < half else 1]
        self.split = dist.split_group(split_ranks=[h for h in halves if h]) if job.device.type == "cuda" else None
        self.sum = torch.zeros((), dtype=torch.float64, device=job.device)
        self.marks = 0

    def note(self, *tensors):
        for t in tensors:
            self.marks += 1
            self.sum += (self.marks % 97 + 1) * t.double().sum()

    def numbers(self, i, count, dtype=torch.float32, rank=None):
        rank = self.rank if rank is None else rank
        return ((torch.arange(count, device=self.job.device) * 7 + rank * 3 + i) % 5 + 1).to(dtype)

    def collectives(self, i):
        w, r, n = self.world, self.rank, 256
        for dtype in KINDS:
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
                if op == dist.ReduceOp.PRODUCT and dtype not in (torch.float64, torch.int64):
                    continue
                if dtype in (torch.bfloat16, torch.float16) and self.job.device.type == "cpu":
                    continue
                x = self.numbers(i, n, dtype) if op != dist.ReduceOp.PRODUCT else self.numbers(i, n, dtype) % 2 + 1
                dist.all_reduce(x, op=op)
                self.note(x)
        parts = [torch.empty(n, device=self.job.device) for _ in range(w)]
        dist.all_gather(parts, self.numbers(i, n))
        whole = torch.empty(n * w, device=self.job.device)
        dist.all_gather_into_tensor(whole, self.numbers(i + 1, n))
        self.note(whole, *parts)
        self.rooted(i, n)
        if self.job.device.type == "cuda":
            mine = torch.empty(n, device=self.job.device)
            dist.reduce_scatter_tensor(mine, self.numbers(i, n * w))
            self.note(mine)
            dist.reduce_scatter(mine, list(self.numbers(i + 3, n * w).chunk(w)))
            average = self.numbers(i, n)
            dist.all_reduce(average, op=dist.ReduceOp.AVG)
            self.note(mine, average * w)
        out = torch.empty(n * w, device=self.job.device)
        dist.all_to_all_single(out, self.numbers(i, n * w))
        self.note(out)
        sizes = [16 * ((r + p + i) % 3) for p in range(w)]
        uneven = torch.empty(sum(16 * ((p + r + i) % 3) for p in range(w)), device=self.job.device)
        dist.all_to_all_single(uneven, self.numbers(i, sum(sizes)), sizes, sizes)
        self.note(uneven)

    def rooted(self, i, n):
        w, r, root = self.world, self.rank, i % self.world
        x = self.numbers(i, n)
        dist.broadcast(x, root)
        y = self.numbers(i, n)
        dist.reduce(y, root)
        self.note(x, y if r == root else x)
        parts = [torch.empty(n, device=self.job.device) for _ in range(w)] if r == root else None
        dist.gather(self.numbers(i, n), parts, dst=root)
        mine = torch.empty(n, device=self.job.device)
        dist.scatter(mine, list(self.numbers(i, n * w).chunk(w)) if r == root else None, src=root)
        self.note(mine, *(parts or []))

    def messages(self, i):
        after, before, n = (self.rank + 1) % self.world, (self.rank - 1) % self.world, 1000 + 8 * i
        if self.world == 1:
            return
        got = [torch.empty(n, device=self.job.device) for _ in range(2)]
        calls = [dist.P2POp(dist.isend, self.numbers(i, n), after), dist.P2POp(dist.irecv, got[0], before),
                 dist.P2POp(dist.isend, self.numbers(i + 1, n), before), dist.P2POp(dist.irecv, got[1], after)]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        self.note(*got)
        # One direction, one call at a time: even ranks send first.
        if self.rank ^ 1 < self.world:
            x = torch.empty(64, device=self.job.device)
            if self.rank % 2 == 0:
                dist.send(self.numbers(i, 64), self.rank + 1)
                dist.recv(x, self.rank + 1)
            else:
                dist.recv(x, self.rank - 1)
                dist.send(self.numbers(i, 64), self.rank - 1)
            self.note(x)

    def objects(self, i):
        w, r = self.world, self.rank
        everyone = [None] * w
        dist.all_gather_object(everyone, {"rank": r, "text": "x" * (10 * r + i)})
        told = [("step", i), None] if r == 0 else [None, None]
        dist.broadcast_object_list(told, src=0)
        mine = [None]
        dist.scatter_object_list(mine, [("for", p) for p in range(w)] if r == 0 else None, src=0)
        collected = [None] * w if r == 0 else None
        dist.gather_object((r, i), collected, dst=0)
        if [e["rank"] for e in everyone] != list(range(w)) or told[0] != ("step", i) or mine[0] != ("for", r):
            raise SystemExit(f"rank {r}: an object arrived changed: {everyone} {told} {mine}")
        if r == 0 and collected != [(p, i) for p in range(w)]:
            raise SystemExit(f"rank 0: gather_object gave {collected}")
        self.marks += len(everyone[-1]["text"])

    def subgroups(self, i):
        for group in (self.mine, self.split):
            if group is not None:
                x = self.numbers(i, 512)
                dist.all_reduce(x, group=group)
                y = self.numbers(i, 64)
                dist.broadcast(y, self.members[0], group=group)
                self.note(x, y)
                dist.barrier(group=group)


def main():
    options = parser(__doc__).parse_args()
    job = Job(options)
    checks = Checks(job)

    def step(i):
        checks.collectives(i)
        checks.messages(i)
        checks.objects(i)
        checks.subgroups(i)
        dist.barrier()
        return checks.sum + checks.marks, None

    job.loop(step)
    job.end()


main()
