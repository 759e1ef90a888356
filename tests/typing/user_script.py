"""A user's script, for pyright: `make lint` checks it and nothing runs it."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# (Keras and TensorFlow don't say what most of their functions take and return.)

import keras
import numpy as np
import tensorflow as tf
import tf_opt
from tf_opt.callbacks import CatchUp
from tf_opt.functional import adam
from typing_extensions import assert_type

x, y = np.zeros((64, 8)), np.zeros((64, 1))
model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile(
    tf_opt.AdamW(
        keras.optimizers.schedules.CosineDecay(1e-3, 100),
        0.05,
        lazy_mode={"table": "catch_up", "tags": True},
        state_dtype="bfloat16",
        implementation="composed",
        use_ema=True,
    ),
    loss="mse",
)
model.fit(x, y, callbacks=[CatchUp(every_n_batches=10)])

momentum = keras.Variable(0.9)
optimizer = tf_opt.AdamW(1e-3, 0.01, momentum, clipnorm=keras.Variable(1.0))
optimizer = tf_opt.AdamW(1e-3, 0.01, 0.9, clipnorm=1.0, skip_nonfinite=True)
optimizer.exclude_from_weight_decay(var_names=["bias"])
variables = model.trainable_variables
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x))
    optimizer.apply(tape.gradient(loss, variables), variables)
optimizer.learning_rate = 1e-4
optimizer.implementation = "auto"
assert_type(optimizer.skipped_steps, tf.Tensor)
assert_type(optimizer.memory(), dict[str, dict[str, int]])
with optimizer.averaged_weights():
    model.evaluate(x, y)

converted = tf_opt.from_keras(keras.optimizers.SGD(0.1), skip_nonfinite=True)
model.compile(converted, loss="mse")
model.compile(tf_opt.from_keras("adam", master_weights=True), loss="mse")
tf_opt.from_torch(("AdamW", {}), variables, global_clipnorm=1.0)

p, m, v = (tf.Variable(tf.zeros(2)) for _ in range(3))
new = adam(p, tf.ones(2), m, v, step=1)
adam(1.0, 0.5, 0.0, np.zeros(()), step=1)
assert_type(new.v_max, tf.Tensor | None)

# Mistakes that pyright finds. Each comment without its error is an error.
tf_opt.Adam(betas=(0.9, 0.999))  # pyright: ignore[reportCallIssue]
tf_opt.Adam("1e-3")  # pyright: ignore[reportArgumentType]
tf_opt.ASGD(1e-3, 4)  # pyright: ignore[reportCallIssue]
tf_opt.Adam(implementation="custom")  # pyright: ignore[reportArgumentType]
tf_opt.Adam(state_dtype="float16")  # pyright: ignore[reportArgumentType]
tf_opt.Adam(lazy_mode="table")  # pyright: ignore[reportArgumentType]
tf_opt.Adam(lazy_mode={"table": "lazy"})  # pyright: ignore[reportArgumentType]
tf_opt.functional.sgd(p, p, lr=0.1)  # pyright: ignore[reportCallIssue]
tf_opt.from_keras(optimizer, lazy=True)  # pyright: ignore[reportCallIssue]
tf_opt.Nadam()  # pyright: ignore[reportAttributeAccessIssue]
optimizer.implementation = "op"  # pyright: ignore[reportAttributeAccessIssue]
