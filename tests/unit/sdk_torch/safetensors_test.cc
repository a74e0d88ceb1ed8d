#include "sdk/torch/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train::sdk {
namespace {

using ::testing::HasSubstr;

/// Return the beginning of a file: the length of `json`, then `json`.
std::string with_length(const std::string& json) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i) & 0xff);
  return bytes + json;
}

std::string error_of(const std::string& json, std::uint64_t data_bytes) {
  const std::string bytes = with_length(json);
  const auto parsed = parse_header(bytes, bytes.size() + data_bytes);
  return parsed.has_error() ? parsed.error().message : "none";
}

TEST(Safetensors, HeaderHasTheFormatsBytes) {
  TensorFile file;
  file.tensors = {{.name = "weight", .dtype = "F32", .shape = {2, 3}},
                  {.name = "steps", .dtype = "I64", .shape = {}}};
  file.metadata = {{"format", "pt"}};

  const std::string header = make_header(file);

  const std::string json =
      R"({"__metadata__":{"format":"pt"},"steps":{"data_offsets":[24,32],"dtype":"I64","shape":[]},)"
      R"("weight":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]}})";
  EXPECT_EQ(header, with_length(json + std::string((8 - json.size() % 8) % 8, ' ')));
  EXPECT_EQ(file.data_offset, header.size());
  EXPECT_EQ(file.data_offset % 8, 0U);
}

TEST(Safetensors, ParsesWhatItWrites) {
  TensorFile file;
  file.tensors = {{.name = "a", .dtype = "BF16", .shape = {0, 7}},
                  {.name = "b \"\n", .dtype = "BOOL", .shape = {5}}};
  file.metadata = {{"k", "v"}};
  const std::string header = make_header(file);

  const auto parsed = parse_header(header, header.size() + 5);

  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, file);
}

TEST(Safetensors, RefusesWhatTheFormatForbids) {
  EXPECT_EQ(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "none");
  EXPECT_EQ(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9),
            "safetensors header: it describes 8 bytes of tensors, the file has 9");
  EXPECT_EQ(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
            "safetensors header: tensor \"a\" lies at [4, 12), expected 8 bytes at 0");
  EXPECT_EQ(error_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
            "safetensors header: tensor \"a\" lies at [0, 8), expected 12 bytes at 0");
  EXPECT_EQ(error_of(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8),
            "safetensors header: tensor \"a\" has the unknown dtype \"Q4\"");
  EXPECT_EQ(
      error_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0),
      "safetensors header: tensor \"a\" has an impossible shape");
  EXPECT_EQ(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
            "safetensors header: tensor \"a\" has bad data_offsets");
  EXPECT_EQ(error_of(R"({"__metadata__":{"epoch":3}})", 0),
            "safetensors header: __metadata__ holds more than strings");
  EXPECT_THAT(error_of("not json", 0), HasSubstr("safetensors header: "));
  EXPECT_THAT(error_of(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor \"a\""));
}

TEST(Safetensors, RefusesAFileCutAnywhereInItsHeader) {
  TensorFile file;
  file.tensors = {{.name = "a", .dtype = "U8", .shape = {4}}};
  const std::string header = make_header(file);

  for (std::size_t length = 0; length < header.size(); ++length) {
    EXPECT_TRUE(parse_header(header.substr(0, length), length).has_error()) << length;
  }
}

TEST(Safetensors, RefusesAHeaderLongerThanTheFormatAllows) {
  std::string bytes(8, '\xff');

  EXPECT_EQ(parse_header(bytes, 8).error().message,
            "safetensors header: its length is 18446744073709551615, more than the format allows");
}

}  // namespace
}  // namespace train::sdk
