// A committed checkpoint of an object store on this node's disk, for the workers that restore from
// it.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <string>

#include "lib/net/task.h"
#include "lib/storage/object_store.h"
#include "lib/storage/posix_file_system.h"

namespace train {

/// Bring the checkpoint at `url` into `folder`, where it may be already: every byte is verified.
/// Runs on `pool`; the answer is the folder.
Task<std::string> fetch_checkpoint(boost::asio::thread_pool& pool, std::string url,
                                   std::string folder, ObjectStoreOptions options);

}  // namespace train
