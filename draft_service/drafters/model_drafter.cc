#include "draft_service/drafters/model_drafter.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "draft_service/drafters/candidate_draw.h"
#include "draft_service/drafters/preparation.h"
#include "draft_service/drafters/tree_growth.h"

namespace tandem::draft_service {
namespace {

// Room kept behind a text for draft tokens that run past its end; not less than any block.
constexpr uint64_t kRoomBehind = 64;
// From so many unread tokens on they are read before a block is asked for; fewer are read by the
// block, together with the row that it needs anyway.
constexpr size_t kReadAhead = 32;
// Guesses that one pass checks. More would hardly ever all be right.
constexpr size_t kMaxGuessRows = 16;
// Children of a node of a tree; not even the first of more would ever be among the best nodes.
constexpr size_t kMaxRanks = 16;

// Of a model's sequences, by how they draw.
struct ModelOdds {
  OutcomeOdds most_likely;
  OutcomeOdds race;
};

class ModelDrafter final : public ForwardDrafter {
 public:
  ModelDrafter(model::LanguageModel& model, const ModelDrafterOptions& options,
               const speculation::SequenceSettings& settings, Proposal proposal,
               std::unique_ptr<model::Cache> cache, std::unique_ptr<Guesses> guesses,
               std::shared_ptr<ModelOdds> odds)
      : model_(model),
        scope_(settings.cache_scope),
        cache_(std::move(cache)),
        room_(static_cast<size_t>(cache_->max_length())),
        draw_(settings, proposal, options.top_m, options.vocabulary_size),
        guesses_(std::move(guesses)),
        guess_level_(options.guess_level),
        odds_(std::move(odds)) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override;
  Recalled TakeRecalled() override { return std::exchange(recalled_, {}); }
  model::LanguageModel& model() override { return model_; }
  void BeginBlock(const BlockShape& shape) override;
  Wanted wanted() const override;
  model::ForwardPart NextPart(int max_rows) override;
  absl::Status ReadLogits(absl::Span<const float> logits) override;
  CandidateTree EndBlock() override;
  bool prepares() const override { return guesses_ == nullptr && !draw_.sends_q(); }
  void BeginPreparing() override;
  std::vector<PreparedBlock> Prepared() const override { return preparation_->Blocks(); }
  void StopPreparing() override;
  void CutBase(uint32_t nodes) override;
  void AcceptPrepared(uint32_t node, uint32_t next_token) override;

 private:
  // A tree that is drafted, or was drafted last: the cache holds its rows until Accept says which
  // path of them is committed.
  struct Tree {
    TreeGrowth growth;
    size_t ranks;          // children that a node gets
    size_t width;          // nodes that a pass looks behind
    uint32_t passes_left;  // beside the root's
    size_t root_row = 0;   // of the rows of the cache's last part
    bool has_root = false;
    size_t rows = 0;                 // of the cache's last part, those that have grown it included
    std::vector<uint32_t> next;      // the nodes that are to be looked behind
    std::map<uint32_t, int> row_of;  // of the nodes that were
    std::vector<uint32_t> tokens;    // of the part that NextPart gave
    std::vector<int> parents;
  };

  void BeginChain(uint32_t max_draft_tokens);
  void BeginTree(const BlockShape& shape);
  absl::Status Draw(absl::Span<const float> logits,
                    const std::optional<CandidateDraw::Guess>& guess);
  // Of pending_, those whose rows a part has behind the last drawn token's.
  size_t GuessRows() const;
  absl::Status Guess();
  absl::Status ReadGuessed(absl::Span<const float> logits);
  bool grows() const { return tree_.has_value() && tree_->has_root; }
  absl::Status EndsHere(const absl::Status& drawn);
  absl::StatusOr<std::vector<sampling::RankedToken>> Ranked(absl::Span<const float> logits,
                                                            absl::Span<const uint32_t> path);
  absl::Status ReadTree(absl::Span<const float> logits);
  void LookBehind();
  void EndTree(uint32_t keep, absl::Span<const uint32_t> tokens);
  bool is_preparing() const { return preparation_.has_value() && preparation_->begun(); }
  absl::Status ReadPrepared(absl::Span<const float> logits);
  void KeepBranch(absl::Span<const uint32_t> tokens);
  Preparation::Chain KeepOutcome(absl::Span<const uint32_t> tokens);
  void EndPreparing(uint32_t keep, absl::Span<const uint32_t> tokens);
  int root_row() const { return static_cast<int>(committed_ - 1 - chain_began_); }
  void KeepInCache(size_t tokens);
  absl::Status Unshare();
  void Recall();
  void Share();

