// Hadoop's file system as an object store.
#pragma once

#include "lib/storage/object_store.h"

namespace train::remote {

/// Open the store at `url`: "hdfs://namenode:8020/folder", "hdfs://nameservice/folder",
/// "hdfs:///folder". Needs Java, libhdfs.so and Hadoop's jars on this machine: JAVA_HOME,
/// HADOOP_HOME, CLASSPATH. Connects immediately; Unavailable tells what is missing.
Result<std::shared_ptr<ObjectStore>> open_hdfs(const std::string& url,
                                               const ObjectStoreOptions& options);

}  // namespace train::remote
