// Object stores in memory for code that opens them by URL: libtrainrun_fake_storage.so replaces the
// product's libtrainrun_storage.so. The stores belong to one process; any thread may call.
//
//   const auto objects = fakes::objects_at("s3://bucket/vit");
//   run_the_code("s3://bucket/vit");          // open_object_store() gives a store of these objects
//   EXPECT_TRUE(objects->has("owner.json"));
#pragma once

#include <memory>
#include <string>

#include "tests/fakes/object_store.h"

namespace train::fakes {

/// Return the objects of the store at `url`. From the first call on, every open_object_store() of
/// this process gives a store in memory.
std::shared_ptr<MemoryObjects> objects_at(const std::string& url);

/// A symbol that only the fake module exports.
inline constexpr const char* kFakeObjects = "trainrun_fake_objects";
using FakeObjects = void (*)(const std::string& url, std::shared_ptr<MemoryObjects>* objects);

}  // namespace train::fakes
