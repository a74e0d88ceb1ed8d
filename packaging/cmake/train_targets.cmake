# train_library(NAME SOURCES .. USES .. PRIVATE_USES ..): one static library of this project. USES are the libraries
# whose headers its own headers include; docs/architecture.md holds the table that tests/unit/layering_test.cc checks.
function(train_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES;PRIVATE_USES" ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
    target_link_libraries(${name} PUBLIC ${arg_USES} PRIVATE ${arg_PRIVATE_USES})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
    target_link_libraries(${name} INTERFACE ${arg_USES})
  endif()
endfunction()

# train_test(NAME SOURCES .. USES .. LABELS .. TIMEOUT seconds ARGS ..): a GoogleTest program, registered test by test.
# SERIAL: never beside another test (network namespaces, timing of real processes).
function(train_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT" "SOURCES;USES;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_USES} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE TRAIN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TRAIN_BINARY_DIR="${CMAKE_BINARY_DIR}"
                             TRAIN_DEPS_DIR="${TRAINRUN_DEPS_DIR}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  # One ctest entry a program: discovery at every build would run each binary once more.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${arg_ENVIRONMENT}")
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
