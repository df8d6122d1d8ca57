// Passes of llama.cpp when it is asked for them (turns.h), logits of all rows. llama_cpp.py builds
// it against llama.cpp; it is not a part of our build.
// Usage: llama_pass MODEL.gguf KV_DTYPE(fp32, fp16) THREADS CONTEXT …
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "bench/model/turns.h"
#include "llama.h"

namespace {

constexpr int kChunk = 256;
constexpr int kMaxRows = 16;

// Tokens of a sequence from `position` on; logits of all of them, or of none.
void Decode(llama_context* context, int sequence, int position, int rows, bool logits) {
  static llama_batch batch = llama_batch_init(kChunk, 0, 1);
  batch.n_tokens = rows;
  for (int i = 0; i < rows; ++i) {
    batch.token[i] = 7;
    batch.pos[i] = position + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = sequence;
    batch.logits[i] = logits;
  }
  if (llama_decode(context, batch) != 0) std::abort();
  llama_synchronize(context);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  std::map<int, int> sequences;  // by context
  int cells = 0;
  for (int i = 4; i < argc; ++i) {
    sequences.emplace(std::atoi(argv[i]), static_cast<int>(sequences.size()));
    cells = std::max(cells, std::atoi(argv[i]) + kMaxRows);
  }
  llama_context_params params = llama_context_default_params();
  params.n_seq_max = static_cast<uint32_t>(sequences.size());
  // Each sequence has its own cells, so a pass reads those of its own context alone.
  params.kv_unified = false;
  params.n_ctx = static_cast<uint32_t>((cells + 255) / 256 * 256) * params.n_seq_max;
  params.n_batch = params.n_ubatch = kChunk;
  params.n_threads = params.n_threads_batch = std::atoi(argv[3]);
  if (std::strcmp(argv[2], "fp32") == 0) params.type_k = params.type_v = GGML_TYPE_F32;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  for (const auto& [length, sequence] : sequences) {
    for (int at = 0; at < length; at += kChunk) {
      Decode(context, sequence, at, std::min(kChunk, length - at), false);
    }
  }
  tandem::bench::ServeTurns(
      [&](int length) {
        llama_memory_seq_rm(llama_get_memory(context), sequences.at(length), length, -1);
      },
      [&](int length, int rows) { Decode(context, sequences.at(length), length, rows, true); });
  llama_free(context);
  llama_model_free(model);
  return 0;
}
