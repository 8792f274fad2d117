"""Stands in for the package `datasets` (whose pyarrow and pandas are too much to carry) where a machine lacks it: what torchtitan asks
of it, over folders of JSON lines, for tests/gpu/external.py, whose rows say that it was used. Rows, their order and their division
among ranks are those of the package; hubs, other formats, caches and streaming are not there, and asking for them is an error."""

import glob
import json
import os

from .distributed import split_dataset_by_node

__all__ = ["Dataset", "IterableDataset", "load_dataset", "split_dataset_by_node"]


class Dataset:
    """Rows by number."""

    def __init__(self, rows):
        self._rows = list(rows)

    def __len__(self):
        return len(self._rows)

    def __iter__(self):
        return iter(self._rows)

    def __getitem__(self, key):
        """A row, or for a slice {column: values}."""
        if not isinstance(key, slice):
            return self._rows[key]
        return {name: [row[name] for row in self._rows[key]] for name in self.column_names}

    @property
    def column_names(self):
        return list(self._rows[0]) if self._rows else []

    def select(self, indices):
        return Dataset(self._rows[i] for i in indices)

    def skip(self, count):
        return Dataset(self._rows[count:])

    def take(self, count):
        return Dataset(self._rows[:count])

    def shard(self, num_shards, index, contiguous=True):
        """The first len % num_shards shards have one row more."""
        if not 0 <= index < num_shards:
            raise ValueError("index should be in [0, num_shards-1]")
        if not contiguous:
            return Dataset(self._rows[index::num_shards])
        least, more = divmod(len(self._rows), num_shards)
        start = least * index + min(index, more)
        return Dataset(self._rows[start:start + least + (index < more)])


class IterableDataset:
    """There are none; programs ask whether one is."""

    def __init__(self):
        raise NotImplementedError("the stand-in for datasets does not stream")


def load_dataset(path, name=None, split=None, streaming=False):
    """All rows of the folder's *.json and *.jsonl, by file name, as the split `train`."""
    if name is not None or streaming or split not in (None, "train"):
        raise NotImplementedError(f"the stand-in for datasets has one split, train, and no streaming: {path}")
    files = sorted(f for kind in ("json", "jsonl") for f in glob.glob(os.path.join(path, f"*.{kind}")))
    if not files:
        raise FileNotFoundError(f"no *.json or *.jsonl in {path}; the stand-in for datasets reads folders only")
    rows = []
    for file in files:
        with open(file, encoding="utf-8") as text:
            rows += [json.loads(line) for line in text if line.strip()]
    return Dataset(rows) if split else {"train": Dataset(rows)}
