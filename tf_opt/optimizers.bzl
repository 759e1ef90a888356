"""The optimizers: for each, its header in tf_opt/cc/rules and the header's
description struct."""

OPTIMIZERS = {
    "adadelta": "Adadelta",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "adamax": "Adamax",
    "asgd": "Asgd",
    "averaged_sgd": "AveragedSgd",
    "ftrl": "Ftrl",
    "lion": "Lion",
    "nadam": "NAdam",
    "rmsprop": "Rmsprop",
    "schedule_free_adamw": "ScheduleFreeAdamw",
    "sgd": "Sgd",
}

def rule_options(file):
    """Options of any compiler for a source that is compiled for each optimizer.

    They define TF_OPT_RULE, and include the optimizer's header.
    """
    return [
        "-DTF_OPT_RULE=" + OPTIMIZERS[file],
        "-include",
        "tf_opt/cc/rules/%s.h" % file,
    ]
