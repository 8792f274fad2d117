# Damages a trace on purpose, so that `tests/accuracy/run --plant` can prove that the comparison sees it.
$(eval $(call test_program,plant,tests/accuracy,plant.c,trace graph coll common,-ljansson -lzstd -lxxhash -lm,-I.))
$(B)/test/plant: $(call objects,prismd,predict/predict.c predict/stages.c predict/duration.c predict/durations.c)
