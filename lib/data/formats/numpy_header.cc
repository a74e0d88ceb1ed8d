#include "lib/data/formats/numpy_header.h"

#include <charconv>

namespace train::data {
namespace {

Error not_numpy(std::string why) {
  return Error{Errc::Corrupt, "it is not a NumPy file: " + std::move(why)};
}

/// Reads the header's text, a Python dict of three keys, from left to right.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  /// Take a string in single or double quotes. NumPy writes none with escapes.
  bool take_string(std::string& text) {
    skip_spaces();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return false;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return false;
    text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool take_number(std::int64_t& number) {
    skip_spaces();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc() || number < 0) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }

 private:
  void skip_spaces() {
    const std::size_t first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
  }
  std::string_view rest_;
};

/// Take "(3, 4)", "(3,)" or "()".
bool take_shape(HeaderText& text, std::vector<std::int64_t>& shape) {
  if (!text.take('(')) return false;
  while (!text.take(')')) {
    std::int64_t length = 0;
    if (shape.size() == 32 || !text.take_number(length)) return false;  // NumPy's own limit
    shape.push_back(length);
    if (text.take(',')) continue;
    return text.take(')');
  }
  return true;
}

Result<Unit> read_dict(HeaderText text, NumpyHeader& header) {
  bool has_type = false, has_order = false, has_shape = false;
  if (!text.take('{')) return not_numpy("its header is no dict");
  while (!text.take('}')) {
    std::string key;
    if (!text.take_string(key) || !text.take(':')) return not_numpy("its header is damaged");
    if (key == "descr" && !has_type) {
      has_type = true;
      if (text.take('['))
        return Error{Errc::InvalidArgument, "its type is structured",
                     "save each field as an array of its own"};
      if (!text.take_string(header.type)) return not_numpy("its header is damaged");
    } else if (key == "fortran_order" && !has_order) {
      has_order = true;
      if (text.take_word("True"))
        return Error{Errc::InvalidArgument, "it is stored column by column (Fortran's order)",
                     "save numpy.ascontiguousarray(array)"};
      if (!text.take_word("False")) return not_numpy("its header is damaged");
    } else if (key == "shape" && !has_shape) {
      has_shape = true;
      if (!take_shape(text, header.shape)) return not_numpy("its shape is damaged");
    } else {
      return not_numpy("its header is damaged");
    }
    if (text.take(',')) continue;
    if (!text.take('}')) return not_numpy("its header is damaged");
    break;
  }
  if (!text.at_end() || !has_type || !has_order || !has_shape)
    return not_numpy("its header is damaged");
  return Unit{};
}

}  // namespace

Result<NumpyHeader> read_numpy_header(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at]));
  };
  if (!bytes.starts_with(kMagic)) return not_numpy("it does not begin as one");
  if (bytes.size() < 12) return not_numpy("it is cut");
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) return not_numpy("its version is unknown");
  const std::size_t begin = version == 1 ? 10 : 12;
  std::size_t length = byte(8) + (byte(9) << 8);
  if (version > 1) length += (byte(10) << 16) + (byte(11) << 24);
  if (length > kNumpyHeaderMax - begin || begin + length > bytes.size())
    return not_numpy("its header is cut, or too long");
  NumpyHeader header;
  header.values_at = static_cast<std::int64_t>(begin + length);
  TRY_VOID(read_dict(HeaderText(bytes.substr(begin, length)), header));
  return header;
}

}  // namespace train::data
