// A value that many actions carry: it is copied once, and then only pointed to. 10,000 nodes share
// one plan of the whole group and one result of a collective call instead of 10,000 copies.
#pragma once

#include <memory>
#include <utility>

namespace train {

template <class T>
class SharedValue {
 public:
  SharedValue() : SharedValue(T{}) {}
  SharedValue(T value) : value_(std::make_shared<const T>(std::move(value))) {}  // NOLINT: a value
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  bool operator==(const SharedValue& other) const {
    return value_ == other.value_ || *value_ == *other.value_;
  }

 private:
  std::shared_ptr<const T> value_;  // shared by the actions that carry it
};

}  // namespace train
