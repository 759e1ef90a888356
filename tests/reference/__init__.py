"""The update rules in float64 NumPy, written from the published formulas.

A module for each optimizer, named like its rule. Arguments are named as in the
public API, whose defaults these are. It has:

- `step`: one step, number `t` from 1, after weight decay and `maximize`: a
  function of the state, the decayed variable and gradient, `t`, `learning_rate`
  and a mode's arguments that returns the new state, a dictionary of "variable"
  and the slots.
- `MODES`: constructor arguments to test, by name. "plain" has none; the last
  turns on the most at once, for what is too slow to test in every mode.

What isn't there has the value in parentheses:

- `WEIGHT_DECAY`: its default (0).
- `DECAYS`: the arguments that are weight decays (`weight_decay`).
- `whole_step`: a step with its decay (what `decay.py` makes of `step`).
- `EXACT`: slots that always have the arithmetic type (none).
- `TO_NEAREST`: slots that 16 bits never round at random (none).
- `PROPORTIONAL`: arguments with which a step is proportional to the learning
  rate, as a multiplier of it makes it (none are needed).
- `FLAT`: numbers whose derivative is 0 in some mode (none).
- `JUMPS_AT_ZERO`: whether a step isn't continuous where all slots and the
  gradient are 0 (False).
"""
