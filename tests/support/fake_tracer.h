// A tracer that keeps its spans for a test to look at.
//
//   FakeTracer tracer(clock);
//   options.tracer = &tracer;
//   …
//   ASSERT_EQ(tracer.Finished().size(), 1u);
//   EXPECT_EQ(tracer.Finished()[0].at(telemetry::kDrafted), FakeValue(int64_t{4}));
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/telemetry/tracer.h"

namespace tandem::testing {

using FakeValue = std::variant<int64_t, double, bool, std::string, std::vector<std::string>>;

struct FakeSpan {
  std::string name;
  telemetry::SpanKind kind = telemetry::SpanKind::kInternal;
  telemetry::SpanContext context;
  telemetry::SpanContext parent;  // not valid: there is none
  std::vector<telemetry::SpanContext> links;
  concurrency::Instant began;
  concurrency::Instant ended;
  std::map<std::string, FakeValue> attributes;
  std::vector<std::pair<std::string, concurrency::Instant>> events;
  std::optional<std::string> failure;

  absl::Duration duration() const { return ended - began; }
  const FakeValue& at(const std::string& attribute) const {
    const auto it = attributes.find(attribute);
    TANDEM_CHECK(it != attributes.end()) << name << " has no " << attribute;
    return it->second;
  }
  int64_t number(const std::string& attribute) const { return std::get<int64_t>(at(attribute)); }
  const std::string& text(const std::string& attribute) const {
    return std::get<std::string>(at(attribute));
  }
  bool Has(const std::string& attribute) const { return attributes.contains(attribute); }
};

// Thread-safe; its spans are not, and must be gone before it is. Ids count up from 1.
class FakeTracer final : public telemetry::Tracer {
 public:
  // `sample_roots`: what becomes of spans that have neither parent nor links.
  explicit FakeTracer(const concurrency::Clock& clock, bool sample_roots = true)
      : clock_(clock), sample_roots_(sample_roots) {}
  ~FakeTracer() override {
    concurrency::MutexLock lock(mutex_);
    TANDEM_CHECK(live_ == 0) << live_ << " spans have not ended";
  }

  std::unique_ptr<telemetry::Span> Start(const telemetry::SpanStart& start) override {
    concurrency::MutexLock lock(mutex_);
    ++asked_;
    const bool sampled =
        start.parent.valid() ? start.parent.sampled() : sample_roots_ || !start.links.empty();
    if (!sampled) return nullptr;
    FakeSpan span;
    span.name = std::string(start.name);
    span.kind = start.kind;
    span.parent = start.parent;
    span.links.assign(start.links.begin(), start.links.end());
    span.began = start.at;
    span.context.trace_id = start.parent.valid() ? start.parent.trace_id : Id<16>();
    span.context.span_id = Id<8>();
    span.context.flags = telemetry::SpanContext::kSampled;
    ++live_;
    return std::make_unique<Recording>(*this, std::move(span));
  }

  // In the order in which they ended.
  std::vector<FakeSpan> Finished() const {
    concurrency::MutexLock lock(mutex_);
    return finished_;
  }
  std::vector<FakeSpan> Take() {
    concurrency::MutexLock lock(mutex_);
    return std::exchange(finished_, {});
  }
  // Calls of Start, sampled or not.
  size_t asked() const {
    concurrency::MutexLock lock(mutex_);
    return asked_;
  }

 private:
  class Recording final : public telemetry::Span {
   public:
    Recording(FakeTracer& tracer, FakeSpan span) : tracer_(tracer), span_(std::move(span)) {}
    ~Recording() override {
      End(tracer_.clock_.Now());
      tracer_.Keep(std::move(span_));
    }

    const telemetry::SpanContext& context() const override { return span_.context; }
    void Set(absl::string_view name, int64_t value) override { Keep(name, value); }
    void Set(absl::string_view name, double value) override { Keep(name, value); }
    void Set(absl::string_view name, bool value) override { Keep(name, value); }
    void Set(absl::string_view name, absl::string_view value) override {
      Keep(name, std::string(value));
    }
    void SetList(absl::string_view name, absl::Span<const absl::string_view> values) override {
      Keep(name, std::vector<std::string>(values.begin(), values.end()));
    }
    void Event(absl::string_view name, concurrency::Instant at) override {
      span_.events.emplace_back(std::string(name), at);
    }
    void Fail(absl::string_view message) override { span_.failure = std::string(message); }
    void End(concurrency::Instant at) override {
      if (std::exchange(has_ended_, true)) return;
      span_.ended = at;
    }

   private:
    void Keep(absl::string_view name, FakeValue value) {
      TANDEM_CHECK(!has_ended_) << name << " after the end of " << span_.name;
      span_.attributes.insert_or_assign(std::string(name), std::move(value));
    }

    FakeTracer& tracer_;
    FakeSpan span_;
    bool has_ended_ = false;
  };

  template <size_t kSize>
  std::array<uint8_t, kSize> Id() TANDEM_REQUIRES(mutex_) {
    std::array<uint8_t, kSize> id{};
    ++last_id_;
    for (size_t i = 0; i < 8; ++i) id[kSize - 1 - i] = static_cast<uint8_t>(last_id_ >> (8 * i));
    return id;
  }
  void Keep(FakeSpan span) {
    concurrency::MutexLock lock(mutex_);
    finished_.push_back(std::move(span));
    --live_;
  }

  const concurrency::Clock& clock_;
  const bool sample_roots_;
  mutable concurrency::Mutex mutex_;
  std::vector<FakeSpan> finished_ TANDEM_GUARDED_BY(mutex_);
  uint64_t last_id_ TANDEM_GUARDED_BY(mutex_) = 0;
  size_t asked_ TANDEM_GUARDED_BY(mutex_) = 0;
  int live_ TANDEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem::testing
