// What the names of a dataset's files tell: their format, and whether a folder's file belongs to a
// dataset. Pure.
#pragma once

#include <string>
#include <string_view>

#include "lib/data/dataset_files.h"

namespace train::data {

/// Return the format that a file's name ends like; Auto for none.
FileFormat format_of(std::string_view name);
/// Return whether a folder's file belongs to a dataset of `format`.
bool belongs(std::string_view name, FileFormat format);
/// Return whether a name within a folder is passed over.
bool is_hidden_name(std::string_view name);
/// Return the error for a folder without such files.
Error no_files_in(const std::string& folder, FileFormat format);
/// Return the error for a path that stands for nothing.
Error missing(const std::string& path);
/// Return the error for a pattern that stands for nothing.
Error no_file_like(const std::string& pattern);

/// What in a path makes it a pattern.
inline constexpr std::string_view kWildcards = "*?[";

}  // namespace train::data
