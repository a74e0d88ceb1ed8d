#include "lib/storage/remote/libhdfs.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace train::remote {
namespace {

/// Return the path of the libhdfs.so that this process has loaded; empty if there is none.
std::string loaded_library() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        const std::string_view name = info->dlpi_name;
        const auto slash = name.rfind('/');
        const bool it = name.substr(slash + 1).starts_with("libhdfs.so");
        if (it) *static_cast<std::string*>(found) = name;
        return it ? 1 : 0;
      },
      &path);
  return path;
}

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

struct LibHdfs::Functions {
  void* (*new_builder)();
  void (*force_new_instance)(void* builder);
  void (*set_name_node)(void* builder, const char* host);
  void (*set_port)(void* builder, std::uint16_t port);
  void (*set_user)(void* builder, const char* name);
  void* (*connect)(void* builder);
  int (*disconnect)(void* fs);
  int (*rename)(void* fs, const char* from, const char* to);
  int (*exists)(void* fs, const char* path);
  int (*remove)(void* fs, const char* path, int recursive);

  bool load(void* library) {
    return find(library, "hdfsNewBuilder", new_builder) &&
           find(library, "hdfsBuilderSetForceNewInstance", force_new_instance) &&
           find(library, "hdfsBuilderSetNameNode", set_name_node) &&
           find(library, "hdfsBuilderSetNameNodePort", set_port) &&
           find(library, "hdfsBuilderSetUserName", set_user) &&
           find(library, "hdfsBuilderConnect", connect) &&
           find(library, "hdfsDisconnect", disconnect) && find(library, "hdfsRename", rename) &&
           find(library, "hdfsExists", exists) && find(library, "hdfsDelete", remove);
  }
};

Result<std::unique_ptr<LibHdfs>> LibHdfs::connect(const HdfsLocation& location) {
  const std::string path = loaded_library();
  void* library = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  auto functions = std::make_unique<Functions>();
  if (library == nullptr || !functions->load(library))
    return Error{Errc::Unavailable, fmt::format("'{}' is not Hadoop's libhdfs", path),
                 "use the one of Hadoop 2.7 or later (HADOOP_HOME, ARROW_LIBHDFS_DIR)"};
  void* builder = functions->new_builder();
  functions->force_new_instance(builder);  // else we would share Arrow's, which Arrow closes
  functions->set_name_node(builder, location.host.c_str());
  if (location.port != 0) functions->set_port(builder, location.port);
  if (!location.user.empty()) functions->set_user(builder, location.user.c_str());
  std::unique_ptr<LibHdfs> connected(new LibHdfs());
  connected->functions_ = std::move(functions);
  connected->fs_ = connected->functions_->connect(builder);
  if (connected->fs_ == nullptr) return connected->error("connecting to", location.host);
  return connected;
}

LibHdfs::~LibHdfs() {
  if (fs_ != nullptr) functions_->disconnect(fs_);
}

Error LibHdfs::error(std::string_view doing, const std::string& path) const {
  const int why = errno;
  Errc code = Errc::Unavailable;
  if (why == ENOENT) code = Errc::NotFound;
  if (why == EACCES || why == EPERM) code = Errc::Permission;
  // Numbers above the system's are libhdfs's own, for errors without a system number.
  return Error{code, fmt::format("{} '{}': {}", doing, path,
                                 why < 255 ? std::strerror(why) : "Hadoop failed")};
}

Result<Unit> LibHdfs::rename(const std::string& from, const std::string& to) {
  if (functions_->rename(fs_, from.c_str(), to.c_str()) == 0) return Unit{};
  const Error failed = error("renaming", from);
  TRY(const bool taken, exists(to));
  if (taken) return Error{Errc::AlreadyExists, fmt::format("'{}' exists", to)};
  return failed;
}

Result<bool> LibHdfs::exists(const std::string& path) {
  errno = 0;
  if (functions_->exists(fs_, path.c_str()) == 0) return true;
  if (errno == ENOENT || errno == 0) return false;
  return error("looking for", path);
}

Result<Unit> LibHdfs::remove(const std::string& path) {
  errno = 0;
  if (functions_->remove(fs_, path.c_str(), 0) == 0) return Unit{};
  const Error failed = error("removing", path);
  TRY(const bool there, exists(path));
  if (!there) return Error{Errc::NotFound, failed.message};
  return failed;
}

}  // namespace train::remote
