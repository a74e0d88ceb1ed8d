# Sets the compiler and linker options of every target.
add_compile_options(-Wall -Wextra -Wconversion -Wno-sign-conversion -fno-omit-frame-pointer)
# g++ 12 warns falsely: for moves of std::variant, std::string's operator+ (GCC bug 105651, fixed in 13), coroutine frames.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-mismatched-new-delete)
endif()
if(TRAIN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-subobject-linkage)  # it warns of local types in what it takes for a header
endif()
if(TRAIN_WERROR)
  add_compile_options(-Werror)
endif()
# Hardening. tests/package/hardening_test.sh checks for all of it in the built files.
add_compile_options(-fstack-protector-strong)
if(NOT TRAIN_SANITIZE)  # a sanitizer checks more than FORTIFY does, and FORTIFY needs optimisation
  add_compile_options("$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
endif()
add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
# A program finds our own libraries beside itself, wherever its folder is moved. Installed files have the same RUNPATH in the build
# folder (BUILD_WITH_INSTALL_RPATH); otherwise CMake ends it with ':' there, and an empty element means the current folder.
set(CMAKE_BUILD_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
# docs/testing.md, "Sanitizers". Every finding ends the program, so that no test can ignore it.
if(TRAIN_SANITIZE)
  add_compile_options(-fsanitize=${TRAIN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRAIN_SANITIZE})
  if(TRAIN_SANITIZE STREQUAL thread)
    add_compile_options(-Wno-tsan)  # about Asio's fences, which it does not need: its queue has a mutex
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
  # With precompiled headers, ccache needs two promises: no __DATE__ or __TIME__, and no different macros for the same header.
  # It must also compare comments: g++ includes a header again whose text differs from the precompiled one. The namespace
  # leaves out what was cached before it did.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMMENTS=1
      CCACHE_NAMESPACE=trainrun-comments ${TRAIN_CCACHE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()
add_link_options(-Wl,--as-needed)
