#include "sdk/torch/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "sdk/torch/failure.h"
#include "sdk/torch/safetensors.h"
#include "sdk/torch/staging_buffers.h"

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

int open_file(const std::string& path, std::uint64_t* bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (fd >= 0 && ::fstat(fd, &info) == 0) {
    *bytes = static_cast<std::uint64_t>(info.st_size);
    return fd;
  }
  const Error error = system_error(errno, "opening " + path);
  if (fd >= 0) ::close(fd);
  raise(error);
}

void read_at(int fd, std::uint64_t offset, char* to, std::uint64_t bytes, const std::string& path) {
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t count = ::pread(fd, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) raise(system_error(count < 0 ? errno : EIO, "reading " + path));
    done += static_cast<std::uint64_t>(count);
  }
}

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
  staged.data = staging_buffer(static_cast<std::int64_t>(bytes));
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].second.numel() == 0) continue;
    view_at(staged.data, file.tensors[i].begin, file.tensors[i]).copy_(tensors[i].second);
  }
  return staged;
}

LoadedFile read_tensor_file(const std::string& path) {
  const TensorReader file(path);
  const std::uint64_t bytes = file.tensors().empty() ? 0 : file.tensors().back().end;
  LoadedFile loaded;
  loaded.metadata = file.metadata();
  const torch::Tensor buffer = file.bytes(0, bytes);
  for (const TensorEntry& entry : file.tensors())
    loaded.tensors[entry.name] = view_at(buffer, entry.begin, entry);
  return loaded;
}

TensorReader::TensorReader(std::string path) : path_(std::move(path)) {
  std::uint64_t file_bytes = 0;
  fd_ = open_file(path_, &file_bytes);
  // The header's length first: what it says is checked before anything of that size is read.
  std::string head(std::min<std::uint64_t>(file_bytes, kHeaderLengthBytes), '\0');
  read_at(fd_, 0, head.data(), head.size(), path_);
  const std::uint64_t header_bytes = header_length(head);
  if (header_bytes <= kHeaderBytesMax && header_bytes <= file_bytes - head.size()) {
    head.resize(head.size() + header_bytes);
    read_at(fd_, kHeaderLengthBytes, head.data() + kHeaderLengthBytes, header_bytes, path_);
  }
  auto header = parse_header(head, file_bytes);
  if (header) {
    header_ = std::move(*header);
    return;
  }
  ::close(fd_);
  raise(std::move(header).error().with_context(path_));
}

TensorReader::TensorReader(TensorReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      header_(std::move(other.header_)) {}

TensorReader::~TensorReader() {
  if (fd_ >= 0) ::close(fd_);
}

torch::ScalarType TensorReader::type(const TensorEntry& entry) { return type_of(entry.dtype); }

torch::Tensor TensorReader::bytes(std::uint64_t begin, std::uint64_t end) const {
  auto buffer = torch::empty({static_cast<std::int64_t>(end - begin)}, torch::kUInt8);
  read_at(fd_, header_.data_offset + begin,
          reinterpret_cast<char*>(buffer.data_ptr<std::uint8_t>()), end - begin, path_);
  return buffer;
}

torch::Tensor TensorReader::rows(const TensorEntry& entry, std::int64_t begin,
                                 std::int64_t end) const {
  TensorEntry part = entry;
  part.begin = entry.begin;
  if (!entry.shape.empty()) {
    const std::uint64_t row = entry.shape[0] == 0 ? 0
                                                  : (entry.end - entry.begin) /
                                                        static_cast<std::uint64_t>(entry.shape[0]);
    part.shape[0] = end - begin;
    part.begin = entry.begin + static_cast<std::uint64_t>(begin) * row;
    part.end = entry.begin + static_cast<std::uint64_t>(end) * row;
  }
  return view_at(bytes(part.begin, part.end), 0, part);
}

}  // namespace train::sdk
