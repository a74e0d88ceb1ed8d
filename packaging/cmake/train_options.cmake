# Compiler and linker settings of every target.
add_compile_options(-Wall -Wextra -Wconversion -Wno-sign-conversion -fno-omit-frame-pointer
                    -Wno-maybe-uninitialized)  # g++ 12 sees ghosts in moves of std::variant
if(TRAIN_WERROR)
  add_compile_options(-Werror)
endif()
# docs/testing.md, "Sanitizers". Every finding ends the program, so no test can pass over one.
if(TRAIN_SANITIZE)
  add_compile_options(-fsanitize=${TRAIN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRAIN_SANITIZE})
  if(TRAIN_SANITIZE STREQUAL thread)
    add_compile_options(-Wno-tsan)  # Asio's fences, which it does not need: its queue has a mutex
  endif()
  # Arrow's own allocators would hide its memory from the sanitizers.
  set(TRAIN_SANITIZER_ENVIRONMENT
      "ASAN_OPTIONS=detect_stack_use_after_return=1:check_initialization_order=1:strict_string_checks=1"
      "UBSAN_OPTIONS=print_stacktrace=1"
      "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${CMAKE_SOURCE_DIR}/tests/sanitizers/thread.txt"
      "ARROW_DEFAULT_MEMORY_POOL=system")
endif()
find_program(TRAIN_MOLD mold)
if(TRAIN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
find_program(TRAIN_CCACHE ccache)
if(TRAIN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TRAIN_CCACHE})
endif()
add_link_options(-Wl,--as-needed)
