#include "cmd/trainrun-pmix/info_list.h"

#include <cstring>

namespace train {

pmix_value_t& InfoList::next(const char* key, pmix_data_type_t type) {
  pmix_info_t& info = infos_.emplace_back();
  std::memset(&info, 0, sizeof info);
  std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
  info.value.type = type;
  return info.value;
}

void InfoList::add(const char* key, const std::string& text) {
  next(key, PMIX_STRING).data.string = texts_.emplace_back(text).data();
}

void InfoList::add(const char* key, std::uint32_t number) {
  next(key, PMIX_UINT32).data.uint32 = number;
}

void InfoList::add_rank(const char* key, std::int32_t rank) {
  next(key, PMIX_PROC_RANK).data.rank = static_cast<pmix_rank_t>(rank);
}

void InfoList::add(const char* key, bool flag) { next(key, PMIX_BOOL).data.flag = flag; }

void InfoList::add_local_rank(const char* key, std::int32_t rank) {
  next(key, PMIX_UINT16).data.uint16 = static_cast<std::uint16_t>(rank);
}

void InfoList::add_regex(const char* key, char* regex, Load load) {
  (void)next(key, PMIX_REGEX);
  load(&infos_.back(), key, regex, PMIX_REGEX);
  std::free(regex);
  regexes_.emplace_back(infos_.back().value.data.bo.bytes, &std::free);
}

InfoList& InfoList::add_list(const char* key) {
  next(key, PMIX_DATA_ARRAY);
  return *nested_.emplace_back(Nested{infos_.size() - 1, std::make_unique<InfoList>(), {}}).list;
}

pmix_info_t* InfoList::data() {
  for (Nested& nested : nested_) {
    nested.array = {PMIX_INFO, nested.list->size(), nested.list->data()};
    infos_[nested.index].value.data.darray = &nested.array;
  }
  return infos_.data();
}

}  // namespace train
