// The few symbols that today's compilers take from a newer C or C++ library
// than the wheel asks for (see pip_pkg.sh). Defined here, and exported to
// nobody, they bind inside the library; all others keep the system's.
#include <new>
#include <sstream>

// glibc 2.32. libstdc++ asks it whether counting a shared_ptr's owners needs
// atomic operations. TensorFlow always has threads: it does.
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;

// GCC 11's libstdc++. What `new T[n]` calls where n is too large or negative.
namespace std {
void __throw_bad_array_new_length() { throw bad_array_new_length(); }
}  // namespace std

// GCC 9's libstdc++. XLA's FFI header makes such streams.
template std::stringstream::basic_stringstream();
