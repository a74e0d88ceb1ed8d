# Several trainds: on loopback addresses, and in network namespaces (root only; tests say so when they are skipped).
add_library(e2e_nodes STATIC dns_server.cc netns.cc multi_node.cc)
train_test_options(e2e_nodes)
train_shares_precompiled(e2e_nodes train_test_precompiled)
target_compile_definitions(e2e_nodes PRIVATE TRAIN_DEPS_DIR="${TRAINRUN_DEPS_DIR}" TRAIN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_link_libraries(e2e_nodes PUBLIC e2e_cluster fmt::fmt)

foreach(part IN ITEMS placement labels faults elastic discovery members queue setup ship ingest upkeep security certificates storage relay replicas ssh ddp roles warm)
  e2e_test(multi_node_${part}_test SOURCES multi_node_${part}_test.cc USES e2e_nodes train_net TIMEOUT 600)
endforeach()
e2e_test(multi_node_torchrun_test SOURCES multi_node_torchrun_test.cc USES e2e_nodes train_net train_torchrun TIMEOUT 600)
target_compile_definitions(multi_node_labels_test PRIVATE FAKE_NVML_FOLDER="${CMAKE_BINARY_DIR}/tests/fake_nvml")
add_dependencies(multi_node_labels_test train_fake_nvml)
