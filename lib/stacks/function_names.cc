#include "lib/stacks/function_names.h"

#include <algorithm>
#include <cctype>

namespace train {
namespace {

// Of glibc 2.36 and libstdc++ 12 as stacks show them, LibTorch 2.11 and CPython 3.
constexpr std::string_view kMachinery[] = {
    "std::",
    "__gnu_cxx::",
    "__gthread",
    "__libc_start",
    "_IO_",
    "__internal_syscall",
    // Our SDK, within its public functions.
    "train::sdk::",
    "train::detail::",
    // LibTorch: from an operator's name to its code.
    "c10::Dispatcher",
    "c10::impl::",
    "c10::detail::",
    "c10::OperatorHandle",
    "c10::TypedOperatorHandle",
    "c10::KernelFunction",
    "c10::callUnboxed",
    "c10::BoxedKernel",
    "c10::guts::",
    "at::_ops::",
    "at::redispatch::",
    "torch::autograd::VariableType::",
    "torch::ADInplaceOrView::",
    "torch::TraceType::",
    "torch::jit::invokeOperator",
    // Its callers from Python, and CPython's own.
    "torch::autograd::THPVariable",
    "pybind11::",
    "_PyEval_",
    "PyEval_",
    "_PyObject_",
    "PyObject_",
    "_PyFunction_",
    "PyVectorcall_",
    "cfunction_",
    "method_vectorcall",
    "pymain_",
    "_PyRun_",
    "PyRun_",
    "run_eval_code_obj",
    // Event loops, thread pools.
    "boost::asio::",
    "boost::system::",
    "GOMP_",
    "gomp_",
    "__kmp",
    "uv__",
};
constexpr std::string_view kMachineryNames[] = {
    "_start",       "start_thread", "clone",        "clone3",  "__clone", "__clone3",
    "__restore_rt", "Py_RunMain",   "Py_BytesMain", "run_mod", "uv_run",
};

// "operator new" has a suffix for arrays.
constexpr std::string_view kAllocators[] = {
    "operator new",
    "std::allocator",
    "std::__new_allocator",
    "__gnu_cxx::new_allocator",
    "__gnu_cxx::__alloc_traits",
};
constexpr std::string_view kAllocatorNames[] = {
    "malloc",        "calloc",   "realloc", "reallocarray", "posix_memalign",
    "aligned_alloc", "memalign", "valloc",  "pvalloc",
};

constexpr std::string_view kWaits[] = {"accept",
                                       "accept4",
                                       "clock_nanosleep",
                                       "close",
                                       "connect",
                                       "copy_file_range",
                                       "epoll_pwait",
                                       "epoll_wait",
                                       "fclose",
                                       "fdatasync",
                                       "fflush",
                                       "fgets",
                                       "flock",
                                       "fork",
                                       "fread",
                                       "fstat",
                                       "fsync",
                                       "ftruncate",
                                       "futex",
                                       "futex_wait",
                                       "fwrite",
                                       "getline",
                                       "io_getevents",
                                       "ioctl",
                                       "lll_lock_wait",
                                       "lll_lock_wait_private",
                                       "lstat",
                                       "madvise",
                                       "mmap",
                                       "mprotect",
                                       "msync",
                                       "munmap",
                                       "nanosleep",
                                       "open",
                                       "openat",
                                       "pause",
                                       "poll",
                                       "ppoll",
                                       "pread",
                                       "preadv",
                                       "pselect",
                                       "pthread_barrier_wait",
                                       "pthread_cond_clockwait",
                                       "pthread_cond_timedwait",
                                       "pthread_cond_wait",
                                       "pthread_join",
                                       "pthread_mutex_lock",
                                       "pthread_mutex_timedlock",
                                       "pthread_rwlock_rdlock",
                                       "pthread_rwlock_wrlock",
                                       "pwrite",
                                       "pwritev",
                                       "read",
                                       "readdir",
                                       "readv",
                                       "recv",
                                       "recvfrom",
                                       "recvmmsg",
                                       "recvmsg",
                                       "rename",
                                       "sched_yield",
                                       "select",
                                       "sem_timedwait",
                                       "sem_wait",
                                       "send",
                                       "sendfile",
                                       "sendmmsg",
                                       "sendmsg",
                                       "sendto",
                                       "sigsuspend",
                                       "sigtimedwait",
                                       "sigwait",
                                       "sigwaitinfo",
                                       "sleep",
                                       "splice",
                                       "stat",
                                       "sync",
                                       "sync_file_range",
                                       "syncfs",
                                       "syscall",
                                       "syscall_cancel",
                                       "thrd_sleep",
                                       "unlink",
                                       "usleep",
                                       "vfork",
                                       "wait4",
                                       "waitid",
                                       "waitpid",
                                       "write",
                                       "writev"};
static_assert(std::is_sorted(std::begin(kWaits), std::end(kWaits)));

// Functions within the C library that waits call: they are waits whatever follows.
constexpr std::string_view kWaitParts[] = {"futex_",
                                           "lll_",
                                           "pthread_cond_wait_common",
                                           "pthread_clockjoin",
                                           "pthread_mutex_lock_full",
                                           "pthread_rwlock_",
                                           "syscall_cancel",
                                           "new_sem_wait"};

// Not ncclGroupStart and the like, which return at once. A wait for a GPU is inside CUDA's runtime
// or driver, whose functions have few symbols.
constexpr std::string_view kWaitsForOthers[] = {
    "c10d::",
    "gloo::",
    "ncclAllReduce",
    "ncclCommInit",
    "ncclGroupEnd",
    "MPI_",
    "PMPI_",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "c10::cuda::CUDAStream::synchronize",
    "at::cuda::CUDAEvent::synchronize",
    "libcuda.so",
    "train::barrier",
    "train::all_",
    "train::reduce",
    "train::broadcast",
};

bool begins_with_any(std::string_view name, const auto& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// Reads a demangled name from left to right.
class NameReader {
 public:
  explicit NameReader(std::string_view name) : rest_(name) {}

  std::string read() {
    while (!rest_.empty() && step()) {
    }
    return out_.empty() ? std::string(rest_) : std::move(out_);
  }

 private:
  /// Take the next part. Return false where the name ends.
  bool step() {
    if (skip("(anonymous namespace)::")) return true;
    if (at_operator()) {
      take_operator();
      return true;
    }
    switch (rest_.front()) {
      case '<':
        skip_brackets('<', '>');
        return true;
      case '[':  // [abi:cxx11], [clone .cold]
        skip_brackets('[', ']');
        return true;
      case '{':  // {lambda(int)#1}
        out_ += rest_.starts_with("{lambda") ? "{lambda}" : "{}";
        skip_brackets('{', '}');
        return true;
      case '(':  // parameters: of this function, or of one in which a lambda or a class is local
        skip_brackets('(', ')');
        if (rest_.starts_with(" const::")) rest_.remove_prefix(6);
        return rest_.starts_with("::") || out_.empty();  // empty: "decltype (…)", a return type
      case ' ':  // what precedes is a return type, or "non-virtual thunk to"
        rest_.remove_prefix(1);
        out_.clear();
        return true;
      default:
        out_ += rest_.front();
        rest_.remove_prefix(1);
        return true;
    }
  }

  bool skip(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool at_operator() const {
    return rest_.starts_with("operator") && (out_.empty() || out_.back() == ':') &&
           rest_.size() > 8 && !std::isalnum(static_cast<unsigned char>(rest_[8])) &&
           rest_[8] != '_';
  }
  /// Take "operator()", "operator<<", "operator bool", whose signs would mean something else.
  void take_operator() {
    const std::size_t end = rest_.starts_with("operator()") ? 10 : rest_.find('(');
    out_ += rest_.substr(0, end);
    rest_.remove_prefix(std::min(end, rest_.size()));
  }
  void skip_brackets(char open, char close) {
    int depth = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == open) ++depth;
      if (rest_[i] == close && (i == 0 || rest_[i - 1] != '-') && --depth == 0) {
        rest_.remove_prefix(i + 1);
        return;
      }
    }
    rest_ = {};  // it was cut
  }

  std::string_view rest_;
  std::string out_;
};

}  // namespace

std::string short_function_name(std::string_view function) {
  std::string name = NameReader(function).read();
  return name.empty() ? std::string(function) : name;
}

std::string_view public_name(std::string_view short_name) {
  std::string_view name = short_name.substr(0, short_name.find('@'));
  while (name.starts_with('_')) name.remove_prefix(1);
  for (const std::string_view prefix : {"GI_", "libc_", "new_", "old_"}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    while (name.starts_with('_')) name.remove_prefix(1);
  }
  for (const std::string_view suffix : {"_nocancel", "64"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  return name.empty() || short_name.find(':') != short_name.npos ? short_name : name;
}

bool is_wait(std::string_view short_name) {
  const std::string_view name = public_name(short_name);
  return std::binary_search(std::begin(kWaits), std::end(kWaits), name) ||
         begins_with_any(name, kWaitParts);
}

bool is_wait_for_others(std::string_view short_name) {
  // LibTorch's reducer also runs hooks of a user's model, and the like.
  if (short_name.starts_with("c10d::Reducer::") || short_name.starts_with("c10d::Logger"))
    return false;
  return begins_with_any(short_name, kWaitsForOthers);
}

bool is_allocator(std::string_view short_name) {
  return begins_with_any(short_name, kAllocators) ||
         std::find(std::begin(kAllocatorNames), std::end(kAllocatorNames),
                   public_name(short_name)) != std::end(kAllocatorNames);
}

bool is_machinery(std::string_view short_name) {
  return begins_with_any(short_name, kMachinery) ||
         std::find(std::begin(kMachineryNames), std::end(kMachineryNames), short_name) !=
             std::end(kMachineryNames);
}

}  // namespace train
