#include "sdk/torch/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "sdk/torch/failure.h"
#include "sdk/torch/safetensors.h"

namespace train::sdk {
namespace {

struct DtypeName {
  std::string_view name;
  torch::ScalarType type;
};
constexpr std::array kDtypeNames{
    DtypeName{"F64", torch::kFloat64}, DtypeName{"F32", torch::kFloat32},
    DtypeName{"F16", torch::kFloat16}, DtypeName{"BF16", torch::kBFloat16},
    DtypeName{"I64", torch::kInt64},   DtypeName{"I32", torch::kInt32},
    DtypeName{"I16", torch::kInt16},   DtypeName{"I8", torch::kInt8},
    DtypeName{"U8", torch::kUInt8},    DtypeName{"BOOL", torch::kBool}};

std::string name_of(const std::string& tensor, torch::ScalarType type) {
  for (const DtypeName& each : kDtypeNames) {
    if (each.type == type) return std::string(each.name);
  }
  raise(Error{Errc::InvalidArgument, "tensor \"" + tensor + "\" is " + torch::toString(type) +
                                         ", which safetensors has no name for"});
}

torch::ScalarType type_of(std::string_view name) {
  for (const DtypeName& each : kDtypeNames) {
    if (each.name == name) return each.type;
  }
  raise(Error{Errc::Internal, "no tensor type for dtype " + std::string(name)});
}

torch::Tensor view_at(const torch::Tensor& buffer, std::uint64_t offset, const TensorEntry& entry) {
  std::uint8_t* at = buffer.data_ptr<std::uint8_t>() + offset;
  // The deleter holds the buffer, so that a view may outlive the file's other tensors.
  return torch::from_blob(
      at, entry.shape, [buffer](void*) {}, torch::TensorOptions(type_of(entry.dtype)));
}

struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

StagedFile stage_tensors(const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata) {
  TensorFile file;
  file.metadata = metadata;
  for (const auto& [name, tensor] : tensors) {
    file.tensors.push_back({.name = name,
                            .dtype = name_of(name, tensor.scalar_type()),
                            .shape = tensor.sizes().vec()});
  }
  StagedFile staged;
  staged.header = make_header(file);
  const std::uint64_t bytes = file.tensors.empty() ? 0 : file.tensors.back().end;
  staged.data = torch::empty({static_cast<std::int64_t>(bytes)}, torch::kUInt8);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].second.numel() == 0) continue;
    view_at(staged.data, file.tensors[i].begin, file.tensors[i]).copy_(tensors[i].second);
  }
  return staged;
}

LoadedFile read_tensor_file(const std::string& path) {
  const File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info {};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0) raise(system_error(errno, "opening " + path));
  const auto buffer = torch::empty({static_cast<std::int64_t>(info.st_size)}, torch::kUInt8);
  auto* bytes = buffer.data_ptr<std::uint8_t>();
  for (std::int64_t done = 0; done < info.st_size;) {
    const ssize_t count =
        ::read(file.fd, bytes + done, static_cast<std::size_t>(info.st_size - done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) raise(system_error(count < 0 ? errno : EIO, "reading " + path));
    done += count;
  }
  const std::string_view whole(reinterpret_cast<const char*>(bytes),
                               static_cast<std::size_t>(info.st_size));
  auto header = parse_header(whole, static_cast<std::uint64_t>(info.st_size));
  if (header.has_error()) raise(std::move(header).error().with_context(path));
  LoadedFile loaded;
  loaded.metadata = header->metadata;
  for (const TensorEntry& entry : header->tensors) {
    loaded.tensors[entry.name] = view_at(buffer, header->data_offset + entry.begin, entry);
  }
  return loaded;
}

}  // namespace train::sdk
