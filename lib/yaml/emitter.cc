#include "lib/yaml/emitter.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>

#include "lib/base/check.h"
#include "lib/base/utf8.h"
#include "lib/yaml/diagnostics.h"
#include "lib/yaml/scalar.h"
#include "lib/yaml/writer.h"

namespace train::yaml {
namespace {

namespace json = boost::json;

/// Return whether a literal block holds the text exactly, and shows it as it is. A space at its
/// beginning would count as indentation; only one line end at its end survives.
bool fits_literal_block(std::string_view text) {
  if (text.size() < 2 || !text.ends_with('\n') || text.ends_with("\n\n")) return false;
  if (text.front() == ' ' || text.front() == '\n') return false;
  constexpr std::uint32_t kByteOrderMark = 0xFEFF, kNoCharacter = 0xFFFE;
  while (!text.empty()) {
    const CodePoint next = read_code_point(text);
    text.remove_prefix(next.length);
    if (next.value == '\n') continue;
    if (!next.valid || is_steering(next.value) || next.value == kByteOrderMark ||
        (next.value & kNoCharacter) == kNoCharacter)
      return false;
  }
  return true;
}

bool plain_is_safe(std::string_view text) { return write_text(text) == text; }

class Emitter {
 public:
  Emitter() { out_.SetOutputCharset(YAML::EscapeNonAscii); }

  Result<Unit> document(const Document& document) {
    out_ << YAML::BeginDoc;
    if (!document.comment.empty()) out_ << YAML::Comment(document.comment) << YAML::Newline;
    TRY_VOID(object(document.value));
    return Unit{};
  }

  std::string take() {
    TRAIN_CHECK(out_.good(), "yaml-cpp refuses a value that we have made");
    return std::string(out_.c_str(), out_.size()) + "\n";
  }

 private:
  Result<Unit> value(const json::value& value) {
    switch (value.kind()) {
      case json::kind::null:
        out_ << YAML::Null;
        return Unit{};
      case json::kind::bool_:
        out_ << (value.as_bool() ? "true" : "false");
        return Unit{};
      case json::kind::int64:
        out_ << value.as_int64();
        return Unit{};
      case json::kind::uint64:
        out_ << value.as_uint64();
        return Unit{};
      case json::kind::double_:
        out_ << format_number_yaml(value.as_double());
        return Unit{};
      case json::kind::string:
        return text(value.as_string());
      case json::kind::array:
        return array(value.as_array());
      case json::kind::object:
        return object(value.as_object());
    }
    return Unit{};
  }

  Result<Unit> text(std::string_view text) {
    if (utf8_text(text) != text)
      return Error{Errc::InvalidArgument, fmt::format("{} is not UTF-8", in_quotes(text))};
    if (fits_literal_block(text))
      out_ << YAML::EmitNonAscii << YAML::Literal;
    else if (!plain_is_safe(text))
      out_ << YAML::DoubleQuoted;
    out_ << std::string(text);
    return Unit{};
  }

  Result<Unit> array(const json::array& items) {
    if (items.empty()) out_ << YAML::Flow;
    out_ << YAML::BeginSeq;
    for (const json::value& item : items) TRY_VOID(value(item));
    out_ << YAML::EndSeq;
    return Unit{};
  }

  Result<Unit> object(const json::object& entries) {
    if (entries.empty()) out_ << YAML::Flow;
    out_ << YAML::BeginMap;
    for (const auto& [key, item] : entries) {
      out_ << YAML::Key;
      TRY_VOID(text(std::string_view(key)));
      out_ << YAML::Value;
      TRY_VOID(value(item));
    }
    out_ << YAML::EndMap;
    return Unit{};
  }

  YAML::Emitter out_;
};

}  // namespace

Result<std::string> emit(const std::vector<Document>& documents) {
  Emitter emitter;
  for (const Document& document : documents) TRY_VOID(emitter.document(document));
  return emitter.take();
}

}  // namespace train::yaml
