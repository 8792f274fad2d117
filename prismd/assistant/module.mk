# The process that stands for virtual ranks in real NCCL calls. It opens CUDA and NCCL by name and links neither.
$(eval $(call program,prism-assistant,prismd/assistant,main.c answer.c gpu.c order.c ring.c shelf.c communicator.c,trace coll proto common,\
	-lzstd -lxxhash -ljansson -lm -ldl,-I. -isystem lib/abi))
