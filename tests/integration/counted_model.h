// A model that counts its caches and what they hold of its pool.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "model/language_model.h"
#include "model/paged_cache.h"

namespace tandem::testing {

// Written by the model's thread, read by any.
struct CacheCounts {
  std::atomic<int> made{0};
  std::atomic<int> live{0};
  std::atomic<int> max_live{0};
  std::atomic<int> taken_pages{0};  // of the pool, after the last cache was made or given back
};

// Thread safety: as LanguageModel.
class CountedModel final : public model::LanguageModel {
 public:
  // `model` keeps its caches in a PageStore. `counts` outlives this and its caches.
  CountedModel(std::unique_ptr<model::LanguageModel> model, CacheCounts& counts)
      : model_(std::move(model)), counts_(counts) {}

  const model::ModelInfo& info() const override { return model_->info(); }

  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    absl::StatusOr<std::unique_ptr<model::Cache>> cache = model_->NewCache(max_length);
    if (!cache.ok()) return cache;
    ++counts_.made;
    counts_.max_live = std::max<int>(counts_.max_live, ++counts_.live);
    return std::make_unique<Counted>(*std::move(cache), counts_);
  }

  std::optional<model::CacheRoom> room() const override { return model_->room(); }

  int Recall(model::Cache& cache, const model::CachePrefix& prefix) override {
    return model_->Recall(static_cast<Counted&>(cache).inner(), prefix);
  }
  void Share(model::Cache& cache, const model::CachePrefix& prefix) override {
    model_->Share(static_cast<Counted&>(cache).inner(), prefix);
  }

  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override {
    std::vector<model::ForwardPart> inner(parts.begin(), parts.end());
    for (model::ForwardPart& part : inner) part.cache = &static_cast<Counted*>(part.cache)->inner();
    return model_->Forward(inner);
  }

  int max_rows() const override { return model_->max_rows(); }

 private:
  class Counted final : public model::Cache {
   public:
    Counted(std::unique_ptr<model::Cache> cache, CacheCounts& counts)
        : cache_(std::move(cache)), counts_(counts) {
      auto* pages = dynamic_cast<model::PagedCache*>(cache_.get());
      TANDEM_CHECK(pages != nullptr) << "a cache of another kind";
      pool_ = pages->pool();
      Count();
    }
    ~Counted() override {
      cache_ = nullptr;
      --counts_.live;
      Count();
    }
    int length() const override { return cache_->length(); }
    int max_length() const override { return cache_->max_length(); }
    int shared() const override { return cache_->shared(); }
    void Truncate(int length) override { cache_->Truncate(length); }
    void Keep(absl::Span<const int> path) override { cache_->Keep(path); }
    model::Cache& inner() { return *cache_; }

   private:
    void Count() { counts_.taken_pages = pool_->pages() - pool_->free_pages(); }

    std::unique_ptr<model::Cache> cache_;
    CacheCounts& counts_;
    const model::PageStore* pool_ = nullptr;  // the model's, which outlives its caches here
  };

  const std::unique_ptr<model::LanguageModel> model_;
  CacheCounts& counts_;
};

}  // namespace tandem::testing
