#!/usr/bin/env bash
# Prints the C++ header that includes every rule and lists the descriptions, or
# with --rows the files and structs as lines of two columns.
#
#   all_rules.sh [--rows] tf_opt/optimizers.bzl
#
# tests/gpu/run.sh calls it too, where there is no Bazel.
set -euo pipefail

# The rows of the dictionary OPTIMIZERS.
rows() {
  sed -n 's/^ *"\([a-z0-9_]*\)": "\([A-Za-z0-9]*\)",$/\1 \2/p' "$1"
}

if [[ $1 == --rows ]]; then
  rows "$2"
  exit
fi

echo '#ifndef TF_OPT_CC_RULES_ALL_RULES_H_'
echo '#define TF_OPT_CC_RULES_ALL_RULES_H_'
rows "$1" | sed 's|\(.*\) .*|#include "tf_opt/cc/rules/\1.h"|'
echo '#include "tf_opt/cc/rules/description.h"'
echo 'namespace tf_opt {'
echo "using AllDescriptions = TypeList<$(rows "$1" | sed 's/.* //' | paste -sd,)>;"
echo '// Calls use(TypeTag<Description>()) for each rule.'
echo 'template <typename Use>'
echo 'void ForEachRule(const Use& use) { ForEachType(AllDescriptions(), use); }'
echo '}'
echo '#endif'
