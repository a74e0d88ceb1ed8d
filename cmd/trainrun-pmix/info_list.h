// Makes lists of pmix_info_t, which owns what they point to.
#pragma once

#include <pmix_common.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace train {

class InfoList {
 public:
  void add(const char* key, const std::string& text);
  void add(const char* key, std::uint32_t number);
  void add(const char* key, bool flag);
  void add_rank(const char* key, std::int32_t rank);
  void add_local_rank(const char* key, std::int32_t rank);
  /// Add what PMIx_generate_regex() or PMIx_generate_ppn() has allocated, and free it. It may have
  /// NULs within, and only libpmix knows how long it is: `load` is PMIx_Info_load().
  using Load = pmix_status_t (*)(pmix_info_t*, const char*, const void*, pmix_data_type_t);
  void add_regex(const char* key, char* regex, Load load);
  /// Add a list as one value, and return it to be filled. It must be full before data() is called.
  InfoList& add_list(const char* key);

  /// Valid until the list changes.
  pmix_info_t* data();
  std::size_t size() const { return infos_.size(); }

 private:
  struct Nested;
  pmix_value_t& next(const char* key, pmix_data_type_t type);

  std::vector<pmix_info_t> infos_;
  std::deque<std::string> texts_;
  std::deque<std::unique_ptr<char, decltype(&std::free)>> regexes_;
  std::deque<Nested> nested_;
};

struct InfoList::Nested {
  std::size_t index = 0;  // of the value
  std::unique_ptr<InfoList> list;
  pmix_data_array_t array{};
};

}  // namespace train
