// The lists of slots that an optimizer keeps, as data: op, shape function and
// kernels all read them here. A slot's element type is that of the arithmetic
// (engines/storage_types.h).
#ifndef TF_OPT_CC_RULES_SLOT_LIST_H_
#define TF_OPT_CC_RULES_SLOT_LIST_H_

namespace tf_opt {

struct SlotList {
  constexpr SlotList(const char* name) : name(name) {}

  // One that the op may be given empty: a mode without it.
  static constexpr SlotList Optional(const char* name) {
    SlotList list(name);
    list.optional = true;
    return list;
  }

  // Of tables: a slot is one of many rows, the one that the scalar input
  // `row_input` names, and the shape of the variable behind it is [rows] + the
  // shape of what it belongs to.
  static constexpr SlotList Table(const char* name, const char* row_input) {
    SlotList list(name);
    list.row_input = row_input;
    return list;
  }

  constexpr bool is_table() const { return row_input != nullptr; }

  const char* name;
  bool optional = false;
  const char* row_input = nullptr;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_SLOT_LIST_H_
