#include "model/prefix_cache.h"

#include <algorithm>

#include "common/base/check.h"
#include "model/cpu/attention.h"

namespace tandem::model {

PrefixCache::~PrefixCache() {
  for (const auto& [id, node] : nodes_) pool_.Free({node.page});
}

absl::StatusOr<std::vector<uint32_t>> PrefixCache::Allocate(int pages) {
  MakeRoom(pages);
  return pool_.Allocate(pages);
}

CacheRoom PrefixCache::room() const {
  return {int64_t{pool_.pages()} * cpu::kPageTokens,
          int64_t{pool_.free_pages() + unused_pages()} * cpu::kPageTokens, cpu::kPageTokens};
}

PagedCache& PrefixCache::Mine(Cache& cache) const {
  auto& mine = dynamic_cast<PagedCache&>(cache);
  TANDEM_CHECK(mine.pool() == &pool_) << "a cache of another model";
  return mine;
}

int PrefixCache::Recall(Cache& cache, const CachePrefix& prefix) {
  PagedCache& mine = Mine(cache);
  TANDEM_CHECK(mine.length() == 0) << "the cache holds " << mine.length() << " tokens";
  const size_t room = static_cast<size_t>(mine.max_length());
  const std::vector<uint32_t> pages =
      Take(prefix.scope, prefix.tokens.first(std::min(prefix.tokens.size(), room)));
  pool_.Free({mine.SharedPages(), mine.SharedPages() + pages.size()});
  std::copy(pages.begin(), pages.end(), mine.SharedPages());
  mine.SetShared(static_cast<int>(pages.size()) * cpu::kPageTokens);
  return mine.length();
}

void PrefixCache::Share(Cache& cache, const CachePrefix& prefix) {
  PagedCache& mine = Mine(cache);
  TANDEM_CHECK(prefix.tokens.size() <= static_cast<size_t>(mine.length()));
  const size_t whole = prefix.tokens.size() / cpu::kPageTokens * cpu::kPageTokens;
  if (whole <= static_cast<size_t>(mine.shared())) return;
  Add(prefix.scope, prefix.tokens.first(whole), mine.SharedPages());
  mine.SetShared(static_cast<int>(whole));
}

std::vector<uint32_t> PrefixCache::Take(absl::string_view scope,
                                        absl::Span<const uint32_t> tokens) {
  std::vector<uint32_t> pages;
  const auto root = scopes_.find(scope);
  if (root == scopes_.end()) return pages;
  uint64_t at = root->second.first;
  while (tokens.size() >= cpu::kPageTokens) {
    const auto page = tokens.first(cpu::kPageTokens);
    const auto child = children_.find({at, std::vector<uint32_t>(page.begin(), page.end())});
    if (child == children_.end()) break;
    at = child->second;
    Node& node = nodes_.at(at);
    node.used = ++last_use_;
    pool_.Hold(node.page);
    pages.push_back(node.page);
    tokens.remove_prefix(cpu::kPageTokens);
  }
  return pages;
}

void PrefixCache::Add(absl::string_view scope, absl::Span<const uint32_t> tokens, uint32_t* pages) {
  if (tokens.size() < cpu::kPageTokens) return;
  auto& [root, root_children] = scopes_[std::string(scope)];
  if (root == 0) root = ++last_id_;
  uint64_t at = root;
  for (; tokens.size() >= cpu::kPageTokens; tokens.remove_prefix(cpu::kPageTokens), ++pages) {
    const auto page = tokens.first(cpu::kPageTokens);
    auto [child, is_new] =
        children_.try_emplace({at, std::vector<uint32_t>(page.begin(), page.end())}, 0);
    if (is_new) {
      child->second = ++last_id_;
      Node& node = nodes_[child->second];
      node.parent = at;
      node.page = *pages;
      node.key = child->first;
      pool_.Hold(node.page);
      ++(at == root ? root_children : nodes_.at(at).children);
    }
    at = child->second;
    Node& node = nodes_.at(at);
    node.used = ++last_use_;
    if (node.page == *pages) continue;
    pool_.Hold(node.page);
    pool_.Free({*pages});
    *pages = node.page;
  }
}

// Whoever holds a page holds all pages before it (Add sees to that), so one that nobody holds has
// none after it that somebody does. Leaves are looked at alone: what is before them was used as
// late.
void PrefixCache::MakeRoom(int free) {
  while (pool_.free_pages() < free) {
    auto oldest = nodes_.end();
    for (auto it = nodes_.begin(); it != nodes_.end(); ++it) {
      if (it->second.children > 0 || pool_.holders(it->second.page) > 1) continue;
      if (oldest == nodes_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    if (oldest == nodes_.end()) return;
    Remove(oldest->first);
  }
}

void PrefixCache::Remove(uint64_t id) {
  const auto it = nodes_.find(id);
  const Node& node = it->second;
  pool_.Free({node.page});
  children_.erase(node.key);
  if (const auto parent = nodes_.find(node.parent); parent != nodes_.end()) {
    --parent->second.children;
  } else {
    const auto scope = std::find_if(scopes_.begin(), scopes_.end(), [&node](const auto& entry) {
      return entry.second.first == node.parent;
    });
    TANDEM_CHECK(scope != scopes_.end());
    if (--scope->second.second == 0) scopes_.erase(scope);
  }
  nodes_.erase(it);
}

int PrefixCache::unused_pages() const {
  if (counted_at_ == pool_.changes()) return unused_;
  counted_at_ = pool_.changes();
  unused_ = static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), [this](const auto& entry) {
    return pool_.holders(entry.second.page) == 1;
  }));
  return unused_;
}

}  // namespace tandem::model
