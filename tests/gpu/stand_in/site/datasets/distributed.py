"""How rows are divided among ranks."""


def split_dataset_by_node(dataset, rank, world_size):
    return dataset.shard(num_shards=world_size, index=rank, contiguous=True)
