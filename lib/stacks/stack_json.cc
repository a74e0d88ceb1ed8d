#include "lib/stacks/stack_json.h"

#include <chrono>
#include <map>
#include <tuple>

#include "lib/base/json_text.h"

namespace train {
namespace {

/// Numbers distinct frames in the order of their first use.
class FrameTable {
 public:
  std::size_t index_of(const StackFrame& frame) {
    const auto key = std::tie(frame.function, frame.module, frame.offset, frame.file, frame.line,
                              frame.inlined, frame.guessed, frame.python);
    const auto [known, is_new] = indices_.try_emplace(key, frames_.size());
    if (is_new) frames_.push_back(&frame);
    return known->second;
  }

  void write(JsonWriter& out) const {
    out.key("frames").array();
    for (const StackFrame* frame : frames_) {
      out.object()
          .text_or_null("function", frame->function)
          .text_or_null("module", frame->module)
          .member("offset", frame->offset)
          .text_or_null("file", frame->file)
          .member("line", frame->line)
          .member("inlined", frame->inlined)
          .member("guessed", frame->guessed)
          .member("python", frame->python)
          .end();
    }
    out.end();
  }

 private:
  using Key = std::tuple<std::string, std::string, std::uint64_t, std::string, std::uint32_t, bool,
                         bool, bool>;
  std::map<Key, std::size_t> indices_;
  std::vector<const StackFrame*> frames_;
};

void write_texts(JsonWriter& out, std::string_view name, const std::vector<std::string>& texts) {
  out.key(name).array();
  for (const std::string& text : texts) out.value(text);
  out.end();
}

void write_class(JsonWriter& out, const StackClass& one) {
  out.object().key("ranks").array();
  for (const std::int32_t rank : one.ranks) out.value(rank);
  out.end().member("where", one.where);
  write_texts(out, "functions", one.functions);
  out.member("has_stack", one.has_stack).end();
}

void write_thread(JsonWriter& out, const ThreadStack& thread, FrameTable& frames) {
  const ThreadFacts& facts = thread.facts;
  out.object()
      .member("tid", facts.tid)
      .member("name", facts.name)
      .member("state", std::string_view(&facts.state, 1))
      .text_or_null("syscall", facts.syscall)
      .text_or_null("wchan", facts.wchan)
      .text_or_null("note", facts.note)
      .text_or_null("kernel_stack", facts.kernel_stack)
      .member("stopped_us",
              std::chrono::duration_cast<std::chrono::microseconds>(facts.stopped_for).count())
      .key("frames")
      .array();
  for (const StackFrame& frame : thread.frames) out.value(frames.index_of(frame));
  out.end().end();
}

}  // namespace

std::string stacks_json(const std::vector<RankStacks>& ranks) {
  JsonWriter out;
  FrameTable frames;
  out.object().key("classes").array();
  for (const StackClass& one : stack_classes(ranks)) write_class(out, one);
  out.end().key("ranks").array();
  for (const RankStacks& rank : ranks) {
    out.object()
        .member("rank", rank.rank)
        .text_or_null("node", rank.node)
        .member("pid", rank.process.pid)
        .member("executable", rank.process.executable);
    write_texts(out, "notes", rank.process.notes);
    out.key("threads").array();
    for (const ThreadStack& thread : rank.process.threads) write_thread(out, thread, frames);
    out.end().end();
  }
  out.end();
  frames.write(out);
  out.end();
  return std::move(out).take();
}

}  // namespace train
