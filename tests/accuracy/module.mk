# Damages a trace on purpose, so that `tests/accuracy/run --plant` can prove that the comparison sees it.
$(eval $(call test_program,plant,tests/accuracy,plant.c,trace graph coll common,-ljansson -lzstd -lxxhash -lm,-I.))
$(B)/test/plant: $(call objects,prismd,predict.c stages.c duration.c durations.c)