  model::LanguageModel& model_;
  const std::string scope_;  // empty: nothing is shared
  std::unique_ptr<model::Cache> cache_;
  const size_t room_;    // of the cache, in tokens
  bool looked_ = false;  // in the scope, for what the cache may begin with
  Recalled recalled_;
  CandidateDraw draw_;
  // The committed tokens, and after them what was drafted last: once it has ended too, because the
  // next Accept may commit some of it, and these are in the cache already.
  std::vector<uint32_t> text_;
  size_t committed_ = 0;
  // The first so many of text_ are in the cache. The lag invariant: after a whole block was
  // accepted this is one token short of what it would need, because the last draft token was never
  // fed; the next block feeds it first.
  size_t held_ = 0;
  size_t read_until_ = 0;  // tokens to be in the cache before a block is asked for
  size_t part_ = 0;        // tokens of the part that NextPart gave
  size_t block_end_ = 0;   // of text_, when the block is whole; 0: no block began
  CandidateTree block_;
  double min_confidence_ = 0;
  double confidence_ = 1;  // the chance that all of block_ is accepted
  std::optional<Tree> tree_;

  const std::unique_ptr<Guesses> guesses_;  // null: nothing guesses
  const uint8_t guess_level_;
  CandidateTree pending_;               // what may follow text_, as it was guessed last
  absl::Status guessed_;                // how that went
  std::vector<uint32_t> with_guesses_;  // tokens of the part that NextPart gave

