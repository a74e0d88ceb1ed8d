# With TRAIN_STATIC, what packaging/cmake/train_dependencies.cmake takes instead of shared libraries: archives of the same Debian
# packages, or of their sources. A program then needs glibc 2.34 and libgcc_s only, wherever it was built.
#
# libgcc_s stays shared: its static copy wants _dl_find_object, which glibc has since 2.35.
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  message(FATAL_ERROR "TRAIN_STATIC was made for x86_64, and this is ${CMAKE_SYSTEM_PROCESSOR}")
endif()
set(Boost_USE_STATIC_LIBS ON)
set(OPENSSL_USE_STATIC_LIBS ON)

# static_archive(NAME FILE LIBRARIES...): define an imported archive, and what it needs itself.
function(static_archive name file)
  find_library(TRAIN_STATIC_${file} NAMES lib${file}.a REQUIRED)
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${TRAIN_STATIC_${file}} INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

# static_from_sources(NAME VERSION DEFINITIONS SOURCES...): define an archive of the sources of a Debian package that has none. The
# headers are the package's, and say what they say for the shared library: objects of ours are the same in both cases.
function(static_from_sources name version definitions)
  set(folder ${TRAINRUN_DEPS_DIR}/${name}-${version})
  if(NOT EXISTS ${folder})
    message(FATAL_ERROR "${folder} is missing: run packaging/deps/install.sh wheel")
  endif()
  list(TRANSFORM ARGN PREPEND ${folder}/)
  add_library(train_${name} STATIC ${ARGN})
  target_compile_options(train_${name} PRIVATE -w)
  target_compile_definitions(train_${name} PUBLIC ${definitions})
endfunction()

static_from_sources(fmt 9.1.0 FMT_SHARED src/format.cc)
add_library(fmt::fmt ALIAS train_fmt)
static_from_sources(spdlog 1.10.0 "SPDLOG_COMPILED_LIB;SPDLOG_FMT_EXTERNAL;SPDLOG_SHARED_LIB" src/async.cpp src/cfg.cpp src/color_sinks.cpp
                    src/file_sinks.cpp src/spdlog.cpp src/stdout_sinks.cpp)
target_link_libraries(train_spdlog PUBLIC fmt::fmt Threads::Threads)
add_library(spdlog::spdlog ALIAS train_spdlog)
static_from_sources(prometheus 1.0.1 "" core/src/serializer.cc core/src/text_serializer.cc)
add_library(prometheus-cpp::core ALIAS train_prometheus)

static_archive(yaml-cpp yaml-cpp)
static_archive(train_zlib z)
static_archive(train_bzip2 bz2)
static_archive(train_lzma lzma)
static_archive(train_elf elf train_zlib)
static_archive(train_dw dw train_elf train_lzma train_bzip2 train_zlib ${CMAKE_DL_LIBS})
set(TRAIN_DW_LIBRARIES train_dw train_elf)
static_archive(PNG::PNG png16 train_zlib m)
static_archive(dep_turbojpeg turbojpeg)

# The archive of xxHash has SSE2 only: choose at run time, as Debian's shared library does.
static_archive(train_xxhash_archive xxhash)
add_library(train_xxhash_dispatch STATIC packaging/static/xxhash_avx2.cc packaging/static/xxhash_dispatch.cc)
target_include_directories(train_xxhash_dispatch PRIVATE ${CMAKE_SOURCE_DIR})
set_source_files_properties(packaging/static/xxhash_avx2.cc PROPERTIES COMPILE_OPTIONS -mavx2)
target_link_libraries(train_xxhash_dispatch PUBLIC train_xxhash_archive)

# Nobody links libcurl: it needs 30 more libraries, and Debian's versioned symbols are Debian's own. Who loads libtrainrun_http.so
# loads the system's libcurl first (lib/http_client/http_client.cc).
find_path(CURL_INCLUDE_DIR curl/curl.h REQUIRED)
add_library(CURL::libcurl INTERFACE IMPORTED GLOBAL)
target_include_directories(CURL::libcurl SYSTEM INTERFACE ${CURL_INCLUDE_DIR})

# train_static_runtime(TARGETS...): link libstdc++ statically, and what of glibc 2.36 it would use.
add_library(train_older_glibc OBJECT packaging/static/older_glibc.cc)
function(train_static_runtime)
  foreach(target IN LISTS ARGN)
    target_link_options(${target} PRIVATE -static-libstdc++ -Wl,--exclude-libs,ALL,--gc-sections)
    target_link_libraries(${target} PRIVATE $<TARGET_OBJECTS:train_older_glibc>)
  endforeach()
endfunction()
