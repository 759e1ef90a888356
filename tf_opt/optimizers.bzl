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
    "sgd": "Sgd",
}

def rule_defines(file):
    """What a source that is compiled once for each optimizer needs."""
    return [
        "TF_OPT_RULE=" + OPTIMIZERS[file],
        "TF_OPT_RULE_HEADER=tf_opt/cc/rules/%s.h" % file,
    ]
