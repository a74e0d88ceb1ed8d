// For the C faces: no exception passes through C. Each library that has one keeps the last error of
// each thread for itself.
#pragma once

#include <cxxabi.h>
#include <train/error.h>
#include <train/train_c.h>

#include <exception>
#include <string>
#include <utility>

namespace train::sdk {

struct LastError {
  std::string kind, text;
};
inline thread_local LastError last_error;

inline int fail(int code, std::string kind, std::string text) {
  last_error = {.kind = std::move(kind), .text = std::move(text)};
  return code;
}

/// Call a function; turn what it throws into a code and the last error.
template <class Call>
int guarded(Call&& call) {
  try {
    call();
    return TRAINRUN_OK;
  } catch (const Stopped& stopped) {
    return fail(TRAINRUN_STOPPED, "stopped", stopped.what());
  } catch (const Failure& why) {
    return fail(TRAINRUN_FAILED, why.kind(), why.what());
  } catch (const std::exception& why) {
    return fail(TRAINRUN_FAILED, "internal", why.what());
  } catch (const abi::__forced_unwind&) {
    throw;  // pthread_cancel and pthread_exit: the thread ends here
  } catch (...) {
    return fail(TRAINRUN_FAILED, "internal", "something other than a std::exception was thrown");
  }
}

/// Return a pointer that a caller gave. Throws a Failure that names it if it is NULL.
template <class T>
T* given(T* argument, const char* name) {
  if (argument == nullptr) throw Failure("invalid_argument", std::string(name) + " is NULL");
  return argument;
}

}  // namespace train::sdk
