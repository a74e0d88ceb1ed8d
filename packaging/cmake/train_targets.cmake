# train_units(VARIABLE TARGET SOURCE..): set VARIABLE to what TARGET compiles in place of these sources: with TRAIN_UNITY a few
# translation units that include them, so that their headers are read and their templates are instantiated once (docs/developing.md).
# Sources that have compile definitions or no precompiled header of their target stay as they are; say so before this call.
function(train_units variable target)
  set(units ${ARGN})
  if(TRAIN_UNITY)
    set(together)
    foreach(source IN LISTS ARGN)
      get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
      get_source_file_property(without_precompiled ${source} SKIP_PRECOMPILE_HEADERS)
      cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
      if(path MATCHES "[.]cc$" AND EXISTS ${path} AND NOT definitions AND NOT without_precompiled)
        list(REMOVE_ITEM units ${source})
        list(APPEND together ${path})
      endif()
    endforeach()
    execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/packaging/cmake/unity_groups.py 3000 ${together}
                    OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
    foreach(source group IN ZIP_LISTS together groups)
      string(APPEND text_${group} "#include \"${source}\"\n")
      list(APPEND numbers ${group})
    endforeach()
    list(REMOVE_DUPLICATES numbers)
    foreach(group IN LISTS numbers)
      set(unit ${CMAKE_CURRENT_BINARY_DIR}/${target}_unit_${group}.cc)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${text_${group}}" @ONLY)  # written only if it changes
      list(APPEND units ${unit})
    endforeach()
  endif()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()

# train_library(NAME SOURCES .. USES .. PRIVATE_USES .. PRECOMPILED ..): define a static library of this project. USES are the libraries
# whose headers its own headers include; tests/unit/layering checks them against the table in docs/architecture.md. PRECOMPILED is the
# library whose precompiled header it shares: train_base, unless it says train_net (Asio) or NONE. APART: compile each source alone,
# for a library of which users link only some objects.
function(train_library name)
  cmake_parse_arguments(arg "APART" "PRECOMPILED" "SOURCES;USES;PRIVATE_USES" ${ARGN})
  if(arg_SOURCES)
    set(units ${arg_SOURCES})
    if(NOT arg_APART)
      train_units(units ${name} ${arg_SOURCES})
    endif()
    add_library(${name} STATIC ${units})
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

# train_control_plane(TARGETS ..): compile targets that wait for others most of the time with -O1, which takes two thirds of the time
# of -O3 (docs/developing.md).
function(train_control_plane)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

# train_precompiled(NAME HEADER USES ..): define a precompiled header that programs share by train_shares_precompiled().
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

# Options for tests: few of their functions run long, so optimisation would cost more than it saves.
function(train_test_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  # A test names only the members that matter; EXPECT_EQ below an `if` contains an `else` of its own.
  target_compile_options(${target} PRIVATE -Wno-missing-field-initializers -Wno-dangling-else)
endfunction()

# Let a program share the precompiled header of a library, which is position independent.
function(train_shares_precompiled target owner)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# train_test(NAME SOURCES .. USES .. LABELS .. TIMEOUT seconds PRECOMPILED ..): define a GoogleTest program as one ctest entry.
# `tests_<label>` builds all tests of a label. PRECOMPILED is train_test_precompiled, unless it says train_net_test_precompiled
# (Asio) or NONE.
function(train_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;PRECOMPILED" "SOURCES;USES;LABELS;ENVIRONMENT" ${ARGN})
  train_units(units ${name} ${arg_SOURCES})
  add_executable(${name} ${units})
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    set_property(GLOBAL APPEND PROPERTY TRAIN_TEST_SOURCES ${source})
  endforeach()
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
  if(TRAIN_SANITIZE)  # limit of all cases: the crash states of lib_storage take 64 s of CPU with ASan
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  # Results of its cases, for packaging/run_tests.sh.
  set(environment ${arg_ENVIRONMENT} ${TRAIN_SANITIZER_ENVIRONMENT}
      "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/test_results/${name}.xml")
  # Make one ctest entry per program: discovery would run each binary once more at every build.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${environment}")
  foreach(label IN LISTS arg_LABELS)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()

# train_embed(OUTPUT FILES ..): generate OUTPUT, the source of all_assets() (launcher/dashboard/assets.h): the files' bytes,
# each by its path without a leading assets/. `NAME=PATH`: the file PATH, outside the source folder, as NAME.
function(train_embed output)
  set(sorted ${ARGN})
  list(TRANSFORM sorted REPLACE "^assets/" "")
  list(SORT sorted)
  set(text "#include \"launcher/dashboard/assets.h\"\n\n")
  set(rows "")
  set(paths "")
  set(number 0)
  foreach(name IN LISTS sorted)
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/assets/${name})
    if(name MATCHES "^([^=]+)=(.+)$")
      set(name ${CMAKE_MATCH_1})
      set(path ${CMAKE_MATCH_2})
    elseif(NOT "assets/${name}" IN_LIST ARGN)
      set(path ${CMAKE_CURRENT_SOURCE_DIR}/${name})
    endif()
    list(APPEND paths ${path})
    set(symbol trainrun_asset_${number})
    string(APPEND text "asm(\".pushsection .rodata\\n.hidden ${symbol}, ${symbol}_end\\n.global ${symbol}, ${symbol}_end\\n\"\n"
                       "    \"${symbol}: .incbin \\\"${path}\\\"\\n${symbol}_end: .byte 0\\n.popsection\\n\");\n"
                       "extern \"C\" const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${name}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  string(APPEND text "\nnamespace train {\n\nconst std::vector<Asset>& all_assets() {\n  static const std::vector<Asset> all{\n${rows}  };\n"
                     "  return all;\n}\n\n}  // namespace train\n")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output} CONTENT "${text}")
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${output} PROPERTIES OBJECT_DEPENDS "${paths}")
endfunction()
