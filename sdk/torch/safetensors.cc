#include "sdk/torch/safetensors.h"

#include <algorithm>
#include <array>

#include "sdk/include/train/config.h"

namespace train::sdk {
namespace {

struct Dtype {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array kDtypes{Dtype{"F64", 8}, Dtype{"F32", 4}, Dtype{"F16", 2}, Dtype{"BF16", 2},
                             Dtype{"I64", 8}, Dtype{"I32", 4}, Dtype{"I16", 2}, Dtype{"I8", 1},
                             Dtype{"U8", 1},  Dtype{"BOOL", 1}};

Error corrupt(std::string why) { return {Errc::Corrupt, "safetensors header: " + std::move(why)}; }

// Return the size in bytes that follows from a shape and a dtype; an Error for an unknown dtype or
// a negative dimension, and when the size overflows.
Result<std::uint64_t> bytes_of(const TensorEntry& entry) {
  std::uint64_t bytes = dtype_bytes(entry.dtype);
  if (bytes == 0)
    return corrupt("tensor \"" + entry.name + "\" has the unknown dtype \"" + entry.dtype + "\"");
  for (const std::int64_t size : entry.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      return corrupt("tensor \"" + entry.name + "\" has an impossible shape");
    }
  }
  return bytes;
}

Result<TensorEntry> parse_entry(const std::string& name, const Value& value) {
  try {
    const Dict fields = value.as<Dict>();
    TensorEntry entry;
    entry.name = name;
    entry.dtype = fields.at("dtype").as<std::string>();
    entry.shape = fields.at("shape").as<std::vector<std::int64_t>>();
    const auto offsets = fields.at("data_offsets").as<std::vector<std::uint64_t>>();
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      return corrupt("tensor \"" + name + "\" has bad data_offsets");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    return entry;
  } catch (const std::exception& error) {
    return corrupt("tensor \"" + name + "\": " + error.what());
  }
}

Result<Dict> parse_dict(std::string_view text) {
  try {
    return parse_json(text).as<Dict>();
  } catch (const Failure& error) {
    return corrupt(error.what());
  }
}

Result<Unit> check_layout(const TensorFile& file, std::uint64_t data_bytes) {
  std::uint64_t position = 0;
  for (const TensorEntry& entry : file.tensors) {
    TRY(const std::uint64_t bytes, bytes_of(entry));
    if (entry.begin != position || entry.end - entry.begin != bytes) {
      return corrupt("tensor \"" + entry.name + "\" lies at [" + std::to_string(entry.begin) +
                     ", " + std::to_string(entry.end) + "), expected " + std::to_string(bytes) +
                     " bytes at " + std::to_string(position));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    return corrupt("it describes " + std::to_string(position) + " bytes of tensors, the file has " +
                   std::to_string(data_bytes));
  }
  return Unit{};
}

}  // namespace

std::uint64_t dtype_bytes(std::string_view dtype) {
  for (const Dtype& each : kDtypes) {
    if (each.name == dtype) return each.bytes;
  }
  return 0;
}

std::string make_header(TensorFile& file) {
  Dict header;
  Dict metadata;
  for (const auto& [key, text] : file.metadata) metadata[key] = text;
  if (!metadata.empty()) header["__metadata__"] = std::move(metadata);
  std::uint64_t position = 0;
  for (TensorEntry& entry : file.tensors) {
    std::uint64_t bytes = dtype_bytes(entry.dtype);
    List shape;
    for (const std::int64_t size : entry.shape) {
      bytes *= static_cast<std::uint64_t>(size);
      shape.emplace_back(size);
    }
    entry.begin = position;
    entry.end = position += bytes;
    header[entry.name] = Dict{{"dtype", entry.dtype},
                              {"shape", std::move(shape)},
                              {"data_offsets", List{Value(entry.begin), Value(entry.end)}}};
  }
  std::string text = to_json(Value(std::move(header)));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(kHeaderLengthBytes, '\0');
  for (std::size_t i = 0; i < kHeaderLengthBytes; ++i) {
    length[i] = static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i) & 0xff);
  }
  file.data_offset = kHeaderLengthBytes + text.size();
  return length + text;
}

std::uint64_t header_length(std::string_view bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kHeaderLengthBytes && bytes.size() >= kHeaderLengthBytes; ++i) {
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

Result<TensorFile> parse_header(std::string_view bytes, std::uint64_t file_bytes) {
  if (bytes.size() < kHeaderLengthBytes)
    return corrupt("the file has " + std::to_string(bytes.size()) + " bytes");
  const std::uint64_t length = header_length(bytes);
  if (length > kHeaderBytesMax)
    return corrupt("its length is " + std::to_string(length) + ", more than the format allows");
  if (length > bytes.size() - kHeaderLengthBytes) return corrupt("it is cut short");
  TRY(const Dict header, parse_dict(bytes.substr(kHeaderLengthBytes, length)));
  TensorFile file;
  file.data_offset = kHeaderLengthBytes + length;
  for (const auto& [name, value] : header) {
    if (name == "__metadata__") {
      if (!value.is_dict()) return corrupt("__metadata__ is not an object");
      for (const auto& [key, text] : value.as<Dict>()) {
        if (!text.is_string()) return corrupt("__metadata__ holds more than strings");
        file.metadata[key] = text.as<std::string>();
      }
      continue;
    }
    TRY(TensorEntry entry, parse_entry(name, value));
    file.tensors.push_back(std::move(entry));
  }
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
            });
  TRY_VOID(check_layout(file, file_bytes - file.data_offset));
  return file;
}

}  // namespace train::sdk