  const std::shared_ptr<ModelOdds> odds_;
  // The base that blocks may be prepared behind, while it is drafted and afterwards. Its rows,
  // which are parts that grow, are one chain with those from chain_began_ on; held_ counts it, and
  // not the rows of branches.
  std::optional<Preparation> preparation_;
  size_t chain_began_ = 0;  // at what length of the cache
  // What was prepared of the block that is asked for next, because its outcome came true. It goes
  // on from there.
  Preparation::Chain head_start_;
  std::vector<uint32_t> grown_tokens_;  // of the part that NextPart gave
  std::vector<int> grown_parents_;
};

void ModelDrafter::KeepInCache(size_t tokens) {
  if (tokens >= held_) return;
  held_ = tokens;
  cache_->Truncate(static_cast<int>(tokens));
}

absl::Status ModelDrafter::Accept(uint32_t keep, absl::Span<const uint32_t> tokens) {
  TANDEM_CHECK(keep <= committed_) << keep << " of " << committed_;
  block_end_ = 0;
  block_ = CandidateTree();
  head_start_ = {};
  if (guesses_ != nullptr) TANDEM_RETURN_IF_ERROR(guesses_->Accept(keep, tokens));
  EndTree(keep, tokens);
  EndPreparing(keep, tokens);
  std::vector<uint32_t> text(tokens.begin(), tokens.end());  // behind what is kept
  text.insert(text.end(), head_start_.tokens.begin(), head_start_.tokens.end());
  size_t common = keep;  // of text_ and the new one
  for (uint32_t token : text) {
    if (common >= held_ || text_[common] != token) break;
    ++common;
  }
  // The row of the last committed token is computed in any case, so it is in no shared page.
  const size_t committed = keep + tokens.size();
  if (std::min(common, std::max<size_t>(committed, 1) - 1) <
      static_cast<size_t>(cache_->shared())) {
    TANDEM_RETURN_IF_ERROR(Unshare());
  }
  KeepInCache(common);
  text_.resize(keep);
  text_.insert(text_.end(), text.begin(), text.end());
  draw_.Accept(keep, tokens);
  committed_ = committed;
  Recall();
  Share();
  read_until_ = 0;
  // The last token's row is the block's first; what does not fit the context is not read at all.
  if (committed_ > 0 && committed_ <= room_ && committed_ - 1 >= held_ + kReadAhead) {
    read_until_ = committed_ - 1;
  }
  return absl::OkStatus();
}

// Committed tokens are taken back that others may share: its own cache begins anew. Nobody who
// behaves does that.
absl::Status ModelDrafter::Unshare() {
  held_ = 0;
  looked_ = false;
  head_start_ = {};
  cache_ = nullptr;  // its pages are free for the new one
  TANDEM_ASSIGN_OR_RETURN(cache_, model_.NewCache(static_cast<int>(room_)));
  return absl::OkStatus();
}

void ModelDrafter::Recall() {
  if (scope_.empty() || looked_ || held_ > 0 || committed_ < 2 || committed_ > room_) return;
  looked_ = true;
  held_ = static_cast<size_t>(
      model_.Recall(*cache_, {scope_, absl::MakeConstSpan(text_).first(committed_ - 1)}));
  recalled_.looked_for += committed_;
  recalled_.found += held_;
}

void ModelDrafter::Share() {
  if (scope_.empty() || committed_ == 0) return;
  const size_t known = std::min(held_, committed_ - 1);
  if (known <= static_cast<size_t>(cache_->shared())) return;
  model_.Share(*cache_, {scope_, absl::MakeConstSpan(text_).first(known)});
}

void ModelDrafter::BeginBlock(const BlockShape& shape) {
  if (shape.max_nodes > 0 || shape.min_confidence > 0) head_start_ = {};
  BeginChain(shape.max_nodes > 0 ? 1 : shape.max_draft_tokens);
  min_confidence_ = shape.min_confidence;
  confidence_ = 1;
  if (shape.max_nodes > 0 && block_end_ > 0) BeginTree(shape);
  const bool is_base = shape.max_outcomes > 0 && shape.max_nodes == 0 && shape.min_confidence == 0;
  if (is_base && prepares() && block_end_ > 0) {
    preparation_.emplace(shape.max_outcomes, shape.max_draft_tokens,
                         draw_.takes_most_likely() ? odds_->most_likely : odds_->race);
  }
  // Already in text_.
  for (size_t i = 0; committed_ + i < text_.size() && block_end_ > 0; ++i) {
    draw_.Add(text_[committed_ + i], block_);
    if (preparation_.has_value()) preparation_->AddToBase(std::move(head_start_.rankings[i]));
  }
  head_start_ = {};
}

void ModelDrafter::BeginChain(uint32_t max_draft_tokens) {
  TANDEM_CHECK(block_end_ == 0) << "the block before has not ended";
  block_ = CandidateTree();
  EndTree(static_cast<uint32_t>(committed_), {});
  EndPreparing(static_cast<uint32_t>(committed_), {});
  // Nothing past the end of the model's context; the last draft token needs no room, it is not fed.
  if (committed_ == 0 || committed_ > room_) return;
  block_end_ = committed_ + std::min<size_t>(max_draft_tokens, room_ - committed_ + 1);
  const size_t known = committed_ + std::min(head_start_.tokens.size(), block_end_ - committed_);
  KeepInCache(known - 1);  // the last row is wanted for the logits
  text_.resize(known);
  draw_.BeginBlock(static_cast<uint32_t>(committed_));
  guessed_ = Guess();
}

// The guesses that are left are wrong, or there are none.
absl::Status ModelDrafter::Guess() {
  if (guesses_ == nullptr || text_.size() == block_end_) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(
      pending_, guesses_->After(block_.tokens, static_cast<uint32_t>(block_end_ - text_.size())));
  for (size_t i = 0; i < pending_.size(); ++i) {
    // Ids that the model has not: its table is of a tokenizer that has more.
    if (pending_.tokens[i] >= model_.info().vocabulary_size) pending_.Truncate(i);
  }
  return absl::OkStatus();
}

// The block's last token needs no row.
size_t ModelDrafter::GuessRows() const {
  return std::min({pending_.size(), block_end_ - text_.size() - 1, kMaxGuessRows});
}

// It takes no more passes than a chain as long as its paths.
void ModelDrafter::BeginTree(const BlockShape& shape) {
  const uint32_t nodes = shape.max_nodes;
  const uint32_t depth = shape.max_draft_tokens;
  tree_.emplace(Tree{.growth = TreeGrowth(nodes, depth),
                     .ranks = std::clamp<size_t>(nodes / 2, 2, kMaxRanks),
                     .width = (nodes + depth - 1) / depth,
                     .passes_left = depth - 1});
}

ForwardDrafter::Wanted ModelDrafter::wanted() const {
  if (grows()) {
    const int rows = block_end_ == 0 ? 0 : static_cast<int>(tree_->next.size());
    return {.reading = std::max(rows - 1, 0), .drafting = std::min(rows, 1)};
  }
  if (is_preparing()) return {.preparing = static_cast<int>(preparation_->wanted())};
  if (block_end_ == 0) {
    return {.reading = static_cast<int>(std::max(read_until_, held_) - held_), .drafting = 0};
  }
  if (text_.size() == block_end_) return {};
  return {.reading = static_cast<int>(text_.size() - held_ - 1 + GuessRows()), .drafting = 1};
}

model::ForwardPart ModelDrafter::NextPart(int max_rows) {
  const Wanted all = wanted();
  TANDEM_CHECK(max_rows >= 1 && all.total() >= 1) << max_rows << " of " << all.total();
  if (grows()) {
    tree_->tokens.clear();
    tree_->parents.clear();
    for (int i = 0; i < std::min(max_rows, all.total()); ++i) {
      const uint32_t node = tree_->next[static_cast<size_t>(i)];
      const uint32_t parent = tree_->growth.parent(node);
      tree_->tokens.push_back(tree_->growth.token(node));
      tree_->parents.push_back(parent == 0 ? static_cast<int>(tree_->root_row)
                                           : tree_->row_of.at(parent));
    }
    return {cache_.get(), tree_->tokens, 0, tree_->parents, /*grows=*/true};
  }
  grown_tokens_.clear();
  grown_parents_.clear();
  for (int i = 0; is_preparing() && i < std::min(max_rows, all.total()); ++i) {
    const Preparation::Row row = preparation_->WantedRow(static_cast<size_t>(i));
    grown_tokens_.push_back(row.token);
    grown_parents_.push_back(root_row() + row.parent);
  }
  if (!is_preparing() && preparation_.has_value() && text_.size() > committed_) {
    part_ = 1;
    grown_tokens_ = {text_.back()};
    grown_parents_ = {static_cast<int>(held_ - 1 - chain_began_)};
  }
  if (!grown_tokens_.empty()) {
    return {cache_.get(), grown_tokens_, 0, grown_parents_, /*grows=*/true};
  }
  chain_began_ = held_;
  part_ = static_cast<size_t>(std::min(all.total(), max_rows));
  const size_t known =
      text_.size() - held_;  // the last of them gets logits, and all guesses behind it
  const size_t first_logits = block_end_ != 0 && part_ >= known ? known - 1 : part_;
  absl::Span<const uint32_t> tokens = absl::MakeConstSpan(text_).subspan(held_, part_);
  if (part_ > known) {
    with_guesses_.assign(tokens.begin(), tokens.end());
    with_guesses_.insert(with_guesses_.end(), pending_.tokens.begin(),
                         pending_.tokens.begin() + static_cast<ptrdiff_t>(part_ - known));
    tokens = with_guesses_;
  }
  return {cache_.get(), tokens, static_cast<int>(first_logits)};
}

absl::Status ModelDrafter::ReadLogits(absl::Span<const float> logits) {
  if (grows()) return ReadTree(logits);
  if (is_preparing()) return ReadPrepared(logits);
  const size_t rows = std::exchange(part_, 0);
  held_ += rows;
  if (logits.empty()) return absl::OkStatus();
  if (guesses_ != nullptr) return ReadGuessed(logits);
  if (tree_.has_value()) {
    tree_->has_root = true;
    tree_->root_row = rows - 1;
    tree_->rows = rows;
    TANDEM_ASSIGN_OR_RETURN(const auto ranked, Ranked(logits, {}));
    tree_->growth.AddChildren(0, ranked);
    LookBehind();
    return absl::OkStatus();
  }
  if (absl::Status drawn = Draw(logits, {}); !drawn.ok()) return EndsHere(drawn);
  return absl::OkStatus();
}

// The next draft token. One that is not sure enough is the block's last.
absl::Status ModelDrafter::Draw(absl::Span<const float> logits,
                                const std::optional<CandidateDraw::Guess>& guess) {
  if (min_confidence_ > 0) {
    TANDEM_ASSIGN_OR_RETURN(const double chance, draw_.AppendWithChance(logits, block_));
    confidence_ *= chance;
  } else if (preparation_.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(auto ranking, draw_.AppendRanked(logits, kOutcomeRanks, block_));
    preparation_->AddToBase(std::move(ranking));
  } else if (guess.has_value()) {
    TANDEM_RETURN_IF_ERROR(draw_.Append(logits, *guess, block_));
  } else {
    TANDEM_RETURN_IF_ERROR(draw_.Append(logits, block_));
  }
  text_.push_back(block_.tokens.back());
  if (confidence_ < min_confidence_) block_end_ = text_.size();
  return absl::OkStatus();
}

// Where nothing can be drawn a block is as long as it is. What was drawn before decides it, and is
// sent.
absl::Status ModelDrafter::EndsHere(const absl::Status& drawn) {
  if (!absl::IsNotFound(drawn)) return drawn;
  if (preparation_.has_value()) preparation_->AddToBase({});
  block_end_ = text_.size();
  return absl::OkStatus();
}

// What ranks first after `path`; nothing where nothing can be drawn.
absl::StatusOr<std::vector<sampling::RankedToken>> ModelDrafter::Ranked(
    absl::Span<const float> logits, absl::Span<const uint32_t> path) {
  auto ranked = draw_.Rank(logits, path, tree_->ranks);
  if (absl::IsNotFound(ranked.status())) return std::vector<sampling::RankedToken>();
  return ranked;
}

// Each token is drawn behind the guesses that were right.
absl::Status ModelDrafter::ReadGuessed(absl::Span<const float> logits) {
  TANDEM_RETURN_IF_ERROR(guessed_);
  const size_t known = text_.size();
  const size_t rows = held_ - known + 1;
  const size_t width = logits.size() / rows;
  size_t right = 0;
  bool wrong = false;
  while (!wrong && right < rows && text_.size() < block_end_) {
    CandidateDraw::Guess guess{.level = guess_level_};
    const bool guessed = right < pending_.size();
    if (guessed) guess.token = pending_.tokens[right];
    if (guessed && !pending_.q.empty() && !pending_.q[right].ids.empty()) {
      guess.q = &pending_.q[right];
    }
    const absl::Status drawn = Draw(logits.subspan(right * width, width), guess);
    if (!drawn.ok()) {
      TANDEM_RETURN_IF_ERROR(EndsHere(drawn));
      break;
    }
    wrong = !guessed || text_.back() != guess.token;
    right += wrong ? 0 : 1;
  }
  KeepInCache(std::min(held_, known + right));
  if (wrong) {
    guessed_ = Guess();
  } else {
    pending_.DropFirst(right);
  }
  return absl::OkStatus();
}

absl::Status ModelDrafter::ReadTree(absl::Span<const float> logits) {
  const size_t read = tree_->tokens.size();
  const size_t width = logits.size() / read;
  for (size_t i = 0; i < read; ++i) {
    const uint32_t node = tree_->next[i];
    tree_->row_of[node] = static_cast<int>(tree_->rows++);
    TANDEM_ASSIGN_OR_RETURN(const auto ranked,
                            Ranked(logits.subspan(i * width, width), tree_->growth.Path(node)));
    tree_->growth.AddChildren(node, ranked);
  }
  tree_->next.erase(tree_->next.begin(), tree_->next.begin() + static_cast<ptrdiff_t>(read));
  if (tree_->next.empty()) LookBehind();
  return absl::OkStatus();
}

// As many nodes as the cache has room for.
void ModelDrafter::LookBehind() {
  if (tree_->passes_left == 0) return;
  --tree_->passes_left;
  const size_t room = static_cast<size_t>(cache_->max_length() - cache_->length());
  tree_->next = tree_->growth.Next(std::min(tree_->width, room));
}

// The cache keeps the rows of the tree that are among the committed tokens now: the first `keep` of
// those before, then `tokens`.
void ModelDrafter::EndTree(uint32_t keep, absl::Span<const uint32_t> tokens) {
  if (grows()) {
    std::vector<int> path(tree_->root_row + 1);
    std::iota(path.begin(), path.end(), 0);
    uint32_t node = 0;
    for (size_t i = 0; keep == committed_ && i < tokens.size(); ++i) {
      node = tree_->growth.Child(node, tokens[i]);
      const auto row = tree_->row_of.find(node);
      if (node == 0 || row == tree_->row_of.end()) break;
      path.push_back(row->second);
      text_.push_back(tokens[i]);
    }
    cache_->Keep(path);
    held_ = static_cast<size_t>(cache_->length());
  }
  tree_.reset();
}

void ModelDrafter::BeginPreparing() {
  TANDEM_CHECK(preparation_.has_value() && block_end_ == 0);
  preparation_->Begin(room_ - committed_,
                      static_cast<size_t>(cache_->max_length() - cache_->length()));
}

void ModelDrafter::StopPreparing() {
  if (preparation_.has_value()) preparation_->Stop();
}

absl::Status ModelDrafter::ReadPrepared(absl::Span<const float> logits) {
  const size_t rows = grown_tokens_.size();
  const size_t width = logits.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    const std::vector<uint32_t> path = preparation_->FirstPath();
    auto ranking = draw_.Rank(logits.subspan(i * width, width), path, kOutcomeRanks);
    if (!ranking.ok() && !absl::IsNotFound(ranking.status())) return ranking.status();
    const int row =
        cache_->length() - static_cast<int>(rows - i) - static_cast<int>(chain_began_) - root_row();
    if (preparation_->first_is_base()) ++held_;
    preparation_->Add(row, ranking.ok() ? *std::move(ranking) : Preparation::Ranking());
  }
  return absl::OkStatus();
}

// Of the rows behind the base's those stay that `tokens` follow, which come after the committed
// ones.
void ModelDrafter::KeepBranch(absl::Span<const uint32_t> tokens) {
  if (static_cast<size_t>(cache_->length()) == held_) return;
  std::vector<int> rows(held_ - chain_began_);
  std::iota(rows.begin(), rows.end(), 0);
  const Preparation::Path path = preparation_->Follow(tokens);
  if (!path.rows.empty()) {
    rows.resize(static_cast<size_t>(root_row()) + 1 + path.node);
    for (const int row : path.rows) rows.push_back(root_row() + row);
    text_.resize(committed_ + path.node);
    tokens = tokens.subspan(path.node, path.rows.size());
    text_.insert(text_.end(), tokens.begin(), tokens.end());
  }
  cache_->Keep(rows);
  held_ = static_cast<size_t>(cache_->length());
}

// The same of the outcome that `tokens` are, and of its block, as far as that came. Returns the
// block.
Preparation::Chain ModelDrafter::KeepOutcome(absl::Span<const uint32_t> tokens) {
  Preparation::Chain block = preparation_->BlockAfter(tokens);
  std::vector<uint32_t> path(tokens.begin(), tokens.end());
  path.insert(path.end(), block.tokens.begin(), block.tokens.end());
  KeepBranch(path);
  return block;
}

void ModelDrafter::EndPreparing(uint32_t keep, absl::Span<const uint32_t> tokens) {
  if (!preparation_.has_value()) return;
  if (keep < committed_) tokens = {};
  preparation_->Learn(tokens);
  head_start_ = KeepOutcome(tokens);
  preparation_.reset();
}

void ModelDrafter::CutBase(uint32_t nodes) {
  if (!preparation_.has_value() || nodes >= preparation_->base().size()) return;
  KeepBranch({});
  preparation_->CutBase(nodes);
  text_.resize(committed_ + nodes);
  KeepInCache(text_.size());
}

void ModelDrafter::AcceptPrepared(uint32_t node, uint32_t next_token) {
  TANDEM_CHECK(preparation_.has_value() && node <= preparation_->base().size());
  std::vector<uint32_t> tokens(preparation_->base().begin(), preparation_->base().begin() + node);
  tokens.push_back(next_token);
  preparation_->Learn(tokens);
  const Preparation::Chain block = KeepOutcome(tokens);
  preparation_->MoveTo(node, next_token);
  text_.resize(committed_);
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  text_.insert(text_.end(), block.tokens.begin(), block.tokens.end());
  draw_.Accept(static_cast<uint32_t>(committed_), tokens);
  committed_ += tokens.size();
  draw_.BeginBlock(static_cast<uint32_t>(committed_));
}

CandidateTree ModelDrafter::EndBlock() {
  if (block_end_ != 0 && grows()) block_ = tree_->growth.Best();
  block_end_ = 0;
  return std::exchange(block_, CandidateTree());
}

}  // namespace

