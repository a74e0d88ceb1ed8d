# train_library(NAME SOURCES .. USES .. PRIVATE_USES .. PRECOMPILED ..): one static library of this project. USES are the libraries
# whose headers its own headers include; docs/architecture.md holds the table that tests/unit/layering_test.cc checks. PRECOMPILED is the
# library whose precompiled header it shares: train_base unless it says train_net (Asio) or NONE.
function(train_library name)
  cmake_parse_arguments(arg "" "PRECOMPILED" "SOURCES;USES;PRIVATE_USES" ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
    target_link_libraries(${name} PUBLIC ${arg_USES} PRIVATE ${arg_PRIVATE_USES})
    if(NOT arg_PRECOMPILED)
      set(arg_PRECOMPILED train_base)
    endif()
    if(NOT arg_PRECOMPILED STREQUAL NONE)
      target_precompile_headers(${name} REUSE_FROM ${arg_PRECOMPILED})
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
    target_link_libraries(${name} INTERFACE ${arg_USES})
  endif()
endfunction()

# train_precompiled(NAME HEADER USES ..): a precompiled header for programs, which train_shares_precompiled() takes from it.
function(train_precompiled name header)
  cmake_parse_arguments(arg "" "" "USES" ${ARGN})
  set(empty ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  file(GENERATE OUTPUT ${empty} CONTENT "")
  add_library(${name} OBJECT ${empty})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_USES})
  target_precompile_headers(${name} PRIVATE ${header})
  train_test_options(${name})
endfunction()

# How tests are compiled: few of their functions run long, so optimising them costs more than it gives.
function(train_test_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  # A test names the members that it is about; EXPECT_EQ below an `if` holds an `else` of its own.
  target_compile_options(${target} PRIVATE -Wno-missing-field-initializers -Wno-dangling-else)
endfunction()

# A program that shares the precompiled header of a library, which is position independent.
function(train_shares_precompiled target owner)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# train_test(NAME SOURCES .. USES .. LABELS .. TIMEOUT seconds PRECOMPILED ..): a GoogleTest program, one entry of ctest.
# `tests_<label>` builds all of a label. SERIAL: never beside another test (network namespaces, timing of real processes).
# PRECOMPILED is train_test_precompiled unless it says train_net_test_precompiled (Asio) or NONE.
function(train_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT;PRECOMPILED" "SOURCES;USES;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_USES} GTest::gtest_main GTest::gmock fmt::fmt)
  train_test_options(${name})
  if(NOT arg_PRECOMPILED)
    set(arg_PRECOMPILED train_test_precompiled)
  endif()
  if(NOT arg_PRECOMPILED STREQUAL NONE)
    train_shares_precompiled(${name} ${arg_PRECOMPILED})
  endif()
  target_compile_definitions(${name} PRIVATE TRAIN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TRAIN_BINARY_DIR="${CMAKE_BINARY_DIR}"
                             TRAIN_DEPS_DIR="${TRAINRUN_DEPS_DIR}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(TRAIN_SANITIZE)  # of a whole program: the crash states of lib_storage take 64 s of CPU with ASan
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  # Its cases, for packaging/run_tests.sh.
  set(environment ${arg_ENVIRONMENT} ${TRAIN_SANITIZER_ENVIRONMENT}
      "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/test_results/${name}.xml")
  # One ctest entry a program: discovery at every build would run each binary once more.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${environment}")
  foreach(label IN LISTS arg_LABELS)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
