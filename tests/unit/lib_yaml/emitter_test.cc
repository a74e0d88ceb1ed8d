// What other programs read of the YAML that we emit.
#include "lib/yaml/emitter.h"

#include <gtest/gtest.h>

#include "lib/yaml/reader.h"

namespace train::yaml {
namespace {

namespace json = boost::json;

std::string emitted(json::object value) {
  const auto text = emit({{.comment = "", .value = std::move(value)}});
  return text ? *text : text.error().describe();
}

/// Return the text as our reader finds it again.
std::string read_again(const std::string& text) {
  Tree tree;
  Diagnostics mistakes;
  const Node* root = tree.parse(tree.add_source("emitted", emitted({{"a", text}})), mistakes);
  return root == nullptr ? mistakes.error_text() : root->find("a")->text;
}

TEST(Emitter, WritesBlocks) {
  const auto text = emit({{.comment = "one\ntwo",
                           .value = {{"name", "x"},
                                     {"count", 3},
                                     {"on", true},
                                     {"none", nullptr},
                                     {"empty", json::object()},
                                     {"no_items", json::array()},
                                     {"list", json::array{json::object{{"a", "b"}, {"c", 1}}, "d"}},
                                     {"text", "x: 1\n  y: 2\n\nz\n"}}},
                          {.comment = "", .value = {{"second", 1.5}}}});

  ASSERT_TRUE(text);
  EXPECT_EQ(
      *text,
      "---\n# one\n# two\n\nname: x\ncount: 3\n\"on\": true\nnone: ~\nempty: {}\nno_items: []\n"
      "list:\n  - a: b\n    c: 1\n  - d\ntext: |\n  x: 1\n    y: 2\n\n  z\n---\nsecond: 1.5\n");
}

TEST(Emitter, TextsThatLookLikeSomethingElseAreQuoted) {
  for (const char* word : {"",     "yes", "No",   "on",         "y",  "null", "~",    "1",   "0x1F",
                           "1:20", "1e3", ".inf", "2026-11-28", "-",  "- a",  "a: b", "# a", "a #b",
                           "*a",   "&a",  "!a",   "%a",         "{a", "[a",   "@a",   "`a",  "'a",
                           "\"a",  " a",  "a ",   "=",          "<<", "|",    ">"}) {
    EXPECT_TRUE(emitted({{"a", word}}).starts_with("---\na: \"")) << emitted({{"a", word}});
    EXPECT_EQ(read_again(word), word);
  }
}

TEST(Emitter, EachTextIsReadAgain) {
  for (const std::string text : {"a\nb\n",
                                 "a\nb",
                                 "a\n\n",
                                 "\na\n",
                                 " a\nb\n",
                                 "a\n b\n\n c\n",
                                 "a\r\n",
                                 "a\tb\n",
                                 "\ta\n",
                                 "a\n---\nb\n",
                                 "a  \nb\n",
                                 "\xc3\xa9\n\xe2\x82\xac\n",
                                 "\xe2\x80\xae\n",
                                 "\xf0\x9f\x98\x80\n",
                                 ("\xef\xbb\xbf"
                                  "a\nb\n"),
                                 "\x1b[31m",
                                 "# a\n",
                                 "...\n",
                                 "\"\\\n",
                                 "\n",
                                 "\n\n"})
    EXPECT_EQ(read_again(text), text) << emitted({{"a", text}});
}

TEST(Emitter, NothingSteersATerminal) {
  EXPECT_EQ(emitted({{"a", "\xe2\x80\xaex\x1b\n"}}), "---\na: \"\\u202ex\\x1b\\n\"\n");
}

TEST(Emitter, WhatIsNoUtf8IsRefused) {
  const auto text = emit({{.comment = "", .value = {{"a", "\xff"}}}});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Errc::InvalidArgument);
}

}  // namespace
}  // namespace train::yaml
