#include "lib/model/row_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace train {
namespace {

enum class TokenKind { Name, Quoted, Text, Number, Sign, End };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text = {};  // of Quoted and Text, without the quotes
  std::size_t at = 0;     // its first byte
  RowFilter::Value number = false;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

std::string lower(std::string_view text) {
  std::string word(text);
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return word;
}

Error error_at(std::size_t at, std::string_view what, std::string_view hint) {
  return Error{Errc::InvalidArgument,
               fmt::format("cannot be read at character {}: {}", at + 1, what), std::string(hint)};
}

constexpr std::string_view kSyntax = "write a condition such as: label < 10 and split == 'train'";

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Result<Token> next() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (at_ == text_.size()) return Token{.at = at_};
    const char first = text_[at_];
    if (first == '\'' || first == '"') return quoted(first);
    if (is_digit(first) || first == '-' || first == '+' || first == '.') return number();
    if (is_name_start(first)) return name();
    return sign();
  }

 private:
  Token name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (is_name_start(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.'))
      ++at_;
    return {.kind = TokenKind::Name,
            .text = std::string(text_.substr(begin, at_ - begin)),
            .at = begin};
  }

  Result<Token> quoted(char quote) {
    Token token{.kind = quote == '"' ? TokenKind::Quoted : TokenKind::Text, .at = at_++};
    while (at_ < text_.size()) {
      if (text_[at_] == quote) {
        ++at_;
        if (at_ == text_.size() || text_[at_] != quote) return token;
      }
      token.text += text_[at_++];
    }
    return error_at(token.at, "a quote that is not closed",
                    "close it; write a quote within quotes twice");
  }

  Result<Token> number() {
    Token token{.kind = TokenKind::Number, .at = at_};
    const char* begin = text_.data() + at_ + (text_[at_] == '+' ? 1 : 0);
    const char* end = text_.data() + text_.size();
    std::int64_t whole = 0;
    double real = 0;
    const auto [whole_end, whole_error] = std::from_chars(begin, end, whole);
    const auto [real_end, real_error] = std::from_chars(begin, end, real);
    if (real_error != std::errc() || (real_end != end && is_name_start(*real_end)))
      return error_at(token.at, "not a number", kSyntax);
    if (whole_error == std::errc() && whole_end == real_end)
      token.number = whole;
    else
      token.number = real;
    at_ = static_cast<std::size_t>(real_end - text_.data());
    return token;
  }

  Result<Token> sign() {
    constexpr std::array<std::string_view, 13> kSigns{"==", "!=", "<>", "<=", ">=", "=", "<",
                                                      ">",  "(",  ")",  "[",  "]",  ","};
    const std::string_view rest = text_.substr(at_);
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(),
                                   [&](std::string_view known) { return rest.starts_with(known); });
    if (sign == kSigns.end()) {
      return error_at(at_, "a sign that has no meaning here",
                      "combine conditions with the words and, or, not");
    }
    at_ += sign->size();
    return Token{.kind = TokenKind::Sign, .text = std::string(*sign), .at = at_ - sign->size()};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Reads by recursive descent, a token ahead.
class Parser {
 public:
  explicit Parser(std::string_view text) : scanner_(text) {}

  Result<RowFilter> parse() {
    TRY_VOID(advance());
    TRY(auto filter, disjunction());
    if (token_.kind != TokenKind::End)
      return error_at(token_.at, "the condition before it is complete",
                      "join conditions with and, or");
    return filter;
  }

 private:
  Result<Unit> advance() {
    TRY(token_, scanner_.next());
    return Unit{};
  }

  bool at_word(std::string_view word) const {
    return token_.kind == TokenKind::Name && lower(token_.text) == word;
  }
  bool at_sign(std::string_view sign) const {
    return token_.kind == TokenKind::Sign && token_.text == sign;
  }

  Result<Unit> expect_sign(std::string_view sign) {
    if (!at_sign(sign)) return error_at(token_.at, fmt::format("\"{}\" is missing", sign), kSyntax);
    return advance();
  }

  Result<RowFilter> disjunction() { return chain(RowFilter::Kind::Or, "or", &Parser::conjunction); }
  Result<RowFilter> conjunction() { return chain(RowFilter::Kind::And, "and", &Parser::negation); }

  Result<RowFilter> chain(RowFilter::Kind kind, std::string_view word,
                          Result<RowFilter> (Parser::*part)()) {
    TRY(auto first, (this->*part)());
    if (!at_word(word)) return first;
    RowFilter joined{.kind = kind};
    joined.parts.push_back(std::move(first));
    while (at_word(word)) {
      TRY_VOID(advance());
      TRY(auto next, (this->*part)());
      joined.parts.push_back(std::move(next));
    }
    return joined;
  }

  Result<RowFilter> negation() {
    if (!at_word("not")) return comparison();
    TRY_VOID(enter());
    TRY_VOID(advance());
    TRY(auto part, negation());
    --depth_;
    return negated(std::move(part));
  }

  Result<RowFilter> comparison() {
    if (at_sign("(")) {
      TRY_VOID(enter());
      TRY_VOID(advance());
      TRY(auto inner, disjunction());
      TRY_VOID(expect_sign(")"));
      --depth_;
      return inner;
    }
    const Token start = token_;
    if (++terms_ > kFilterTermsMax) {
      return error_at(start.at, fmt::format("more than {} comparisons", kFilterTermsMax),
                      "compare with a list (in [...]), or mark the rows in a column of their own");
    }
    TRY(auto left, operand());
    if (at_word("is")) return null_test(std::move(left));
    const bool without = at_word("not");
    if (without) {
      TRY_VOID(advance());
    }
    if (at_word("in")) {
      TRY(auto in, membership(std::move(left)));
      return without ? negated(std::move(in)) : std::move(in);
    }
    if (without) return error_at(token_.at, "\"in\" is missing after \"not\"", kSyntax);
    if (token_.kind == TokenKind::Sign && token_.text.find_first_of("=<>!") != std::string::npos) {
      RowFilter compare{.kind = RowFilter::Kind::Compare, .name = token_.text};
      if (compare.name == "=") compare.name = "==";
      if (compare.name == "<>") compare.name = "!=";
      TRY_VOID(advance());
      TRY(auto right, operand());
      compare.parts.push_back(std::move(left));
      compare.parts.push_back(std::move(right));
      return compare;
    }
    // A column of truth values is a condition, and so is a truth value.
    if (left.kind == RowFilter::Kind::Column || std::holds_alternative<bool>(left.value))
      return left;
    return error_at(start.at, "a value that is compared with nothing", kSyntax);
  }

  Result<RowFilter> null_test(RowFilter left) {
    TRY_VOID(advance());
    const bool without = at_word("not");
    if (without) {
      TRY_VOID(advance());
    }
    if (!at_word("null")) return error_at(token_.at, "\"null\" is missing after \"is\"", kSyntax);
    TRY_VOID(advance());
    RowFilter test{.kind = RowFilter::Kind::IsNull};
    test.parts.push_back(std::move(left));
    return without ? negated(std::move(test)) : std::move(test);
  }

  Result<RowFilter> membership(RowFilter left) {
    TRY_VOID(advance());
    RowFilter in{.kind = RowFilter::Kind::In};
    in.parts.push_back(std::move(left));
    const bool round = at_sign("(");
    if (!round) {
      TRY_VOID(expect_sign("["));
    } else {
      TRY_VOID(advance());
    }
    while (true) {
      const std::size_t at = token_.at;
      TRY(auto value, operand());
      if (value.kind != RowFilter::Kind::Literal || std::holds_alternative<bool>(value.value))
        return error_at(at, "a list holds numbers or texts in single quotes", kSyntax);
      if (in.parts.size() > 1 && in.parts[1].value.index() != value.value.index())
        return error_at(
            at, "the values of a list must all be whole numbers, other numbers, or texts", kSyntax);
      in.parts.push_back(std::move(value));
      if (!at_sign(",")) break;
      TRY_VOID(advance());
    }
    TRY_VOID(expect_sign(round ? ")" : "]"));
    return in;
  }

  Result<RowFilter> operand() {
    RowFilter operand;
    if (token_.kind == TokenKind::Number) {
      operand.value = token_.number;
    } else if (token_.kind == TokenKind::Text) {
      operand.value = token_.text;
    } else if (at_word("true") || at_word("false")) {
      operand.value = at_word("true");
    } else if (token_.kind == TokenKind::Quoted ||
               (token_.kind == TokenKind::Name && !is_reserved(token_.text))) {
      operand.kind = RowFilter::Kind::Column;
      operand.name = token_.text;
    } else {
      return error_at(token_.at, "a column or a value is missing", kSyntax);
    }
    TRY_VOID(advance());
    return operand;
  }

  static bool is_reserved(std::string_view word) {
    constexpr std::array<std::string_view, 6> kWords{"and", "or", "not", "in", "is", "null"};
    return std::find(kWords.begin(), kWords.end(), lower(word)) != kWords.end();
  }

  static RowFilter negated(RowFilter part) {
    RowFilter without{.kind = RowFilter::Kind::Not};
    without.parts.push_back(std::move(part));
    return without;
  }

  Result<Unit> enter() {
    if (++depth_ > kFilterDepthMax)
      return error_at(token_.at,
                      fmt::format("more than {} conditions within each other", kFilterDepthMax),
                      "write it with fewer brackets");
    return Unit{};
  }

  Scanner scanner_;
  Token token_;
  int depth_ = 0;
  int terms_ = 0;
};

void add_columns(const RowFilter& filter, std::vector<std::string>& names) {
  if (filter.kind == RowFilter::Kind::Column &&
      std::find(names.begin(), names.end(), filter.name) == names.end())
    names.push_back(filter.name);
  for (const RowFilter& part : filter.parts) add_columns(part, names);
}

}  // namespace

Result<RowFilter> parse_row_filter(std::string_view text) {
  if (text.size() > kFilterBytesMax) {
    return Error{Errc::InvalidArgument,
                 fmt::format("has {} bytes, and may have {}", text.size(), kFilterBytesMax),
                 "mark the rows in a column of their own"};
  }
  return Parser(text).parse();
}

std::vector<std::string> columns_of(const RowFilter& filter) {
  std::vector<std::string> names;
  add_columns(filter, names);
  return names;
}

}  // namespace train