absl::StatusOr<Proposal> ParseProposal(absl::string_view text) {
  if (text == "sampled") return Proposal::kSampled;
  if (text == "greedy") return Proposal::kGreedy;
  return absl::InvalidArgumentError(
      absl::StrCat("proposal \"", text, "\" is none of: sampled, greedy"));
}

absl::Status ModelDrafterOptions::Validate() const {
  if (top_m < 1 || top_m > sampling::kMaxSparseEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_m is ", top_m, ", outside 1 to ", sampling::kMaxSparseEntries));
  }
  if (proposal == Proposal::kDefault) {
    return absl::InvalidArgumentError("a drafter's own proposal is sampled or greedy");
  }
  if (name.empty()) return absl::InvalidArgumentError("a drafter's name is not empty");
  return absl::OkStatus();
}

DrafterFactory ModelDrafterFactory(
    model::LanguageModel& model, ModelDrafterOptions options,
    std::function<absl::StatusOr<std::unique_ptr<Guesses>>(
        const speculation::SequenceSettings& settings, Proposal proposal)>
        guesses) {
  TANDEM_CHECK_OK(options.Validate());
  if (options.vocabulary_size == 0) options.vocabulary_size = model.info().vocabulary_size;
  TANDEM_CHECK(options.vocabulary_size <= model.info().vocabulary_size)
      << options.vocabulary_size << " tokens of " << model.info().vocabulary_size;
  const auto odds = std::make_shared<ModelOdds>();
  return {options.name,
          [&model, options, guesses, odds](
              const speculation::SequenceSettings& settings,
              Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            if (proposal == Proposal::kDefault) proposal = options.proposal;
            std::unique_ptr<Guesses> below;
            if (guesses) {
              TANDEM_ASSIGN_OR_RETURN(below, guesses(settings, proposal));
            }
            const uint64_t room =
                std::min(uint64_t{model.info().context_length}, settings.max_length + kRoomBehind);
            TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<model::Cache> cache,
                                    model.NewCache(static_cast<int>(room)));
            return std::make_unique<ModelDrafter>(model, options, settings, proposal,
                                                  std::move(cache), std::move(below), odds);
          },
          /*samples=*/true,
          /*trees=*/!guesses,
          /*prepares=*/!guesses};
}

}  // namespace tandem::draft_service
