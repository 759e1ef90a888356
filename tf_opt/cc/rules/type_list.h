// Types as values, and lists of them.
#ifndef TF_OPT_CC_RULES_TYPE_LIST_H_
#define TF_OPT_CC_RULES_TYPE_LIST_H_

namespace tf_opt {

// Passes a type to a generic function.
template <typename T>
struct TypeTag {
  using type = T;
};

template <typename... Types>
struct TypeList {};

// Calls use(TypeTag<T>()) for each type T of the list.
template <typename... Types, typename Use>
void ForEachType(TypeList<Types...>, const Use& use) {
  (use(TypeTag<Types>()), ...);
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_TYPE_LIST_H_
