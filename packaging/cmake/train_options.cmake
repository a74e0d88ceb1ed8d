# Compiler and linker settings of every target.
add_compile_options(-Wall -Wextra -Wconversion -Wno-sign-conversion -fno-omit-frame-pointer
                    -Wno-maybe-uninitialized)  # g++ 12 sees ghosts in moves of std::variant
if(TRAIN_WERROR)
  add_compile_options(-Werror)
endif()
if(TRAIN_SANITIZE)
  add_compile_options(-fsanitize=${TRAIN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRAIN_SANITIZE})
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
