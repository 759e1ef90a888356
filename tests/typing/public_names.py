"""Every public name, for pyright: no type may be unknown, not even partly.

`make lint` checks this file and nothing runs it.
"""

import tf_opt


def check(*names: object) -> None: ...


check(tf_opt.ASGD, tf_opt.Adadelta, tf_opt.Adafactor, tf_opt.Adagrad)
check(tf_opt.Adam, tf_opt.AdamW, tf_opt.Adamax, tf_opt.AveragedSGD, tf_opt.Ftrl)
check(tf_opt.Lamb, tf_opt.Lion, tf_opt.LossScaleOptimizer, tf_opt.Muon)
check(tf_opt.NAdam, tf_opt.RMSprop, tf_opt.SGD, tf_opt.ScheduleFreeAdamW)
check(tf_opt.build_info, tf_opt.from_keras, tf_opt.from_torch)
check(tf_opt.layerwise_multipliers, tf_opt.to_keras, tf_opt.to_torch)
check(tf_opt.torch_layouts)
check(tf_opt.callbacks.CatchUp, tf_opt.callbacks.Monitor)
check(tf_opt.callbacks.ShuffledBatches, tf_opt.callbacks.SwapAveragedWeights)
check(tf_opt.ops.resource_apply_adam_amsgrad)
check(tf_opt.functional.adadelta, tf_opt.functional.adafactor)
check(tf_opt.functional.adagrad, tf_opt.functional.adam)
check(tf_opt.functional.adamax, tf_opt.functional.asgd)
check(tf_opt.functional.averaged_sgd, tf_opt.functional.ftrl)
check(tf_opt.functional.lamb, tf_opt.functional.lion)
check(tf_opt.functional.measure_gradients, tf_opt.functional.muon)
check(tf_opt.functional.nadam, tf_opt.functional.rmsprop)
check(tf_opt.functional.schedule_free_adamw, tf_opt.functional.sgd)
check(tf_opt.functional.unroll)
check(tf_opt.functional.ASGDResult, tf_opt.functional.AdadeltaResult)
check(tf_opt.functional.AdafactorResult, tf_opt.functional.AdagradResult)
check(tf_opt.functional.AdamResult, tf_opt.functional.AdamaxResult)
check(tf_opt.functional.AveragedSGDResult, tf_opt.functional.FtrlResult)
check(tf_opt.functional.GradientMeasures, tf_opt.functional.LambResult)
check(tf_opt.functional.LionResult, tf_opt.functional.MuonResult)
check(tf_opt.functional.NAdamResult, tf_opt.functional.RMSpropResult)
check(tf_opt.functional.SGDResult, tf_opt.functional.ScheduleFreeAdamWResult)
check(tf_opt.functional.UnrollResult)

adam, asgd = tf_opt.Adam(), tf_opt.ASGD()
scaled = tf_opt.LossScaleOptimizer(adam)
check(adam.apply, adam.average_is_swapped_in, adam.averaged_weights, adam.build)
check(adam.catch_up, adam.exclude_from_weight_decay, adam.gradient_norm)
check(adam.implementation_in_use, adam.lazy_mode)
check(adam.learning_rate_multipliers, adam.memory, adam.skipped_steps)
check(adam.swap_in_average, adam.swap_out_average, adam.update_step)
check(adam.weight_decay_multipliers)
check(asgd.batch_index, asgd.batch_order)
check(scaled.apply, scaled.catch_up, scaled.implementation_in_use)
check(scaled.memory)
