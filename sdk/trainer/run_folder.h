// What a run's folder says of its end (lib/storage/FORMAT.md, docs/driver.md).
#pragma once

#include <train/trainer.h>

#include <filesystem>
#include <optional>
#include <string>

namespace train::trainer {

/// Return the file's JSON object; empty if there is none. Throws Failure("corrupt"), which names
/// the file, if it is something else.
Dict read_json_object(const std::filesystem::path& path);
/// Return the member, or nothing if it is missing, null or of another type.
std::optional<std::string> text_of(const Dict& object, const std::string& name);
std::optional<std::int64_t> number_of(const Dict& object, const std::string& name);
/// Return the list, or an empty one.
List list_of(const Dict& object, const std::string& name);

/// Return the result of a run that has left exit.json in `folder`.
RunResult result_of(const std::filesystem::path& folder);

}  // namespace train::trainer
