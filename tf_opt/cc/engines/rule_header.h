// Includes the header of the optimizer that a file is compiled for, whose path
// is TF_OPT_RULE_HEADER, without quotes: compilers get them from a shell each
// in its own way.
#ifndef TF_OPT_CC_ENGINES_RULE_HEADER_H_
#define TF_OPT_CC_ENGINES_RULE_HEADER_H_

#define TF_OPT_QUOTED_TEXT(text) #text
#define TF_OPT_QUOTED(macro) TF_OPT_QUOTED_TEXT(macro)
#include TF_OPT_QUOTED(TF_OPT_RULE_HEADER)

#endif  // TF_OPT_CC_ENGINES_RULE_HEADER_H_
